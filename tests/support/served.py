"""`streamtime serve` as a process of a test: started, waited for, and ended whatever happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.programs.jvm import JAVA_OPTIONS

STARTS = 180  # seconds that a machine with much else to do may take


@dataclass
class Served:
    """A server that is ready, or has ended."""

    process: subprocess.Popen[bytes]
    log: Path
    file: Path
    ready: dict[str, Any]  # what the file said

    def logged(self) -> str:
        return self.log.read_text()


@contextmanager
def serving(folder: Path, *options: str, java: str = JAVA_OPTIONS) -> Iterator[Served]:
    """On any free ports, with tables in that folder; in a JVM that is quick to start, unless `java` says another."""
    log, ready = folder / "serve.log", folder / "ready.json"
    ports = ("--connect-port", "0", "--thrift-port", "0", "--health-port", "0")
    command = [sys.executable, "-m", "streamtime", "serve", *ports, "--ready-file", str(ready), "--warehouse", str(folder / "warehouse")]
    how: dict[str, Any] = {"stderr": subprocess.STDOUT, "cwd": folder, "env": os.environ | {"SPARK_SUBMIT_OPTS": java}}
    with log.open("wb") as out, subprocess.Popen([*command, *options], stdout=out, **how) as process:
        try:
            wait(lambda: ready.exists() or process.poll() is not None, STARTS)
            assert process.poll() is None, log.read_text()
            yield Served(process, log, ready, json.loads(ready.read_text()))
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def wait(until: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, f"it did not come to that in {seconds} seconds"
        time.sleep(0.1)
