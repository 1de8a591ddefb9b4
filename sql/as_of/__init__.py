"""The temporal join: both sides made ready, lookups by time and by what was known, over streams, and over histories of tables."""
