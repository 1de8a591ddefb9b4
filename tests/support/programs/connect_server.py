"""A Spark Connect server in a process of its own, without the pack. Lines on stdin: `register` puts the pack in; the end of stdin ends it.

What it answers goes to a channel of its own: the JVM writes to stdout, too, when it has something to say.
"""

import os
import sys

from jvm import INTERPRETED, JAVA_OPTIONS, say
from pyspark.sql import SparkSession


def main(channel: str, port: str, folder: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": folder,
        "spark.log.level": "OFF",
        **INTERPRETED,  # of a few rows
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    say(channel, "ready")
    for line in sys.stdin:
        if line.strip() == "register":
            import streamtime

            streamtime.register(spark)
            say(channel, "registered")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
