"""Calls from Spark's JVM into this process come with a token.

Spark's analyzer calls Python through Py4J's callback server, a port of 127.0.0.1. As PySpark starts it, for `foreachBatch` too, it serves
whoever connects. `guard` gives the server and the JVM a secret of their own. Who connects waits in a lobby, without a thread, until it has
shown the token; nothing that it says before is carried out or answered, and it may not wait for long.
"""

from __future__ import annotations

import logging
import secrets
import selectors
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaObject, quiet_shutdown
from py4j.protocol import AUTH_COMMAND_NAME, OUTPUT_VOID_COMMAND
from pyspark.java_gateway import ensure_callback_server_started

from streamtime.door import janino

PATIENCE = 5.0  # seconds in which the token must be there
MOST_WAITING = 64  # the oldest goes when more come
LONGEST = 1024  # bytes of a token with what stands around it
MOST_OPEN = 64  # after so many more, idle ones are closed: Py4J keeps one, with a thread here, for each JVM thread that ever called
REFUSED = "streamtime: a connection from %s to the port for calls from Spark came without its token, and was refused. This is said once."

# Py4J's own cleaning closes whatever is in its list of idle connections. One in there may be waiting for an answer: a call inside a call
# gives back a connection on which the outer one still waits; what was given back twice is taken out once; and those that Python made, over
# which it may be asking now, are given back as well. This list has none of them.
IDLE = """
package streamtime;

import java.lang.reflect.Field;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.locks.Lock;

public class IdleConnections extends ArrayDeque {
    private final Map calls = new WeakHashMap();  // by connection, how many wait, one inside another
    private final Map unknown = new WeakHashMap();  // from before this list

    public void standInFor(Object client) throws Exception {
        Lock lock = (Lock) field("lock").get(client);
        lock.lock();
        try {
            Collection before = (Collection) field("connections").get(client);
            if (before.getClass() == this.getClass()) return;
            for (Object one : before) unknown.put(one, Boolean.TRUE);
            field("connections").set(client, this);
        } finally {
            lock.unlock();
        }
    }

    public boolean remove(Object one) {  // a call begins, over a connection that is no new one
        boolean idle = super.remove(one);
        Integer waiting = (Integer) calls.get(one);
        int outside = waiting != null ? waiting.intValue() : idle ? 0 : 1;  // neither idle nor counted: it waits, or is Python's own
        calls.put(one, Integer.valueOf(outside + 1));
        return idle;
    }

    public void addLast(Object one) {  // a call ends
        Integer waiting = (Integer) calls.remove(one);
        if (waiting != null && waiting.intValue() > 1) calls.put(one, Integer.valueOf(waiting.intValue() - 1));
        else if (!unknown.containsKey(one)) super.addLast(one);
    }

    private static Field field(String name) throws Exception {
        Field field = py4j.CallbackClient.class.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}
"""
_lock = threading.Lock()


def guard(gateway: Any) -> None:
    """Have the callback server, started if need be, serve this application's JVM and nobody else. Calling it again changes nothing."""
    with _lock:
        parameters = gateway.callback_server_parameters
        running = gateway.__dict__.get("_callback_server") is not None
        token = parameters.auth_token or secrets.token_hex(32)
        if not running:
            parameters.auth_token = token  # from the first connection on
            ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        server = gateway._callback_server
        with server.lock:  # no new connection is served meanwhile
            if _field(gateway, "authToken").get(_client(gateway)) != token:
                _field(gateway, "authToken").set(_client(gateway), token)
            parameters.auth_token = token
            guarded = isinstance(server._create_connection, Lobby)
            if not guarded:
                server._create_connection = Lobby(gateway, server, token)
        if running and not guarded:
            _show_out(gateway, server)
        if not guarded and isinstance(gateway, ClientServer):  # the connections of another gateway belong to no thread
            janino.instance(gateway, "IdleConnections", IDLE).standInFor(_client(gateway))


@dataclass
class Guest:
    """A connection that has not shown the token yet."""

    connection: Any
    socket: Any
    until: float
    said: bytes = b""


class Passed:
    """The server's parameters, for a connection that has shown the token."""

    auth_token = None

    def __init__(self, parameters: Any) -> None:
        self._parameters = parameters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parameters, name)


