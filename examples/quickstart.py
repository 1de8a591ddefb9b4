"""The main job on real data: loads 336,776 flights and 26,115 weather rows into Delta, answers questions in SQL, checks the answers."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import expectations
from story import play, say, stage

SCRIPT = Path(__file__).with_name("quickstart.sql")


def main() -> int:
    """Run the story; 1 if a postcondition does not hold."""
    began = time.monotonic()
    with stage("quickstart") as (spark, _):
        play(spark, SCRIPT)
        say("Checking what must hold of the tables, with Great Expectations ..")
        results = expectations.check(spark)
        for table, says, holds in results:
            print(f"  {'ok    ' if holds else 'FAILED'} {table}: {says}")
        broken = [r for r in results if not r[2]]
        say(f"{len(results) - len(broken)} of {len(results)} hold. Done in {time.monotonic() - began:.0f} s.")
        return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
