"""A report that keeps itself up to date, on real data: a day is planned and comes otherwise, readings are corrected; then a changelog."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from story import play, say, show, stage
from weather import CORRECTIONS

import streamtime

SCRIPT = Path(__file__).with_name("maintain.sql")
REPORT = """
SELECT d.day, d.origin, count(*) AS flights, count(d.departed) AS departed, sum(d.delay_minutes) AS minutes_late,
       sum(CAST(w.temperature AS DECIMAL(5, 2))) AS degrees, max(CAST(w.wind_speed AS INT)) AS wind
FROM departures d JOIN weather w ON d.origin = w.origin AND d.hour = w.at
GROUP BY d.day, d.origin"""
TOMORROW = """
-- The timetable of 10 December comes: nobody knows yet what will leave, and when. Then comes the register of planes.
INSERT INTO departures
SELECT flight_id, carrier, tailnum, origin, date(scheduled), date_trunc('HOUR', scheduled), NULL, NULL
FROM flights WHERE date(scheduled) = DATE '2013-12-10';

INSERT INTO fleet SELECT tailnum, model, seats FROM planes;"""
SNOW = """
-- It snows. In the evening one knows: most left, late; the others are cancelled, and go.
MERGE INTO departures d USING (SELECT * FROM flights WHERE date(scheduled) = DATE '2013-12-10') f ON d.flight_id = f.flight_id
WHEN MATCHED AND f.departed IS NULL THEN DELETE
WHEN MATCHED THEN UPDATE SET departed = f.departed, delay_minutes = f.delay_minutes;"""
READINGS = f"""
-- Somebody looks through the weather of the year: five readings lack a value, and one says 1,048 miles an hour. Put the mean of their
-- neighbours. Which days of the report have used them? Nobody has to know.
MERGE INTO weather w USING ({CORRECTIONS}) c ON w.origin = c.origin AND w.at = c.at
WHEN MATCHED THEN UPDATE SET temperature = c.temperature, wind_speed = c.wind_speed;"""
FEED = """SELECT day, origin, _change_type, flights, departed, minutes_late, degrees, wind
FROM table_changes('report', {commit}, {commit}) ORDER BY day, origin, _change_type"""
# By plain SQL, what changes of each table lead to
LEADS = (
    "SELECT * FROM table_changes('departures', {first}, {last})",
    "SELECT d.* FROM table_changes('weather', {first}, {last}) w JOIN departures d ON d.origin = w.origin AND d.hour = w.at",
)
# How many seats leave on 10 December, by airline: what the feeds of two tables say, change by change, up to a commit of departures
SEATS = """
SELECT * FROM AGGREGATE_CHANGES(
    TABLE(SELECT * FROM JOIN_CHANGES(
        TABLE(SELECT *, _commit_timestamp AS at, _change_type AS kind FROM table_changes('departures', 1, {until}))
            PARTITION BY flight_id ORDER BY (at, kind),
        TABLE(SELECT *, _commit_timestamp AS at, _change_type AS kind FROM table_changes('fleet', 1))
            PARTITION BY plane ORDER BY (at, kind),
        on => 'l.tailnum', join_type => 'left'))
    PARTITION BY flight_id ORDER BY (at, kind, change_seq), time => 'change_time',
    group_by => ARRAY('carrier'), aggregates => 'count(*) AS flights, sum(seats) AS seats')"""
PLAIN_SEATS = """
SELECT carrier, count(*) AS flights, sum(seats) AS seats
FROM departures VERSION AS OF {until} LEFT JOIN fleet ON plane = tailnum WHERE day = DATE '2013-12-10' GROUP BY carrier"""
WIND = """
SELECT 10 * (wind DIV 10) AS wind_from, count(*) AS days, round(sum(minutes_late) / sum(departed), 1) AS mean_delay,
       repeat('#', CAST(round(sum(minutes_late) / sum(departed)) AS INT)) AS minutes
