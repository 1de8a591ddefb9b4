"""Calls found in SQL text, for sessions that cannot ask the pack from inside: `query()`, and hints for texts that Spark refuses."""
