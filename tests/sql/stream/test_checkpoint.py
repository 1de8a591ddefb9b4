"""What a checkpoint is valid for, without Spark. Catches: a changed option that is accepted, as its letters alone changed; a checkpoint of an
older version that is refused for what such versions did not write; another `output` that is blamed on what follows from it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import types as T
from support.inputs.micro_batches import STEP, Stream, plan, table

from streamtime.sql.rows.frame import Ref
from streamtime.sql.stream.checkpoint import StateError
from streamtime.sql.stream.plan import _pinned
from streamtime.udfs.deduplicate import Deduplicate

FRAME = SimpleNamespace(keys=(Ref("k", T.StringType(), "K"),), time=Ref("t", T.TimestampType(), "t"))
GIVEN = {"condition": "grade = 'A'", "retention": 10_000_000, "versioned": True, "types": "x int", "output": "rows", "deleted": None}
OLD = {"function state": "4", "PARTITION BY": "K string", "event time": "t timestamp", "condition": "grade = 'a'", "retention": "0:00:10",
       "versioned": "true"}  # fmt: skip


def pinned(**options: Any) -> dict[str, str]:
    return _pinned(cast("Any", FRAME), GIVEN | options)


def run(options: dict[str, str], before: Stream | None = None) -> Stream:
    made = Stream(plan(Deduplicate(within=10 * STEP), results=("first",), options=options))
    made.handles = made.handles if before is None else before.handles
    made.run(table([{"k": "a", "t": STEP, "id": 1}]), 0)
    return made


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"condition": "grade = 'a'"}, "condition was grade = 'A' and is grade = 'a'"),
        ({"retention": 20_000_000}, "retention was 0:00:10 and is 0:00:20"),
        ({"versioned": False}, "versioned was true and is false"),
        ({"types": "x bigint"}, "types was x int and is x bigint"),
        ({"output": "all", "types": None}, "output was rows and is all"),
    ],
)
def test_what_the_state_was_made_with_is_named_letter_by_letter(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(StateError, match=rf"^F: the query's checkpoint was written with other options: {said}\. Go back"):
        run(pinned(**changed), run(pinned()))


def test_small_letters_that_became_large_ones_are_another_option() -> None:
    with pytest.raises(StateError, match="other options: condition was grade = 'a' and is grade = 'A'"):
        run(pinned(), run(pinned(condition="grade = 'a'")))


def test_an_older_version_wrote_small_letters_and_neither_types_nor_output_and_its_checkpoint_goes_on() -> None:
    first = run(pinned(), run(OLD))
    with pytest.raises(StateError, match="other options: condition was grade = 'A' and is grade = 'a'"):
        run(pinned(condition="grade = 'a'"), first)
    with pytest.raises(StateError, match="types was x int and is x bigint"):
        run(pinned(types="x bigint"), first)


@pytest.mark.parametrize("changed", [{"condition": "grade = 'B'"}, {"deleted": "gone"}, {"retention": None}])
def test_what_else_differs_from_an_older_checkpoint_is_an_error(changed: dict[str, Any]) -> None:
    with pytest.raises(StateError, match=f"other options: {next(iter(changed))} was "):
        run(pinned(**changed), run(OLD))