class Lobby:
    """Stands in for a callback server's way to make connections: those made here start only with the token."""

    def __init__(self, gateway: Any, server: Any, token: str) -> None:
        self.gateway, self.server, self.token, self.make = gateway, server, token.encode(), server._create_connection
        self.arrived: deque[Guest] = deque()
        self.waiting: dict[int, Guest] = {}
        self.warned = False
        self.open = 0  # admitted since idle ones were closed
        self.bell, self.rung = socket.socketpair()
        self.rung.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.rung, selectors.EVENT_READ)
        threading.Thread(target=self._run, name="streamtime-callbacks", daemon=True).start()

    def __call__(self, sock: Any, stream: Any) -> Any:
        """The server's `_create_connection`."""
        connection = self.make(sock, stream)

        def start() -> None:
            self.arrived.append(Guest(connection, sock, time.monotonic() + PATIENCE))
            self.bell.send(b".")

        connection.start = start
        return connection

    def _run(self) -> None:
        while not self.server.is_shutdown:
            for key, _ in self.selector.select(min(1.0, PATIENCE) if self.waiting else PATIENCE):
                if key.fileobj is self.rung:
                    self.rung.recv(4096)
                elif key.fd in self.waiting:
                    self._hear(key.fd, self.waiting[key.fd])
            while self.arrived:
                self._seat(self.arrived.popleft())
            now = time.monotonic()
            for place in [p for p, guest in self.waiting.items() if guest.until < now]:
                self._refuse(place)
            if self.open >= MOST_OPEN:
                self.open = 0  # not in this thread: the JVM holds a lock of that call while it waits for an answer from here
                threading.Thread(target=self.close_idle, daemon=True).start()
        self.selector.close()

    def close_idle(self) -> None:
        """Close the connections that serve nothing."""
        _client(self.gateway).periodicCleanup()

    def _seat(self, guest: Guest) -> None:
        if len(self.waiting) >= MOST_WAITING:
            self._refuse(next(iter(self.waiting)))
        guest.socket.setblocking(False)
        place = guest.socket.fileno()
        self.waiting[place] = guest
        self.selector.register(place, selectors.EVENT_READ)

    def _hear(self, place: int, guest: Guest) -> None:
        try:
            heard = guest.socket.recv(LONGEST - len(guest.said))
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        guest.said += heard
        command, *rest = guest.said.split(b"\n")
        if not heard or (rest and command != AUTH_COMMAND_NAME.encode()):
            self._refuse(place)
        elif len(rest) > 2:  # the token, the end of the command, and nothing after it: the JVM waits for an answer
            if secrets.compare_digest(rest[0], self.token) and rest[2:] == [b""]:
                self._admit(place)
            else:
                self._refuse(place)

    def _admit(self, place: int) -> None:
        guest = self._leave(place)
        for name in ("python_parameters", "callback_server_parameters"):
            if name in guest.connection.__dict__:
                setattr(guest.connection, name, Passed(getattr(guest.connection, name)))
        try:
            guest.socket.setblocking(True)
            guest.socket.sendall(OUTPUT_VOID_COMMAND.encode())
        except OSError:
            return
        guest.connection.start()
        self.open += 1

    def _refuse(self, place: int) -> None:
        guest = self._leave(place)
        if not self.warned:
            self.warned = True
            logging.getLogger("streamtime").warning(REFUSED, _caller(guest.socket))
        with suppress(OSError):
            guest.connection.close(True)

    def _leave(self, place: int) -> Guest:
        guest = self.waiting.pop(place)
        self.selector.unregister(place)
        del guest.connection.start  # the way back here
        return guest


def _caller(called: Any) -> str:
    """Who is at the other end of a socket, if anybody still is."""
    try:
        host, port = called.getpeername()
    except OSError:
        return "somebody who has gone"
    return f"{host}:{port}"


def _client(gateway: Any) -> Any:
    """The JVM's side, by the name that Py4J gives it."""
    return JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()


def _field(gateway: Any, name: str) -> Any:
    declared = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField(name)
    declared.setAccessible(True)
    return declared


def _show_out(gateway: Any, server: Any) -> None:
    """Close what connected before there was a token, but for the JVM's own: it lets go of its idle ones, and the busy ones it called."""
    strangers = [c for c in server.connections if "start" not in c.__dict__]
    for _ in range(2):  # twice, as one may be between the two
        _client(gateway).periodicCleanup()
        time.sleep(0.1)
        busy = {id(one) for frame in sys._current_frames().values() for one in _serving(frame)}
        strangers = [c for c in strangers if c.socket is not None and id(c) not in busy]
    for connection in strangers:
        quiet_shutdown(connection.socket)  # its own thread closes it


def _serving(frame: Any) -> Iterator[Any]:
    while frame is not None:
        if frame.f_code.co_name == "_call_proxy":
            yield frame.f_locals["self"]
        frame = frame.f_back
