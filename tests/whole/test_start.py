"""docs/install.md, followed: the program on the page goes to spark-submit from a Python that has the wheel, and each link leads somewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
import pytest
from packaging.requirements import Requirement
from support import ROOT

PAGE = (ROOT / "docs" / "install.md").read_text()
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
WANTED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
THERE = {"pyspark", "delta-spark"}  # with Spark
ON_DATABRICKS = THERE | {"numpy", "pyarrow", "protobuf"}
PROBE = """
import json, sys
blocked = set(json.loads(sys.argv[1]))

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, *more):
        return None if name.partition(".")[0] in blocked else self.finder.find_spec(name, *more)

sys.meta_path[:] = map(Without, sys.meta_path)
exec(sys.argv[2])
print("imported")
"""
BASE = "import streamtime, streamtime.api, streamtime.shell.cli, streamtime.server.serving, streamtime.plain.hosting"
EXTRAS = {  # what each is for
    "connect": "import pyspark.sql.connect.session",
    "notebook": "import ipykernel, matplotlib.figure, streamtime.notebook.magic",
    "pipelines": "import pyspark.pipelines.cli",
    "expectations": "import streamtime.expectations; streamtime.expectations.no_duplicates_within('k', 'ts')",
    "dbt": "import streamtime.dbt.adapter, streamtime.dbt.project, pyhive.hive",
}


def block(section: str, language: str) -> str:
    """The first block of that language below a heading."""
    found = re.search(rf"\n```{language}\n(.*?)```", PAGE.partition(f"\n## {section}\n")[2], re.DOTALL)
    assert found is not None, section
    return found[1]


@pytest.mark.long("tests/whole/test_cluster.py")
def test_spark_submit_takes_the_program_on_the_page_and_the_wheel_by_py_files(tmp_path: Path) -> None:
    """The pack is not installed for this driver: it comes as a wheel, as --py-files brings it; what the wheel needs is installed."""
    made = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(made, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name in PAGE
    (tmp_path / "app.py").write_text(block("An existing Spark", "python") + "\nprint('from', streamtime.__file__)\n")
    bare = tmp_path / "python3"  # which does not see this clone: an editable install is a hook that site.py calls
    site = Path(pyspark.__file__).parent.parent
    bare.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}" exec {Path(sys.executable).resolve()} -s -S "$@"\n')
    bare.chmod(0o755)
    command = [str(SUBMIT), "--master", "local[1]", "--conf", "spark.ui.enabled=false", "--py-files", str(wheel), "app.py"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
        "PYSPARK_PYTHON": str(bare),
        "PYSPARK_DRIVER_PYTHON": str(bare),
    }
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    assert "are registered for this and every later session of this driver" in done.stdout
    assert "|  1|2026-01-01|" in done.stdout
    assert re.search(r"from \S*\.whl/streamtime/__init__\.py", done.stdout), done.stdout


def test_the_links_of_the_page_lead_somewhere() -> None:
    """No word of this can drift: headings and files are from where they are."""
    headings = {re.sub(r"[^\w -]", "", line[3:].lower()).replace(" ", "-") for line in PAGE.splitlines() if line.startswith("## ")}
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        file, _, heading = link.partition("#")
        assert (ROOT / "docs" / file).exists() if file else heading in headings, link


def named(section: str, after: str) -> set[str]:
    """The requirements in quotes on the lines of a section that begin so."""
    lines = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0].replace("\\\n", "")
    return {wanted for line in lines.splitlines() if line.startswith(after) for wanted in re.findall(r"'([^']+)'", line)}


def package(requirement: str) -> str:
    return re.sub(r"[_.-]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def test_where_spark_is_there_the_page_names_all_else_that_the_pack_needs() -> None:
    """And what delta-spark needs, which is installed without it."""
    of_delta = {r for r in requires("delta-spark") or () if package(r) not in THERE}
    assert {package(r) for r in of_delta} == {"importlib-metadata"}
    rest = {r for r in WANTED if package(r) not in THERE}
    wheel = named("A wheel from a clone", "pip install 'sqlglot")
    assert {r for r in wheel if package(r) != "importlib-metadata"} == rest
    assert {package(r) for r in wheel} - {package(r) for r in rest} == {package(r) for r in of_delta}
    assert next(r for r in WANTED if r.startswith("delta-spark")) in PAGE
    assert named("Databricks", "%pip install 'sqlglot") == {r for r in WANTED if package(r) not in ON_DATABRICKS}


def there(*extras: str) -> set[str]:
    """The packages that come with what the page names, and with these extras."""
    return closure([*named("A wheel from a clone", "pip install 'sqlglot"), "pyspark", "delta-spark", f"streamtime[{','.join(extras)}]"])


def probed(found: set[str], text: str, missing: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
    """These lines as a program, where of all that is installed here only these packages are, and not even those modules.

    A file: PySpark takes a text after `-c` without grpcio for its own doctests, and ends the process with 0.
    """
    blocked = {top for top, owners in packages_distributions().items() if not {package(o) for o in owners} & found} | {*missing}
    with TemporaryDirectory() as folder:
        program = Path(folder) / "probe.py"
        program.write_text(PROBE)
        return subprocess.run(
            [sys.executable, str(program), json.dumps(sorted(blocked)), text], capture_output=True, text=True, check=False
        )


@pytest.mark.short("a machine that has nothing else")
def test_with_what_the_page_names_and_nothing_else_the_pack_is_imported() -> None:
    assert not {"matplotlib", "ipython", "dbt-core", "starlette", "great-expectations", "pytest"} & there()
    done = probed(there(), BASE)
    assert done.stdout == "imported\n", done.stderr[-2000:]
    assert "No module named 'jinja2'" in probed(there(), BASE, ["jinja2"]).stderr


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(extra, marks=[pytest.mark.long("the same of other extras")] if extra in ("dbt", "expectations") else [])
        for extra in EXTRAS
        if extra != "pipelines" or find_spec("pyspark.pipelines")
    ],
)
def test_an_extra_brings_what_its_part_imports(extra: str) -> None:
    found = there(extra)
    assert found > there()
    done = probed(found, EXTRAS[extra])
    assert done.stdout == "imported\n", done.stderr[-2000:]


def closure(requirements: Iterable[str]) -> set[str]:
    """These packages, and what they ask for; of the pack itself only its extras."""
    left, found = [*map(Requirement, requirements)], set[tuple[str, str]]()
    while left:
        asking = left.pop()
        name = package(asking.name)
        for extra in {"", *asking.extras} - {extra for known, extra in found if known == name}:
            found.add((name, extra))
            try:
                asked = [*map(Requirement, requires(name) or ())]
            except PackageNotFoundError:
                continue
            if name == "streamtime":
                asked = [r for r in asked if r.marker is not None]
            left += [r for r in asked if r.marker is None or r.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}
