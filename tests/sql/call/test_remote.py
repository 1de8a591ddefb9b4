"""What a client of Spark Connect needs before it can send a call."""

from __future__ import annotations

import subprocess
import sys

COPYING = """
from google.protobuf.message import DecodeError
from pyspark.sql.connect.proto import Relation
from streamtime.shelf import SPECS
from streamtime.sql.call.binding import bind

whole = one = Relation()
for _ in range(400):
    one = one.limit.input
one.sql.query = "SELECT 1"

def copied() -> str:  # as PySpark copies what a text refers to
    try:
        into = Relation()
        into.with_relations.references.extend([whole])
        return str(into.with_relations.references[0] == whole)
    except DecodeError as error:
        return str(error)

for module in (None, "pyspark.sql", "pyspark.sql.connect.session"):
    if module is not None:
        bind(SPECS["function_catalog"], [], [], type("Session", (), {"__module__": module})())
    print(copied())
"""


def test_a_call_over_connect_and_no_other_lets_plans_be_deep() -> None:
    said = subprocess.run([sys.executable, "-c", COPYING], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == ["Error parsing message with type 'spark.connect.Relation'"] * 2 + ["True"]
