"""`streamtime dbt compile`: a dbt project without calls, for a dbt that runs where nothing of ours does.

dbt itself renders the models, by the user's own profile, so that any Jinja of theirs works; `streamtime.compile` makes plain SQL of the
calls; then each relation in the text becomes the `ref`, `source` or `this` again that it was rendered from. What is incremental is rendered
twice, as a first run and as a later one, and `is_incremental()` chooses where the project is built.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from dbt.cli.main import dbtRunner
from jinja2 import Environment
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from streamtime.dbt.compiled import SETTINGS, calls
from streamtime.plain.compiling import compile as compile_
from streamtime.sql.call.errors import CallError, gist, unlogged
from streamtime.sql.syntax.text import quoted

NAME = "dbt compile"
LATER = "streamtime_later_run"  # the variable that says which of the two is rendered
COLUMNS = "streamtime_columns"
MACROS = f"""
{{% macro is_incremental() %}}
  {{{{ return(execute and var('{LATER}', false) and model is defined and model.config.materialized == 'incremental') }}}}
{{% endmacro %}}
"""
# Rendered, this is JSON: the columns of every relation of the project that is there, and settings, asked through the profile's connection
ASKED = """
{%- set found = {} -%}
{%- set settings = {} -%}
{%- if execute -%}
  {%- for name in SETTINGS if adapter.type() in ('spark', 'streamtime') -%}
    {%- do settings.update({name: run_query('set ' ~ name).rows[0][1]}) -%}
  {%- endfor -%}
  {%- for node in graph.nodes.values() | list + graph.sources.values() | list
        if node.get('relation_name') and node.resource_type in ('model', 'seed', 'snapshot', 'source') -%}
    {%- set named = node.get('alias') or node.get('identifier') -%}
    {%- set relation = adapter.get_relation(database=node.database, schema=node.schema, identifier=named) -%}
    {%- if relation -%}
      {%- set columns = {} -%}
      {%- for column in adapter.get_columns_in_relation(relation) -%} {%- do columns.update({column.name: column.dtype}) -%} {%- endfor -%}
      {%- do found.update({node.unique_id: columns}) -%}
    {%- endif -%}
  {%- endfor -%}
{%- endif -%}
{{ tojson({'columns': found, 'settings': settings}) }}
""".replace("SETTINGS", repr(SETTINGS))
UNCOPIED = ("target", "logs", ".git", ".venv")
KINDS = ("model", "analysis", "test", "snapshot")
CONFIG = re.compile(r"\{\{-?\s*config\s*\(")


@dataclass
class Written:
    """What became of a project: the files whose calls are plain SQL now, and those that could not be, each with the reason."""

    compiled: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Relation:
    """What a model may read. `here` is its name in the session that compiles: no other has it, and it ends as the real one does."""

    there: str
    here: str
    jinja: str
    node: str

    @property
    def in_errors(self) -> str:
        """Its name here, as Spark's errors have it."""
        schema, _, name = self.here.partition(".")
        return f"{quoted(schema)}.{name}"


def compile_project(
    start: Callable[[], SparkSession],
    project: Path,
    out: Path,
    options: Sequence[str] = (),
    variables: Mapping[str, Any] = MappingProxyType({}),
) -> Written:
    """Write the project in `project` to the folder `out`, its models, singular tests and analyses without calls.

    `start` gives a session with a JVM; where the profile's method is `session`, dbt has started one before. `options` go to dbt,
    such as `--profiles-dir` and `--target`. Columns of tables are asked through the profile's connection, or stand in the project's YAML
    files as `data_type`; those of models follow from their text. What Jinja computes is computed now.

    Raises CallError where dbt cannot compile the project, or `out` is in use.
    """
    if not (project / "dbt_project.yml").exists():
        raise CallError(NAME, None, f"there is no dbt_project.yml in {project}", "Name the project's folder with --project-dir.")
    if out.exists() and any(out.iterdir()) and not (out / "dbt_project.yml").exists():
        raise CallError(NAME, "`--out`", f"{out} has files that are no dbt project", "Name a new folder.")
    if (project / "profiles.yml").exists() and "--profiles-dir" not in options and "DBT_PROFILES_DIR" not in os.environ:
        options = [*options, "--profiles-dir", str(project)]
    with tempfile.TemporaryDirectory(prefix="streamtime-dbt-") as folder:
        copy = Path(folder) / "project"
        shutil.copytree(project, copy, ignore=_ignored(project, out))
        first = _rendered(copy, options, Path(folder) / "first", variables)
        nodes = [n for n in first["nodes"].values() if n["package_name"] == first["metadata"]["project_name"]]
        later = None
        if any(n["config"].get("materialized") == "incremental" for n in nodes):
            later = _rendered(copy, options, Path(folder) / "later", {**variables, LATER: True})
        shutil.copytree(project, out, ignore=_ignored(project, out), dirs_exist_ok=True)
    compiler = Compiler(start(), first, later)
    try:
        return compiler.written(project, out)
    finally:
        compiler.close()


