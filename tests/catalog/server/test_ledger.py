"""What is kept of Spark's events: who is there, what runs, and the lines of the log."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from streamtime.server import health
from streamtime.server.ledger import LONGEST, Ledger, brief, log


def connect(verb: str, **fields: str) -> dict[str, str]:
    return {"event": f"Connect{verb}", **fields}


def thrift(verb: str, **fields: str) -> dict[str, str]:
    return {"event": f"ThriftServer{verb}", **fields}


OPENED = connect("SessionStarted", sessionId="aa-1", userId="ana")
STARTED = connect("OperationStarted", operationId="q1", sessionId="aa-1", userName="ana")


def test_sessions_are_counted_by_door_and_each_is_said_once() -> None:
    ledger = Ledger()
    assert ledger.told(OPENED) == ("session opened", {"door": "connect", "session": "aa", "user": "ana"})
    assert ledger.told(OPENED) is None
    assert ledger.told(thrift("SessionCreated", sessionId="bb-2", userName="bo", ip="127.0.0.1")) == (
        "session opened",
        {"door": "thrift", "session": "bb", "user": "bo"},
    )
    assert (ledger.count("connect"), ledger.count("thrift")) == (1, 1)
    assert ledger.told(connect("SessionClosed", sessionId="aa-1", userId="ana")) == ("session closed", {"door": "connect", "session": "aa"})
    assert ledger.told(connect("SessionClosed", sessionId="aa-1")) is None
    assert ledger.told(thrift("SessionClosed", sessionId="of another time")) is None
    assert (ledger.count("connect"), ledger.count("thrift")) == (0, 1)


def test_a_query_over_jdbc_runs_until_it_ends_in_whatever_way() -> None:
    for end in ("OperationFinish", "OperationClosed", "OperationCanceled", "OperationTimeout", "OperationError"):
        ledger = Ledger()
        ledger.told(thrift("OperationStart", id="q2", sessionId="bb-2", userName="bo"))
        assert not ledger.idle(0)
        ledger.told(thrift(end, id="q2", errorMsg="no"))
        assert ledger.idle(0), end
        assert not ledger.ended


def test_a_query_over_connect_runs_until_its_client_has_closed_it() -> None:
    for end in ("OperationFinished", "OperationCanceled", "OperationFailed"):
        ledger = Ledger()
        ledger.told(OPENED)
        assert ledger.told(STARTED) is None
        ledger.told(connect(end, operationId="q1", errorMessage="no"))
        assert not ledger.idle(0), end
        ledger.told(connect("OperationClosed", operationId="q1"))
        assert ledger.idle(0), end


def test_what_a_closed_session_ran_runs_no_more() -> None:
    ledger = Ledger()
    ledger.told(OPENED)
    ledger.told(STARTED)
    ledger.told(connect("SessionClosed", sessionId="aa-1"))
    assert ledger.idle(0)
    assert ledger.told(connect("OperationFailed", operationId="q1", errorMessage="its session is gone")) is None


def test_a_query_that_was_cancelled_did_not_fail_and_is_said_once() -> None:
    ledger = Ledger()
    ledger.told(STARTED)
    assert ledger.told(connect("OperationCanceled", operationId="q1")) == (
        "query cancelled",
        {"door": "connect", "session": "aa", "user": "ana"},
    )
    assert ledger.told(connect("OperationFailed", operationId="q1", errorMessage="[OPERATION_CANCELED]")) is None
    ledger.told(connect("SessionClosed", sessionId="aa-1"))
    assert (ledger.running, ledger.ended) == ({}, set())
    ledger.told(STARTED)
    said = ledger.told(connect("OperationFailed", operationId="q1", errorMessage="[SPARK_JOB_CANCELLED] Job 5 cancelled"))
    assert said is not None
    assert said[0] == "query cancelled"
    assert ledger.failed == 0


def test_an_event_that_means_nothing_here_is_none() -> None:
    ledger = Ledger()
    assert ledger.told(connect("ServiceStarted")) is None
    assert ledger.told(connect("OperationAnalyzed", operationId="q9")) is None
    assert ledger.told(connect("OperationFailed", operationId="never started", errorMessage="x")) is None
    assert ledger.idle(0)


def test_who_waits_for_the_last_query_is_told() -> None:
    ledger = Ledger()
    ledger.told(STARTED)
    end = threading.Timer(0.05, lambda: ledger.told(connect("OperationClosed", operationId="q1")))
    end.start()
    assert ledger.idle(10)
    end.join()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            "INTERNAL: DEDUPLICATE, `withn`: no such option.; line 1 pos 3\n\nJVM stacktrace:\n\tat x",
            "DEDUPLICATE, `withn`: no such option.; line 1 pos 3",
        ),
        ("org.apache.spark.sql.AnalysisException: [X] no table;\n'Project [*]\n+- y", "[X] no table"),
        ("\n[PARSE_SYNTAX_ERROR] near 'a' (line 1, pos 0)\n\n== SQL ==\na", "[PARSE_SYNTAX_ERROR] near 'a' (line 1, pos 0)"),
        ("INTERNAL: \n[PARSE_SYNTAX_ERROR] near 'a' (line 1, pos 0)\n\n== SQL ==\na", "[PARSE_SYNTAX_ERROR] near 'a' (line 1, pos 0)"),
        ("", ""),
        ("INTERNAL: ", "INTERNAL:"),
    ],
)
def test_an_error_in_the_log_is_its_first_line(error: str, says: str) -> None:
    assert brief(error) == says
    assert len(brief("x" * 1000)) == LONGEST


def test_a_line_of_the_log_is_one_line_whatever_a_client_calls_itself(capsys: pytest.CaptureFixture[str]) -> None:
    log("session opened", door="connect", user='a\n2026-01-01T00:00:00Z ready "x"\x1b[31m\x85', none=None, empty="", odd="名", n=3)
    (line,) = capsys.readouterr().out.splitlines()
    facts = line.partition(" session opened ")[2]
    assert facts.startswith('door=connect user="a\\n2026-01-01T00:00:00Z ready \\"x\\"\\u001b[31m\\u0085" empty="" odd="名" n=3')


def test_health_is_503_until_it_serves_and_says_nothing_else() -> None:
    state: dict[str, Any] = {"status": "starting"}
    server = health.start("127.0.0.1", 0, lambda: state)
    try:
        place = f"http://127.0.0.1:{server.server_address[1]}"
        assert answer(f"{place}/health") == (503, {"status": "starting"})
        state["status"] = "serving"
        assert answer(f"{place}/health?probe") == (200, {"status": "serving"})
        assert answer(f"{place}/")[0] == 404
        assert answer(f"{place}/healthy")[0] == 404
    finally:
        server.shutdown()
        server.server_close()


def answer(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=10) as said:
            return said.status, json.load(said)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
