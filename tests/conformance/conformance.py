"""Which engines give what the calls give: `python3 run.py conformance`.

Compiles the cases, runs the plain SQL on each engine, in a process that has nothing of the pack, and compares columns and rows. Prints a table
of functions and engines, and what an engine could not do. `--write` puts it into docs/conformance.md.

--engines spark-4.2,spark-4.0,sail,duckdb   which; all of them without it
--connect module:function                   an engine of yours that speaks Spark SQL: a function that gives a DB-API connection, in UTC. It
                                            alone, without --engines; and its certificate, as certificate-NAME.json and .md
--out FOLDER                                where certificates go, of every engine that runs; without it, yours goes into this folder
--only DEDUPLICATE                          statements with this text alone
--bundle FOLDER                             keep cases, tables and results there, to run them elsewhere
--again                                     run the cases in that folder that have no answer there, and compile none
--cases                                     instead, what the functions' own tests ask (--cases FILE .. for some of them): their statements, kept
                                            with the tables and the rows that the tests compare with their rules; on Spark 4.2 and 4.0.
                                            `--write` counts them in tests/conformance/cases.json, file by file, and in the page
--patience SECONDS                          for a case, 30 without it: more on a busy machine
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from certificates import as_page, certificate, failures, issued, write

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SAIL = ("pysail==0.7.2", "pyspark[connect]==4.1.1", "pandas>=2.2,<3", "pyarrow>=18")
PATIENCE = 30  # seconds for a case
STARTING = 300  # for an engine to begin, and longer with more patience
ENGINES = ("spark-4.2", "spark-4.0", "sail", "duckdb")
SPARKS = ENGINES[:2]
COUNTED = HERE / "cases.json"  # how many cases of each file of tests passed
PAGE = ROOT / "docs" / "conformance.md"
TESTS = (  # whose statements are cases
    "tests/catalog/plain/test_compiling.py",
    "tests/sql/as_of",
    "tests/sql/call/test_names.py",
    "tests/sql/call/test_name_case.py",
    "tests/sql/functions",
    "tests/sql/rows",
    "tests/sql/suppress",
    "tests/sql/syntax/test_as_of_syntax.py",
    "tests/sql/tables",
    "tests/sql/windows",
    "tests/whole/test_golden.py",
)
HEADING = "## What the functions' own tests ask"
ALONE = {  # why --connect does not go with --cases, and with --write
    True: "these cases read Delta tables, which lie here.",
    False: "docs/conformance.md is of the engines that everybody can install. An engine of yours gets a certificate.",
}
CONNECTION = "What it said stands above. Its module must lie here or be installed, and its function gives a DB-API connection."
OWN = """\
## On an engine of yours

