"""Finds Java and says what to do where it is missing or too old; and where a JVM's warnings go. Standard library only."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OLDEST, INSTALL = (
    17,
    {
        "apt-get": "sudo apt-get install openjdk-17-jre-headless",
        "dnf": "sudo dnf install java-17-openjdk-headless",
        "brew": "brew install openjdk@17",
        "winget": "winget install EclipseAdoptium.Temurin.17.JRE",
    },
)


class JavaError(RuntimeError):
    """No usable Java; the message says what to do."""


def check() -> int:
    """The major version of the Java that Spark would use. Raises JavaError with the way out."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not program or not (shutil.which(program) or Path(program).exists()):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no `java` on the PATH and JAVA_HOME is not set"
        raise JavaError(f"Spark needs Java {OLDEST} or later, and {where}. {_advice()}")
    try:
        said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaError(f"Spark needs Java {OLDEST} or later, and `{program} -version` fails: {error}. {_advice()}") from None
    version = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    if not version:
        raise JavaError(
            f"Spark needs Java {OLDEST} or later, and `{program} -version` does not say what it is: {said.strip()!r}. {_advice()}"
        )
    major = int(version[2]) if version[1] == "1" and version[2] else int(version[1])
    if major < OLDEST:
        raise JavaError(f"Spark needs Java {OLDEST} or later, and {program} is Java {major}. {_advice()}")
    return major


def _advice() -> str:
    known = next((command for tool, command in INSTALL.items() if shutil.which(tool)), None)
    install = f"Install it with `{known}`" if known else f"Install a JDK or JRE {OLDEST} (for example Eclipse Temurin)"
    return f"{install}, then open a new shell; or set JAVA_HOME to a Java {OLDEST} that is already there."


@contextlib.contextmanager
def stderr_into(path: Path) -> Iterator[None]:
    """Lets a JVM that starts meanwhile write its warnings into a file, for good, in place of the terminal that is being typed in."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
