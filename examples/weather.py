"""AS OF joins on real data: the weather when a plane left, a table as it was for each report, a training set that knows no future."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from story import play, say, show, stage

from streamtime import VersionedTable

SCRIPT = Path(__file__).with_name("weather.sql")
CORRECTIONS = """
SELECT origin, at, coalesce(temperature, temperature_around) AS temperature,
       CASE WHEN wind_speed < 200 THEN wind_speed ELSE wind_around END AS wind_speed,
       wind_gust, rain, pressure, visibility
FROM (SELECT *, (lag(temperature) OVER w + lead(temperature) OVER w) / 2 AS temperature_around,
             (lag(wind_speed) OVER w + lead(wind_speed) OVER w) / 2 AS wind_around
      FROM weather WINDOW w AS (PARTITION BY origin ORDER BY at))
WHERE temperature IS NULL OR wind_speed IS NULL OR wind_speed > 200"""
# Readings are of full hours, so each hour has one that is valid, and an equality finds it
PLAIN = """
WITH versions AS (SELECT *, coalesce(lead(at) OVER (PARTITION BY origin ORDER BY at), TIMESTAMP_NTZ '2014-01-02') AS ends FROM weather),
hours AS (SELECT *, explode(sequence(at, ends - INTERVAL 1 HOUR, INTERVAL 1 HOUR)) AS hour FROM versions)
SELECT f.flight_id, f.origin, f.departed, h.at, h.temperature, h.wind_speed, h.visibility
FROM flights f LEFT JOIN hours h ON f.origin = h.origin AND CAST(date_trunc('HOUR', f.departed) AS TIMESTAMP_NTZ) = h.hour"""
# The newest of the readings of this day and the day before that were published by then
PUBLISHED = """
SELECT f.flight_id, max(b.at) AS at
FROM flights f LEFT JOIN (SELECT *, explode(sequence(0, 1)) AS days FROM bulletins) b
ON f.origin = b.origin AND date(f.scheduled) = date_add(date(b.at), b.days) AND f.scheduled >= b.at AND f.scheduled > b.published
GROUP BY f.flight_id"""
REPORTS = """
SELECT count(*) - count_if(s.wind = r.said) FROM reports r LEFT JOIN strongest FOR SYSTEM_TIME AS OF r.made s ON r.origin = s.origin"""


def main() -> int:
    """Run the story, then the correction; 1 if an answer differs."""
    began = time.monotonic()
    with stage("weather") as (spark, _):
        play(spark, SCRIPT)
        say("Counting the rows that differ from plain SQL ..")
        wrong = differences(spark) | correction(spark)
        for says, count in wrong.items():
            print(f"  {'ok    ' if not count else 'FAILED'} {says}")
        say(f"Done in {time.monotonic() - began:.0f} s.")
        return 1 if any(wrong.values()) else 0


def differences(spark: SparkSession) -> dict[str, int]:
    """What must be 0."""
    answers, near = spark.table("answers"), "at IS NOT NULL AND departed <= at + INTERVAL 1 HOUR"
    pairs = spark.table("naive").alias("n").join(spark.table("known").alias("k"), "flight_id")
    return {
        "each flight's weather is that of plain SQL": differ(answers, spark.sql(PLAIN)),
        "ASOF JOIN .. MATCH_CONDITION says the same": differ(answers, spark.table("in_words_of_spark")),
        "so does AS_OF_JOIN, but for what is older than its tolerance": differ(
            answers.where(near), spark.table("tolerant").where("at IS NOT NULL")
        ),
        "each report said what its table held when it was made": spark.sql(REPORTS).first()[0],  # type: ignore[index]
        "the training set has what plain SQL says was published": differ(
            spark.table("known").select("flight_id", "at"), spark.sql(PUBLISHED)
        ),
        "the naive one differs where it read what was not published, and there only": pairs.where(
            "(k.at <=> n.at) = coalesce(n.published >= n.scheduled, false)"
        ).count(),
    }


def correction(spark: SparkSession) -> dict[str, int]:
    """Put what was missing or impossible, and ask again: what must be 0."""
    say("A reading of 1,048 miles an hour, and some without a value: put the mean of their neighbours, each at its own time ..")
    weather, corrections = VersionedTable(spark, "weather"), spark.sql(CORRECTIONS).localCheckpoint()
    show(corrections.orderBy("origin", "at"))
    affected = spark.table("answers").join(corrections, ["origin", "at"], "left_semi").count()
    report = weather.put(corrections, batch_id="corrections")
    say(f"{report.accepted} versions accepted; now the first question again ..")
    changed = spark.table("answers").exceptAll(spark.table("with_weather")).count()
    print(f"  {changed} flights have another answer")
    return {
        "after the correction, the flights of these hours have another answer, and no others": abs(changed - affected),
        "a batch that comes again is not repeated": int(not weather.put(corrections, batch_id="corrections").repeated),
    }


def differ(one: DataFrame, other: DataFrame) -> int:
    """How many rows two results do not share."""
    counted = one.withColumn("__more", F.lit(1)).unionAll(other.withColumn("__more", F.lit(-1))).groupBy(one.columns)
    return counted.agg(F.abs(F.sum("__more")).alias("more")).agg(F.coalesce(F.sum("more"), F.lit(0))).first()[0]  # type: ignore[index]


if __name__ == "__main__":
    sys.exit(main())
