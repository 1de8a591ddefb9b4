"""The functions: one file each, with its reference page, its SPEC and its plan over Spark DataFrames."""
