"""Plans over DataFrames: one page per function in `functions/`, and the rooms that they share."""
