"""Writes what is derived from the functions' rooms: `python -m streamtime.pages FOLDER`.

The examples' results, which texts about functions show; the Markdown reference pages in the folder; the signatures of the Python API.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from streamtime.describe import ResultTable, page, results, run_examples
from streamtime.pictures.meanings import DROPPED
from streamtime.python.reference import reference
from streamtime.shelf import FUNCTIONS

RESULTS = Path(__file__).with_name("results.json")
PUT = ("superseded", "refused")  # no reasons, but what `output => 'puts'` of VERSIONS says
METRICS = """`'metrics'` counts them, as `late_drop_total`, and as `late_drop_rate` by the second of event time. Beside these are
`record_lateness_avg` and `record_lateness_max`, in seconds, and of suppress its own, which begin with `suppression_`: how much it held
(`_buffer_count_max`, `_buffer_size_max` and others), how many rows it let out (`_emit_total`), and how long they were overdue
(`_overtime_avg`). On a stream they are in the query's progress, and [`streamtime.watch`](../monitoring.md) keeps them. ASSIGN_TASKS has
[metrics of its own](assign_tasks.md)."""


def computed(spark: SparkSession) -> dict[str, list[ResultTable]]:
    """What the examples give in this session."""

    def run(query: str) -> ResultTable:
        df = spark.sql(query)
        rows = df.collect() if df.columns else []
        return {"columns": df.columns, "rows": [["NULL" if v is None else str(v) for v in row] for row in rows]}

    return run_examples(FUNCTIONS, run)


def pages(pictures: Path | None = None) -> dict[str, str]:
    """File name to text. A page has the pictures of that folder that have its function's name, alone or with another word behind it."""

    def drawn(name: str) -> list[tuple[str, str]]:
        drawings = sorted([*pictures.glob(f"{name}.svg"), *pictures.glob(f"{name}.*.svg")], key=lambda p: len(p.name)) if pictures else []
        return [(f"../pictures/{path.name}", caption(path.with_suffix(".sql"))) for path in drawings]

    names = [s.name for s in FUNCTIONS]
    made = {f"{s.name.lower()}.md": page(s, names, drawn(s.name.lower())) for s in FUNCTIONS}
    listed = [f"- [{s.name}]({s.name.lower()}.md): {s.summary}" for s in FUNCTIONS]
    head = "# Reference\n\nOne page for each function. The rules that they keep, by number: [semantics](../semantics.md)."
    made["python.md"] = reference()
    beside = "Beside them, in Python: [session, register, maintain and the like](python.md)."
    made["README.md"] = "\n".join([head, "", *listed, "", beside, "", *outputs(), "", *reasons(), ""])
    return made


def outputs() -> list[str]:
    """A table: which function has which `output`."""
    has = {s.name: next((o.allowed for o in s.options if o.name == "output"), "") for s in FUNCTIONS}
    words = list(dict.fromkeys(word for allowed in has.values() for word in re.findall(r"'(\w+)'", allowed)))
    lines = ["## What each can tell", "", "In batch, by the words of `output`. What a function cannot do on a stream, its page says.", ""]
    lines += ["| function | " + " | ".join(f"`'{word}'`" for word in words) + " |", "|---" * (len(words) + 1) + "|"]
    for name, allowed in has.items():
        if allowed:
            cells = " | ".join("yes" if f"'{word}'" in allowed else "" for word in words)
            lines.append(f"| [{name}]({name.lower()}.md) | {cells} |")
    return lines


def reasons() -> list[str]:
    """A table: what each reason says of a row, and how the metrics are called that count it."""
    lines = ["## Why a row is dropped", "", "In the column `reason`, and where `'explain'` says the outcome:", ""]
    lines += ["| reason | the row |", "|---|---|"]
    lines += [f"| `{reason}` | {words} |" for reason, words in DROPPED.items() if reason not in PUT]
    return [*lines, "", METRICS]


def caption(rows: Path) -> str:
    """What a picture shows: its text begins with that."""
    return rows.read_text(encoding="utf-8").splitlines()[0].removeprefix("-- ")


if __name__ == "__main__":
    from streamtime.python.stubs import PATH, stub
    from streamtime.session import session

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as warehouse:  # examples make tables
        made = computed(session(settings={"spark.sql.warehouse.dir": warehouse}))
    RESULTS.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    results.cache_clear()
    for name, text in pages(folder.parent / "pictures").items():
        (folder / name).write_text(text)
        print(folder / name)
    PATH.write_text(stub())
    print(RESULTS, PATH, sep="\n")
