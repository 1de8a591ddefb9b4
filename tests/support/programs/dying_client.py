"""A client of `streamtime serve` that says what the page's lines put out, then runs a query over each door, says `running`, and waits to be killed.

dying_client.py CHANNEL PLACE     PLACE is a JSON file: the ports, and docs/serve.md's Python
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import threading
from pathlib import Path
from typing import Any

from jvm import say
from pyhive import hive

SLEEP = "SELECT count(*) FROM range(0, 600, 1, 1) WHERE java_method('java.lang.Thread', 'sleep', bigint(100)) IS NULL"
CLICKS = (
    "CREATE TABLE clicks USING delta AS SELECT * FROM VALUES ('ann', TIMESTAMP '2026-01-01 10:00:00'),"
    " ('ann', TIMESTAMP '2026-01-01 10:04:00'), ('ann', TIMESTAMP '2026-01-01 11:00:00') AS clicks(user_id, ts)"
)
# Who runs a task: a process, and its words
EXECUTORS = "SELECT DISTINCT java_method('java.lang.ProcessHandle', 'current') AS pid FROM range(0, 8, 1, 8)"


def main(channel: str, path: str) -> None:
    place: dict[str, Any] = json.loads(Path(path).read_text())
    jdbc = hive.connect("127.0.0.1", place["thrift_port"], username="bo")
    cursor = jdbc.cursor()
    cursor.execute(CLICKS)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(place["python"], names)
    cursor.execute(EXECUTORS)
    pids = [row[0] for row in cursor.fetchall()]
    say(channel, json.dumps({"python": said.getvalue(), "executors": pids, "session": names["spark"].client._session_id}))
    cursor.execute(SLEEP, async_=True)
    threading.Timer(1.5, lambda: say(channel, "running")).start()
    names["spark"].sql(SLEEP).collect()


if __name__ == "__main__":
    main(*sys.argv[1:])
