"""Pictures of time: what a call did to its rows, as data, as a figure, and as text for a terminal."""
