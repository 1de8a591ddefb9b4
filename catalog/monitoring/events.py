"""What Spark tells of a streaming query, as a row of the metrics table and as a line of the log. Knows no Spark."""

from __future__ import annotations

import datetime
import logging
import re
from typing import Any

from streamtime.sql.call.errors import gist

COLUMNS = """
event STRING COMMENT 'started, progress (one for each micro-batch), ended or failed',
at TIMESTAMP_LTZ COMMENT 'when: of a micro-batch, its begin',
query STRING COMMENT 'the name that queryName gave, or null',
query_id STRING COMMENT 'the same after every restart from a checkpoint',
run_id STRING COMMENT 'another one after every start',
batch BIGINT COMMENT 'the number of the micro-batch',
input_rows BIGINT COMMENT 'rows that it read',
output_rows BIGINT COMMENT 'rows that it wrote, where the sink says it',
watermark TIMESTAMP_LTZ COMMENT 'stream time: a row whose time is older may be late; null before the first rows',
calls ARRAY<STRUCT<call: STRING, label: STRING, rows: BIGINT, dropped: MAP<STRING, BIGINT>, held: BIGINT, lateness_avg: DOUBLE,
  lateness_max: DOUBLE, counts: MAP<STRING, DOUBLE>>>
  COMMENT 'of each call: rows in, dropped rows by reason, how many rows more it holds, lateness in seconds, and what else it counts',
state ARRAY<STRUCT<operator: STRING, entries: BIGINT, late_rows: BIGINT, memory_bytes: BIGINT, file_bytes: BIGINT>>
  COMMENT 'of each operator of Spark that keeps state',
milliseconds MAP<STRING, BIGINT> COMMENT 'how long each phase took; triggerExecution is all of it',
error STRING COMMENT 'of what failed'
"""
NAMES = tuple(re.findall(r"(?m)^(\w+) ", COLUMNS))
WORK = ("duplicate", "replaced", "tombstone")  # why a row is dropped that nobody needs to hear of: it is what the function is for
DROPPED = re.compile(r"(.+)_drop_total|(.+_too_old)_total")  # but no `left_late_total`: such rows were answered at once
ENTERED, LEFT = "suppression_buffer_entered_total", "suppression_buffer_left_total"
OWN = ("input_rows", "record_lateness_avg", "record_lateness_max", ENTERED, LEFT)  # counts that have a column
Event = dict[str, Any]  # by column, those that the event has


def started(query_id: str, run_id: str, name: str | None, at: str) -> Event:
    """A query starts."""
    return {"event": "started", "at": moment(at), "query": name, "query_id": query_id, "run_id": run_id}


def ended(query_id: str, run_id: str, name: str | None, at: datetime.datetime, error: str | None) -> Event:
    """A query has ended, by itself or by an error."""
    event = {"event": "failed" if error else "ended", "at": at, "query": name, "query_id": query_id, "run_id": run_id}
    return event | {"error": error}


def progressed(said: dict[str, Any]) -> Event:
    """A micro-batch is done: `said` is the JSON of its progress."""
    return {
        "event": "progress",
        "at": moment(said["timestamp"]),
        "query": said.get("name"),
        "query_id": said["id"],
        "run_id": said["runId"],
        "batch": said["batchId"],
        "input_rows": said.get("numInputRows"),
        "output_rows": known(said.get("sink", {}).get("numOutputRows")),
        "watermark": moment(said.get("eventTime", {}).get("watermark")),
        "calls": [_call(label, counts) for label, counts in sorted(said.get("observedMetrics", {}).items())],
        "state": [_state(operator) for operator in said.get("stateOperators", [])],
        "milliseconds": said.get("durationMs", {}),
    }


def _call(label: str, counts: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: value for name, value in counts.items() if isinstance(value, int | float)}
    dropped = {match[1] or match[2]: value for name, value in numbers.items() if (match := DROPPED.fullmatch(name))}
    return {
        "call": counts.get("call"),
        "label": label,
        "rows": numbers.get("input_rows"),
        "dropped": dropped,
        "held": numbers[ENTERED] - numbers[LEFT] if ENTERED in numbers and LEFT in numbers else None,
        "lateness_avg": _double(numbers.get("record_lateness_avg")),
        "lateness_max": _double(numbers.get("record_lateness_max")),
        "counts": {name: float(value) for name, value in numbers.items() if name not in OWN and not DROPPED.fullmatch(name)},
    }


def _state(operator: dict[str, Any]) -> dict[str, Any]:
    return {
        "operator": operator.get("operatorName"),
        "entries": operator.get("numRowsTotal"),
        "late_rows": operator.get("numRowsDroppedByWatermark"),
        "memory_bytes": operator.get("memoryUsedBytes"),
        "file_bytes": operator.get("customMetrics", {}).get("rocksdbSstFileSize"),
    }


def moment(text: str | None) -> datetime.datetime | None:
    """A moment as Spark writes it. None for 1970, which is how it writes that there is no watermark yet."""
    try:
        parsed = datetime.datetime.fromisoformat(text or "")
    except ValueError:  # years that datetime does not know
        return None
    return parsed if parsed != datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) else None


def known(count: int | None) -> int | None:
    """A number, which Spark writes as -1 where it does not know it."""
    return count if count is not None and count >= 0 else None


def _double(value: float | None) -> float | None:
    return None if value is None else float(value)


def line(event: Event) -> tuple[int, str]:
    """The line of the log that tells of an event, and its level: what was lost, and what failed, stands out."""
    name = event["query"] or event["query_id"]
    if event["event"] == "failed":
        return logging.ERROR, f"{name} failed: {gist(event['error'])}"
    if event["event"] != "progress":
        return logging.INFO, f"{name} {event['event']}"
    parts = [f"micro-batch {event['batch']}", f"{event['input_rows']} rows in {event['milliseconds'].get('triggerExecution', 0)} ms"]
    if event["watermark"] is not None:
        parts.append(f"watermark {event['watermark'].replace(tzinfo=None).isoformat(' ')} UTC")
    lost = False
    for call in event["calls"]:
        dropped = {reason: count for reason, count in call["dropped"].items() if count}
        lost = lost or any(reason not in WORK for reason in dropped)
        if dropped:
            parts.append(f"{call['call'] or call['label']} dropped {', '.join(f'{count} {reason}' for reason, count in dropped.items())}")
    return logging.WARNING if lost else logging.INFO, f"{name}: {'; '.join(parts)}"
