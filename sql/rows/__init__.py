"""The input made ready, and what leaves: keys, order and time as columns; stream time; the sort; kernels; reports of what was dropped."""
