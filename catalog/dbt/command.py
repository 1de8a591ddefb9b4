"""The options of `streamtime dbt`. Knows no dbt, which need not be installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DBT = """\
`compile` writes a dbt project whose models have no calls: for a dbt that runs where nothing of this pack does, and for warehouses of
others. dbt renders the models by your own profile, so it must be installed here: in a clone, pip install '.[dbt]'. Exit code 1 if a call
is wrong, or has no plain SQL: then stderr says which model, and why. `package` says where the package of macros and tests lies.
"""
DBT_EXAMPLES = """\
examples:
  streamtime dbt compile --out ../plain
  streamtime dbt compile --project-dir shop --out shop_plain --target prod --vars '{day: 2026-01-01}'
  streamtime dbt package
"""


def add(commands: Any, formatter: Any) -> None:
    """Its options."""
    project = commands.add_parser(
        "dbt", help="a dbt project as plain Spark SQL", description=DBT, epilog=DBT_EXAMPLES, formatter_class=formatter
    )
    project.add_argument("what", choices=("compile", "package"), help="write the project, or say where the package of macros is")
    project.add_argument("--project-dir", type=Path, default=Path(), metavar="DIR", help="the dbt project (default: here)")
    project.add_argument("--out", type=Path, metavar="DIR", help="where the other one is written (default: `plain` in the project)")
    project.add_argument("--profiles-dir", metavar="DIR", help="as of dbt")
    project.add_argument("--profile", metavar="NAME", help="as of dbt")
    project.add_argument("--target", metavar="NAME", help="as of dbt")
    project.add_argument("--vars", default="{}", metavar="YAML", help="as of dbt")
