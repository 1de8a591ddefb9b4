"""`%load_ext streamtime`: SQL in the cells of a notebook, and in IPython."""
