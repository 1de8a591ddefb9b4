"""Plain SQL: a statement with calls as one without, for places where nothing of the pack can run."""
