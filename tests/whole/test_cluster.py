"""A standalone cluster whose workers have not the pack: every function, streams, a versioned table and AS OF joins give there what they mean.

Then `streamtime serve` runs on it, as docs/serve.md has it, and a client dies in the middle of its queries.
"""

from __future__ import annotations

import json
import operator
import os
import re
import shlex
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from support import PROGRAMS, ROOT
from support.cluster import bare_python, standalone
from support.pages.documents import blocks
from support.programs.cluster_questions import AS_OF, BATCHES, STREAMS, prepare, shown, statements
from support.programs.jvm import talking
from support.selected import selected
from support.served import serving, wait

from streamtime.shelf import FUNCTIONS
from streamtime.sql.call.spec import Spec

PATIENCE = 240  # seconds for one answer, on a machine with much else to do
Answers = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Its folder, and the address of its master. One application at a time has both of its cores."""
    folder = tmp_path_factory.mktemp("cluster")
    with standalone(folder, workers=2) as found:
        yield folder, found.address


@pytest.fixture(scope="module")
def answers(cluster: tuple[Path, str], request: pytest.FixtureRequest) -> Answers:
    """What the cluster says, by the question's name, of what the selected tests look at."""
    folder, master = cluster
    asked = [
        *(f"{spec.name} " for spec in selected(request, "spec")),
        *(f"as of {how}" for how in selected(request, "how")),
        *(f"stream {name}" for name in selected(request, "name")),
    ]
    driver, log = PROGRAMS / "cluster_driver.py", folder / "driver.log"
    environment = os.environ | {"PYSPARK_PYTHON": str(bare_python(folder / "python"))}
    with log.open("w") as out:
        how = {"env": environment, "stdout": out, "stderr": out, "start_new_session": True}
        found: Answers = {}
        with talking(driver, master, str(folder), json.dumps(asked), **how) as (process, channel):
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
    answer: list[str] = answers[name]
    assert answer[:1] != ["failed"], "\n".join(answer)
    return answer


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
def here(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session on local[2] with the same input."""
    session = spark.newSession()
    session.sql("CREATE SCHEMA beside_the_cluster")
    session.sql("USE beside_the_cluster")
    prepare(session, {spec.name for spec in selected(request, "spec")})
    yield session
    session.sql("DROP SCHEMA beside_the_cluster CASCADE")


def test_both_workers_take_part_and_have_not_the_pack(answers: Answers) -> None:
    first, second = (eval(row) for row in said(answers, "the workers"))
    assert Path(first[0]).name != Path(second[0]).name  # the number of an executor
    assert first[1] == second[1] == "pandas"


@pytest.mark.short("kernels where the pack is not")
@pytest.mark.parametrize("spec", FUNCTIONS, ids=operator.attrgetter("name"))
def test_every_function_gives_on_a_cluster_what_it_gives_on_one_machine(answers: Answers, here: SparkSession, spec: Spec) -> None:
    texts = statements(spec)
    assert any(f" {spec.name}(" in text for text in texts)
    for number, text in enumerate(texts):
        expected = shown(here.sql(text).collect())
        assert said(answers, f"{spec.name} {number}") == expected
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


PAGE = (ROOT / "docs" / "serve.md").read_text()
SOON = {  # how long Spark waits until it takes a client for dead: sends nothing, hears nothing, has nothing asked
    "spark.connect.execute.reattachable.senderMaxStreamDuration": "2s",
    "spark.connect.execute.manager.detachedTimeout": "2s",
    "spark.connect.execute.manager.maintenanceInterval": "1s",
    "spark.connect.session.manager.defaultSessionTimeout": "10s",
    "spark.connect.session.manager.maintenanceInterval": "1s",
}


@dataclass
class Served:
    """What a client saw of the server, and the server of a client that was killed."""

    python: str
    beeline: str
    executors: list[str]
    driver: str
    session: str
    log: list[str]
    health: dict[str, Any]


@pytest.fixture(scope="module")
def served(cluster: tuple[Path, str]) -> Served:
    """`streamtime serve` as the page has it on a cluster, asked by the page's beeline and its Python."""
    folder, master = cluster
    texts = [block.text for block in blocks(PAGE) if block.unrun]
    start, python, on_cluster = (next(text for text in texts if mark in text) for mark in ("beeline", ".remote(", "--master"))
    values = {"spark://head:7077": master, "16": "1", "8g": "1g", "spark.driver.host=10.0.0.5": "spark.driver.host=127.0.0.1"}
    program, verb, *options = shlex.split(on_cluster)
    assert (program, verb) == ("streamtime", "serve")
    assert values.keys() <= {*options}
    more = [word for setting in (*SOON.items(), ("spark.sql.shuffle.partitions", "2")) for word in ("--conf", "=".join(setting))]
    with serving(folder, *(values.get(word, word) for word in options), *more) as server:
        asked = python.replace("sc://localhost:15002", server.ready["connect"])
        place = folder / "place.json"
        place.write_text(json.dumps(server.ready | {"python": asked}))
        with talking(PROGRAMS / "dying_client.py", str(place)) as (dying, said):
            seen = json.loads(said.readline() or server.logged())
            assert said.readline() == "running\n", server.logged()
            dying.kill()
        beeline = shlex.split(start.splitlines()[-1].replace("localhost:10000", f"127.0.0.1:{server.ready['thrift_port']}"))
        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / beeline[0]), "--silent=true", "--outputformat=csv2", *beeline[1:]]
        shown = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | {"SPARK_HOME": str(home)}, check=False, timeout=PATIENCE
        )
        wait(lambda: f"session closed door=connect session={seen['session'][:8]}" in server.logged(), 60)
        wait(lambda: server.logged().count("session closed door=thrift") == 2, 60)  # the killed one's, and beeline's
        with urllib.request.urlopen(server.ready["health"], timeout=10) as told:
            health = json.load(told)
        return Served(
            seen["python"], shown.stdout + shown.stderr, [args for pid, _, args in processes() if pid in seen["executors"]],
            next(args for _, parent, args in processes() if parent == str(server.process.pid)), seen["session"][:8],
            [line.partition(" ")[2] for line in server.logged().splitlines()], health,
        )  # fmt: skip


