"""`since_kept` and `only_new`, run by run: what grew is the answer of one run over everything. What dbt renders runs in DuckDB; no dbt, no JVM."""

from __future__ import annotations

import csv
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
import sqlglot
from jinja2 import Environment
from support import ROOT

import streamtime
from streamtime.sql.syntax.text import quoted

PROJECT = ROOT / "examples" / "dbt_project"
MACROS = Path(streamtime.__file__).parent / "dbt" / "package" / "macros" / "incremental"
CALL = re.compile(
    r"\s*select \* from DEDUPLICATE\(\s*TABLE\((.*)\)\s*PARTITION BY (.*?) ORDER BY (.*?)(, within => INTERVAL 1 HOUR)?\)\s*(where .*)?",
    re.DOTALL,
)
EXAMPLE = (PROJECT / "models" / "pages_log.sql").read_text()
ODD = """
select * from DEDUPLICATE(TABLE({{ streamtime.since_kept(ref('alerts'), keys=['`ö x`', '`b``c`'], time='`t t`') }})
  PARTITION BY `ö x`, `b``c` ORDER BY `t t`) {{ streamtime.only_new('`t t`') }}
"""
START = datetime(2026, 1, 1)

Row = tuple[Any, ...]


class Growing:
    """A model's table, to which runs append."""

    def __init__(self, model: str, columns: str) -> None:
        self.model, self.columns, self.database = model, columns, duckdb.connect()
        for table in ("alerts", "log"):
            self.database.execute(f"create table {table} ({columns})")
        self.names = [name for name, *_ in self.database.execute("describe log").fetchall()]

    def run(self, rows: list[Row], incremental: bool) -> None:
        """A run that finds these rows new."""
        self._insert("alerts", rows)
        call = CALL.fullmatch(self._rendered(incremental))
        assert call is not None
        text, keys, time, within, only_new = call.groups()
        seen = self._asked(text)
        self.database.execute(f"create or replace table passed ({self.columns})")
        self._insert("passed", self._passed(seen, keys, time, timedelta(hours=1) if within else timedelta.max))
        self._insert("log", self._asked(f"select * from passed {only_new or ''}"))

    def rows(self) -> Counter[Row]:
        return Counter(self.database.execute("select * from log").fetchall())

    def _passed(self, rows: list[Row], keys: str, time: str, within: timedelta) -> list[Row]:
        """What DEDUPLICATE keeps, row by row: D1 and, of nulls, D4 and C12."""
        at = self.names.index(time.strip("`"))
        of = [self.names.index(key.strip("`").replace("``", "`")) for key in keys.split(", ")]
        kept, passed = dict[Row, datetime](), list[Row]()
        for row in sorted((r for r in rows if r[at] is not None), key=lambda r: (r[at], *((v is not None, v or 0) for v in map(repr, r)))):
            key = tuple(row[i] for i in of)
            if None not in key:
                if key in kept and row[at] - kept[key] <= within:
                    continue
                kept[key] = row[at]
            passed.append(row)
        return passed

    def _insert(self, table: str, rows: list[Row]) -> None:
        if rows:
            self.database.executemany(f"insert into {table} values ({', '.join('?' * len(self.names))})", rows)

    def _asked(self, text: str) -> list[Row]:
        (text,) = sqlglot.transpile(text, read="spark", write="duckdb")
        return self.database.execute(text).fetchall()

    def _rendered(self, incremental: bool) -> str:
        """As dbt renders it."""
        known = {
            "is_incremental": lambda: incremental,
            "execute": True,
            "this": "log",
            "adapter": SimpleNamespace(get_columns_in_relation=lambda _: [SimpleNamespace(quoted=quoted(name)) for name in self.names]),
            "ref": lambda name: name,
            "config": lambda **_: "",
            "new_rows": lambda _, time, **__: (
                "select * from alerts" + f" where coalesce({time} > (select max({time}) from log), true)" * incremental
            ),
        }
        environment = Environment(autoescape=False)
        macros = "".join((MACROS / f"{name}.sql").read_text() for name in ("since_kept", "only_new"))
        return environment.from_string(self.model).render(known | {"streamtime": environment.from_string(macros).make_module(known)})


def grown(model: str, columns: str, batches: list[list[Row]]) -> tuple[Counter[Row], Counter[Row], Counter[Row]]:
    """The rows of a model that is built after each batch; of one that looks at the new rows alone; of one that is built once, at the end."""
    made = [Growing(text, columns) for text in (model, model.replace("streamtime.since_kept(", "new_rows("), model)]
    for number, batch in enumerate(batches):
        for one in made[:2]:
            one.run(batch, incremental=number > 0)
    made[2].run([row for batch in batches for row in batch], incremental=False)
    by_run, by_new_rows, at_once = (one.rows() for one in made)
    return by_run, by_new_rows, at_once


def batches(seed: int, keys: tuple[Any, ...], *more: tuple[Any, ...]) -> Iterator[list[Row]]:
    """Rows of a later batch are later: ties, an hour to the minute, nulls in every role, a hot key, and batches without rows."""
    choose = random.Random(seed)
    for run in range(8):
        rows = list[Row]()
        for _ in range(0 if run in (0, 4) else 30):
            minute = run * 120 + choose.choice((0, 1, 59, 60, 61, 119, choose.randrange(120)))
            at = None if choose.random() < 0.1 else START + timedelta(minutes=minute)
            rows.append((choose.choice(keys), *map(choose.choice, more), at, choose.randrange(10**9)))
        yield rows


@pytest.mark.parametrize("seed", range(5))
def test_the_examples_model_grows_to_the_batch_answer_and_new_rows_alone_do_not(seed: int) -> None:
    found = list(batches(seed, ("EWR", "EWR", "EWR", "JFK", "LGA", None)))
    by_run, by_new_rows, at_once = grown(EXAMPLE, "origin varchar, departed timestamp, number int", found)
    assert by_run == at_once
    assert set(at_once.values()) == {1}
    assert by_new_rows - at_once


@pytest.mark.parametrize("seed", range(5))
def test_without_an_interval_a_key_passes_once_for_ever_whatever_the_names(seed: int) -> None:
    found = list(batches(seed, ("a", "b", "c", None), (1, 2, None)))
    by_run, by_new_rows, at_once = grown(ODD, '"ö x" varchar, "b`c" int, "t t" timestamp, number int', found)
    assert by_run == at_once
    assert len(at_once) > 6
    assert by_new_rows - at_once


def test_the_example_is_cut_where_new_rows_alone_would_raise_a_page_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or what each build of it proves would hold of the trap, too."""
    monkeypatch.syspath_prepend(str(PROJECT))
    sys.modules.pop("build", None)
    import build

    build.extract(tmp_path, build.DAYS[-1])
    alerts = list[Row]()
    for row in csv.DictReader((tmp_path / "flights.csv").read_text().splitlines()):
        if row["dep_delay"] not in ("NA", ""):
            scheduled = datetime(*(int(row[part]) for part in ("year", "month", "day", "hour", "minute")))
            alerts += [(row["origin"], scheduled + timedelta(minutes=int(row["dep_delay"])))] if int(row["dep_delay"]) > 60 else []
    days = [datetime.min, *map(datetime.fromisoformat, build.DAYS)]
    by_run, by_new_rows, at_once = grown(
        EXAMPLE, "origin varchar, departed timestamp", [[a for a in alerts if since <= a[1] < until] for since, until in pairwise(days)]
    )
    assert by_run == at_once
    assert sum(by_new_rows.values()) == sum(at_once.values()) + 1
    monkeypatch.delitem(sys.modules, "build")
