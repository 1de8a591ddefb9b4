"""Tables in the pages are made of stored results of benchmarks, limits are those of the code: a page that has other numbers is found here."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, TESTS

sys.path.append(str(TESTS / "benchmarks"))
import plain
import spread
from contestants import growth, tables

from streamtime.describe import results
from streamtime.maintained.target import FEW
from streamtime.shelf import FUNCTIONS
from streamtime.sql.rows.ranges import MOST
from streamtime.sql.stream.packing import MOST as BUCKETS
from streamtime.sql.stream.packing import packer
from streamtime.udfs.deduplicate import Deduplicate
from streamtime.udfs.state import KEY


@pytest.mark.parametrize("name", tables.PAGES)
def test_a_page_has_the_tables_of_the_stored_results(name: str) -> None:
    page = ROOT / "docs" / f"{tables.PAGES[name][0]}.md"
    assert tables.of(name) in page.read_text(), f"docs/{page.name}: put there what `contestants/tables.py` makes of {name}.json"


def stored(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((TESTS / "benchmarks" / f"{name}.json").read_text())
    return found


def test_many_clients_got_no_wrong_answer_and_left_nothing_behind() -> None:
    found = stored("load")
    blocks, clients = len(found["held"]) - 1, found["clients"]
    assert blocks >= 2  # the first one warms up
    assert (sum(clients.values()), set(clients)) == (16, {"beeline", "thrift", "connect"})
    assert all(found["rounds"][name] >= count * blocks for name, count in clients.items())
    assert found["answers"] == sum(found["rounds"].values()) * sum(len(tables) for tables in results().values())
    assert found["wrong"] == 0
    assert growth.beyond(found["held"]) == []


def test_what_is_held_may_go_up_and_down_and_the_first_block_warms_up_but_a_leak_is_found() -> None:
    rest = dict.fromkeys(growth.LIMITS, 0)

    def threads(*counts: int) -> dict[str, dict[str, int]]:
        return {f"after {number}" if number else "before": {**rest, "threads of Python": count} for number, count in enumerate(counts)}

    assert growth.growth(threads(58, 26, 65))["threads of Python"] == 7
    for fine in ((58,), (58, 258), (58, 258, 273), (58, 258, 100, 273), (90, 58, 74, 90)):
        assert growth.beyond(threads(*fine)) == [], fine
    for leak in ((58, 258, 274), (58, 258, 273, 289), (58, 58, 74, 70)):
        assert growth.beyond(threads(*leak)) == ["threads of Python: grew by 16, allowed are 15"], leak
    assert growth.beyond({"before": {**rest, "sessions": 2}, "after 1": {**rest, "sessions": 1}}) == ["1 sessions after 1"]


def test_a_server_is_ready_within_one_and_a_half_times_what_bare_spark_needs() -> None:
    lines = stored("ready")["lines"]
    assert len(lines) == 4
    for line in lines:
        assert max(line["ratio"], line["streamtime serve"] / line["bare Spark"]) <= 1.5, line["until ready"]


def test_docs_maintain_says_what_the_sweep_did() -> None:
    record = json.loads((TESTS / "sweep.json").read_text())
    assert tables.swept(record) in " ".join((ROOT / "docs" / "maintain.md").read_text().split())
    assert sum(table["compared"] for table in record["tables"].values()) == record["comparisons"]
    assert sum(record["of"].values()) == sum(record["code"].values()) == record["commits"]


def test_a_contestant_that_was_left_out_is_told_and_not_left_out_of_the_table() -> None:
    times = {"shuffle + sort": [2.0], "streamtime": [3.0], "another": []}
    question = {
        "rows": 7,
        "seconds": times,
        "median_seconds": {"shuffle + sort": 2.0, "streamtime": 3.0},
        "left_out": {"another": "over 9 s"},
    }
    shape = {
        "questions": {"which?": question}, "machine": {"cpus": 4, "shared": True}, "load_average_before": 2.6, "rows": 1000, "cores": 2,
        "rounds": 1, "date": "2026-11-25",
    }  # fmt: skip
    made = tables.peers({"batch": {"5 keys": shape}, "stream": {"5 keys": shape}, "cannot": {"another": ["say it"]}})
    assert "1,000 rows, 2 cores, medians of 1 interleaved rounds, 2026-11-25, on a machine with 4 cores and other work (load 3)" in made
    assert "| | 5 keys |\n|---|---|\n| bare shuffle + sort | 1 (2.0 to 2.0 s) |\n| **which?: streamtime** | **1.50** |" in made
    assert "| **which?: streamtime** | **333** |" in made
    assert made.count("| which?: another | over 9 s |") == 2
    assert made.endswith("| another | say it |")


def test_what_was_measured_of_plain_sql_stays_beside_what_is_measured_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plain, "STORED", tmp_path / "plain.json")
    took = {"first": 1.5, "median of three": 0.5, "CPU of these": 0.1}
    for call, shape, rows, seconds in (
        ("VERSIONS", "50 keys", 1000, 3.0),
        ("SESSIONIZE", "50 keys", 2000, 2.2),
        ("VERSIONS", "one hot key", 2000, 2.0),
    ):
        times = {plain.FLOOR: [1.0], call: [2.0], call + tables.PLAIN: [seconds]}
        plain.store(
            argparse.Namespace(cores=2, rows=rows), shape, times, {name: [2 * t for t in of] for name, of in times.items()}, {call: took}
        )
    made = tables.plain(json.loads((tmp_path / "plain.json").read_text()))
    assert "CPU of plain SQL over CPU of the call: 1,000 to 2,000 rows, 2 cores, medians of 1 interleaved rounds, " in made
    assert (
        "| | 50 keys | one hot key | bar |\n|---|---|---|---|\n| VERSIONS | **1.50** (1.50 to 1.50) | 1.00 (1.00 to 1.00) | 1.2 |\n" in made
    )
    assert "| SESSIONIZE | 1.10 (4.4 against 4.0 s) | not run |" in made
    assert made.endswith("| SESSIONIZE | 1.50 s | 0.50 s | 0.10 s |")


def test_a_call_that_ends_its_process_is_told_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(command: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
        if "VERSIONS" in command:
            return subprocess.CompletedProcess(
                command, 1, "", "Caused by: java.lang.OutOfMemoryError: Java heap space\nConnectionRefusedError: no\n"
            )
        return subprocess.CompletedProcess(command, 0, 'Spark says\n{"seconds": 9.5, "cpu_seconds": 5.1, "jvm_mb": 2000}\n', "")

    class Session:
        def stop(self) -> None: ...

    monkeypatch.setattr(plain, "ONE_STORED", tmp_path / "one.json")
    monkeypatch.setattr(plain.streamtime, "session", lambda **settings: Session())
    monkeypatch.setattr(plain, "data", lambda *about: None)
    monkeypatch.setattr(plain.subprocess, "run", run)
    for only in ("VERSIONS", "(VERSIONS|WINDOW_UPDATES$)"):
        plain.of_one_key(argparse.Namespace(cores=2, rows=1000, only=only))
    made = tables.plain_one_key(json.loads((tmp_path / "one.json").read_text()))
    assert "| VERSIONS | failed | | java.lang.OutOfMemoryError: Java heap space |\n| WINDOW_UPDATES | 10 s | 5 s | 2,000 MB |" in made


def test_where_following_costs_as_much_is_between_two_rates_and_auto_is_judged_by_the_clock() -> None:
    found = {"one": 20.0, "0.01": 4.0, "0.2": 0.5}
    assert tables.crossing(100_000, found) == "7.4 %"
    assert tables.crossing(100_000, {"one": 0.9}) == "always dearer"
    assert tables.crossing(100_000, found | {"one": 0.9}) == "7.4 %"  # one run that was slow is no crossing
    assert tables.crossing(100_000, {"one": 9.0, "0.2": 1.5}) == "more than 20%"
    run = {"tasks": 1.0, "cpu": 2.0, "seconds": 9.0, "decided": 2.0}
    runs = [{**run, "predicted": {"incremental": i, "full": 5.0}} for i in (4.0, 6.0)] + [{**run, "predicted": {}}]
    of = {
        "bare": [run],
        "full": [{**run, "seconds": 7.0}, {**run, "seconds": 7.5}],
        "rates": {"0.01": runs, "one": [run | {"predicted": {}}]},
    }
    assert tables.picked(of) == [False, True]
    made = tables.maintained({"1000": {"join": of}, "machine": {"cpus": 2, "cores": 2, "date": "2026-11-25", "load": 3.4}})
    assert "| rows, query | computed anew | one row | 1.00% | the same at |" in made
    assert "| 1,000: join | 1.0 s | 1.0 s, 1.0 x | 1.0 s, 1.0 x | more than 1% |" in made
    assert "took by the clock: join 7.2 s." in made
    assert made.endswith("the quicker one by the clock in 1 of 2 runs.")
    assert "by hand" not in made
    runs[0]["by hand"] = {"tasks": 0.5, "cpu": 2.0, "seconds": 6.0}
    made = tables.maintained({"1000": {"join": of}, "machine": {"cpus": 2, "cores": 2, "date": "2026-11-25", "load": 3.4}})
    assert "| rows, query | one row | 1.00% |" in made
    assert "| 1,000: join | not run | 6.0 s, 1.5 x; 1.0 s, by hand 0.5 s |" in made


def test_spread_asks_each_function_and_output_and_the_page_has_nothing_else() -> None:
    for spec in FUNCTIONS:
        outputs = [set(outputs) for call, outputs in spread.CALLS.values() if call.startswith(f"{spec.name}(")]
        words = {word for option in spec.options if option.name == "output" for word in getattr(option.kind, "words", ())}
        assert set[str]().union(*outputs) == words - {"rows"}, spec.name
        assert outputs or spec.name == "FUNCTION_CATALOG", spec.name  # which reads nothing
    for file in ("spread", "spread_outputs"):
        measured = stored(file)["calls"]
        assert [name for name in spread.names() if name in measured] == list(measured)
        assert all(spread.named(one["call"], one["way"]) == name for name, one in measured.items())


def test_outputs_stand_side_by_side_and_what_has_no_plain_sql_says_so() -> None:
    one = {"call": "VERSIONS", "limit": 59.4, "largest": 0.017, "evaluations": 1.0}
    calls = {"a": one | {"way": "rows"}, "b": one | {"way": "puts", "evaluations": 2.04}, "c": one | {"way": "plain SQL", "refused": "no"}}
    made = tables.spread_outputs({"partitions": 64, "calls": calls})
    assert "| `'rows'` | `'puts'` | plain SQL |\n|---|---|---|---|\n| VERSIONS | 59, 1 x | 59, 2 x | there is none |" in made


def test_what_breaks_first_is_told_with_the_limits_that_the_code_has() -> None:
    page = (ROOT / "docs" / "scale.md").read_text()
    a_key = 8 * (KEY + Deduplicate(within=1).width)
    keys = 2**31 // a_key
    for limit in (
        f"{MOST} ranges", f"{BUCKETS} buckets", f"{FEW:,} units", f"A task packs {packer().size >> 20} MB at most",
        f"has {a_key} bytes of a key, so some {round(keys, -7) // 1_000_000} million keys in a bucket, {keys * BUCKETS // 10**9} billion in all",
    ):  # fmt: skip
        assert limit in page, limit