def _ignored(project: Path, out: Path) -> Any:
    """What is not of the project: what dbt writes into it, and what this writes."""

    def ignored(folder: str, names: list[str]) -> list[str]:
        top = Path(folder) == project
        paths = {n: Path(folder, n) for n in names}
        ours = [n for n, path in paths.items() if path.resolve() == out.resolve() or (path / "metastore").is_dir()]
        return [*ours, *(n for n in names if top and n in UNCOPIED)]

    return ignored


def _rendered(copy: Path, options: Sequence[str], target: Path, variables: Mapping[str, Any]) -> dict[str, Any]:
    """dbt's manifest, with the text of each node as rendered, of a project to which our question is added."""
    said = yaml.safe_load((copy / "dbt_project.yml").read_text(encoding="utf-8"))
    for paths, name, text in (("macro-paths", LATER, MACROS), ("analysis-paths", COLUMNS, ASKED)):
        place = copy / (said.get(paths) or [{"macro-paths": "macros", "analysis-paths": "analyses"}[paths]])[0]
        place.mkdir(exist_ok=True)
        (place / f"{name}.sql").write_text(text, encoding="utf-8")
    places = ["--project-dir", str(copy), "--target-path", str(target), "--log-path", str(target)]
    done = dbtRunner().invoke(["compile", "--quiet", *options, *places, "--vars", json.dumps(dict(variables), default=str)])
    if not done.success:
        failed = [f"{r.node.original_file_path}: {r.message}" for r in done.result or () if str(r.status) == "error"]
        problem = gist(done.exception) if done.exception else "; ".join(failed) or "see what it says above"
        raise CallError(NAME, None, f"dbt cannot compile the project: {problem}", "It should be one that `dbt compile` takes.")
    manifest: dict[str, Any] = json.loads((target / "manifest.json").read_text(encoding="utf-8"))
    return manifest


