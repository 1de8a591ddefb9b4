"""`streamtime dbt compile` as a command, the package from a repository of git, and docs/dbt.md as a project; no JVM, no server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

from streamtime.dbt import project
from streamtime.shell.cli import main


def dbt(command: str, project: Path) -> None:
    """The executable, as a user has it."""
    done = subprocess.run([Path(sys.executable).parent / "dbt", command], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize(
    ("refused", "code", "said"),
    [({}, 0, ""), ({"models/b.sql": "AS_OF_JOIN: it has no plain SQL."}, 1, "models/b.sql: AS_OF_JOIN: it has no plain SQL.")],
)
def test_the_command_names_what_it_wrote_and_fails_where_a_model_could_not_be(
    refused: dict[str, str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = list[Any]()

    def compiled(start: Any, *arguments: Any) -> project.Written:
        asked.extend(arguments)
        return project.Written(["models/a.sql"], refused)

    monkeypatch.setattr(project, "compile_project", compiled)
    options = ["--project-dir", str(tmp_path), "--out", str(tmp_path / "out"), "--target", "prod", "--vars", "{day: 3}"]
    assert main(["dbt", "compile", *options]) == code
    assert asked == [tmp_path, tmp_path / "out", ["--target", "prod"], {"day": 3}]
    out, error = capsys.readouterr()
    assert out == "models/a.sql\n"
    assert said in error
    assert bool(said) == bool(error)


def test_the_command_needs_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dbt", "compile", "--project-dir", str(tmp_path)]) == 1
    assert "there is no dbt_project.yml in" in capsys.readouterr().err


def test_the_package_comes_from_a_folder_of_a_repository(tmp_path: Path) -> None:
    """As docs/dbt.md has it, with a repository that lies here."""
    package, shop = "catalog/dbt/package", tmp_path / "shop"
    shutil.copytree(ROOT / package, tmp_path / "there" / package)
    git = ["git", "-C", str(tmp_path / "there"), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    revision = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    shop.mkdir()
    (shop / "dbt_project.yml").write_text("name: shop\nprofile: shop\nversion: '1.0'\nflags: {send_anonymous_usage_stats: false}\n")
    (shop / "profiles.yml").write_text("shop: {outputs: {here: {type: streamtime, method: session, schema: shop}}, target: here}\n")
    source = f"git: 'file://{tmp_path / 'there'}', subdirectory: {package}, revision: {revision}"
    (shop / "packages.yml").write_text(f"packages: [{{{source}}}]\n")
    dbt("deps", shop)
    assert (shop / "dbt_packages" / "streamtime" / "macros" / "incremental" / "since_kept.sql").exists()


def test_dbt_takes_the_pages_models_tests_and_seeds_as_they_are_written(tmp_path: Path) -> None:
    """It parses them: references, macros and configuration are there. What they answer, test_ways.py has for the example's."""
    page = (ROOT / "docs" / "dbt.md").read_text()
    models = dict(
        zip(("pages", "trap", "log", "prices", "asked", "applied", "kept"), re.findall(r"```jinja\n(.*?)```", page, re.DOTALL), strict=True)
    )
    models |= dict.fromkeys(("alerts", "held_back", "price_changes", "orders", "customer_changes"), "select 1 as one")
    texts = [textwrap.dedent(text) for text in re.findall(r"\n *```yaml\n(.*?)```", page, re.DOTALL)]
    (tests,), (seeds,) = ([text for text in texts if text.startswith(f"{what}:\n")] for what in ("models", "seeds"))
    settings = "name: shop\nprofile: shop\nversion: '1.0'\nflags: {send_anonymous_usage_stats: false}\n"
    files = {f"models/{name}.sql": text for name, text in models.items()} | {
        "models/tests.yml": tests, "dbt_project.yml": f"{settings}{seeds}", "seeds/shifts.csv": "since\n2026-01-01\n",
        "profiles.yml": "shop: {outputs: {here: {type: streamtime, method: session, schema: shop}}, target: here}\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copytree(ROOT / "catalog" / "dbt" / "package", tmp_path / "dbt_packages" / "streamtime")  # where `dbt deps` puts it
    dbt("parse", tmp_path)
    nodes = {node["name"]: node for node in json.loads((tmp_path / "target" / "manifest.json").read_text())["nodes"].values()}
    kinds = {name: nodes[name]["config"]["materialized"] for name in list(models)[:7]}
    assert kinds == {
        "pages": "table", "trap": "incremental", "log": "incremental", "prices": "versioned_table", "asked": "view", "applied": "apply_changes",
        "kept": "maintained",
    }  # fmt: skip
    assert nodes["asked"]["depends_on"]["nodes"] == ["model.shop.orders", "model.shop.prices"]
    assert nodes["shifts"]["config"]["column_types"] == {"since": "timestamp"}
    assert sorted(n["test_metadata"]["name"] for n in nodes.values() if n.get("test_metadata")) == [
        "every_row_accounted_for",
        "no_duplicates_within",
    ]
