"""The version of the pack."""

VERSION = "0.1.0"
