"""`streamtime.watch`: what Spark tells of streaming queries, in the log and in a Delta table."""
