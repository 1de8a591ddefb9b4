"""The settings of the server's Spark, and where that logs."""

from __future__ import annotations

import os
from pathlib import Path

from streamtime.server.doors import QUIET
from streamtime.server.options import Options, local
from streamtime.session import CLASS_PATH, JVM_OPTIONS, LOG4J, delta_jars, in_place, jvm_option, lasting

# Spark's own log goes to a file: the server's has one line for each event
LOG4J_FILE = """
appender.spark.type = RollingFile
appender.spark.name = spark
appender.spark.fileName = {file}
appender.spark.filePattern = {file}.%i
appender.spark.layout.type = PatternLayout
appender.spark.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n
appender.spark.policies.type = SizeBasedTriggeringPolicy
appender.spark.policies.size = 20MB
appender.spark.strategy.type = DefaultRolloverStrategy
appender.spark.strategy.max = 3
rootLogger.appenderRef.stderr.ref = spark
"""


def of(options: Options, folder: Path, spark_log: Path, classes: Path) -> dict[str, str]:
    """All settings beside those of `streamtime.session`. What --conf says comes last, but adds to paths, jars and options of the JVM."""
    log4j = folder / "log4j2.properties"
    log4j.write_text(_log4j(spark_log))
    given = dict(options.settings)
    jvm = [jvm_option("log4j2.configurationFile", log4j.as_uri()), jvm_option("derby.stream.error.file", folder / "derby.log")]
    made = {
        "spark.app.name": "streamtime serve",
        CLASS_PATH: os.pathsep.join(filter(None, [str(classes), given.pop(CLASS_PATH, "")])),
        JVM_OPTIONS: " ".join([*jvm, given.pop(JVM_OPTIONS, "")]).strip(),
        "spark.sql.warehouse.dir": in_place(folder / "tables"),
        "spark.sql.catalogImplementation": "in-memory",
    }
    if options.warehouse:
        made |= lasting(options.warehouse)
    if options.master:
        made["spark.master"] = options.master
    if not local(options.master):
        made["spark.jars"] = ",".join([*map(str, delta_jars()), *filter(None, [given.pop("spark.jars", "")])])  # Delta, for the executors
        made["spark.driver.bindAddress"] = given["spark.driver.host"]
        tables = (options.warehouse or folder).expanduser().resolve() / "tables"
        made["spark.sql.warehouse.dir"] = str(tables)  # in the default file system, which all machines reach
        if options.cores != "*":
            made["spark.cores.max"] = options.cores
        else:
            made["spark.sql.shuffle.partitions"] = "200"  # as Spark has it: how many cores a cluster has is not known here
    return made | given


def _log4j(spark_log: Path) -> str:
    to_file = LOG4J.replace("rootLogger.level = error", "rootLogger.level = warn").replace(
        "rootLogger.appenderRef.stderr.ref = console\n", ""
    )
    quiet = "".join(f"logger.quiet{number}.name = {name}\nlogger.quiet{number}.level = off\n" for number, name in enumerate(QUIET))
    return to_file + LOG4J_FILE.format(file=spark_log) + quiet
