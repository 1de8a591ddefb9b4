"""Versioned Delta tables: made, declared, written, read. The only importer of `delta`."""
