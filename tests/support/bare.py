"""A Python in which the pack cannot be imported."""

from __future__ import annotations

import pickle
import subprocess
import sys

GIVEN = "import pickle, sys; sys.modules['streamtime'] = None; given = pickle.load(sys.stdin.buffer)\n"


def said_without_the_pack(script: str, given: object) -> str:
    """What a script prints there; `given` is what it was given."""
    done = subprocess.run([sys.executable, "-c", GIVEN + script], input=pickle.dumps(given), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()
