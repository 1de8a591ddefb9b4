"""A Spark Connect server in a process of its own, without the pack. Lines on stdin: `register` puts the pack in; the end of stdin ends it."""

import os
import sys

from pyspark.sql import SparkSession


def main(port: str, folder: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": folder,
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "register":
            import streamtime

            streamtime.register(spark)
            print("registered", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
