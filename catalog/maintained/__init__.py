"""maintain(): a table that is kept equal to a query, by recomputing what changes touched. Knows no JVM."""
