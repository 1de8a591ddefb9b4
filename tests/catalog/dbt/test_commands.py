"""`streamtime dbt compile` as a command, the package from a repository of git, and docs/dbt.md as a project; no JVM, no server."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import ROOT
from support.pages.documents import blocks

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


def test_the_pages_profile_is_the_examples() -> None:
    page = (ROOT / "docs" / "dbt.md").read_text()
    written = yaml.safe_load("\n".join([block.text for block in blocks(page) if block.language == "yaml"][:3]))["flights"]
    example = yaml.safe_load((ROOT / "examples" / "dbt_project" / "profiles.yml").read_text())["flights"]
    assert written["target"] == example["target"]
    assert written["outputs"].keys() == example["outputs"].keys()
    for target, settings in written["outputs"].items():
        same = {key: value for key, value in example["outputs"][target].items() if not str(value).startswith("{{")}
        assert {key: settings[key] for key in ("type", "method", "threads")} == {key: same[key] for key in ("type", "method", "threads")}
        assert settings.get("poll_interval") == same.get("poll_interval")


def test_the_pages_commands_are_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without what takes minutes: `python3 run.py dbt` is to run the example's script, which test_ways.py does."""
    page = (ROOT / "docs" / "dbt.md").read_text()
    first, own, served, compiled = (block.text for block in blocks(page) if not block.language)
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(run, "install", lambda extra: asked.append((extra,)) or "python")
    monkeypatch.setattr(run, "run", lambda *words: asked.append(words) or 0)
    for line in first.splitlines():
        monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True)[1:])
        assert run.main() == 0
    script = ("python", "examples/dbt_project/build.py")
    expected = [[("examples,dbt",), (*script, *more)] for more in ((), ("--target", "served"), ("--target", "bare"))]
    assert asked == [call for calls in expected for call in calls]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "dbt" in extras
    assert own.startswith("pip install '.[dbt]' ")
    assert shlex.split(served)[2].split("[")[0] in "".join(extras["dbt"])
    package, build = own.splitlines()[1:]
    assert main(shlex.split(package, comments=True)[1:]) == 0
    assert (Path(capsys.readouterr().out.strip()) / "dbt_project.yml").exists()
    assert build == "dbt deps && dbt build"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "dbt_project.yml").touch()
    where: list[Path] = []
    monkeypatch.setattr(project, "compile_project", lambda _, *to: where.extend(to[:2]) or project.Written([], {}))
    assert main(shlex.split(compiled)[1:]) == 0
    assert [path.name for path in where] == ["shop", "shop_plain"]
