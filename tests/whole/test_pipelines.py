"""examples/pipelines: a spark-pipelines project against `streamtime serve`, run twice with new rows in between."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
from support import ROOT
from support.served import serving

PROJECT = ROOT / "examples" / "pipelines"
BATCH = "SELECT order_id, ts FROM DEDUPLICATE(TABLE(raw_orders) PARTITION BY order_id ORDER BY ts, within => INTERVAL 1 DAY)"
ROWS = "SELECT order_id, ts, product, price FROM priced_orders ORDER BY order_id"


def test_the_second_run_takes_new_rows_and_knows_the_duplicates_of_the_first(tmp_path: Path) -> None:
    if pyspark.__version__ < "4.1":
        assert importlib.util.find_spec("pyspark.pipelines") is None  # there are no pipelines before
        return
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project)
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/streamtime-pipelines", (tmp_path / "storage").as_uri()))
    with serving(tmp_path, "--cores", "2", "--memory", "1g", "--conf", "spark.sql.shuffle.partitions=2", "--thrift-port", "off") as server:

        def sql(*what: str) -> str:
            return run([sys.executable, "-m", "streamtime", "sql", "--remote", server.ready["connect"], "--format", "csv", *what])

        def pipeline() -> str:
            return run([sys.executable, "-m", "pyspark.pipelines.cli", "run"], SPARK_REMOTE=server.ready["connect"])

        def run(command: list[str], **environment: str) -> str:
            done = subprocess.run(
                command, cwd=project, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300
            )
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:] + server.logged()[-2000:]
            return done.stdout

        sql("-f", "monday.sql")
        pipeline()
        first = sql("-e", ROWS)
        sql("-f", "tuesday.sql")
        pipeline()
        second = sql("-e", ROWS)
        batch = sql("-e", f"{BATCH} EXCEPT SELECT order_id, ts FROM orders_once")
        provider = sql("-e", "DESCRIBE DETAIL orders_once")
    assert first.splitlines() == ["order_id,ts,product,price", "1,2026-03-02 09:00:00,tea,4.0", "2,2026-03-02 13:00:00,tea,4.5"]
    assert second.splitlines() == [
        "order_id,ts,product,price",
        "1,2026-03-02 09:00:00,tea,4.0",
        "2,2026-03-02 13:00:00,tea,4.6",  # the price of 12:30 came on Tuesday: the view is computed anew
        "3,2026-03-03 08:00:00,mug,9.0",
        "4,2026-03-03 08:05:00,lid,",
    ]
    assert batch.splitlines() == ["order_id,ts"]
    assert "delta" in provider
