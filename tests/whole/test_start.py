"""docs/install.md, followed: the program on the page goes to spark-submit from a Python that has the wheel, and each link leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
from support import ROOT

PAGE = (ROOT / "docs" / "install.md").read_text()
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


def block(section: str, language: str) -> str:
    """The first block of that language below a heading."""
    found = re.search(rf"\n```{language}\n(.*?)```", PAGE.partition(f"\n## {section}\n")[2], re.DOTALL)
    assert found is not None, section
    return found[1]


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


def test_the_page_says_what_each_start_needs_and_its_links_lead_somewhere() -> None:
    """No word of this can drift: versions from pyproject.toml, headings and files from where they are."""
    wanted = (ROOT / "pyproject.toml").read_text()
    for requirement in re.findall(r"'((?:sqlglot|numpy|pandas|pyarrow|protobuf|prompt_toolkit|tabulate|wcwidth)[^']*)'", PAGE):
        assert f'"{requirement}"' in wanted, requirement
    headings = {re.sub(r"[^\w -]", "", line[3:].lower()).replace(" ", "-") for line in PAGE.splitlines() if line.startswith("## ")}
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        file, _, heading = link.partition("#")
        assert (ROOT / "docs" / file).exists() if file else heading in headings, link
