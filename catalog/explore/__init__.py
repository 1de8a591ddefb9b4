"""`streamtime explore`: a page on this machine's own address that draws a call, and again when its durations change."""
