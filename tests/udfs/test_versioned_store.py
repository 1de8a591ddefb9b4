"""The slow definition of a versioned table, which the tests of VERSIONS and VersionedTable are held against, is what Kafka's stores do."""

from __future__ import annotations

from typing import Any

import pytest
from support.inputs.versioned_cases import CASES, KAFKA, REFUSED
from support.reference.versions import Store


def returned(put: tuple[str, int | None]) -> int | None:
    """What Kafka's put returns."""
    return {"current": -1, "refused": REFUSED}.get(put[0], put[1])


def run(store: Store, row: dict[str, Any]) -> Any:
    return store.delete(row["key"], row["ts"]) if row["op"] == "delete" else returned(store.put(row["key"], row["value"], row["ts"]))


def test_every_case_is_there() -> None:
    assert (len(CASES), len(KAFKA)) == (23, 17)


@pytest.mark.parametrize("case", CASES, ids=[c["id"].removeprefix("versioned_store.") for c in CASES])
def test_case(case: dict[str, Any]) -> None:
    store, refused = Store(case["params"]["history_retention_ms"], case["params"]["grace_ms"]), 0
    for number, row in enumerate(case["input"], 1):
        before = store.stream_time
        gave = run(store, row)
        refused += before is not None and row["ts"] < before - case["params"]["grace_ms"] and row["op"] != "restore"
        for e in (e for e in case["expected"] if e["after"] == number):
            match e["check"]:
                case "put_return":
                    assert gave == e["valid_to"]
                case "delete_return":
                    assert (gave or (None,))[0] == e["value"]
                case "get_latest" | "get_as_of":
                    value, begins, ends = store.get(e["key"], e.get("as_of")) or (None, None, None)
                    assert (value, begins, ends) == (e["value"], e["ts"], e.get("valid_to", ends)), e
                case "get_range":
                    found = store.history(e["key"], e["from"], e["to"])
                    expected = [(r["value"], r["ts"], r["valid_to"]) for r in e["records"]]
                    assert sorted(found) == sorted(expected), e
                case "dropped_records_total":
                    assert refused == e["value"]
                case _:
                    raise AssertionError(e)


@pytest.mark.parametrize("case", KAFKA, ids=[c["id"] for c in KAFKA])
def test_what_kafka_really_did(case: dict[str, Any]) -> None:
    store = Store(case["params"]["history_retention_ms"], case["params"]["grace_ms"])
    for number, row in enumerate(case["input"], 1):
        gave = run(store, row)
        for e in (e for e in case["expected"] if e["after"] == number):
            if "get" in e:
                found = store.get(e["get"]["key"], e["get"].get("as_of")) or (None, None, None)
                assert found == (e["value"], e["valid_from"], e["valid_to"]), e
            elif "deleted" in e:
                expected = tuple(e["deleted"][name] for name in ("value", "valid_from"))  # Kafka's delete never says an end
                assert (gave or (None, None))[:2] == expected, e
            else:
                assert gave == e["valid_to"], e
