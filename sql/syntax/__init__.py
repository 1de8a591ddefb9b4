"""SQL as text: tokens, expressions, conditions, AS OF joins. Knows no Spark."""
