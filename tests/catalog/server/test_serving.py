"""`streamtime serve`, as its users meet it: one server with every lock on, asked over both doors, told to stop, and its tables afterwards.

The lines of docs/serve.md make its keys and start it, at all addresses; it is asked at one of this machine that is not the usual one, Spark
Connect by a proxy with TLS. What it does on a cluster, and when a client dies, is in tests/whole/test_cluster.py.

The server runs once. A client in a process of its own asks it everything and writes down what came; each test looks at a part of that.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
from support import PROGRAMS, ROOT
from support.pages.documents import blocks
from support.programs.jvm import JAVA_OPTIONS, talking
from support.served import serving, wait
from support.tls import proxy

from streamtime.server import passwords

STREAMTIME = [sys.executable, "-m", "streamtime"]
CLIENT = PROGRAMS / "served_client.py"
PAGE = [block.text for block in blocks((ROOT / "docs" / "serve.md").read_text()) if block.unrun]
HOST = "127.0.0.2"
PASSWORD = "pä ss:wörd"
BEA = ("bea", "one-word")  # beeline's script takes a password of one word
GRACE = 5
QUICK = os.environ | {"SPARK_SUBMIT_OPTS": JAVA_OPTIONS}


@dataclass
class Seen:
    """What the client saw, what the server logged, and how everything ended."""

    answers: dict[str, Any]
    log: list[str]
    health: dict[str, Any]
    processes: str
    beeline: str
    second: str
    code: int
    ready_line: str
    ready: dict[str, Any]
    spark_log: str
    afterwards: str
    secrets: tuple[str, ...]

    def lines(self, event: str) -> list[str]:
        return [line.partition(" ")[2] for line in self.log if line.partition(" ")[2].startswith(event)]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, thorough: bool) -> Seen:
    folder = tmp_path_factory.mktemp("served")
    (lines,) = (text for text in PAGE if "openssl" in text)
    certificate, options = locked(folder, lines)
    small = ["--memory", "1g", "--cores", "3", "--conf", "spark.sql.shuffle.partitions=2", "--grace", str(GRACE)]
    with serving(folder, *options, *small) as server, ExitStack() as stack:
        found = server.ready
        by_tls = stack.enter_context(proxy(folder / "server.pem", HOST, found["connect_port"]))
        token, key = ((folder / name).read_text().strip() for name in ("token", "keystore-password"))
        place = folder / "place.json"
        more = {
            "host": HOST,
            "token": token,
            "password": PASSWORD,
            "certificate": certificate,
            "folder": str(folder),
            "proxy_port": by_tls,
            "watched": thorough,
        }
        place.write_text(json.dumps(found | more))
        processes = subprocess.run(["ps", "-A", "-ww", "-o", "args"], capture_output=True, text=True, check=True).stdout
        again = [*STREAMTIME, "serve", "--warehouse", str(folder / "warehouse"), "--connect-port", "0", "--thrift-port", "off"]
        second = stack.enter_context(
            subprocess.Popen([*again, "--health-port", "off"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=QUICK)
        )
        try:
            environment = os.environ | {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": certificate}
            with talking(CLIENT, str(place), stdin=subprocess.PIPE, env=environment) as (client, said):
                assert said.readline() == "running\n", server.logged()
                beeline = over_jdbc(found, folder)
                with urllib.request.urlopen(found["health"], timeout=10) as told:
                    health = json.load(told)
                server.process.send_signal(signal.SIGTERM)
                wait(lambda: " stopping " in server.logged(), 10)
                assert client.stdin is not None
                client.stdin.write("\n")
                client.stdin.flush()
                answers = json.loads(said.readline())
            server.process.wait(60)
            assert not server.file.exists()
            refused = second.communicate(timeout=60)[0]
        finally:
            second.kill()
    text = server.logged()
    return Seen(
        answers, text.splitlines(), health, processes, beeline, refused, server.process.returncode,
        next(line for line in text.splitlines() if " ready " in line), found,
        (folder / "warehouse" / "spark.log").read_text(), opened_again(folder / "warehouse") if thorough else "", (token, key, PASSWORD),
    )  # fmt: skip


def opened_again(warehouse: Path) -> str:
    """What a shell over the tables and views that a server left prints."""
    command = [*STREAMTIME, "sql", "--warehouse", str(warehouse), "--format", "csv", "-e", "SELECT v FROM shop.clean ORDER BY v"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=QUICK)
    return done.stdout + done.stderr


def locked(folder: Path, lines: str) -> tuple[str, list[str]]:
    """What the page's lines make: token, users, and a key for TLS, whose certificate's file this gives; and the options of its last line."""
    *make, serve = (
        lines.replace("dns:shop.example", f"dns:localhost,ip:{HOST}").replace("shop.example", "localhost").replace("\\\n", "").splitlines()
    )
    java = Path(os.environ["JAVA_HOME"]) / "bin" if "JAVA_HOME" in os.environ else Path("/")
    environment = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], str(java)])}

    def run(script: str, says: str = "") -> None:
        subprocess.run(["sh", "-eu", "-c", script], cwd=folder, env=environment, input=says, text=True, check=True, capture_output=True)

    run("\n".join(make), f"{PASSWORD}\n")
    with (folder / "users").open("a") as users:
        users.write(passwords.line(*BEA) + "\n")
    run(
        "openssl pkcs12 -in server.p12 -nodes -passin file:keystore-password -out server.pem\n"
        "openssl x509 -in server.pem -out served.pem\n"
        "keytool -importcert -noprompt -alias served -file served.pem -storepass changeit -keystore trusted.p12"
    )
    program, verb, *options = shlex.split(serve)
    assert (program, verb, options[:2]) == ("streamtime", "serve", ["--host", "0.0.0.0"])
    return str(folder / "served.pem"), options


def over_jdbc(found: dict[str, Any], folder: Path) -> str:
    """What beeline prints: Hive's JDBC driver."""
    home = Path(pyspark.__file__).parent
    tls = f"ssl=true;sslTrustStore={folder / 'trusted.p12'};trustStorePassword=changeit"
    command = [str(home / "bin" / "beeline"), "-u", f"jdbc:hive2://{HOST}:{found['thrift_port']}/;{tls}", "-n", *BEA[:1], "-p", *BEA[1:]]
    more = ["--silent=true", "--outputformat=csv2", "-e", "SELECT v FROM shop.clean ORDER BY v;"]
    environment = os.environ | {"SPARK_HOME": str(home)}
    done = subprocess.run([*command, *more], capture_output=True, text=True, env=environment, check=False, timeout=120)
    return done.stdout + done.stderr


