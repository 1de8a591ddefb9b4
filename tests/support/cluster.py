"""A standalone cluster of Spark on this machine, a master and its workers, each a process; and a Python for them that has not the pack."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import pyspark

from support.programs.jvm import JAVA_OPTIONS

SPARK = Path(pyspark.__file__).parent
PACKAGES = ("pyspark", "numpy", "pandas", "pyarrow", "protobuf")  # the last for functions with state; Spark's own need it too
STARTS = 180  # seconds that a machine with much else to do may take
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
WORKER = re.compile(r"Registering worker \S+ with 1 cores")


class Daemon:
    """A process of Spark's own, in a group with what it starts itself; its log is a file."""

    def __init__(self, folder: Path, name: str, *command: str) -> None:
        self.log = folder / f"{name}.log"
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHONPATH"))}
        environment |= {
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        }
        with self.log.open("w") as log:
            command = (str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{command[0]}", *command[1:])
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def says(self, what: re.Pattern[str], times: int = 1, others: tuple[Daemon, ...] = ()) -> list[str]:
        """What the log says, once it has said it so often. If this process or one of the others ends before, that is an error."""
        until = time.monotonic() + STARTS
        while len(found := what.findall(self.log.read_text())) < times:
            for daemon in (self, *others):
                going = daemon.process.poll() is None and time.monotonic() < until
                assert going, f"{daemon.log.stem}: {daemon.log.read_text()[-3000:]}"
            time.sleep(0.05)
        return found

    def stop(self) -> None:
        """With its executors. Python workers end when they hear no more of these."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, how)
                self.process.wait(20)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        self.process.wait()


@dataclass(frozen=True)
class Cluster:
    address: str  # of the master
    workers: tuple[Daemon, ...]


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Cluster]:
    """A master whose workers, of one core and 1 GB each, have all come. The system gives the ports."""
    with ExitStack() as stack:

        def started(name: str, *command: str) -> Daemon:
            daemon = Daemon(folder, name, *command, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            stack.callback(daemon.stop)
            return daemon

        master = started("master", "master.Master")
        (address,) = master.says(MASTER)
        work = ("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), address)
        hands = tuple(started(f"worker-{number}", *work) for number in range(workers))
        master.says(WORKER, workers, hands)
        yield Cluster(address, hands)


def bare_python(folder: Path) -> Path:
    """A Python that has PACKAGES and what they ask for, and nothing else: links to what is installed here."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    names, done = list(PACKAGES), set[str]()
    while names:
        if (name := names.pop().lower()) in done:
            continue
        done.add(name)
        package = distribution(name)
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            (site / top).symlink_to(Path(str(package.locate_file(top))).resolve())
        required = [r for r in package.requires or () if "extra ==" not in r]
        names += [re.split(r"[^\w.-]", r, maxsplit=1)[0] for r in required]
    return folder / "bin" / "python"
