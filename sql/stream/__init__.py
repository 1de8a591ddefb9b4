"""Transitions with their state inside Spark: rows packed by bucket of keys, judged, and unpacked."""
