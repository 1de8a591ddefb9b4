#!/usr/bin/env python3
"""One command for each thing to do here. Makes .venv, installs what is needed, and goes.

python3 run.py quickstart    the main job, on real data
python3 run.py windows       windows, sessions and suppress on the same data, in batch and as a stream
python3 run.py weather       AS OF joins on the same data, and a training set that knows no future
python3 run.py maintain      a report that keeps itself up to date, and totals by a changelog, on the same data
python3 run.py workers       streaming queries planned over workers by ASSIGN_TASKS; one joins, one dies
python3 run.py dbt           a dbt project on the same data, built twice, with new rows between; with --target served through
                             `streamtime serve`, with --target bare through a Thrift server that knows nothing of the functions
python3 run.py tests         all checks, and the tests but the long ones (slow ones that caught no broken rule, and more cases of others);
                             with --all, all tests; with --spark 4.0 or --spark 4.1, all of them on that Spark, in a .venv of its own
python3 run.py sparks        the tests on every Spark, one after the other, as a table
python3 run.py mutations     breaks rules on purpose, one at a time, and says which test caught each; with --older --seconds N, first
                             those whose file changed since they were run
python3 run.py benchmark     speed, beside Spark's own operators; also benchmark streaming, sessions, suppress, doors, as_of, spread,
                             plain, assign, changes, maintain, load (many clients on one server), ready (how fast it starts), peers
                             (beside DuckDB, Polars and Flink SQL), cluster (1, 2 and 4 workers)
python3 run.py sweep         maintained tables over hundreds of random commits, in a process that is killed on the way; some hours
python3 run.py conformance   which engines run the plain SQL of our calls: Spark 4.2 and 4.0, Sail, DuckDB, or one of yours (--connect)
python3 run.py pages         the reference pages in docs/, made anew
python3 run.py pictures      the pictures in docs/pictures/, made anew
python3 run.py notebook      the notebook in examples/notebook, executed, and those for Databricks, made anew
python3 run.py site          the documentation as a site, in build/site
python3 run.py cheatsheet    docs/cheatsheet.pdf, made anew of docs/cheatsheet.html by a Chromium or Chrome
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import venv
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
EXAMPLES = ("quickstart", "windows", "weather", "maintain", "workers")
SCRIPTS = {
    "notebook": "examples/notebook/build.py",
    "mutations": "tests/mutations.py",
    "sweep": "tests/sweep.py",
    "conformance": "tests/conformance/conformance.py",
}
FOR_WORK = ("tests", "sparks", "pages", "pictures", *SCRIPTS)
EXTRAS = {
    **dict.fromkeys(EXAMPLES, "examples"),
    **dict.fromkeys(FOR_WORK, "dev"),
    "benchmark": "bench",
    "cheatsheet": "",
    "dbt": "examples,dbt",
    "site": "site",
}
WITHOUT_JAVA = ("site", "cheatsheet")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = ROOT / "tests" / "seconds.json"  # of each file and each slow test; STREAMTIME_SECONDS=write makes it anew
SPARKS = {"4.2": "4.2.0", "4.1": "4.1.4", "4.0": "4.0.5"}  # what the tests run on; the first is the reference, in .venv


def main() -> int:
    task, *rest = sys.argv[1:] or [""]
    if task not in EXTRAS:
        print(__doc__)
        return 2
    if sys.version_info < (3, 11):
        print(f"Python 3.11 or later is needed; this is {sys.version.split()[0]} ({sys.executable}).", file=sys.stderr)
        return 1
    if task not in WITHOUT_JAVA and (problem := java_problem()) is not None:
        print(problem, file=sys.stderr)
        return 1
    if task == "cheatsheet":
        return cheatsheet()
    if task == "sparks":
        return on_every_spark(rest)
    if task == "tests" and rest[:1] == ["--spark"]:
        if rest[1:2] == [] or rest[1] not in SPARKS:
            print(f"--spark takes one of {', '.join(SPARKS)}.", file=sys.stderr)
            return 2
        return run(on_spark(rest[1]), "-m", "pytest", *rest[2:])
    python = install(EXTRAS[task])
    if task in EXAMPLES:
        return run(python, f"examples/{task}.py")
    if task == "dbt":
        return run(python, "examples/dbt_project/build.py", *rest)
    if task == "benchmark":
        name, *more = rest if rest[:1] and not rest[0].startswith("-") else ["deduplicate", *rest]
        script = ROOT / "tests" / "benchmarks" / f"{name}.py"
        if not script.exists():
            known = ", ".join(sorted(p.stem for p in script.parent.glob("*.py")))
            print(f"There is no benchmark {name}; there are {known}.", file=sys.stderr)
            return 2
        return run(python, script, *more)
    if task in SCRIPTS:
        return run(python, SCRIPTS[task], *rest)
    if task == "site":
        os.environ["NO_MKDOCS_2_WARNING"] = "1"
        return run(python, "-m", "mkdocs", "build", "--strict", "--quiet") or say(
            "The site is in build/site. Look at it: python3 -m http.server --directory build/site"
        )
    if task == "pages":
        return run(python, "-m", "streamtime.pages", "docs/reference")
    if task == "pictures":
        return run(python, "-m", "streamtime.pictures.gallery", "docs/pictures")
    lay_out()
    archive = None if rest and rest != ["--all"] else subprocess.Popen([python, "tests/support/programs/archive.py"], cwd=ROOT)
    checks = [
        (python, "-m", "ruff", "check", "."),
        (python, "-m", "ruff", "format", "--check", "."),
        (python, "-m", "mypy"),
    ]
    code = next((code for check in checks if (code := run(*check))), 0)
    if archive is not None:
        archive.wait()
    return code or tested(python, rest)


def tested(python: Path, arguments: list[str]) -> int:
    """The tests but the long ones, or all, or some. Files run in two groups side by side, which take about as long as each other."""
    if arguments and arguments != ["--all"]:
        return run(python, "-m", "pytest", *arguments)
    known = json.loads(SECONDS.read_text())
    which, chosen = ("all", []) if arguments else ("short", ["-m", "not long"])
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
    here, beside = packed({name: known[which].get(name, 20) for name in files}, 2)
    said, results = VENV / "tests-beside.log", [VENV / "tests-here.xml", VENV / "tests-beside.xml"]
    commands = [
        [str(python), "-m", "pytest", *chosen, "-o", "junit_family=xunit1", f"--junitxml={path}", *group]
        for path, group in zip(results, (here, beside), strict=True)
    ]
    for path in results:
        path.unlink(missing_ok=True)
    with said.open("w") as log:
        print(
            f"[{len(beside)} of {len(files)} files run beside the others; what they say comes at the end, and is in {said.name} ..]",
            flush=True,
        )
        other = subprocess.Popen(commands[1], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        code = run(*commands[0])
        other.wait()
    print(said.read_text(), flush=True)
    code = code or other.returncode
    taken = [test for path in results if path.exists() for test in tests_of(path)]
    print(longest(taken), flush=True)
    if chosen:
        print("\nThe long tests were left out: python3 run.py tests --all", flush=True)
    if code == 0 and os.environ.get("STREAMTIME_SECONDS") == "write":
        known[which] = {name: round(time) for name, time in sorted(by_file(taken).items())}
        known["slow"] = with_new(known["slow"], taken) if chosen else slow(taken)
        SECONDS.write_text(json.dumps(known, indent=0) + "\n")
    return code


def packed(seconds: dict[str, float], groups: int) -> list[list[str]]:
    """Names in groups: one after the other, the longest first, each into the group that has least to do."""
    found: list[list[str]] = [[] for _ in range(groups)]
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        min(found, key=lambda group: sum(seconds[n] for n in group)).append(name)
    return [sorted(group) for group in found]


class Taken(NamedTuple):
    """A test that ran: how many seconds it took, with its fixtures and by itself."""

    file: str
    name: str
    seconds: float
    own: float

    @property
    def id(self) -> str:
        return f"{self.file}::{self.name}"


def tests_of(results: Path) -> list[Taken]:
    """Each test in a file of JUnit's."""
    found = []
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        own = sum(float(said.get("value", 0)) for said in case.iter("property") if said.get("name") == "own")
        found.append(Taken(case.get("file", "?"), case.get("name", "?"), float(case.get("time", 0)), own))
    return found


