"""Draws the pictures of the docs: `python -m streamtime.pictures.gallery docs/pictures` writes a SVG beside each .sql there."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamtime.pictures.drawing import drawn
from streamtime.pictures.picture import Picture
from streamtime.pictures.plotting import pictured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def gallery(spark: SparkSession, folder: Path) -> dict[str, Picture]:
    """The name of each text in the folder, and the picture of its call."""
    return {path.stem: pictured(spark, path.read_text(encoding="utf-8")).picture for path in sorted(folder.glob("*.sql"))}


def svg(picture: Picture) -> str:
    """As a file; the same picture is the same text."""
    with io.StringIO() as file:
        drawn(picture).savefig(file, format="svg", bbox_inches="tight")
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


if __name__ == "__main__":
    from streamtime.session import session

    place = Path(sys.argv[1])
    for name, picture in gallery(session(settings={"spark.sql.shuffle.partitions": "2"}), place).items():
        (place / f"{name}.svg").write_text(svg(picture), encoding="utf-8")
        print(place / f"{name}.svg")
