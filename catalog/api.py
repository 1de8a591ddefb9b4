"""The Python API: each function over a DataFrame, with its options as keyword arguments. Their signatures, for checkers and editors, are in
api.pyi, which `python -m streamtime.pages` writes from the SPECs."""

from __future__ import annotations

from streamtime.python.table_functions import table_function
from streamtime.shelf import FUNCTIONS

_BY_NAME = {s.name: table_function(s) for s in FUNCTIONS if s.leading}

deduplicate = _BY_NAME["DEDUPLICATE"]
distinct_in_window = _BY_NAME["DISTINCT_IN_WINDOW"]
sessionize = _BY_NAME["SESSIONIZE"]
session_updates = _BY_NAME["SESSION_UPDATES"]
window_updates = _BY_NAME["WINDOW_UPDATES"]
suppress_until_close = _BY_NAME["SUPPRESS_UNTIL_CLOSE"]
suppress_until_time_limit = _BY_NAME["SUPPRESS_UNTIL_TIME_LIMIT"]
as_of_join = _BY_NAME["AS_OF_JOIN"]
versions = _BY_NAME["VERSIONS"]
table_history = _BY_NAME["TABLE_HISTORY"]
