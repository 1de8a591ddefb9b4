"""Changelogs in, changelogs out: joins, totals and parts of them, in batch and on streams."""
