"""Changelogs of windows and sessions: rows added up, changes numbered and laid out."""
