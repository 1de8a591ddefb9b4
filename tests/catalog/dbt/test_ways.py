"""dbt three ways: in its own process, against a server without the pack, and against one that has it. Each builds twice, with new rows between."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from typing import IO, Any

import pytest
from support import PROGRAMS, ROOT
from support.programs.jvm import JAVA_OPTIONS, talking

from streamtime.dbt.adapter import said

pytestmark = pytest.mark.long("tests/catalog/dbt/test_incremental.py")
Said = dict[str, Any]


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    folder = tmp_path_factory.mktemp("dbt")
    environment = os.environ | {"SPARK_SUBMIT_OPTS": JAVA_OPTIONS, "NO_COLOR": "1"}
    client, log = PROGRAMS / "dbt_client.py", folder / "dbt.log"
    read = 0

    def heard(answers: IO[str]) -> Said:
        nonlocal read
        line = answers.readline()
        assert line, "\n".join(text[:300] for text in log.read_text().splitlines() if "rror" in text)[-6000:]
        answer: Said = json.loads(line)
        answer["log"] = log.read_text()[read:]
        read += len(answer["log"])
        return answer

    with log.open("w") as out, talking(client, str(folder), cwd=folder, env=environment, stdout=out, stderr=out) as (_, answers):
        return {way: heard(answers) for way in ("here", "bare", "project", "served")}


def test_each_way_is_green_twice_and_gives_the_same_rows(ways: dict[str, Said]) -> None:
    for way in ("bare", "served", "project"):
        assert ways[way]["rows"] == ways["here"]["rows"], way
    assert all(ways["here"]["rows"].values())


def test_the_page_shows_what_comes_out(ways: dict[str, Said]) -> None:
    pages = Counter(json.loads(row)["team"] for row in ways["here"]["rows"]["pages_by_team"])
    shown = re.findall(r"(?m)^\| (\w+) +\| +(\d+) \|$", (ROOT / "docs" / "dbt.md").read_text())
    assert dict(pages) == {team: int(count) for team, count in shown}


def test_a_project_of_plain_sql_has_no_calls_and_is_a_project_still(ways: dict[str, Said]) -> None:
    project = ways["project"]
    assert (project["not compiled"], project["left"]) == ({}, [])
    assert sorted(project["files"]) == [f"models/{m}.sql" for m in ("held_back", "hourly", "pages", "pages_by_team", "pages_log", "shifts")]
    for text in project["files"].values():
        without_comments = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        assert not re.search(r"DEDUPLICATE|WINDOW_UPDATES|VERSIONS\(|asof", without_comments)
        assert not re.search(r"streamtime_ref|flights_bare", text)
    log = project["files"]["models/pages_log.sql"]
    assert log.startswith("-- depends_on: {{ ref('alerts') }}\n{{ config(materialized='incremental', incremental_strategy='append') }}\n")
    first, _, later = log.partition("{% else %}")
    assert "{{ this }}" in first
    assert "{{ this }}" not in later


def test_what_grew_run_by_run_is_the_batch_answer(ways: dict[str, Said]) -> None:
    for way in ways.values():
        assert way["rows"]["pages_log"] == way["rows"]["pages"]
    assert ways["here"]["slices alone"] == len(ways["here"]["rows"]["pages"]) + 1  # which is what the trap gives


def test_versions_grow_but_by_rows_within_the_grace_and_the_last_of_two_with_one_time_stays(ways: dict[str, Said]) -> None:
    versions = [json.loads(row) for row in ways["here"]["rows"]["on_call"]]
    teams = {origin: [v["team"] for v in versions if v["origin"] == origin] for origin in ("EWR", "JFK", "LGA")}
    assert teams == {"EWR": ["blue", "red", "blue"], "JFK": ["green", "red", "blue"], "LGA": ["green", "blue"]}
    for way in ways:
        assert "on_call: 1 rows are new, but older than the grace of 10 days, and were not put" in ways[way]["log"], way


def test_a_rota_has_late_changes_in_their_place_and_of_two_at_one_time_the_larger(ways: dict[str, Said]) -> None:
    shifts = [json.loads(row) for row in [*ways.values()][-1]["rows"]["rota"]]
    assert sorted((s["origin"], s["valid_from"][5:16], s["team"], s.get("valid_to", "")[5:16]) for s in shifts) == [
        ("EWR", "01-01T00:00", "blue", "01-02T12:00"), ("EWR", "01-02T12:00", "red", "01-12T18:00"), ("EWR", "01-12T18:00", "blue", ""),
        ("JFK", "01-01T00:00", "green", "01-13T00:00"), ("JFK", "01-13T00:00", "red", "01-20T06:00"), ("JFK", "01-20T06:00", "blue", ""),
        ("LGA", "01-01T00:00", "green", "01-01T18:00"), ("LGA", "01-01T18:00", "red", "01-10T12:00"), ("LGA", "01-10T12:00", "blue", ""),
    ]  # fmt: skip


def test_changes_are_merged_whatever_their_order(ways: dict[str, Said]) -> None:
    found = ways["here"]["changes"]
    assert found["kept"][-2:] == ["op", "change_time"]  # one of the names of a changelog's columns alone is a column
    assert found["1"] == ["1 Ann", "3 Cyd", "4 dee"]
    assert found["2"] == [
        "1 Ann 10:09-",
        "1 ann 10:00-10:04",
        "1 ann late 10:04-10:09",
        "2 bob 10:00-10:20",
        "2 old bob 10:20-10:30",
        "3 Cyd 11:00-",
        "3 cyd 10:05-11:00",
        "4 dee 11:00-",
    ]


def test_changes_that_do_not_fit_their_table_are_refused_and_the_table_of_deletions_may_be_missing(ways: dict[str, Said]) -> None:
    again, one, two, halves = ways["here"]["changes"]["fits"]
    assert (again, one[0], two[1]) == (["success", "success"], "success", "success")
    assert "people_2` keeps history, and scd=1 has one row for a key" in one[1].replace("people_2 ", "people_2` ")
    assert "has no valid_from and valid_to, so it keeps no history" in two[0]
    assert all("the model has `batch` as double" in said and "which would cut fractions off" in said for said in halves)


def test_a_seed_with_one_odd_time_is_refused_where_it_would_be_a_time_and_told_how_to_type_it(ways: dict[str, Said]) -> None:
    found = ways["here"]["changes"]
    assert sorted(found["odd"]) == ["odd_call", "odd_versions"]
    assert (
        "versioned_table, `time`: expected a column of TIMESTAMP, TIMESTAMP_NTZ or DATE, got STRING (`at`). CAST it."
        in found["odd"]["odd_versions"]
    )
    assert "seeds: {+column_types: {at: timestamp}}" in found["odd"]["odd_versions"]
    assert "VERSIONS, ORDER BY: expected" in found["odd"]["odd_call"]
    assert "column_types" in found["odd"]["odd_call"]
    assert found["built"] == ["initials", "odd_times", "people_1", "people_2"]


def test_a_maintained_model_follows_the_table_that_it_reads(ways: dict[str, Said]) -> None:
    found = ways["here"]["changes"]
    assert (found["initials"], found["ways"][:2]) == (["A 1", "C 1", "d 1"], ["full", "incremental"])
    assert "flights.initials" in ways["here"]["log"].replace("`", "")
    wrong, *then = found["refreshed"]
    assert "nobody" in wrong  # the table is dropped for a query that is understood
    assert then == ["3", "success", "full"]


def test_the_example_has_a_maintained_model_that_is_its_query_after_a_second_run(ways: dict[str, Said]) -> None:
    runs, rows, other, all_rows = ways["here"]["by day"]
    assert (runs[0], len(runs)) == ("full", 2)
    assert (other, rows) == (0, all_rows)


def test_the_project_that_the_page_writes_answers_what_it_says(ways: dict[str, Said]) -> None:
    found = ways["here"]["page"]
    first, after = "1 JFK 2026-01-01 10:00:00", ["3 LGA 2026-01-01 10:40:00", "5 LGA 2026-01-01 13:00:00"]
    assert [row.rpartition(" ")[0] for row in found["pages"]] == [first, *after]
    assert found["log"] == found["pages"]
    assert found["by the executable"] == [found["pages"]] * ("bare" in ways)
    assert [row.split()[:2] for row in found["trap"]] == [["3", "LGA"], ["4", "JFK"]]  # of JFK, 1 had been kept
    assert found["prices"] == ["mug 2026-01-01 09:00:00 8.0 False", "mug 2026-01-01 10:00:00 None True"] + [
        f"tea 2026-01-01 {at}:00:00 {price} False" for at, price in (("09", "1.0"), ("11", "1.2"))
    ]
    assert [row.split()[0] + " " + row.split()[-1] for row in found["asked"]] == ["mug None", "tea 1.0", "tea 1.2"]
    assert [row.split()[1] for row in found["applied"]] == ["Ann"]
    assert found["kept"] == ["mug 1 1", "tea 2 5"]
    assert found["seed"] == ["timestamp"]


def test_the_docs_know_what_a_call_reads(ways: dict[str, Said]) -> None:
    docs = ways["here"]["docs"]
    assert {"flights", "alerts", "pages", "pages_log", "hourly", "on_call", "shifts"} <= set(docs["tables"])
    assert docs["pages_log"] == ["model.flights.alerts"]
    assert docs["pager"] == ["model.flights.pages_by_team"]


def test_each_file_of_the_project_is_part_of_what_was_built(ways: dict[str, Said]) -> None:
    project = ROOT / "examples" / "dbt_project"
    there = {
        path.relative_to(project).as_posix()
        for folder in ("macros", "models", "seeds", "tests")
        for path in (project / folder).rglob("*.*")
    }
    assert "tests/pages_log_is_the_batch_answer.sql" in there
    assert not there - {*ways["here"]["docs"]["files"]}


def test_a_view_stores_the_call_where_the_server_knows_it_and_plain_sql_where_not(ways: dict[str, Said]) -> None:
    assert "DEDUPLICATE(TABLE(" in ways["served"]["view"]
    assert "/* streamtime" in ways["bare"]["view"]
    assert "row_number" in ways["bare"]["view"].lower() or "WITH" in ways["bare"]["view"]


@pytest.mark.parametrize("way", ["here", "bare"])
def test_a_wrong_call_is_one_line(ways: dict[str, Said], way: str) -> None:
    wrong, text = ways[way]["refused"]
    assert "DEDUPLICATE, `withn`: no such option. Did you mean `within`?" in wrong
    assert "Exception" not in wrong
    assert "column_types" in text


def test_through_dbt_spark_alone_the_line_is_in_what_the_server_says(ways: dict[str, Said]) -> None:
    for refused in ways["served"]["refused"]:
        assert said(refused).startswith("DEDUPLICATE, ")  # which is what `type: streamtime` makes of it
        assert "\n" not in said(refused)
    assert "DEDUPLICATE, `withn`: no such option. Did you mean `within`?" in ways["served"]["refused"][0]