def processes() -> list[list[str]]:
    """Number, parent's number and words of each process of this machine."""
    found = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    return [line.split(maxsplit=2) for line in found.splitlines()]


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_the_server_has_the_clusters_cores_and_the_drivers_memory_that_it_was_given(served: Served) -> None:
    assert re.match(r"starting master=spark://\S+:\d+ ", served.log[0]), served.log[0]
    (executor,) = served.executors  # of two workers
    assert "CoarseGrainedExecutorBackend" in executor
    assert " -Xmx1g " in served.driver


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_the_pages_python_and_its_beeline_have_an_answer(served: Served) -> None:
    assert [line for line in served.python.splitlines() if "|" in line] == [
        "|user_id|                 ts|",
        "|    ann|2026-01-01 10:00:00|",
        "|    ann|2026-01-01 11:00:00|",
    ]
    functions = {line.split(",")[0] for line in served.beeline.splitlines()}
    assert {"DEDUPLICATE", "WINDOW_UPDATES"} <= functions, served.beeline


@pytest.mark.long("tests/catalog/server/test_serving.py")
def test_a_client_that_is_killed_has_its_queries_cancelled_and_its_sessions_closed(served: Served) -> None:
    """Over Connect, after the three times that docs/serve.md names: Spark looks at no connection, but waits to be asked."""
    mine = [line for line in served.log if f"session={served.session}" in line]
    assert [re.sub(r" (session|user|sessions)=\S+", "", line) for line in mine] == [
        "session opened door=connect",
        "query cancelled door=connect",
        "session closed door=connect",
    ]
    (opened,) = [line for line in served.log if line.startswith("session opened door=thrift") and "user=bo" in line]
    (session,) = re.findall(r"session=\w+", opened)
    jdbc = [" ".join(line.split()[:2]) for line in served.log if session in line.split()]
    assert (jdbc[0], jdbc[-1]) == ("session opened", "session closed"), served.log
    assert (served.health["status"], served.health["running"]) == ("serving", 0)
    assert served.health["sessions"] == {"connect": 0, "thrift": 0}
