"""Suppress: which row replaces or releases which, and the buffer that holds them."""
