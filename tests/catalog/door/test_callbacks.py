"""The port through which Spark's JVM calls this process. Catches: an answer, a call or a collected proxy without the token; threads that pile up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j import protocol
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

import streamtime
from streamtime.door import callbacks

CALL = "SELECT * FROM DEDUPLICATE(TABLE(SELECT 1 AS k, TIMESTAMP '2024-01-01' AS ts) PARTITION BY k ORDER BY ts)"
COMMANDS = sorted({v.rstrip("\n") for n, v in vars(protocol).items() if n.endswith("_COMMAND_NAME") and isinstance(v, str)})


class Counter:
    """A proxy that anyone might have put there."""

    def __init__(self) -> None:
        self.calls = 0

    def run(self) -> None:
        self.calls += 1

    def toString(self) -> str:
        self.calls += 1
        return "told"

    class Java:
        implements = ("java.lang.Runnable",)


@pytest.fixture
def gateway(spark: SparkSession) -> Any:
    return spark.sparkContext._gateway


@pytest.fixture
def proxy(gateway: Any) -> Iterator[tuple[str, Counter]]:
    counter = Counter()
    name = gateway.gateway_property.pool.put(counter)
    yield name, counter
    del gateway.gateway_property.pool[name]


def connected(gateway: Any) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", gateway.get_callback_server().get_listening_port()), timeout=120)
    made.settimeout(120)
    return made


def answer(made: socket.socket, *parts: bytes) -> bytes:
    """All that comes until the other end closes."""
    got = b""
    try:
        for part in parts:
            made.sendall(part)
        while more := made.recv(1000):
            got += more
    except ConnectionError:
        pass
    return got


def said(gateway: Any, *parts: bytes, ends: bytes | None = None) -> bytes:
    """All that comes back until the other end closes, or for a second after the last part; with `ends`, until that came, however long."""
    with connected(gateway) as made:
        answer = b""
        try:
            for part in parts:
                made.sendall(part)
                time.sleep(0.02)
            made.settimeout(1 if ends is None else 120)
            while (ends is None or not answer.endswith(ends)) and (got := made.recv(1000)):
                answer += got
        except (ConnectionError, TimeoutError):
            pass
        return answer


def eventually(holds: Callable[[], bool], seconds: float = 120) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


def serving(gateway: Any) -> int:
    """Connections that are served, and not waiting for their token."""
    return sum("start" not in c.__dict__ for c in list(gateway.get_callback_server().connections))


def test_without_the_token_no_command_is_answered_or_carried_out(
    gateway: Any, proxy: tuple[str, Counter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks, "PATIENCE", 20)  # a key in five parts may take long on a busy machine
    name, counter = proxy
    pool, token = gateway.gateway_property.pool, gateway.callback_server_parameters.auth_token
    before = set(pool.dict)
    assert {"c", "g", "A"} <= set(COMMANDS)
    call = f"c\n{name}\ntoString\ne\n"
    texts = [f"{c}\n{name}\n\ne\n" for c in COMMANDS] + [f"{c}\n{name}\ntoString\ne\n" for c in COMMANDS]
    texts += [f"A\n{wrong}\ne\n{call}" for wrong in ("", "wrong", token[:-1], token + "0", token.upper() + " ", "é", "\0" * 64)]
    texts += [
        f"A\n{token}\n{call}",
        f"A\n{token}\ne\n{call}",
        f"a\n{token}\ne\n",
        f"{token}\n",
        f"\nA\n{token}\ne\n",
    ]  # not what the JVM sends
    texts += ["", "\n" * 50, "c\n" * 50, "A", "A\n" + "x" * 100_000]
    for text in texts:
        assert said(gateway, text.encode()) == b"", text
    assert said(gateway, b"A\n", b"wrong\n", b"e\n", call.encode()) == b""
    assert said(gateway, *[bytes([b]) for b in b"g\np0\n\n"]) == b""
    assert counter.calls == 0
    assert set(pool.dict) == before
    right = b"!yv\n!ystold\n"
    assert said(gateway, f"A\n{token}\ne\n".encode(), call.encode(), ends=right) == right  # the door is there, and has one key
    assert said(gateway, b"A", b"\n", token[:9].encode(), f"{token[9:]}\ne".encode(), b"\n", call.encode(), ends=right) == right
    assert counter.calls == 2


def test_who_shows_no_token_costs_no_thread_and_may_not_stay(spark: SparkSession, gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "PATIENCE", 20.0)
    threads, connections = threading.active_count(), len(gateway.get_callback_server().connections)
    idle: list[socket.socket] = []
    try:
        for number in range(200):
            idle.append(connected(gateway))
            idle[-1].sendall(b"A\nhalf of a tok"[: number % 15])
            time.sleep(0.005)
        jvm_thread(spark, lambda: None)  # a call of the JVM's own gets in at once
        assert threading.active_count() <= threads + 2
        assert eventually(lambda: len(gateway.get_callback_server().connections) <= connections + callbacks.MOST_WAITING + 2)
        monkeypatch.setattr(callbacks, "PATIENCE", 0.5)
        late = connected(gateway)
        assert answer(late) == b""
        late.close()
    finally:
        for one in idle:
            one.close()
    assert eventually(lambda: len(gateway.get_callback_server().connections) <= connections + 2)


def test_who_has_gone_before_it_is_refused_is_refused_all_the_same() -> None:
    with socket.socket() as gone:
        assert callbacks._caller(gone) == "somebody who has gone"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert callbacks._caller(client) == f"127.0.0.1:{server.getsockname()[1]}"


class Body:
    """A Runnable."""

    class Java:
        implements = ("java.lang.Runnable",)

    def __init__(self, body: Callable[[], object]) -> None:
        self.run = body

    def toString(self) -> str:
        return "body"


def jvm_thread(spark: SparkSession, body: Callable[[], object]) -> None:
    """Run in a thread of the JVM, as a server does for each of its clients."""

    thread = spark._jvm.java.lang.Thread(Body(body))
    thread.start()
    thread.join()


def test_threads_of_the_jvm_that_have_called_leave_no_threads_here(spark: SparkSession, gateway: Any) -> None:
    calls: list[int] = []
    threads = threading.active_count()
    for number in range(3 * callbacks.MOST_OPEN):
        jvm_thread(spark, lambda number=number: calls.append(number))  # type: ignore[misc]
    assert len(calls) == 3 * callbacks.MOST_OPEN
    assert eventually(lambda: threading.active_count() < threads + callbacks.MOST_OPEN + 5)
    assert eventually(lambda: serving(gateway) < 2 * callbacks.MOST_OPEN)


def test_a_call_is_not_cut_off_while_idle_connections_are_closed(spark: SparkSession, gateway: Any) -> None:
    """With a call inside it, and after one that had: Py4J's own list has its connection then, and its own cleaning closes that."""
    jvm, lobby = spark._jvm, gateway.get_callback_server()._create_connection
    began, go_on, used = threading.Semaphore(0), threading.Semaphore(0), list[int]()
    idle = callbacks._field(gateway, "connections").get(JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient())

    def inside() -> None:
        jvm.java.util.concurrent.Executors.callable(Body(lambda: None)).call()  # by the same thread of the JVM

    def waits() -> None:
        used.append(this_threads(gateway))
        began.release()
        assert go_on.acquire(timeout=60)

    def nested() -> None:
        inside()
        waits()

    def ports() -> list[int]:
        return [one.getSocket().getLocalPort() for one in idle.toArray()]

    pool = jvm.java.util.concurrent.Executors.newSingleThreadExecutor()  # one thread of the JVM, and so one connection
    try:
        for body in (nested, waits, nested, waits, waits):
            done = pool.submit(Body(body), "done")
            assert began.acquire(timeout=60)
            lobby.close_idle()
            assert used[-1] not in ports()
            go_on.release()
            assert done.get() == "done"
            assert ports().count(used[-1]) == 1
    finally:
        pool.shutdown()
    assert len(set(used)) == 1
    inside()
    assert this_threads(gateway) not in ports()  # it asks over it
    lobby.close_idle()
    assert used[-1] not in ports()
    assert spark.sql(CALL).count() == 1


