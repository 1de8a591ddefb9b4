"""One page per function: its reference page, its SPEC, its plan. No page imports another."""
