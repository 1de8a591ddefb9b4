"""The file of --ready-file: it says where the server is, once all answers, and is there no longer than the server that wrote it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamtime.server.options import CannotServe

PATIENCE = 1.0  # seconds in which a server that runs lets somebody in


class ReadyFile:
    """What one server writes there, if it is to write at all."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.text = path, ""

    def claim(self) -> None:
        """Take away what a server has left that was killed.

        Raises:
            CannotServe: the file is of a server that runs, or cannot be written.
        """
        if self.path is None:
            return
        if (pid := _running(self.path)) is not None:
            raise CannotServe(f"--ready-file: {self.path} is of a server that runs, with the pid {pid}: stop it, or give another file")
        with self._writing() as partial:
            self.path.unlink(missing_ok=True)
            partial.touch()
            partial.unlink()

    def write(self, facts: dict[str, Any]) -> None:
        """All of it at once, for whoever waits for the file. Raises CannotServe."""
        if self.path is None:
            return
        self.text = json.dumps(facts, indent=2) + "\n"
        with self._writing() as partial:
            partial.write_text(self.text)
            partial.replace(self.path)

    def remove(self) -> None:
        """At the end; what another server has written there stays."""
        with contextlib.suppress(OSError):
            if self.path and self.text and self.path.read_text() == self.text:
                self.path.unlink()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Path]:
        assert self.path is not None
        try:
            yield self.path.with_name(f"{self.path.name}.part")
        except OSError as error:
            raise CannotServe(f"--ready-file: {self.path} cannot be written: {error}") from None


def _running(path: Path) -> int | None:
    """The pid of the server that wrote a file, if that runs. A pid alone may be another program's by now: its door must answer, too."""
    try:
        facts = json.loads(path.read_text())
        pid, port = int(facts["pid"]), facts["connect_port"] or facts["thrift_port"]
        if pid == os.getpid():
            return None
        if os.name == "posix":
            with contextlib.suppress(PermissionError):  # it is there, and somebody else's
                os.kill(pid, 0)
        socket.create_connection((facts["host"], port), timeout=PATIENCE).close()
    except (OSError, ValueError, TypeError, LookupError, OverflowError):
        return None
    return pid