FROM report WHERE wind IS NOT NULL GROUP BY ALL ORDER BY wind_from"""


def main() -> int:
    """Make the report, let things happen, follow them; 1 if something does not hold."""
    began = time.monotonic()
    with stage("maintain") as (spark, _):
        play(spark, SCRIPT)
        say("The report: each day at each airport, with its weather. The first run computes all of it, and makes the table ..")
        print(REPORT)
        maintained(spark, properties={"delta.enableChangeDataFeed": "true"})
        play(spark, TOMORROW)
        say("explain=True says what a run would do, and does nothing ..")
        maintained(spark, explain=True)
        say("To compute all of so small a report takes about as long as to follow; so policy='auto' may take either way. We ask to follow.")
        say("shadow=True also computes all, and counts the rows that differ ..")
        holds = followed(spark)
        for event in (SNOW, READINGS):
            play(spark, event)
            holds |= followed(spark)
        say("And once more, though nothing has changed ..")
        holds["a run without changes does nothing"] = maintained(spark).way == "none"
        runs(spark)
        say("What such a report is for: does wind make flights late? By the strongest wind of the day, in miles an hour ..")
        print(WIND)
        show(spark.sql(WIND))
        print()
        holds |= changelog(spark)
        print()
        for says, does in holds.items():
            print(f"  {'ok    ' if does else 'FAILED'} {says}")
        say(f"Done in {time.monotonic() - began:.0f} s.")
        return 0 if all(holds.values()) else 1


def maintained(spark: SparkSession, **options: Any) -> streamtime.Receipt:
    """A run, and its receipt."""
    given = "".join(f", {name}={value!r}" for name, value in options.items())
    print(f"streamtime.maintain(spark, 'report', REPORT{given})", flush=True)
    receipt = streamtime.maintain(spark, "report", REPORT, **options)
    print("\n".join(f"  {line}" for line in str(receipt).splitlines()) + "\n", flush=True)
    return receipt


def followed(spark: SparkSession) -> dict[str, bool]:
    """A run that follows what changed; what it wrote, by the report's own feed; whether that is right, and where the changes lead to."""
    receipt = maintained(spark, policy="incremental", shadow=True)
    commit, run = receipt.run - 1, f"run {receipt.run}"  # the first run made commit 0
    print(feed := FEED.format(commit=commit))
    written = spark.sql(feed).localCheckpoint()
    show(written)
    leads = [
        f"SELECT day, origin FROM ({query.format(first=before + 1, last=now)})"
        for query, (before, now) in zip(LEADS, receipt.tables.values(), strict=True)
        if before is not None and before < now
    ]
    touched = {tuple(row) for row in spark.sql(" UNION ".join(leads)).collect()}
    places = {(row.day, row.origin) for row in written.collect()}
    return {
        f"{run} followed what changed, and the report is what its query says": (receipt.way, receipt.shadow) == ("incremental", 0),
        f"{run} touched the days and airports that the changes lead to": receipt.touched == len(touched),
        f"{run} wrote there, and nowhere else": bool(places) and places <= touched,
    }


def runs(spark: SparkSession) -> None:
    """All receipts, as a table: they stand in the log of the report itself."""
    say("What the runs did, by streamtime.receipts(spark, 'report'), which the report's own log keeps; seconds without the comparison ..")
    rows = [
        (
            *(r.run, r.way, sum(r.changed.values()), r.touched, r.added, r.inserted + r.updated + r.removed),
            *(None if s is None else round(s, 1) for s in (r.predicted.get("incremental"), r.predicted.get("full"), r.seconds)),
        )
        for r in reversed(streamtime.receipts(spark, "report"))
    ]
    names = "run INT, way STRING, changed_rows INT, touched INT, by_adding INT, written INT"
    show(spark.createDataFrame(rows, f"{names}, expected_incremental DOUBLE, expected_full DOUBLE, took DOUBLE").coalesce(1))
    print()


def changelog(spark: SparkSession) -> dict[str, bool]:
    """Totals of a join from what its tables' feeds say, merged into a table: as planned, and as it came."""
    say("The same day as a changelog: each departure joined with its plane, the seats of each airline counted, change by change ..")
    print(SEATS.format(until=2))
    say("Of one airline, whose two flights were cancelled ..")
    changes = spark.sql(SEATS.format(until=2)).where("carrier = 'YV'").orderBy("at", "kind", "change_seq")
    show(changes.select("at", "kind", "carrier", "flights", "seats", "change_type"))
    order, holds = ["at", "kind", "change_seq"], {}
    for until, batch in ((1, "as planned"), (2, "as it came")):
        say(f"Into the table seats, {batch}: what the feeds say up to commit {until} of departures ..")
        print(f"streamtime.apply_changes(spark, 'seats', SEATS, keys='carrier', sequence_by={order}, batch_id={batch!r})")
        changes = spark.sql(SEATS.format(until=until))
        print(f"  {streamtime.apply_changes(spark, 'seats', changes, keys='carrier', sequence_by=order, batch_id=batch)}", flush=True)
        given, plain = spark.sql("SELECT carrier, flights, seats FROM seats"), spark.sql(PLAIN_SEATS.format(until=until))
        holds[f"{batch}, the table seats has the rows of the plain query"] = {*map(tuple, given.collect())} == {
            *map(tuple, plain.collect())
        }
    show(spark.sql("SELECT carrier, flights, seats, repeat('#', CAST(seats / 1000 AS INT)) AS thousands FROM seats ORDER BY carrier"))
    again = streamtime.apply_changes(spark, "seats", changes, keys="carrier", sequence_by=order, batch_id="as it came")
    holds["a batch that comes again is not applied again"] = again.repeated
    return holds


if __name__ == "__main__":
    sys.exit(main())
