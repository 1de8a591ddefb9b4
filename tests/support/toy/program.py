"""EVERY_NTH through every door, in a process of its own: says as JSON what each gave, and what its tests and those of all pages said."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "programs"))
from jvm import INTERPRETED, JAVA_OPTIONS, say
from pyspark.sql import SparkSession

import streamtime
from streamtime import describe
from streamtime.pages import pages
from streamtime.shelf import SPECS

CALL = "EVERY_NTH(TABLE(taps) PARTITION BY k ORDER BY (ts, id), n => 3{})"


class House:
    """What tests get here: the session. And what became of them."""

    def __init__(self, spark: SparkSession) -> None:
        self.session, self.outcomes = spark, dict[str, str]()

    @pytest.fixture(scope="session")
    def spark(self) -> SparkSession:
        return self.session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            self.outcomes[report.nodeid.rpartition("/")[2]] = report.longreprtext or report.outcome


def tested(spark: SparkSession, folder: Path) -> dict[str, str]:
    """Pages are written, with what the toy's examples give; then its tests run, and those that hold of every page."""

    def run(text: str) -> describe.ResultTable:
        df = spark.sql(text)
        return {"columns": df.columns, "rows": [[str(v) for v in row] for row in df.collect()] if df.columns else []}

    describe.results().update(describe.run_examples((SPECS["every_nth"],), run))
    reference = folder / "docs" / "reference"
    reference.mkdir()
    for name, text in pages().items():
        (reference / name).write_text(text)
    house = House(spark)
    wanted = [
        "-k",
        "every_nth or not_there or each_reason",
        "-q",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        f"--rootdir={folder}",
    ]
    pytest.main([*wanted, str(folder / "tests")], plugins=[house])
    return house.outcomes


def main(channel: str) -> None:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.extraJavaOptions": JAVA_OPTIONS, "spark.local.dir": folder}
        spark = streamtime.session(
            cores=2, memory="1g", settings=settings | INTERPRETED | {"spark.sql.warehouse.dir": f"{folder}/warehouse"}
        )
        rows = "SELECT CASE id % 4 WHEN 0 THEN 'a' WHEN 1 THEN '' WHEN 2 THEN 'b`' END AS k, timestamp_seconds(id DIV 2) AS ts, id FROM range(40)"
        spark.sql(rows).createOrReplaceTempView("taps")

        def ids(text: str) -> list[int]:
            return sorted(r.id for r in spark.sql(text).collect())

        found["sql"] = ids(f"SELECT id FROM {CALL.format('')}")
        found["dropped"] = sorted(
            {
                (r.reason, r.n)
                for r in spark.sql(
                    f"SELECT reason, count(*) AS n FROM {CALL.format(', output => dropped').replace('dropped', repr('dropped'))} GROUP BY 1"
                ).collect()
            }
        )
        found["query"] = sorted(r.id for r in streamtime.query(spark, f"SELECT id FROM {CALL.format('')}").collect())
        found["python"] = sorted(r.id for r in streamtime.every_nth(spark.table("taps"), keys="k", order_by=["ts", "id"], n=3).collect())  # type: ignore[attr-defined]
        found["catalog"] = [r.argument for r in spark.sql("SELECT * FROM FUNCTION_CATALOG() WHERE function = 'EVERY_NTH'").collect()]
        found["help"] = any("Keeps every n-th row" in r[0] for r in spark.sql("DESCRIBE FUNCTION EXTENDED EVERY_NTH").collect())
        found["page"] = "Keeps every n-th row" in pages()["every_nth.md"]
        try:
            spark.sql("SELECT * FROM EVERY_NTH(TABLE(taps) PARTITION BY k ORDER BY ts)")
        except Exception as error:
            found["wrong"] = str(error).splitlines()[0][:160]
        for batch in range(4):
            part = f"{folder}/part{batch}"
            spark.sql(f"SELECT * FROM taps WHERE id DIV 10 = {batch}").coalesce(1).write.parquet(part)
        Path(folder, "in").mkdir()
        for batch in range(4):
            (file,) = Path(folder, f"part{batch}").glob("*.parquet")
            file.rename(f"{folder}/in/{batch}.parquet")
        stream = spark.readStream.schema("k STRING, ts TIMESTAMP, id LONG").option("maxFilesPerTrigger", 1).option("latestFirst", "false")
        spark.table("taps").localCheckpoint().createOrReplaceTempView("all_taps")
        stream.parquet(f"{folder}/in").createOrReplaceTempView("taps")
        writer = spark.sql(f"SELECT id FROM {CALL.format('')}").writeStream.format("memory").queryName("out").outputMode("append")
        writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()
        found["stream"] = ids("SELECT id FROM out")
        streamtime.unregister(spark)
        streamtime.register(spark, door="udtf")
        found["udtf"] = ids(
            "SELECT id FROM EVERY_NTH(TABLE(SELECT * FROM all_taps), keys => ARRAY('k'), order_by => ARRAY('ts', 'id'), n => 3)"
        )
        streamtime.register(spark)
        found["tests"] = tested(spark, Path.cwd())
        say(channel, json.dumps(found))
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
