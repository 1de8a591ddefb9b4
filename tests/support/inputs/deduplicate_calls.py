"""Cases and random calls of DEDUPLICATE."""

from __future__ import annotations

import json
import random
from typing import Any

from support import TESTS

CASES = [c for c in json.loads((TESTS / "cases" / "deduplicate.json").read_text()) if "check" not in c["expected"][0]]


def some_rows(random_: random.Random, count: int) -> list[dict[str, Any]]:
    spread = random_.choice([10, 60])
    return [
        {
            "k": random_.choice([None, "a", "b", "c", "d", "e"]),
            "t": random_.choice([None, *([random_.randint(-9, spread)] * 15)]),
            "off": random_.choice([None, i, i, i, random_.randint(0, count)]),
            "p": random_.randint(0, 2),
        }
        for i in range(count)
    ]


def sql_of(options: dict[str, Any], output: str) -> str:
    order = ", ".join(c + (" DESC" if options.get("descending") else "") for c in options["order"])
    parts = [
        f"TABLE(t) PARTITION BY k ORDER BY ({order})",
        "time => 't'",
        f"output => '{output}'",
        f"keep => '{options['keep']}'",
    ]
    if options["within"] is not None:
        parts.append(f"within => INTERVAL '{options['within'] / 1e6:.6f}' SECOND")
    parts += [
        f"{o} => {v}" for o, v in (("refresh", options.get("refresh") and "true"), ("offset", options.get("offset") and "'off'")) if v
    ]
    if options.get("at_most") is not None:
        parts.append(f"at_most => INTERVAL '{options['at_most'] / 1e6:.6f}' SECOND")
    if options["clock_by"]:
        parts.append("clock_by => ARRAY(" + ", ".join(f"'{c}'" for c in options["clock_by"]) + ")")
    return f"SELECT * FROM DEDUPLICATE({', '.join(parts)})"


def options_of(random_: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {
        "within": random_.choice([None, 0, 1, 5, 20]),
        "keep": random_.choice(["first", "first", "last", "unique"]),
        "order": random_.choice([["t"], ["t"], ["off"], ["p", "off"]]),
        "clock_by": random_.choice([[], [], ["p"], ["k"], ["k", "p"]]),
        "descending": random_.random() < 0.2,
    }
    options["refresh"] = options["within"] is not None and random_.random() < 0.3
    if options["keep"] == "first" and random_.random() < 0.4:
        options["offset"] = "off"
    if options["refresh"] and random_.random() < 0.6:
        options["at_most"] = options["within"] + random_.choice([1, 3, 20])
    return options
