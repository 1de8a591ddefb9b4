"""Arithmetic over columns that any kernel may use. Imports nothing of the pack."""
