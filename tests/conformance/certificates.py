"""What an engine passed of the cases, and what became of the others: as data, and as a page that a person reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ABOUT = """\
Each case is a call of the pack over rows as bad as they get (NULL in every role, ties, years 1 to 9999), or a statement of the conversations
in `tests/golden`. Its plain SQL ran on the engine, in a process without the pack. It passes where names of columns and rows are those of the
call. Types of columns are compared on Spark and Sail alone: others do not tell them in Spark's words."""


def certificate(cases: Sequence[Mapping[str, Any]], results: Mapping[str, Any]) -> dict[str, Any]:
    """Which cases an engine passed, and what became of the others."""
    failed = {}
    for case in cases:
        its = results["found"].get(case["name"], {"error": "did not run"})
        names = case.get("names")  # of columns, which cases of an older bundle have not
        if case["rows"] is None:
            if "columns" not in its or "error" not in its:
                failed[case["name"]] = its.get("error", "the call fails when it runs, and this does not")
            elif its["columns"] != case["columns"]:
                failed[case["name"]] = f"other columns: {its['columns']}"
        elif "error" in its:
            failed[case["name"]] = its["error"]
        elif its["columns"] and its["columns"] != case["columns"]:
            failed[case["name"]] = f"other columns: {its['columns']}"
        elif names and its.get("names", names) != names:
            failed[case["name"]] = f"other columns: {', '.join(its['names'])}"
        elif "rows" in its and its["rows"] != case["rows"]:
            failed[case["name"]] = f"other rows: {len(its['rows'])} in place of {len(case['rows'])}" + first_difference(
                case["rows"], its["rows"]
            )
    return {"engine": results["engine"], "failed": failed}


def first_difference(wanted: list[Any], given: list[Any]) -> str:
    known = {json.dumps(row) for row in given}
    missing = next((row for row in wanted if json.dumps(row) not in known), None)
    return "" if missing is None else f", {json.dumps(missing)} is missing"


def reasons(failed: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """What engines said, and the cases of which they said so; what most cases have comes first."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in failed.items():
        by_reason.setdefault(shortened(reason), []).append(name)
    return sorted(by_reason.items(), key=lambda item: -len(item[1]))


def failures(certificates: Sequence[Mapping[str, Any]]) -> list[str]:
    """What failed on each engine, and why."""
    lines: list[str] = []
    for one in certificates:
        if one["failed"]:
            lines += ["", f"## What {one['engine']} lacks", "", "| cases | what it said |", "|---|---|"]
            lines += [f"| {len(names)}, e.g. {names[0]} | {reason} |" for reason, names in reasons(one["failed"])]
    return lines


def shortened(reason: str) -> str:
    text = " ".join(reason.split()).replace("|", "\\|").replace("`", "'")
    return text if len(text) <= 160 else text[:160].rsplit(" ", 1)[0] + " .."


def issued(cases: Sequence[Mapping[str, Any]], refused: Sequence[Mapping[str, str]], judged: Mapping[str, Any]) -> dict[str, Any]:
    """A certificate as data: who ran what and when, how many cases of each function passed, what failed, what has no plain SQL."""
    from streamtime.version import VERSION

    failed, functions = judged["failed"], dict[str, dict[str, int]]()
    for case in cases:
        counts = functions.setdefault(case["function"], {"cases": 0, "passed": 0})
        counts["cases"] += 1
        counts["passed"] += case["name"] not in failed
    return {
        "engine": judged["engine"],
        "pack": f"streamtime {VERSION}",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cases": len(cases),
        "passed": len(cases) - len(failed),
        "functions": dict(sorted(functions.items())),
        "failed": {
            case["name"]: {"function": case["function"], "statement": case["statement"], "said": failed[case["name"]]}
            for case in cases
            if case["name"] in failed
        },
        "cannot pass": [{"function": one["function"], "statement": one["statement"], "why": why(one)} for one in refused],
    }


def why(refused: Mapping[str, str]) -> str:
    """Why a statement has no plain SQL, without its place in a text that nobody sees."""
    return refused["why"].partition("; line ")[0]


def as_page(issued: Mapping[str, Any]) -> str:
    """A certificate for people, as Markdown."""
    lines = [
        f"# {issued['engine']}: {issued['passed']} of {issued['cases']} cases passed",
        "",
        f"Plain SQL of {issued['pack']}, {issued['date']}. {ABOUT}",
        "",
        "| function | passed | has no plain SQL |",
        "|---|---|---|",
    ]
    without = [one["function"] for one in issued["cannot pass"]]
    for function in sorted({*issued["functions"], *without}):
        counts = issued["functions"].get(function, {"cases": 0, "passed": 0})
        lines.append(f"| `{function}` | {counts['passed']} of {counts['cases']} | {without.count(function) or ''} |")
    if issued["failed"]:
        lines += ["", "## What failed", "", "| what the engine said | cases |", "|---|---|"]
        said = {name: one["said"] for name, one in issued["failed"].items()}
        lines += [f"| {reason} | {len(names)}: {', '.join(names)} |" for reason, names in reasons(said)]
        lines += ["", "| case | statement |", "|---|---|"]
        lines += [f"| {name} | `{shortened(one['statement'])}` |" for name, one in issued["failed"].items()]
    if issued["cannot pass"]:
        lines += ["", "## What no engine can pass", "", "These statements have no plain SQL, so none of them was asked:", ""]
        lines += ["| statement | why |", "|---|---|"]
        lines += [f"| `{shortened(one['statement'])}` | {shortened(one['why'])} |" for one in issued["cannot pass"]]
    return "\n".join(lines) + "\n"


def write(folder: Path, name: str, issued: Mapping[str, Any]) -> tuple[Path, Path]:
    """Puts a certificate into a folder: for programs, and for people."""
    folder.mkdir(parents=True, exist_ok=True)
    data, page = (folder / f"certificate-{name}.{ending}" for ending in ("json", "md"))
    data.write_text(json.dumps(issued, indent=1) + "\n", encoding="utf-8")
    page.write_text(as_page(issued), encoding="utf-8")
    return data, page