def by_file(tests: list[Taken]) -> dict[str, float]:
    found: dict[str, float] = {}
    for test in tests:
        found[test.file] = found.get(test.file, 0) + test.seconds
    return found


def slow(tests: list[Taken]) -> dict[str, int]:
    """Those that take a second or more without their fixtures. Asked of all tests at once: with some left out, others come first in their
    files, and are slow for that."""
    return {test.id: round(test.own) for test in sorted(tests) if test.own >= 1}


def with_new(known: dict[str, int], tests: list[Taken]) -> dict[str, int]:
    """Known slow tests, and those of a short run that are not known, if they take two seconds or more, on the machine of the others."""
    own = {test.id: test.own for test in tests}
    pace = statistics.median([time / known[name] for name, time in own.items() if known.get(name, 0) >= 4] or [1])
    new = {name: round(time / pace) for name, time in own.items() if name not in known and time / pace >= 2}
    return dict(sorted((known | new).items()))


def longest(tests: list[Taken]) -> str:
    """What took longest: every file of more than a second, and the slowest tests."""
    files = sorted(by_file(tests).items(), key=lambda item: -item[1])
    slowest = sorted(tests, key=lambda test: -test.seconds)[:50]
    lines = [f"{time:7.1f} s  {file}" for file, time in files if time >= 1]
    tests_ = [f"{test.seconds:7.1f} s  {test.file}::{test.name[:90]}" for test in slowest]
    total = f"{sum(test.seconds for test in tests):7.1f} s  {len(tests)} tests in {len(files)} files"
    return "\n".join(["What took longest, by file:", *lines, total, "", "The slowest tests:", *tests_])


