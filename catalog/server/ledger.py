"""What the server's clients do, kept from Spark's events: sessions, running queries, and a line of the log for what people want to know."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

LONGEST = 300  # characters of an error in the log
BEFORE = re.compile(r"^(?:(?:[a-z_]\w*\.)+[A-Z]\w*(?:Exception|Error)|[A-Z_]+):\s+(?=\S)")  # a class of Java's, or a status of gRPC's
AFTER = re.compile(r"\n\s*JVM stacktrace:|;?\n")
CANCELLED = re.compile(r"(OPERATION_CANCELED|SPARK_JOB_CANCELLED)\b")

# How a query of each door ends, and whether its client then knows: over Connect, it closes what it was told of
ENDS = {
    "connect": {"OperationFailed": False, "OperationCanceled": False, "OperationClosed": True},
    "thrift": dict.fromkeys(("OperationFinish", "OperationClosed", "OperationError", "OperationCanceled", "OperationTimeout"), True),
}
Facts = dict[str, str | None]


def log(event: str, **fields: object) -> None:
    """One line: the time, what happened, and facts as key=value; texts with spaces are quoted."""
    facts = "".join(f" {key}={_quoted(str(value))}" for key, value in fields.items() if value is not None)
    try:
        print(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {event}{facts}", flush=True)
    except (OSError, ValueError):  # nobody reads any more, which is no reason to stop serving
        sys.stdout = None


@dataclass
class Ledger:
    """Counts and lines. `told` takes one event of Spark's at a time; the counts may be read from other threads."""

    sessions: dict[str, str] = field(default_factory=dict)  # by id: which door
    running: dict[str, tuple[str, str]] = field(default_factory=dict)  # by id of the query: session and user
    ended: set[str] = field(default_factory=set)  # of those, what failed or was cancelled, and was said
    failed: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def told(self, event: Mapping[str, str]) -> tuple[str, Facts] | None:
        """Take note of an event; gives the line to log, if any: its words and its facts."""
        with self.changed:
            said = self._told(event)
            self.changed.notify_all()
        return said

    def count(self, door: str) -> int:
        """How many sessions are open there."""
        with self.changed:
            return sum(d == door for d in self.sessions.values())

    def idle(self, seconds: float) -> bool:
        """Wait until no query runs; False if one still does after so many seconds."""
        with self.changed:
            return self.changed.wait_for(lambda: not self.running, seconds)

    def _told(self, event: Mapping[str, str]) -> tuple[str, Facts] | None:
        name = event["event"]
        door = "connect" if name.startswith("Connect") else "thrift"
        verb = name.removeprefix("Connect").removeprefix("ThriftServer")
        session = event.get("sessionId", "")
        if verb in ("SessionStarted", "SessionCreated"):
            if session in self.sessions:
                return None
            self.sessions[session] = door
            return "session opened", {"door": door, "session": short(session), "user": event.get("userName") or event.get("userId") or None}
        if verb == "SessionClosed":
            entry = self.sessions.pop(session, None)
            for query in [q for q, (of, _) in self.running.items() if of == session]:
                del self.running[query]
            self.ended &= self.running.keys()
            return None if entry is None else ("session closed", {"door": door, "session": short(session)})
        query = event.get("operationId") or event.get("id", "")
        if verb in ("OperationStarted", "OperationStart"):
            self.running[query] = (session, event.get("userName", ""))
            return None
        if query not in self.running or verb not in ENDS[door]:
            return None
        of, user = self.running[query]
        if ENDS[door][verb]:
            del self.running[query]
            self.ended.discard(query)
        facts: Facts = {"door": door, "session": short(of), "user": user or None}
        error = event.get("errorMessage") or event.get("errorMsg", "")
        if verb in ("OperationCanceled", "OperationTimeout"):
            return self._once(query, "query cancelled", facts)
        if verb not in ("OperationFailed", "OperationError"):
            return None
        if CANCELLED.search(error.partition("\n")[0]):
            return self._once(query, "query cancelled", facts)
        said = self._once(query, "query failed", facts | {"error": brief(error)})
        self.failed += said is not None
        return said

    def _once(self, query: str, words: str, facts: Facts) -> tuple[str, Facts] | None:
        """Spark tells of a cancelled query that it failed, too."""
        if query in self.ended:
            return None
        if query in self.running:
            self.ended.add(query)
        return words, facts


def short(session: str) -> str:
    """The start of a session's id, enough to find its other lines."""
    return session.partition("-")[0]


def brief(error: str) -> str:
    """The first line of an error, without the name of its class."""
    first = AFTER.split(BEFORE.sub("", error.strip()), maxsplit=1)[0].strip()
    return first if len(first) <= LONGEST else f"{first[: LONGEST - 2]} …"


def _quoted(text: str) -> str:
    """As it is if it is one word; else as JSON has it, which lets no client write a line of its own."""
    return text if text and re.fullmatch(r"[!#-~]+", text) else json.dumps(text, ensure_ascii=not text.isprintable())
