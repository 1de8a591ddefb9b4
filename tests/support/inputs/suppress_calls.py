"""Random calls of suppress, and rows for them."""

from __future__ import annotations

import random
from typing import Any


def interval(count: int, unit: int = 1000) -> str:
    return f"INTERVAL '{count * unit / 1e6:.6f}' SECOND"


def sql_of(options: dict[str, Any], output: str) -> str:
    name = "SUPPRESS_UNTIL_CLOSE" if options["closes"] else "SUPPRESS_UNTIL_TIME_LIMIT"
    parts = ["TABLE(t) PARTITION BY k ORDER BY id", "time => 't'", "deleted => 'deleted'", f"at_end => '{options['at_end']}'"]
    if options["closes"]:
        parts.append("window_end => 'close'")
        parts += ["until => 'end'"] if options.get("corrected") else []
    elif options["wait"] is not None:
        parts.append(f"wait => {interval(options['wait'], 1)}")
    parts += [f"{o} => {options[o]}" for o in ("max_records", "max_bytes") if options.get(o) is not None]
    parts += [f"when_full => '{options['when_full']}'"] if "when_full" in options else []
    parts += [f"clock_by => ARRAY('{options['clock_by'][0]}')"] if options["clock_by"] else []
    return f"SELECT * FROM {name}({', '.join(parts)}, output => '{output}')"


DDL = "k STRING, t TIMESTAMP, close TIMESTAMP, deleted BOOLEAN, p INT, id INT"


def some_rows(random_: random.Random, count: int) -> list[dict[str, Any]]:
    keys, late = random_.choice(["ab", "abcde", "abcdefghijklmnopqrst"]), random_.choice([0, 4, 12])
    speed = random_.choice([1, 2, 5])
    rows = []
    for i in range(count):
        t = i // speed + random_.randint(-late, late)
        rows.append(
            {
                "k": random_.choice([None, *keys]),
                "t": random_.choice([None, *([t] * 20)]),
                "close": random_.choice([None, *([t + random_.randint(-3, 9)] * 20)]),
                "deleted": random_.random() < 0.2,
                "p": random_.choice([None, 0, 1, 2]),
                "size": random_.randint(0, 5),
                "id": i,
            }
        )
    return rows


def options_of(random_: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {
        "closes": random_.random() < 0.4,
        "at_end": random_.choice(["emit", "hold"]),
        "clock_by": random_.choice([[], [], ["p"], ["k"]]),
    }
    if not options["closes"]:
        options["wait"] = random_.choice([0, 1, 4, 9, 50])
    if random_.random() < 0.5:
        options["when_full"] = random_.choice(["fail", "spill"] if options["closes"] else ["emit_early", "emit_early", "fail", "spill"])
        options["max_records"] = random_.choice([None, 0, 1, 3, 10])
        options["max_bytes"] = random_.choice([None, 0, 4, 20])
        if options["max_records"] is options["max_bytes"] is None:
            del options["when_full"]
        elif options["when_full"] == "emit_early" and random_.random() < 0.3:
            options["wait"] = None
    options["corrected"] = options["closes"] and random_.random() < 0.5
    return options