def cheatsheet() -> int:
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        print(f"One of {', '.join(BROWSERS)} is needed, and none is on the PATH.", file=sys.stderr)
        return 1
    page = ROOT / "docs" / "cheatsheet.html"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    command = [browser, *options, f"--print-to-pdf={page.with_suffix('.pdf')}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # a browser without a desktop has much to say
    return say(f"{page.with_suffix('.pdf').relative_to(ROOT)}") if done.returncode == 0 else say(done.stderr) or done.returncode


def say(text: str) -> int:
    print(text)
    return 0


def on_spark(minor: str) -> Path:
    """The Python that has this Spark; the reference is what the default .venv has."""
    if minor == next(iter(SPARKS)):
        return install("dev")
    return install("dev", ROOT / f".venv-{minor}", (f"pyspark=={SPARKS[minor]}",))


def on_every_spark(arguments: list[str]) -> int:
    lines, worst = [("pyspark", "delta-spark", "Java", "Python", "passed", "failed", "skipped")], 0
    probe = "from importlib.metadata import version as v; print(v('pyspark'), v('delta-spark'))"
    for minor in SPARKS:
        python = on_spark(minor)
        results = python.parent.parent / "results.xml"
        results.unlink(missing_ok=True)
        code = run(python, "-m", "pytest", f"--junitxml={results}", *arguments)
        worst = max(worst, code)
        installed = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=True).stdout.split()
        counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
        if results.exists():
            for suite in ElementTree.parse(results).getroot().iter("testsuite"):
                counts = {name: count + int(suite.get(name, 0)) for name, count in counts.items()}
        failed = counts["failures"] + counts["errors"]
        passed = counts["tests"] - failed - counts["skipped"]
        here = (*installed, str(java().check()), sys.version.split()[0])
        lines.append((*here, *map(str, (passed, failed, counts["skipped"]))))
        print("\n" + "\n".join("".join(cell.ljust(12) for cell in line).rstrip() for line in lines) + "\n", flush=True)
    return worst


def java() -> ModuleType:
    """streamtime.java, which needs nothing installed."""
    spec = importlib.util.spec_from_file_location("java", ROOT / "catalog" / "java.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def java_problem() -> str | None:
    module = java()
    try:
        module.check()
    except module.JavaError as error:
        return str(error)
    return None


def install(extra: str, folder: Path = VENV, pins: tuple[str, ...] = ()) -> Path:
    """Into a virtual environment, unless the same was installed before. Gives its Python."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + " ".join([extra, *pins]).encode()).hexdigest()
    stamp = folder / f"installed-{extra}"
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    if not has_pip(python):  # nor has one that was begun where Debian's python3-venv was missing
        print(f"[Making {folder.name} ..]", flush=True)
        venv.create(folder, with_pip=True)
    print(
        f"[Installing streamtime with its {extra} requirements into {folder.name}; Spark alone is 450 MB, so this takes a few minutes ..]",
        flush=True,
    )
    what = ("--quiet", "--editable", f".[{extra}]", *pins)
    if not by_uv(python, *what) and (code := run(python, "-m", "pip", "install", "--disable-pip-version-check", *what)):
        sys.exit(code)
    stamp.write_text(wanted)
    return python


def has_pip(python: Path) -> bool:
    return python.exists() and subprocess.run([str(python), "-m", "pip", "--version"], check=False, capture_output=True).returncode == 0


def by_uv(python: Path, *what: str) -> bool:
    """Installs with uv, which takes a third of pip's time; where it cannot be had, or fails, pip goes on, and says what is wrong."""
    pip = ("pip", "install", "--quiet", "--disable-pip-version-check", "uv")
    uv = ("uv", "pip", "install", "--python", str(python), *what)
    return all(subprocess.run([str(python), "-m", *c], cwd=ROOT, check=False, capture_output=True).returncode == 0 for c in (pip, uv))


def lay_out() -> None:
    """The package as it is installed, for mypy, which does not see through an editable install."""
    package = VENV / "laid-out" / "streamtime"
    shutil.rmtree(package, ignore_errors=True)
    for folder, inside in (("catalog", "."), ("sql", "sql"), ("udfs", "udfs")):
        shutil.copytree(ROOT / folder, package / inside, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


def run(*command: str | Path) -> int:
    return subprocess.run([str(c) for c in command], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
