"""Kernels of functions over changelogs on streams (rules J7, J9, V8)."""
