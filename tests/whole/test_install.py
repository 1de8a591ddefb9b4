"""What a fresh machine meets: the quickstart, the wheel, and a Java that is missing or too old."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from support import PROGRAMS, ROOT, TESTS
from support.pages.documents import blocks
from support.programs.jvm import talking

from streamtime import java
from streamtime.shelf import FUNCTIONS

Said = dict[str, tuple[str, str]]
DATA_DOCS = ROOT / "build" / "quickstart" / "index.html"


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory, thorough: bool) -> Said:
    """What the examples said to both streams, each of which ended well."""
    folder, names = tmp_path_factory.mktemp("stories"), ("quickstart", "windows", "weather", "maintain") if thorough else ("quickstart",)
    scripts = [str(ROOT / "examples" / f"{name}.py") for name in names]
    command = [sys.executable, str(TESTS / "support" / "examples.py"), str(folder), *scripts]
    DATA_DOCS.unlink(missing_ok=True)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    said = {name: ((folder / f"{name}.out").read_text(), (folder / f"{name}.err").read_text()) for name in names}
    for name, (out, errors) in said.items():
        assert (folder / f"{name}.code").read_text() == "0", out[-2000:] + errors[-2000:]
    assert done.returncode == 0, done.stderr[-2000:]
    return said


def test_the_quickstart_tells_its_story_and_its_postconditions_hold(stories: Said) -> None:
    out, errors = stories["quickstart"]
    for line in ("  336,776  8,255", "  EWR     10,940", "16 of 16 hold"):
        assert line in out
    assert "FAILED" not in out
    for table in ("pages", "incidents"):  # what follows from their calls
        assert f"  ok     {table}: each row of alerts came out or was dropped, and no other did" in out
    page = DATA_DOCS.read_text()
    assert all(table in page for table in ("flights", "weather", "pages", "incidents", "first_flights", "daily_weather"))
    assert "Traceback" not in errors, errors  # nor do PySpark's workers leave one when they are told to end


@pytest.mark.long("tests/whole/test_golden.py")
def test_the_windows_example_gives_one_final_answer_for_each_hour_in_batch_and_as_a_stream(stories: Said) -> None:
    out, _ = stories["windows"]
    for line in ("  EWR     6,234  117,335  38", "  JFK     4,820     21.7", "  EWR     2013-02-08 15:00:00  1        2013-02-09 16:00:00"):
        assert line in out
    assert out.count("  ok    ") == 4


@pytest.mark.long("tests/sql/functions/test_as_of_join.py")
def test_the_weather_example_agrees_with_plain_sql_and_its_training_set_knows_no_future(stories: Said) -> None:
    out, _ = stories["weather"]
    for line in (
        "  336,776  328,521  8,255      0",
        "  336,776  326,967  1,554",
        "  February   EWR     1048.4  1048.4",
        "  336,776  257,539           257,539",
    ):
        assert line in out
    assert "  90 flights have another answer" in out
    assert out.count("  ok    ") == 8


@pytest.mark.long("tests/catalog/maintained/test_maintaining.py")
def test_the_maintained_example_computes_what_changes_touched_and_its_totals_are_those_of_plain_sql(stories: Said) -> None:
    out, _ = stories["maintain"]
    for line in (
        "    wrote: 1,029 inserted, 0 updated, 0 removed",
        "    computed anew: 0 values of day, origin; 3 by adding what changed",
        "  2013-12-10  LGA     insert        240      240       7,051         8196.78   18",
        "  2013-08-22  EWR     insert        286      286       9,089         21477.23  14",
        "  3    incremental  1,682         3        0          3",
        "  40         1     38.7        #######################################",
        "  ApplyReport(changes=2632, inserted=0, updated=13, deleted=1, counts={}, repeated=False)",
    ):
        assert line in out
    assert out.count("differs from the result computed anew in 0 rows") == 3
    assert out.count("  ok    ") == 13


@pytest.mark.long("tests/sql/functions/test_assign_tasks.py")
def test_the_workers_example_loses_no_flight_when_a_worker_dies(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "examples/workers.py")], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for line in ("[w2 dies, in the middle of its work]", "[  w2 runs nothing]", "  UA    w2      revoke  the member is gone"):
        assert line in done.stdout
    assert done.stdout.count("  ok    ") == 5
    assert "Streaming" not in done.stderr
    assert (tmp_path / "workers.svg").read_text().count("w3") > 1


def test_each_example_is_run_by_a_test() -> None:
    """Each file, by its name, in a test or in a line of a page that a test runs; or as a part of one that is run, which names it."""
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}  # what runs write into these folders
    left = {path for path in (ROOT / "examples").rglob("*") if path.is_file() and not ignored & {*above(path)}}
    assert len(left) > 30
    texts = [path.read_text() for path in TESTS.rglob("*.py")]
    texts += [block.text for page in (ROOT / "docs").glob("*.md") for block in blocks(page.read_text())]
    while run := {path for path in left if any(named(path, text) for text in texts)}:
        texts = [path.read_text() for path in run]
        left -= run
    assert not left


def above(path: Path) -> Iterator[str]:
    """The names of a file and of its folders, and where they are."""
    inside = path.relative_to(ROOT)
    yield from inside.parts
    yield from (folder.as_posix() for folder in (inside, *inside.parents))


def named(path: Path, text: str) -> bool:
    """Whether a text has the file, or what is in it, by name."""
    stem = re.escape(path.stem)
    return bool(
        re.search(rf'["\'/]({re.escape(path.name)}|{stem})["\']|/{re.escape(path.name)}\b|\b{stem}\(\)|(from|import) {stem}\b', text)
    )


@pytest.mark.long("tests/whole/test_cluster.py")
def test_functions_travel_to_workers_that_do_not_have_the_package() -> None:
    script = PROGRAMS / "bare_workers.py"
    said = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line.split(" ", 2) for line in said if line.startswith(("analyzer ", "udtf "))]
    counts = {door: {name: answer for d, name, answer in found if d == door} for door in ("analyzer", "udtf")}
    assert list(counts["analyzer"]) == [s.name for s in FUNCTIONS if s.tables]
    assert list(counts["udtf"]) == [s.name for s in FUNCTIONS if s.local is not None]
    assert counts["udtf"].items() <= counts["analyzer"].items()
    assert all(answer.isdigit() for answer in counts["analyzer"].values()), found


@pytest.mark.short("packing")
def test_the_wheel_holds_the_three_folders_as_one_package(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in (
        "streamtime/__init__.py",
        "streamtime/py.typed",
        "streamtime/api.pyi",
        "streamtime/sql/functions/deduplicate.py",
        "streamtime/udfs/deduplicate.py",
        "streamtime/dbt/included/dbt_project.yml",
        "streamtime/dbt/package/dbt_project.yml",
        "streamtime/dbt/package/macros/tests/no_duplicates_within.sql",
        "dbt/adapters/streamtime/__version__.py",
    ):
        assert name in names
    assert not [n for n in names if n.startswith("tests")]
    probe = "import sys; sys.path.insert(0, sys.argv[1]); import streamtime; print(streamtime.__file__)"
    said = subprocess.run([sys.executable, "-I", "-c", probe, str(wheel)], capture_output=True, text=True, check=True).stdout
    assert ".whl" in said


def program(folder: Path, says: str) -> None:
    (folder / "bin").mkdir()
    path = folder / "bin" / "java"
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ('openjdk version "1.8.0_392"', "is Java 8"),
        ('openjdk version "11.0.21" 2023-10-17', "is Java 11"),
        ("something else", "does not say what it is"),
    ],
)
def test_an_old_java_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, message: str) -> None:
    program(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(java.JavaError, match=message) as caught:
        java.check()
    assert "JAVA_HOME" in str(caught.value)


def test_a_missing_java_is_said_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(java.JavaError, match="has no bin/java"):
        java.check()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(java.JavaError, match=r"no `java` on the PATH .*nstall"):
        java.check()


def test_a_new_java_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, 'openjdk version "21.0.1" 2023-10-17')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.check() == 21


@pytest.mark.long("tests/whole/test_cluster.py")
def test_a_session_of_ones_own_runs_workers_with_this_python_and_is_told_what_it_lacks(tmp_path: Path) -> None:
    """The first `python3` on the PATH has no packages, as that of the system; Delta Lake is not there."""
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "python3"
    fake.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).resolve()}" -I -S "$@"\n')
    fake.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}
    environment |= {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    with talking(PROGRAMS / "own_session.py", str(tmp_path), env=environment, stderr=subprocess.PIPE) as (
        process,
        said,
    ):
        line = said.readline()
        _, errors = process.communicate()
    assert line, errors[-2000:]
    found = json.loads(line)
    assert (found["before"], found["after"]) == ("python3", sys.executable)
    sentence = f"Workers run {sys.executable}, where Spark would have taken `python3`; PYSPARK_PYTHON chooses another."
    assert sentence in found["text"]
    assert sentence not in found["again"]
    assert errors.count(f"streamtime: {sentence}") == 1  # said, and said once
    assert (found["rows"], found["doctor"]) == (1, "ok")
    for told in (found["create"], found["open"]):
        assert told.startswith("CallError: VersionedTable: "), told
    assert "no Delta Lake. In a new process (in a notebook: restart the kernel), use streamtime.session() before" in found["create"]
    assert f"io.delta:delta-spark_{'.'.join(pyspark.__version__.split('.')[:2])}_2.13" in found["create"]
    assert "spark.sql.catalog.spark_catalog = org.apache.spark.sql.delta.catalog.DeltaCatalog." in found["create"]
    for table, problem in {
        "files": "has no history: this session has no Delta Lake. Only Delta tables keep their history.",
        "temporary": "is a view, and a view has no versions of its own. Name its table.",
        "stored": "is a view, and a view has no versions of its own. Name its table.",
    }.items():
        assert f"TABLE_HISTORY: `{table}` {problem}" in found["history"][table]
    assert "TABLE_HISTORY: there is no table `nowhere`." in found["history"]["nowhere"]
    assert found["kept"] == str(fake)  # what was chosen stays
    (warned,) = found["warned"]
    assert f"Spark's workers run `{fake}`, which has no numpy and no pyarrow. Set the environment variable PYSPARK_PYTHON" in warned
    assert "Workers run" not in found["chosen"]
    assert found["failed"][0] == "failed"
    assert "no numpy and no pyarrow" in found["failed"][1]
    assert sys.executable in found["failed"][2]
