"""`streamtime dbt compile` as a command, and the package from a repository of git; no JVM, no server."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from dbt.cli.main import dbtRunner
from support import ROOT

from streamtime.dbt import project
from streamtime.shell.cli import main


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
    done = dbtRunner().invoke(["deps", "--quiet", "--project-dir", str(shop), "--profiles-dir", str(shop)])
    assert done.success, done.exception
    assert (shop / "dbt_packages" / "streamtime" / "macros" / "incremental" / "since_kept.sql").exists()
