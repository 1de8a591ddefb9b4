"""The Python API: functions made from their SPECs, messages as Python writes, and signatures for checkers and editors."""
