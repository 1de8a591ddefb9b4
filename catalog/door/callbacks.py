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
import weakref
from collections import deque
from collections.abc import Iterator
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
MOST_IDLE = 64  # with so many admitted, the idle ones are closed: Py4J keeps one, with a thread here, for each JVM thread that ever called
JUST_NOW = 5.0  # seconds after a call in which its answer may still be on its way
REFUSED = "streamtime: a connection from %s to the port for calls from Spark came without its token, and was refused. This is said once."

# Py4J's own `periodicCleanup` closes connections that wait for an answer: a call inside a call puts the connection of both back among
# the idle ones; and the next call takes it out once, where it may be twice.
IDLE = """
package streamtime;

import java.lang.reflect.Field;
import java.net.Socket;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.locks.Lock;
import py4j.ClientServerConnection;

public class IdleConnections {
    public Lock lock(Object client) throws Exception {
        return (Lock) field("lock").get(client);
    }

    public int close(Object client, String ports) throws Exception {  // by who has the lock
        Collection busy = Arrays.asList(ports.split(" "));
        Deque connections = (Deque) field("connections").get(client);
        Map times = new IdentityHashMap();
        for (Iterator i = connections.iterator(); i.hasNext();) {
            Object one = i.next();
            times.put(one, Boolean.valueOf(times.containsKey(one)));
        }
        connections.clear();
        for (Iterator i = times.entrySet().iterator(); i.hasNext();) {
            Map.Entry entry = (Map.Entry) i.next();
            ClientServerConnection one = (ClientServerConnection) entry.getKey();
            Socket socket = one.getSocket();
            if (socket == null) continue;
            boolean twice = ((Boolean) entry.getValue()).booleanValue();
            if (twice || busy.contains(String.valueOf(socket.getLocalPort()))) connections.addLast(one);
            else one.shutdown();
        }
        return connections.size();
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
        self.open, self.checked = 0, 0.0  # admitted, and not closed when it was checked last; when that was
        self.calls: dict[int, tuple[int, float]] = {}  # by the JVM's port: calls that are served, and when the last one ended
        self.counting, self.closing = threading.Lock(), threading.Lock()
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
            for key, _ in self.selector.select(min(1.0, PATIENCE) if self.waiting or self.open >= MOST_IDLE else PATIENCE):
                if key.fileobj is self.rung:
                    self.rung.recv(4096)
                elif key.fd in self.waiting:
                    self._hear(key.fd, self.waiting[key.fd])
            while self.arrived:
                self._seat(self.arrived.popleft())
            now = time.monotonic()
            for place in [p for p, guest in self.waiting.items() if guest.until < now]:
                self._refuse(place)
            if self.open >= MOST_IDLE and now - self.checked > JUST_NOW:
                self.checked = now  # not in this thread: the JVM holds a lock of that call while it waits for an answer from here
                threading.Thread(target=self.close_idle, daemon=True).start()
        self.selector.close()

    def close_idle(self) -> None:
        """Close the connections that serve nothing, and have not for a moment. Under the lock, nobody takes one or gives one back."""
        if not isinstance(self.gateway, ClientServer):  # its connections belong to no thread, and are nobody's while they serve
            self.open = 0
            _client(self.gateway).periodicCleanup()
            return
        with self.closing:
            client, idle = _client(self.gateway), janino.instance(self.gateway, "IdleConnections", IDLE)
            lock = idle.lock(client)
            lock.lock()
            try:
                with self.counting:
                    now = time.monotonic()
                    self.calls = {port: (n, ended) for port, (n, ended) in self.calls.items() if n or now - ended < JUST_NOW}
                    busy, opened = list(self.calls), self.open
                stay = idle.close(client, " ".join(map(str, busy)))
            finally:
                lock.unlock()
            with self.counting:
                self.open += max(stay, len(busy)) - opened

    def _counted(self, connection: Any, port: int) -> None:
        """Have a connection say when it serves a call."""
        serve, it = type(connection)._call_proxy, weakref.ref(connection)  # the server knows a connection as long as somebody else does

        def call_proxy(*arguments: Any) -> Any:
            self._count(port, 1)
            try:
                return serve(it(), *arguments)
            finally:
                self._count(port, -1)

        connection._call_proxy = call_proxy

    def _count(self, port: int, more: int) -> None:
        with self.counting:
            self.calls[port] = (self.calls.get(port, (0, 0.0))[0] + more, time.monotonic())

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
        self._counted(guest.connection, guest.socket.getpeername()[1])
        guest.connection.start()
        with self.counting:
            self.open += 1

    def _refuse(self, place: int) -> None:
        guest = self._leave(place)
        try:
            if not self.warned:
                self.warned = True
                logging.getLogger("streamtime").warning(REFUSED, "{}:{}".format(*guest.socket.getpeername()))
            guest.connection.close(True)
        except OSError:
            return

    def _leave(self, place: int) -> Guest:
        guest = self.waiting.pop(place)
        self.selector.unregister(place)
        del guest.connection.start  # the way back here
        return guest


def _client(gateway: Any) -> Any:
    """The JVM's side, by the name that Py4J gives it."""
    return JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()


def _field(gateway: Any, name: str) -> Any:
    found = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField(name)
    found.setAccessible(True)
    return found


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
