"""A standalone cluster whose workers have not the pack: every function, streams, a versioned table and AS OF joins give there what they mean."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import IO

import pytest
from pyspark.sql import SparkSession
from support import TESTS
from support.cluster import bare_python, standalone
from support.cluster_questions import AS_OF, BATCHES, STATEMENTS, STREAMS, prepare, shown
from support.jvm import talking

from streamtime.shelf import FUNCTIONS

PATIENCE = 240  # seconds for one answer, on a machine with much else to do
Answers = dict[str, list[str]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What the cluster says, by the question's name."""
    folder = tmp_path_factory.mktemp("cluster")
    driver, log = TESTS / "support" / "cluster_driver.py", folder / "driver.log"
    environment = os.environ | {"PYSPARK_PYTHON": str(bare_python(folder / "python"))}
    with standalone(folder, workers=2) as cluster, log.open("w") as out:
        how = {"env": environment, "stdout": out, "stderr": out, "start_new_session": True}
        found: Answers = {}
        with talking(driver, cluster.address, str(folder), **how) as (process, channel):
            try:
                for line in lines(process, channel):
                    name, answer = json.loads(line)
                    found[name] = answer
                assert process.wait(PATIENCE) == 0, f"after {list(found)[-1:]}: {log.read_text()[-3000:]}"
            finally:
                end(process)
    return found


def said(answers: Answers, name: str) -> list[str]:
    """An answer that is no error."""
    assert answers[name][:1] != ["failed"], "\n".join(answers[name])
    return answers[name]


def lines(process: subprocess.Popen[str], channel: IO[str]) -> Iterator[str]:
    """What the process says until it ends, as it must where it says nothing for too long."""
    while True:
        timer = Timer(PATIENCE, end, [process])
        timer.start()
        line = channel.readline()
        timer.cancel()
        if not line:
            return
        yield line


def end(process: subprocess.Popen[str]) -> None:
    """The JVM with it."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def here(spark: SparkSession) -> Iterator[SparkSession]:
    """A session on local[2] with the same input."""
    session = spark.newSession()
    session.sql("CREATE SCHEMA beside_the_cluster")
    session.sql("USE beside_the_cluster")
    prepare(session)
    yield session
    session.sql("DROP SCHEMA beside_the_cluster CASCADE")


def test_both_workers_take_part_and_have_not_the_pack(answers: Answers) -> None:
    first, second = (eval(row) for row in said(answers, "the workers"))
    assert Path(first[0]).name != Path(second[0]).name  # the number of an executor
    assert first[1] == second[1] == "pandas"


@pytest.mark.parametrize("name", [spec.name for spec in FUNCTIONS])
def test_every_function_gives_on_a_cluster_what_it_gives_on_one_machine(answers: Answers, here: SparkSession, name: str) -> None:
    assert name in STATEMENTS, f"{name} is not run on a cluster: give it a statement in tests/support/cluster_questions.py"
    for number, text in enumerate(STATEMENTS[name]):
        assert f" {name}(" in text
        expected = shown(here.sql(text).collect())
        assert said(answers, f"{name} {number}") == expected
        assert expected


def test_registering_says_at_once_what_the_workers_lack(answers: Answers) -> None:
    (warned,) = said(answers, "workers that lack NumPy")
    assert warned.startswith(
        "streamtime: Spark's workers run `python3`, which has no numpy and no pyarrow. Functions with a kernel fail there."
    )
    assert "set the environment variable PYSPARK_PYTHON, with spark-submit also spark.pyspark.python, to one that has them" in warned


def test_a_versioned_table_takes_puts_and_answers_on_a_cluster(answers: Answers) -> None:
    told, gone, lookups, history, versions = (
        said(answers, "a versioned table")[a:b] for a, b in ((0, 3), (3, 4), (4, 7), (7, 10), (10, 15))
    )
    assert told == ["3 {} False", "0 {} True", "3 {'too_old': 1} False"]
    assert gone == ["tea @40 3.0 @40 None"]
    assert lookups == ["none", "tea @30 2.6 @30 @40", "none"]
    assert history == ["tea @40 3.0 @40 @41", "tea @30 2.6 @30 @40", "tea @10 2.0 @10 @30"]
    assert versions == ["cup @0 5.0 @0 None", "jug @100 1.0 @100 None", *reversed(history)]


@pytest.mark.parametrize("how", AS_OF)
def test_an_as_of_join_looks_up_the_versioned_table_on_a_cluster(answers: Answers, how: str) -> None:
    assert said(answers, f"as of {how}") == ["(1, None)", "(2, 2.0)", "(3, 2.0)", "(4, 2.6)", "(5, None)", "(6, 5.0)", "(7, None)"]


EXPECTED = {
    "DEDUPLICATE": {1: None, 2: "duplicate", 3: None, 4: None, 5: "duplicate", 6: None, 7: None, 8: None},
    "SUPPRESS_UNTIL_CLOSE": {2: "close", 3: "close", 5: "close", 7: "close"},
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_on_a_cluster_keeps_its_state_from_one_micro_batch_to_the_next(answers: Answers, name: str) -> None:
    keys = {number: key for batch in BATCHES for key, _, number in batch}
    assert said(answers, f"stream {name}") == sorted(repr((keys[i], i, said)) for i, said in EXPECTED[name].items())
