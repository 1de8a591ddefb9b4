"""How a contestant in its own process is asked: a line of JSON on its standard input, a line of JSON back."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# given the folder of a shape and what is asked of it (with True, a checksum): what is found, as seconds
Found = Callable[[Path, Any], Any]
Runs = dict[str, Found]


def serve(runs: Runs) -> None:
    """Answer until standard input ends. Whatever else prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps(list(runs)), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"found": runs[asked["run"]](Path(asked["folder"]), asked["check"])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(answer), file=answers, flush=True)
