"""What the many short processes of the tests start sooner with, made once for an environment.

Spark's classes as the JVM keeps them once they are loaded, in a file, by a session that runs a query: a JVM starts a third sooner.
`support.jvm` names it to every JVM. And Spark's own Python package as it is installed: see `AS_INSTALLED`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory

from jvm import ARCHIVE, QUICK

import streamtime
from streamtime.session import delta_jars, lasting

# Spark hands its Python processes its package and Py4J in zip files, from which each of them compiles them anew: half a second of a core,
# and every operator with state on a stream starts such a process
AS_INSTALLED = 'import sys; sys.path[:] = [place for place in sys.path if not place.endswith(("/pyspark.zip", "-src.zip"))]\n'


def main() -> None:
    (Path(sysconfig.get_path("purelib")) / "pyspark_as_installed.pth").write_text(AS_INSTALLED)
    delta_jars()  # else both groups of tests would fetch them
    if ARCHIVE.exists():
        return
    print("[Keeping Spark's classes for the JVMs of the tests ..]", flush=True)
    new = ARCHIVE.with_suffix(f".{os.getpid()}")
    options = f"{QUICK} -XX:ArchiveClassesAtExit={new} -Xlog:disable"
    # reading to the end waits for the JVM, which writes the file when it ends
    subprocess.run([sys.executable, __file__, "run"], env=os.environ | {"SPARK_SUBMIT_OPTS": options}, check=True, capture_output=True)
    if new.exists():
        new.rename(ARCHIVE)


def run() -> None:
    """What most of them do: a call, a table that lasts, in Hive's catalog, and a change of it."""
    with TemporaryDirectory() as folder:
        spark = streamtime.session(cores=2, settings=lasting(Path(folder)))
        rows = "TABLE(SELECT id AS k, timestamp_seconds(id) AS ts FROM range(9)) PARTITION BY k ORDER BY ts"
        assert spark.sql(f"SELECT * FROM DEDUPLICATE({rows}, within => INTERVAL 1 HOUR)").count() == 9
        spark.sql("CREATE TABLE kept USING delta AS SELECT id FROM range(9)")
        spark.sql("MERGE INTO kept USING (SELECT id FROM range(3)) AS r ON kept.id = r.id WHEN MATCHED THEN DELETE")
        assert spark.table("kept").count() == 6
        spark.stop()


if __name__ == "__main__":
    run() if sys.argv[1:] else main()