def this_threads(gateway: Any) -> int:
    """The JVM's port of the connection of this thread."""
    return int(gateway._gateway_client.get_thread_connection().socket.getpeername()[1])


def test_a_server_that_ran_without_a_token_gets_one_while_a_stream_calls_through_it(
    spark: SparkSession, gateway: Any, proxy: tuple[str, Counter], tmp_path: Path
) -> None:
    name, counter = proxy
    server, parameters = gateway.get_callback_server(), gateway.callback_server_parameters
    client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
    field = callbacks._field(gateway, "authToken")
    streamtime.unregister(spark)
    token = parameters.auth_token
    client.periodicCleanup()
    del server._create_connection  # from here on, all is as PySpark's foreachBatch makes it
    parameters.auth_token = None
    field.set(client, None)
    batches: list[int] = []
    stopped = threading.Event()

    def batch(_df: object, number: int) -> None:
        batches.append(number)
        if len(batches) == 3:
            stopped.wait(60)

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = stream.writeStream.foreachBatch(batch).option("checkpointLocation", f"{tmp_path}/c").start()
    try:
        call = f"c\n{name}\ntoString\ne\n".encode()
        stranger, told = connected(gateway), connected(gateway)
        told.sendall(call)
        assert told.recv(100) == b"!ystold\n"  # today's way in
        assert eventually(lambda: len(batches) == 3)  # a batch is under way, over a connection without a token
        assert not streamtime.register(spark).already
        for old in (stranger, told):
            assert answer(old, call) == b""
            old.close()
        assert said(gateway, call) == b""
        assert counter.calls == 1
        assert parameters.auth_token == field.get(client)
        assert parameters.auth_token not in (None, token)
        stopped.set()
        assert eventually(lambda: len(batches) > 6)
        assert query.exception() is None
        assert spark.sql(CALL).count() == 1
        second = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        late: list[int] = []
        other = second.writeStream.foreachBatch(lambda _df, n: late.append(n)).option("checkpointLocation", f"{tmp_path}/d").start()
        assert eventually(lambda: len(late) > 2)
        other.stop()
    finally:
        stopped.set()
        query.stop()
        streamtime.register(spark)


def test_the_token_stays_when_the_pack_goes_and_comes_back(spark: SparkSession, gateway: Any) -> None:
    token, door = gateway.callback_server_parameters.auth_token, gateway.get_callback_server()._create_connection
    streamtime.unregister(spark)
    assert said(gateway, b"g\np0\n\n") == b""
    callbacks._field(gateway, "authToken").set(JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient(), None)
    assert not streamtime.register(spark).already
    assert (gateway.callback_server_parameters.auth_token, gateway.get_callback_server()._create_connection) == (token, door)
    jvm_thread(spark, lambda: spark.sql(CALL).collect())
    assert spark.sql(CALL).count() == 1
