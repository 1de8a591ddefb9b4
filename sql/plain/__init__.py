"""Second plans for where no kernel can run, of Spark's own operators: intervals, sessions, aggregates; and folds in arrays."""