Anybody can do the same on another engine, and gets a certificate of what passed. The engine needs Spark SQL, `CREATE OR REPLACE TEMPORARY
VIEW` (the cases' rows come as `VALUES`, so nothing is uploaded), a session in UTC with ANSI mode on, timestamps in microseconds from year 1 to
9999, and a DB-API driver that gives all of these, arrays and structs as values of Python. (Rows that PySpark collects stop at times in the year
1: `year 0 is out of range`. Those of `toArrow()` do not.) Install the driver with `.venv/bin/python -m pip install`; put a module beside `run.py`:

```python
# my_engine.py
def connect():
    from databricks import sql

    return sql.connect(server_hostname="..", http_path="..", access_token="..", session_configuration={"timezone": "UTC"})
```

Then `python3 run.py conformance --connect my_engine:connect` makes the cases, which takes some minutes, runs that engine alone, and writes
`certificate-my_engine.json` and `certificate-my_engine.md` into this folder, or into that of `--out`. A certificate has the engine and its
version, the version of the pack, the date, how many cases of each function passed, each case that failed with its statement and what the
engine said, and the statements that no engine can pass, with the reason. It begins so:

| function | passed | has no plain SQL |
|---|---|---|
| `AS_OF_JOIN` | 10 of 10 | |
| `DEDUPLICATE` | 60 of 63 | |

A case that gets no answer for 30 seconds has failed; `--patience 300` waits longer. `--only DEDUPLICATE` asks for less. With `--bundle
FOLDER` cases and answers stay there, and `--again` goes on where a run ended. Names of columns are compared, their types are not.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run.py conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="")
    parser.add_argument("--cases", nargs="*")
    parser.add_argument("--connect", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--bundle", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--patience", type=int, default=PATIENCE)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    if options.again and not options.bundle:
        print("--again needs --bundle: the folder that has the cases.", file=sys.stderr)
        return 2
    of_tests = options.cases is not None
    engines = [e for e in options.engines.split(",") if e] or list(() if options.connect else SPARKS if of_tests else ENGINES)
    if unknown := [e for e in engines if e not in ENGINES]:
        print(f"There is no engine {unknown[0]}; there are {', '.join(ENGINES)}, and --connect for yours.", file=sys.stderr)
        return 2
    if options.connect and (of_tests or (options.write and not engines)):
        print(f"--connect does not go with {'--cases' if of_tests else '--write'}: {ALONE[of_tests]}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.bundle or temporary).resolve()
        if not options.again and of_tests:
            kept(folder, options.cases or list(TESTS))
        elif not options.again:
            bundled(folder, options.only)
        cases, refused = (json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("cases", "refused"))
        asked = {engine: (engine, "") for engine in engines}  # by what a certificate is called
        if options.connect:
            asked[options.connect.partition(":")[0]] = ("own", options.connect)
        try:
            results = {name: ran(engine, folder, connect, options.patience, options.again) for name, (engine, connect) in asked.items()}
        except (subprocess.CalledProcessError, RuntimeError) as error:
            if not options.connect:
                raise
            ended = f"ended before all cases had run ({error.returncode})" if isinstance(error, subprocess.CalledProcessError) else error
            print(f"{options.connect}: {ended}. {CONNECTION}", file=sys.stderr)
            return 1
    by_name = {name: certificate(cases, its) for name, its in results.items()}
    certificates = list(by_name.values())
    if options.out or options.connect:
        for name, one in by_name.items():
            made = issued(cases, refused, one)
            print(as_page(made))
            print("Its certificate:", *write(Path(options.out), name, made), file=sys.stderr)
        if not engines:
            return 0
    if of_tests:
        found = counted(cases, refused, certificates)
        print(of_files(found), *failures(certificates), sep="\n")
        if options.write:
            known = json.loads(COUNTED.read_text(encoding="utf-8")) if COUNTED.exists() else {}
            COUNTED.write_text(json.dumps(dict(sorted((known | found).items())), indent=1) + "\n", encoding="utf-8")
            PAGE.write_text(PAGE.read_text(encoding="utf-8").partition(HEADING)[0] + of_files(known | found), encoding="utf-8")
        return int(any(c["failed"] for c in certificates))
    text = report(cases, Counter(one["function"] for one in refused), certificates)
    print(text)
    if options.write:
        known = json.loads(COUNTED.read_text(encoding="utf-8")) if COUNTED.exists() else {}
        PAGE.write_text(text + ("\n" + of_files(known) if known else ""), encoding="utf-8")
    return 0


def kept(folder: Path, files: Sequence[str]) -> None:
    """Runs tests, and keeps in a folder what they ask. A test that fails is no reason to stop: its rows are compared all the same."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pytest", "-q", "--plain-bundle", str(folder), *files], cwd=ROOT, check=False, stdout=sys.stderr)


def counted(
    cases: Sequence[Mapping[str, Any]], refused: Sequence[Mapping[str, str]], certificates: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """By file of tests and function: how many cases there are, how many each engine passed, how many statements have no plain SQL."""
    found: dict[str, Any] = {}

    def of(file: str, function: str) -> Counter[str]:
        return found.setdefault(file, {"date": f"{datetime.now(UTC):%Y-%m-%d}"}).setdefault(function, Counter())  # type: ignore[no-any-return]

    for case in cases:
        counts = of(case["name"].rpartition(" ")[0], case["function"])
        counts["cases"] += 1
        for one in certificates:
            counts[one["engine"]] += case["name"] not in one["failed"]
    for one in refused:
        of(one["origin"], one["function"])["refused"] += 1
    return found


def of_files(found: Mapping[str, Any]) -> str:
    """A part of the page: by function, how many cases each engine passed."""
    functions: dict[str, Counter[str]] = {}
    engines: dict[str, None] = {}
    for file in found.values():
        for function, counts in file.items():
            if function != "date":
                functions.setdefault(function, Counter()).update(counts)
                engines |= dict.fromkeys(name for name in counts if name not in ("cases", "refused"))
    dates = sorted(file["date"] for file in found.values())
    lines = [
        HEADING,
        "",
        "Made by `python3 run.py conformance --cases --write`: the statements of tests that compare a call's rows with what is right. Each was",
        "kept with its tables, Delta tables among them, and with the call's rows and columns; its plain SQL ran on each Spark, in a process",
        "without the pack, under the settings of the session that asked. Which tests were kept stands below the table.",
        "",
        f"{sum(c['cases'] for c in functions.values())} cases, {dates[0]} to {dates[-1]}.",
        "",
        "| function | " + " | ".join(engines) + " | has no plain SQL |",
        "|---" * (len(engines) + 2) + "|",
    ]
    for function, counts in sorted(functions.items()):
        passed = [f"{counts[engine]} of {counts['cases']}" for engine in engines]
        lines.append(f"| `{function}` | " + " | ".join(passed) + f" | {counts['refused'] or ''} |")
    lines += ["", "The files: " + ", ".join(f"`{name.removeprefix('tests/')}`" for name in sorted(found)) + "."]
    return "\n".join(lines) + "\n"


def bundled(folder: Path, only: str) -> None:
    """Writes the cases into a folder."""
    import bundle

    import streamtime

    (folder / "tables").mkdir(parents=True, exist_ok=True)
    spark = streamtime.session(cores=2, memory="2g", settings={"spark.sql.shuffle.partitions": "3", "spark.sql.session.timeZone": "UTC"})
    print("[Compiling the cases, and running the calls ..]", file=sys.stderr, flush=True)
    bundle.made(spark, folder, only)
    spark.stop()


def ran(engine: str, folder: Path, connect: str = "", patience: int = PATIENCE, again: bool = False) -> dict[str, Any]:
    """What an engine makes of a bundle. One that gives no answer to a case is stopped, and goes on with the next."""
    results = folder / f"{connect.replace(':', '.') or engine}.json"
    if not again:
        results.unlink(missing_ok=True)
    names = [case["name"] for case in json.loads((folder / "cases.json").read_text(encoding="utf-8"))]
    if again and results.exists():
        known = json.loads(results.read_text(encoding="utf-8"))
        if known["found"].keys() >= set(names):
            return dict(known)
    command = [
        str(python(engine)),
        str(HERE / "engine.py"),
        engine.partition("-")[0],
        str(folder),
        str(results),
        *([connect] if connect else []),
    ]
    environment = dict(os.environ)
    if engine.startswith("spark-"):
        environment["DELTA_JARS"] = jars(command[0])
    while not answered(engine, subprocess.Popen(command, stdout=sys.stderr, env=environment), results, patience):
        known = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {"engine": engine, "found": {}}
        stuck = next((name for name in names if name not in known["found"]), None)
        if stuck is None:  # it only did not end
            break
        known["found"][stuck] = {"error": f"no answer within {patience} s"}
        results.write_text(json.dumps(known), encoding="utf-8")
    return dict(json.loads(results.read_text(encoding="utf-8")))


def answered(engine: str, process: subprocess.Popen[bytes], results: Path, patience: int) -> bool:
    """Waits for an engine to end. False: it had nothing new for too long, and was stopped. It writes its results when it begins, too."""
    begun = before = changed(results)
    starting = max(STARTING, 10 * (patience - PATIENCE))
    since = time.monotonic()
    while process.poll() is None:
        time.sleep(1)
        now = changed(results)
        if now != before:
            before, since = now, time.monotonic()
        if time.monotonic() - since > (starting if now == begun else patience):
            process.kill()
            process.wait()
            if now == begun:
                raise RuntimeError(f"{engine} did not begin within {starting} s")
            return False
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return True


def jars(python: str) -> str:
    """Where the jars of Delta are that go with the Spark of a Python."""
    asked = "import os; from streamtime.session import delta_jars; print(os.pathsep.join(map(str, delta_jars())))"
    return subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()


def changed(results: Path) -> float | None:
    """When a file was written last; None: there is none."""
    return results.stat().st_mtime if results.exists() else None


def python(engine: str) -> Path | str:
    """The Python that has an engine."""
    sys.path.insert(0, str(ROOT))
    import run

    if engine.startswith("spark-"):
        return run.on_spark(engine.removeprefix("spark-"))
    if engine != "sail":
        return sys.executable
    folder = ROOT / ".venv-sail"
    found = folder / "bin" / "python"
    if not (folder / "installed").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *SAIL], check=True, stdout=sys.stderr)
        (folder / "installed").touch()
    return found


def report(cases: Sequence[Mapping[str, Any]], refused: Mapping[str, int], certificates: Sequence[Mapping[str, Any]]) -> str:
    """A table of functions and engines, as Markdown, and below it what failed."""
    functions = sorted({case["function"] for case in cases} | set(refused))
    lines = [
        "# Engines that run the plain SQL of our calls",
        "",
        "Made by `python3 run.py conformance --write`: each case is a call over rows as bad as they get (NULL in every role, ties, years 1 to 9999),",
        "or a statement of the conversations in `tests/golden`. Its plain SQL ran on each engine, in a process without the pack. It passes where",
        "columns and rows are those of the call. DuckDB's SQL is another: sqlglot translates the text, macros say what it leaves, and rows alone are",
        "compared. Databricks: not run there.",
        "",
        f"{len(cases)} cases, {datetime.now(UTC):%Y-%m-%d}.",
        "",
        "| function | " + " | ".join(c["engine"] for c in certificates) + " | has no plain SQL |",
        "|---" * (len(certificates) + 2) + "|",
    ]
    for function in functions:
        mine = [case["name"] for case in cases if case["function"] == function]
        passed = [f"{sum(name not in c['failed'] for name in mine)} of {len(mine)}" for c in certificates]
        lines.append(f"| `{function}` | " + " | ".join(passed) + f" | {refused.get(function, 0) or ''} |")
    return "\n".join([*lines, "", OWN.rstrip("\n"), *failures(certificates)]) + "\n"


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    sys.exit(main())