def test_it_says_where_it_is_in_a_line_and_in_a_file(seen: Seen) -> None:
    facts = dict(fact.split("=", 1) for fact in seen.ready_line.split(" ready ")[1].split(" "))
    assert facts.keys() == {"connect", "thrift", "health", "pid", "seconds"}
    assert facts["connect"] == seen.ready["connect"] == f"sc://0.0.0.0:{seen.ready['connect_port']}"
    assert facts["thrift"] == seen.ready["thrift"] == f"jdbc:hive2://0.0.0.0:{seen.ready['thrift_port']}/;ssl=true"
    assert facts["pid"] == str(seen.ready["pid"])
    assert 0 not in (seen.ready["connect_port"], seen.ready["thrift_port"], seen.ready["health_port"])


def test_where_others_reach_it_a_note_says_what_is_left_to_do(seen: Seen) -> None:
    (note,) = seen.lines("note ")
    says = "Spark Connect has no TLS of its own: put a proxy that has it before this port, or the token travels as it is"
    assert note == f'note says="{says}"'


@pytest.mark.parametrize("door", ["jdbc", "connect"])
def test_both_doors_answer_calls_views_and_as_of_joins(seen: Seen, door: str) -> None:
    assert seen.answers[f"{door} call"] == [["a"], ["c"], ["d"]]
    assert seen.answers[f"{door} view"] == [["a"], ["c"], ["d"]]
    assert seen.answers[f"{door} as of"] == [["a", None], ["b", "a"], ["c", "b"], ["d", None]]
    assert seen.answers[f"{door} help"] == [["Class: streamtime.DEDUPLICATE"]]


def test_beeline_reads_the_view_by_tls_and_password(seen: Seen) -> None:
    assert [line for line in seen.beeline.splitlines() if len(line) == 1] == ["v", "a", "c", "d"], seen.beeline


@pytest.mark.parametrize("door", ["jdbc", "connect"])
def test_a_wrong_statement_says_what_is_wrong_and_the_session_goes_on(seen: Seen, door: str) -> None:
    errors = seen.answers[f"{door} errors"]
    for name, says in {
        "no column": "DEDUPLICATE, PARTITION BY: no column `nope` in the input. The input has `k`, `ts`, `v`.; line 1 pos 14",
        "no option": "DEDUPLICATE, `withn`: no such option. Did you mean `within`?",
        "no table": "[TABLE_OR_VIEW_NOT_FOUND]",
        "in a task": "[USER_RAISED_EXCEPTION] boom",
    }.items():
        assert says in errors[name]
        assert "Traceback" not in errors[name]
        assert str(ROOT / "catalog") not in errors[name]
    assert seen.answers[f"{door} after errors"] == [[1]]


@pytest.mark.parametrize("door", ["jdbc", "connect"])
def test_a_session_sees_its_own_views_and_settings_alone(seen: Seen, door: str) -> None:
    assert seen.answers[f"{door} mine"] == [[7]]
    assert "TABLE_OR_VIEW_NOT_FOUND" in seen.answers[f"{door} other's view"]
    assert seen.answers[f"{door} other's zone"] == [["UTC"]]


def test_nobody_comes_in_without_the_password_or_the_token(seen: Seen) -> None:
    logins = seen.answers["logins"]
    for name in ("wrong password", "nobody"):
        assert "Error validating the login" in logins[name]
    assert not logins["no password"].startswith("no error")
    assert "No authentication token provided" in logins["no token"]
    assert "Invalid authentication token" in logins["wrong token"]
    assert seen.lines("login refused")[:2] == ["login refused door=thrift user=ana", "login refused door=thrift user=nobody"]


