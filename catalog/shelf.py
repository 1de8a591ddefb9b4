"""The one list of functions. Registration, help, pages and the Python API all follow it."""

from __future__ import annotations

from streamtime.sql import deduplicate, distinct_in_window, function_catalog, sessionize
from streamtime.sql.spec import Spec

FUNCTIONS: tuple[Spec, ...] = (
    deduplicate.SPEC,
    distinct_in_window.SPEC,
    sessionize.SPEC,
    function_catalog.spec(lambda: FUNCTIONS),
)
