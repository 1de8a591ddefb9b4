"""examples/pipelines, as docs/pipelines.md has it: a spark-pipelines project against `streamtime serve`, run twice with new rows in between."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from support import ROOT
from support.pages.documents import blocks
from support.served import serving

PAGE = (ROOT / "docs" / "pipelines.md").read_text()
PROJECT = Path("examples") / "pipelines"
PROGRAMS = {"streamtime": [sys.executable, "-m", "streamtime"], "python": [sys.executable]}
BATCH = "SELECT order_id, ts FROM DEDUPLICATE(TABLE(raw_orders) PARTITION BY order_id ORDER BY ts, within => INTERVAL 1 DAY)"


@pytest.mark.long("tests/sql/stream/test_streaming.py")
def test_the_second_run_takes_new_rows_and_knows_the_duplicates_of_the_first(tmp_path: Path) -> None:
    if pyspark.__version__ < "4.1":
        assert importlib.util.find_spec("pyspark.pipelines") is None  # there are no pipelines before
        return
    start, monday, statements, tuesday = (block.text for block in blocks(PAGE) if block.unrun)
    install, serve = map(shlex.split, start.splitlines())
    assert (install[:2], serve[:2]) == (["pip", "install"], ["streamtime", "serve"])
    shutil.copytree(ROOT / PROJECT, tmp_path / PROJECT)
    tables = {path.stem: path.read_text().partition("\n")[2] for path in sorted((tmp_path / PROJECT / "transformations").iterdir())}
    assert [*tables] == ["orders_once", "priced_orders"]
    written = "\n".join(tables.values())
    assert [*filter(None, statements.splitlines())] == [*filter(None, written.splitlines())]
    spec = tmp_path / PROJECT / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/streamtime-pipelines", (tmp_path / "storage").as_uri()))
    small = ("--cores", "2", "--memory", "1g", "--conf", "spark.sql.shuffle.partitions=2")
    with serving(tmp_path, *small, *serve[2:]) as server:

        def told(line: str, *more: str) -> list[str]:
            """What a line of the page puts out, said to this server."""
            words = [word.replace("sc://localhost:15002", server.ready["connect"]) for word in shlex.split(line)]
            given = dict(words.pop(0).split("=", 1) for _ in range("=" in words[0]))
            command = [*PROGRAMS[words[0]], *words[1:], *more]
            done = subprocess.run(command, cwd=tmp_path, env=os.environ | given, capture_output=True, text=True, check=False, timeout=300)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:] + server.logged()[-2000:]
            return done.stdout.splitlines()

        def day(lines: str) -> list[str]:
            orders, run, answer = lines.splitlines()
            told(orders)
            told(run)
            return told(answer, "--format", "csv")

        first, second = day(monday), day(tuesday)
        asked = 'streamtime sql --remote sc://localhost:15002 --format csv -e "{}"'
        batch = told(asked.format(f"{BATCH} EXCEPT SELECT order_id, ts FROM orders_once"))
        provider = told(asked.format("DESCRIBE DETAIL orders_once"))
    assert first == ["order_id,ts,product,price", "1,2026-03-02 09:00:00,tea,4.0", "2,2026-03-02 13:00:00,tea,4.5"]
    assert second == [
        "order_id,ts,product,price",
        "1,2026-03-02 09:00:00,tea,4.0",
        "2,2026-03-02 13:00:00,tea,4.6",  # the price of 12:30 came on Tuesday: the view is computed anew
        "3,2026-03-03 08:00:00,mug,9.0",
        "4,2026-03-03 08:05:00,lid,",
    ]
    assert batch == ["order_id,ts"]
    assert "delta" in "\n".join(provider)
