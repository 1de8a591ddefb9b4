"""The main job on real data: loads 336,776 flights and 26,115 weather rows into Delta, answers questions in SQL, checks the answers."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import expectations
from story import play, say, stage

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).with_name("quickstart.sql")


def main() -> int:
    """Run the story; 1 if a postcondition does not hold."""
    began = time.monotonic()
    docs = ROOT / "build" / "quickstart"
    with stage("quickstart") as (spark, _):
        play(spark, SCRIPT)
        say("Checking what must hold of the tables, with Great Expectations ..")
        results = expectations.check(spark, docs)
        for found in results:
            print(f"  {'ok    ' if found.holds else 'FAILED'} {found.table}: {found.says}")
        broken = [found for found in results if not found.holds]
        say(f"The same as a page: {docs.relative_to(ROOT) / 'index.html'}")
        say(f"{len(results) - len(broken)} of {len(results)} hold. Done in {time.monotonic() - began:.0f} s.")
        return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
