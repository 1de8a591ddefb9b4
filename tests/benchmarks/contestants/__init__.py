"""Contestants that need packages or a Spark of their own, each in its own process and virtual environment."""
