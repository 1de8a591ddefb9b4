"""The one list of functions. Registration, help, pages and the Python API all follow it."""

from __future__ import annotations

from streamtime.sql import deduplicate, distinct_in_window, function_catalog, session_updates, sessionize, window_updates
from streamtime.sql.spec import Spec

FUNCTIONS: tuple[Spec, ...] = (
    deduplicate.SPEC,
    distinct_in_window.SPEC,
    sessionize.SPEC,
    session_updates.SPEC,
    window_updates.SPEC,
    function_catalog.spec(lambda: FUNCTIONS),
)
