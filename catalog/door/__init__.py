"""Inside Spark: functions in its analyzer, syntax around its parser, and how both are put there. JVM classes are touched here, in
`catalog/plain/` and in `catalog/server/doors.py`, and nowhere else."""
