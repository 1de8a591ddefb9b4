"""Windows and sessions over DataFrames: which rows lie in which, changes, aggregates, final rows, explanations."""
