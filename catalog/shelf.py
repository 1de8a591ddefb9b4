"""The one list of functions. Registration, help, pages and the Python API all follow it."""

from __future__ import annotations

from streamtime.sql.call.spec import Spec
from streamtime.sql.functions import (
    aggregate_changes,
    as_of_join,
    assign_tasks,
    deduplicate,
    distinct_in_window,
    filter_changes,
    function_catalog,
    join_changes,
    session_updates,
    sessionize,
    suppress_until_close,
    suppress_until_time_limit,
    table_history,
    versions,
    window_updates,
)

FUNCTIONS: tuple[Spec, ...] = (
    deduplicate.SPEC,
    distinct_in_window.SPEC,
    sessionize.SPEC,
    session_updates.SPEC,
    window_updates.SPEC,
    suppress_until_close.SPEC,
    suppress_until_time_limit.SPEC,
    as_of_join.SPEC,
    join_changes.SPEC,
    aggregate_changes.SPEC,
    filter_changes.SPEC,
    versions.SPEC,
    table_history.SPEC,
    assign_tasks.SPEC,
    function_catalog.spec(lambda: FUNCTIONS),
)
SPECS = {s.name.lower(): s for s in FUNCTIONS}
