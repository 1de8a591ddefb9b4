"""The kernels: state transitions over columns. Pure NumPy and Arrow; nothing here knows Spark."""
