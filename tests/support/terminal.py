"""A pseudo-terminal with a program in it: types as a user does, and reads what a user sees."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence

# The program's own terminal has to be its controlling one, or Ctrl-C would send no signal
LAUNCH = "import os, sys; os.close(os.open(os.ttyname(0), os.O_RDWR)); os.execv(sys.argv[1], sys.argv[1:])"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\][^\x07]*\x07")


class Terminal:
    def __init__(self, command: Sequence[str], environment: Mapping[str, str], columns: int = 100) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=dict(environment) | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""

    def type(self, text: str) -> None:
        self.seen = ""
        os.write(self.ours, text.encode())

    def answer(self, text: str) -> str:
        """As `expect`, and the prompt is there again: what is typed before is the terminal's own, not the program's."""
        return self.expect(text, prompt="streamtime>")

    def expect(self, text: str, seconds: float = 600, prompt: str = "") -> str:
        """Everything since the last typing, once `text` is in it."""
        until = time.monotonic() + seconds
        while text not in self.screen() or not self.screen().rstrip().endswith(prompt):
            left = until - time.monotonic()
            assert left > 0, f"waited for {text!r}, saw {self.screen()[-1500:]!r}"
            if select.select([self.ours], [], [], min(left, 0.2))[0]:
                try:
                    self.seen += os.read(self.ours, 65536).decode(errors="replace")
                except OSError:  # the program has gone
                    assert text in self.screen(), self.screen()[-1500:]
        return self.screen()

    def screen(self) -> str:
        return ESCAPES.sub("", self.seen).replace("\r\n", "\n")

    def ends(self, seconds: float = 300) -> int:
        until = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < until:
            if select.select([self.ours], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.ours, 65536).decode(errors="replace")
                except OSError:
                    break
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
