"""Writes the Markdown reference pages, and the signatures of the Python API: `python -m streamtime.pages FOLDER`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from streamtime.describe import page
from streamtime.shelf import FUNCTIONS


def pages(spark: SparkSession) -> dict[str, str]:
    """File name to text. The examples are run in this session."""

    def run(query: str) -> str:
        df = spark.sql(query)
        if not df.columns:
            return ""
        rows = [["NULL" if v is None else str(v) for v in row] for row in df.collect()]
        lines = [df.columns, ["---"] * len(df.columns), *rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

    made = {f"{s.name.lower()}.md": page(s, run) for s in FUNCTIONS}
    listed = [f"- [{s.name}]({s.name.lower()}.md): {s.summary}" for s in FUNCTIONS]
    made["README.md"] = "# Reference\n\nOne page per function, generated from its source.\n\n" + "\n".join(listed) + "\n"
    return made


if __name__ == "__main__":
    from streamtime.python.stubs import PATH, stub
    from streamtime.session import session

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as warehouse:  # examples make tables
        for name, text in pages(session(settings={"spark.sql.warehouse.dir": warehouse})).items():
            (folder / name).write_text(text)
            print(folder / name)
    PATH.write_text(stub())
    print(PATH)
