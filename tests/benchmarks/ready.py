"""How long `streamtime serve` takes until both doors answer, beside Spark's own servers: `python3 run.py benchmark ready --rounds 5`.

From the start of the process until it says that it is ready, in turns, each time with a new warehouse and with one that is there. Medians;
the ratio is the median of those of neighbours in time. Writes ready.json beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tabulate import tabulate

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    ways: dict[str, Callable[[Path, int], float]] = {"bare Spark": sparks_own, "streamtime serve": ours}
    times: dict[str, dict[str, list[float]]] = {name: {"new warehouse": [], "warehouse that is there": []} for name in ways}
    for number in range(options.rounds):
        for name, way in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                for kind in times[name]:
                    times[name][kind].append(seconds := way(Path(folder), options.cores))
                    print(f"[{name}, {kind}: {seconds:.1f} s]", flush=True)
        written(times, number + 1, options.cores)


def written(times: dict[str, dict[str, list[float]]], rounds: int, cores: int) -> None:
    """The table of medians, printed and stored."""
    bare, ours = times["bare Spark"], times["streamtime serve"]
    lines = [
        {"until ready, seconds": kind}
        | {name: statistics.median(of[kind]) for name, of in times.items()}
        | {"ratio": statistics.median(one / other for one, other in zip(ours[kind], bare[kind], strict=True))}
        for kind in bare
    ]
    print(tabulate(lines, headers="keys", floatfmt=".2f"), flush=True)
    machine = {"cores": cores, "cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    found = {"date": datetime.now(UTC).date().isoformat(), "machine": machine, "rounds": rounds, "lines": lines, "seconds": times}
    (HERE / "ready.json").write_text(json.dumps(found, indent=1) + "\n")


def sparks_own(folder: Path, cores: int) -> float:
    """Seconds of Spark's own."""
    script = HERE / "contestants" / "bare_server.py"
    command = [sys.executable, str(script), str(folder), *(str(free()) for _ in range(2)), str(cores)]
    return until_there(command, folder / "ready")


def ours(folder: Path, cores: int) -> float:
    """Seconds of `streamtime serve`."""
    ports = ("--connect-port", "0", "--thrift-port", "0", "--health-port", "0", "--cores", str(cores))
    command = [sys.executable, "-m", "streamtime", "serve", *ports, "--warehouse", str(folder / "warehouse")]
    return until_there([*command, "--ready-file", str(folder / "ready")], folder / "ready")


def until_there(command: list[str], file: Path) -> float:
    """Seconds until a process has written that file; then the process is ended."""
    file.unlink(missing_ok=True)
    began = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not file.exists():
            assert process.poll() is None, f"it ended: {command}"
            time.sleep(0.02)
        seconds = time.perf_counter() - began
        assert process.stdin is not None
        process.stdin.close()
        if "serve" in command:
            process.terminate()
        process.wait(60)
    return seconds


def free() -> int:
    """A port that nobody has."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


if __name__ == "__main__":
    main()
