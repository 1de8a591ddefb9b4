"""Sessions: the rules of merging, lateness and closing, and who follows them."""
