"""The Python API: each function over a DataFrame, with its options as keyword arguments. Their signatures, for checkers and editors, are in
api.pyi, which `python -m streamtime.pages` writes from the SPECs."""

from __future__ import annotations

from streamtime.python.table_functions import table_function
from streamtime.shelf import FUNCTIONS

_BY_NAME = {s.name.lower(): table_function(s) for s in FUNCTIONS if s.leading}
__all__ = [*_BY_NAME]
globals().update(_BY_NAME)
