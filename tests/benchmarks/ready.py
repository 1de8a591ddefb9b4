"""How long `streamtime serve` takes until both doors answer, beside Spark's own servers: `python3 run.py benchmark ready --rounds 7`.

From the start of the process until it says that it is ready, in turns, each time with a new warehouse and with one that is there. Medians;
a ratio is the median of those of neighbours in time: of seconds, and of CPU seconds of all processes until then, which other work on the
machine does not stretch. Writes ready.json beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from contestants.measured_on import today
from tabulate import tabulate

HERE = Path(__file__).parent


Taken = tuple[float, float]  # seconds, and CPU seconds
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    ways: dict[str, Callable[[Path, int], Taken]] = {"bare Spark": sparks_own, "streamtime serve": ours}
    times: dict[str, dict[str, list[Taken]]] = {name: {"new warehouse": [], "warehouse that is there": []} for name in ways}
    load = os.getloadavg()[0]
    for number in range(options.rounds):
        for name, way in sorted(ways.items(), reverse=number % 2 == 1):
            with tempfile.TemporaryDirectory() as folder:
                for kind in times[name]:
                    times[name][kind].append(taken := way(Path(folder), options.cores))
                    print(f"[{name}, {kind}: {taken[0]:.1f} s, {taken[1]:.1f} s of CPU]", flush=True)
        written(times, number + 1, options.cores, load)


def written(times: dict[str, dict[str, list[Taken]]], rounds: int, cores: int, load: float) -> None:
    """The table of medians, printed and stored."""
    bare, ours = times["bare Spark"], times["streamtime serve"]
    lines = [
        {"until ready": f"{what}, {kind}"}
        | {name: statistics.median(taken[which] for taken in of[kind]) for name, of in times.items()}
        | {"ratio": statistics.median(one[which] / other[which] for one, other in zip(ours[kind], bare[kind], strict=True))}
        for which, what in enumerate(("seconds", "CPU seconds"))
        for kind in bare
    ]
    print(tabulate(lines, headers="keys", floatfmt=".2f"), flush=True)
    found = today(cores) | {"load_average_before": round(load, 1), "rounds": rounds}
    (HERE / "ready.json").write_text(json.dumps(found | {"lines": lines, "seconds": times}, indent=1) + "\n")


def sparks_own(folder: Path, cores: int) -> Taken:
    """What it takes of Spark's own."""
    script = HERE / "contestants" / "bare_server.py"
    command = [sys.executable, str(script), str(folder), *(str(free()) for _ in range(2)), str(cores)]
    return until_there(command, folder / "ready")


def ours(folder: Path, cores: int) -> Taken:
    """What it takes of `streamtime serve`."""
    ports = ("--connect-port", "0", "--thrift-port", "0", "--health-port", "0", "--cores", str(cores))
    command = [sys.executable, "-m", "streamtime", "serve", *ports, "--warehouse", str(folder / "warehouse")]
    return until_there([*command, "--ready-file", str(folder / "ready")], folder / "ready")


def until_there(command: list[str], file: Path) -> Taken:
    """Until a process has written that file; then the process is ended."""
    file.unlink(missing_ok=True)
    began = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not file.exists():
            assert process.poll() is None, f"it ended: {command}"
            time.sleep(0.02)
        taken = time.perf_counter() - began, cpu(process.pid)
        assert process.stdin is not None
        process.stdin.close()
        if "serve" in command:
            process.terminate()
        process.wait(60)
    return taken


def cpu(pid: int) -> float:
    """CPU seconds of a process and of those that it has started, as Linux counts them."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return sum(map(int, words[11:15])) / TICKS + sum(map(cpu, children))


def free() -> int:
    """A port that nobody has."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


if __name__ == "__main__":
    main()
