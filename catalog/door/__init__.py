"""Inside Spark: functions in its analyzer, syntax around its parser, and how both are put there. Only here are JVM classes touched."""
