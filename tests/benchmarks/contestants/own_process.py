"""A contestant in a process of its own, and if it needs other packages in a virtual environment of its own; see served.py for what is asked."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
# given a folder of data and what is asked of it, the answer: by default False, seconds; True, a checksum
Run = Callable[[Path, Any], Any]


def pip(python: str, *arguments: str) -> None:
    print(f"[pip install {' '.join(arguments)} ..]", flush=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def python_with(packages: tuple[str, ...], folder: Path) -> Path:
    """The Python of a virtual environment that has these; made, unless it is there."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
        pip(str(python), *packages)
    return python


class Child:
    """Contestants that one module of this folder serves. One that takes longer than the limit is killed with its process, which starts anew
    for the next.
    """

    def __init__(
        self, module: str, python: Path, *arguments: str, log: Path, limit: float, environment: dict[str, str] | None = None
    ) -> None:
        self.limit, self.log, self.environment = limit, log, environment or {}
        self.command = [str(python), "-m", f"contestants.{module}", *arguments]
        self.process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        clean = {n: v for n, v in os.environ.items() if not n.startswith(("SPARK_", "PYSPARK_"))} | self.environment
        pipe = subprocess.PIPE
        with self.log.open("w") as errors:
            self.process = subprocess.Popen(self.command, cwd=HERE, env=clean, stdin=pipe, stdout=pipe, stderr=errors, text=True)
        self.names: list[str] = self._answer()
        return self.process

    def runs(self) -> dict[str, Run]:
        return {name: lambda folder, asked, name=name: self._ask(name, folder, asked) for name in self.names}  # type: ignore[misc]

    def _ask(self, name: str, folder: Path, asked: Any) -> Any:
        if self.process.poll() is not None:
            self._started()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"run": name, "folder": str(folder), "check": asked}) + "\n")
        self.process.stdin.flush()
        killer = threading.Timer(self.limit, self.process.kill)
        began = time.perf_counter()
        killer.start()
        try:
            answer = self._answer()
        except RuntimeError:
            if time.perf_counter() - began >= self.limit:
                self.process.wait()
                raise TimeoutError(f"not done after {self.limit:.0f} s") from None
            raise
        finally:
            killer.cancel()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["found"]

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise RuntimeError(f"the process ended: {self.log.read_text()[-300:]}")
        return json.loads(line)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.communicate()