def test_no_secret_is_where_others_can_read_it(seen: Seen) -> None:
    places = (seen.processes, "\n".join(seen.log), seen.spark_log, *seen.answers["secrets"])
    assert "ready.json" in seen.processes
    for place in places:
        for secret in seen.secrets:
            assert secret not in place


def test_a_query_can_be_cancelled_over_either_door(seen: Seen) -> None:
    assert "cancel" in seen.answers["cancelled"].lower()
    assert seen.answers["cancelled after"] < 20  # of 60
    assert seen.answers["cancelled over jdbc"] == 3  # CANCELED_STATE
    assert seen.answers["jdbc after cancel"] == seen.answers["connect after cancel"] == [[2]]


def test_it_has_the_cores_and_the_memory_that_it_was_given(seen: Seen) -> None:
    assert seen.lines("starting")[0].startswith("starting master=local[3] ")
    assert any("streamtime-serve-" in words and " -Xmx1g " in words for words in seen.processes.splitlines())


def test_what_the_page_shows_is_what_it_says(seen: Seen) -> None:
    """The file and the answer of health have these entries, and the log has such lines."""
    ready, health = (json.loads(text) for text in PAGE if text.startswith("{"))
    assert ready.keys() == seen.ready.keys()
    assert (health.keys(), health["sessions"].keys()) == (seen.health.keys(), seen.health["sessions"].keys())
    (lines,) = (text.splitlines() for text in PAGE if " session opened " in text)
    shapes = {shape(line) for line in seen.log}
    assert len(lines) == 3
    assert [line for line in lines if shape(line) not in shapes] == []
    assert any(line.endswith(lines[-1].partition(" error=")[2]) for line in seen.lines("query failed"))


def shape(line: str) -> tuple[str, ...]:
    """What a line of the log tells, without what it says of that."""
    return tuple(word.partition("=")[0] for word in shlex.split(line)[1:])


def test_the_log_has_one_line_for_each_event_and_no_stack(seen: Seen) -> None:
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ [a-z]", line) for line in seen.log), seen.log
    failed = seen.lines("query failed")
    for door in ("thrift", "connect"):
        assert len([line for line in failed if f"door={door}" in line and "no column `nope`" in line]) == 1
        assert len([line for line in failed if f"door={door}" in line and "boom" in line]) == 1
    assert [line.split(" ")[0] for line in seen.log if "user=ana" in line]
    assert "boom" not in seen.spark_log
    assert "nope" not in seen.spark_log


@pytest.mark.long("tests/catalog/monitoring/test_watch.py")
def test_streams_are_watched_over_connect(seen: Seen) -> None:
    watched = seen.answers["watched"]
    if watched is None:  # on Spark 4.0
        return
    assert [row[:2] for row in watched["events"]] == [["once", "started"], ["once", "ended"], ["fails", "started"], ["fails", "failed"]]
    assert "thud" in watched["events"][-1][-1]
    assert watched["calls"] == [["DEDUPLICATE(PARTITION BY k ORDER BY ts)", 4, 1]]
    assert any(line.startswith("once: micro-batch 0; 4 rows") for line in watched["said"]), watched["said"]
    assert any(line.startswith("fails failed: ") for line in watched["said"])
    assert watched["lost"] == 0


def test_health_counts_what_is_there(seen: Seen) -> None:
    assert seen.health["status"] == "serving"
    assert seen.health["running"] in (2, 3)  # the short one may have ended
    assert seen.health["sessions"]["thrift"] >= 2
    assert seen.health["failed"] == len(seen.lines("query failed"))


def test_told_to_stop_it_lets_queries_end_then_cancels_them_and_leaves_with_0(seen: Seen) -> None:
    assert seen.code == 0
    assert seen.answers["ends"]["short"] == [[0]]
    for name in ("long", "long over jdbc"):
        assert "cancel" in seen.answers["ends"][name].lower(), name
    assert "the server is stopping" in seen.answers["new statement"]
    assert not seen.answers["new login"].startswith("no error")
    assert seen.lines("stopping") in [[f"stopping by=SIGTERM running={running} grace={GRACE}"] for running in (2, 3)]
    # the short one runs until its client, which was told its rows, has closed it
    assert seen.lines("cancelling") in [[f"cancelling queries={running} streams=1"] for running in (2, 3)]
    assert seen.log[-1].partition(" ")[2].startswith("stopped seconds=")


def test_a_warehouse_serves_one_process_at_a_time_and_says_so(seen: Seen) -> None:
    assert "is in use by another session; a warehouse serves one at a time" in seen.second


@pytest.mark.long("tests/catalog/shell/test_cli.py::test_a_script_goes_to_its_first_failure_and_says_which_it_is")
def test_tables_and_views_last(seen: Seen) -> None:
    assert seen.afterwards.splitlines()[:4] == ["v", "a", "c", "d"], seen.afterwards
