"""Spark's classes as the JVM keeps them once they are loaded, in a file: the many JVMs of the tests start a third sooner with it.

Made once for an environment, by a session that runs a query; `support.jvm` names it to every JVM.
"""

from __future__ import annotations

import os
import subprocess
import sys

from jvm import ARCHIVE, QUICK

import streamtime
from streamtime.session import delta_jars


def main() -> None:
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
    spark = streamtime.session(cores=2)
    rows = "TABLE(SELECT id AS k, timestamp_seconds(id) AS ts FROM range(9)) PARTITION BY k ORDER BY ts"
    assert spark.sql(f"SELECT * FROM DEDUPLICATE({rows}, within => INTERVAL 1 HOUR)").count() == 9
    spark.stop()


if __name__ == "__main__":
    run() if sys.argv[1:] else main()