class Compiler:
    """Of one project: `first` and `later` are what dbt says of it, as manifests."""

    def __init__(self, spark: SparkSession, first: dict[str, Any], later: dict[str, Any] | None) -> None:
        self.spark = SparkSession(spark.sparkContext, spark._jsparkSession.newSession())
        self.first, self.later = first["nodes"], (later or first)["nodes"]
        self.project = first["metadata"]["project_name"]
        answer = next(n for n in self.first.values() if n["name"] == COLUMNS)
        asked = json.loads(answer["compiled_code"])
        self.known: dict[str, dict[str, str]] = asked["columns"]
        for name, value in asked["settings"].items():
            if value != "<undefined>":
                self.spark.conf.set(name, value)
        self.relations = list(self._relations({**self.first, **first["sources"]}))
        self.there = set[str]()  # relations that are there in this session, by their names here

    def written(self, project: Path, out: Path) -> Written:
        """Writes them."""
        done = Written()
        for node in self._in_order():
            if node["name"] == COLUMNS or node.get("compiled_code") is None:
                continue
            own, kind, path = node["package_name"] == self.project, node["resource_type"], node["original_file_path"]
            texts = [self._here(n[node["unique_id"]]["compiled_code"]) for n in (self.first, self.later)]
            try:
                plain = [self._plain(text, node) for text in dict.fromkeys(texts)]
            except (PySparkException, ValueError) as error:
                if any(map(calls, texts)):
                    done.refused[path] = self._back(str(error), as_jinja=False)
                continue
            if own and kind in KINDS and not node.get("test_metadata") and any(map(calls, texts)):
                if kind == "snapshot" or not path.endswith(".sql"):
                    done.refused[path] = "a call cannot stand in a snapshot's file. Select from a model that has the call."
                    continue
                (out / path).write_text(self._file((project / path).read_text(encoding="utf-8"), plain, node), encoding="utf-8")
                done.compiled.append(path)
        return done

    def close(self) -> None:
        """Leaves the session's catalog as it was."""
        for here in self.there:
            self.spark.sql(f"DROP SCHEMA IF EXISTS {here.partition('.')[0]} CASCADE")

    def _in_order(self) -> list[dict[str, Any]]:
        """The nodes, each behind those that it reads."""
        seen, placed = set[str](), list[dict[str, Any]]()

        def place(name: str) -> None:
            if name in self.first and name not in seen:
                seen.add(name)
                for other in self.first[name].get("depends_on", {}).get("nodes", ()):
                    place(other)
                placed.append(self.first[name])

        for name in sorted(self.first):
            place(name)
        return placed

    def _relations(self, nodes: Mapping[str, Any]) -> Iterator[Relation]:
        for number, (name, node) in enumerate(sorted(nodes.items())):
            if node.get("relation_name") and node["resource_type"] in ("model", "seed", "snapshot", "source"):
                if node["resource_type"] == "source":
                    jinja = f"source({node['source_name']!r}, {node['name']!r})"
                elif node["package_name"] == self.project and not node.get("version"):
                    jinja = f"ref({node['name']!r})"
                else:
                    version = f", v={node['version']!r}" if node.get("version") else ""
                    jinja = f"ref({node['package_name']!r}, {node['name']!r}{version})"
                last = re.sub(r"[^A-Za-z0-9_]", "_", node.get("alias") or node["identifier"])  # all that a view here may be called
                here = f"streamtime_ref_{number}.{quoted(last)}"
                yield Relation(node["relation_name"], here, f"{{{{ {jinja} }}}}", name)

    # -- one text

    def _here(self, text: str) -> str:
        """With the names that relations have in this session."""
        for relation in sorted(self.relations, key=lambda r: -len(r.there)):
            text = re.sub(rf"(?<![\w`.]){re.escape(relation.there)}(?![\w`])", lambda _, r=relation: r.here, text)  # type: ignore[misc]
        return text

    def _back(self, text: str, as_jinja: bool, this: str = "") -> str:
        """With the names that they have there or, in a file, as Jinja that says them; `this` is the node whose file it is."""
        if as_jinja:
            text = re.sub(r"\{[{%#]", lambda mark: f"{{{{ '{mark[0]}' }}}}", text)  # what is no Jinja, and shall not become some
        for relation in self.relations:
            jinja = "{{ this }}" if relation.node == this else relation.jinja
            text = text.replace(relation.here, jinja if as_jinja else relation.there)
            text = text.replace(relation.in_errors, relation.there)
        return text

    def _plain(self, text: str, node: dict[str, Any]) -> str:
        """Without calls; what others read by this node's name has its columns then. Raises as `streamtime.compile` does."""
        read = [r for r in self.relations if r.here in text]
        for relation in read:
            self._show(relation)
        try:
            with unlogged():
                plain = compile_(self.spark, text) if calls(text) else text
        except AnalysisException as error:
            for relation in read:
                if relation.here not in self.there and relation.in_errors in str(error):
                    fix = "Build it once, or give each column a data_type in the project's YAML."
                    raise CallError(NAME, None, f"nothing says which columns {relation.there} has", fix) from None
            raise
        own = next((r for r in self.relations if r.node == node["unique_id"]), None)
        if own is not None and own.here not in self.there:
            with suppress(PySparkException), unlogged():  # by functions of the warehouse alone: what that says of the columns then counts
                self.known[own.node] = {f.name: f.dataType.simpleString() for f in self.spark.sql(plain).schema}
        return plain

    def _show(self, relation: Relation) -> None:
        """As a view of this session, if its columns are known."""
        node = self.first.get(relation.node, {})
        columns = self.known.get(relation.node) or {n: c["data_type"] for n, c in node.get("columns", {}).items() if c.get("data_type")}
        if relation.here not in self.there and columns:
            values = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in columns.items())
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {relation.here.partition('.')[0]}")
            self.spark.sql(f"CREATE OR REPLACE VIEW {relation.here} AS SELECT {values} WHERE false")
            self.there.add(relation.here)

    # -- one file

    def _file(self, raw: str, plain: Sequence[str], node: dict[str, Any]) -> str:
        made = [self._back(text, as_jinja=True, this=node["unique_id"]).strip() for text in plain]
        head = "".join(f"{block}\n" for block in configs(raw))
        if len(made) == 1:
            return f"{head}{made[0]}\n"
        reads = sorted({r.jinja for r in self.relations if r.node != node["unique_id"] and any(r.here in text for text in plain)})
        depends = "".join(f"-- depends_on: {one}\n" for one in reads)
        return f"{depends}{head}{{% if is_incremental() %}}\n{made[1]}\n{{% else %}}\n{made[0]}\n{{% endif %}}\n"


def variables(text: str) -> dict[str, Any]:
    """What `--vars` says. Raises CallError."""
    try:
        project = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CallError(NAME, "`--vars`", f"no YAML: {gist(error)}", "Write it as '{day: 2026-01-01}'.") from None
    if not isinstance(project, dict):
        raise CallError(NAME, "`--vars`", f"expected names and values, got {text}", "Write it as '{day: 2026-01-01}'.")
    return project


def configs(text: str) -> list[str]:
    """The `{{ config(..) }}` blocks of a file, as written."""
    texts, open_, at = list[str](), "", 0
    for _, kind, piece in Environment(autoescape=False).lex(text):
        at += len(piece)
        if kind == "variable_begin":
            open_ = piece
        elif open_:
            open_ += piece
            if kind == "variable_end":
                texts += [open_.strip()] if CONFIG.match(open_) else []
                open_ = ""
    return texts
