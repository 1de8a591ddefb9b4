"""What MkDocs does not do by itself: the README as first page, links to files outside of docs/, and a navigation that follows the shelf."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
PARTS = {
    "Start": ("index", "install", "cookbook", "from", "differences", "glossary"),
    "How to": (
        "as_of",
        "maintain",
        "versioned",
        "changelogs",
        "streams",
        "monitoring",
        "assignment",
        "plain",
        "dbt",
        "expectations",
        "serve",
        "shell",
        "notebooks",
        "pictures",
        "pipelines",
        "doors",
    ),
    "Reference": ("semantics",),  # after the functions
    "Running it": ("troubleshooting", "versions", "speed", "scale", "security", "udtf", "conformance"),
}
ALSO = ("CONTRIBUTING.md", "CHANGELOG.md")  # pages that stand outside of docs/
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")
FOLDER = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)\)")
COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation: the parts, what no part names, and the functions in the order of docs/reference/README.md, which is the shelf's."""
    docs = Path(config.docs_dir)
    named = {name for names in PARTS.values() for name in names}
    others = sorted(path.stem for path in docs.glob("*.md") if path.stem not in named)
    functions = re.findall(r"\]\((\w+\.md)\)", (docs / "reference" / "README.md").read_text())
    parts = {title: [f"{name}.md" for name in names if name == "index" or (docs / f"{name}.md").exists()] for title, names in PARTS.items()}
    parts["Reference"] = ["reference/README.md", *(f"reference/{name}" for name in functions), *parts["Reference"]]
    more = [f"{name}.md" for name in others] + list(ALSO)
    config.nav = [{title: pages} for title, pages in parts.items()] + [{"More": more}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """README.md as index.md, and the files outside of docs/ that pages link to."""
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text().replace("](docs/", "](")))
    for name in ALSO:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    for page in files.documentation_pages():
        for _, target, _ in LINK.findall(page.content_string):
            outside = _outside(page.src_uri, target)
            if outside and files.get_file_from_path(outside) is None:
                files.append(File.generated(config, outside, content=(ROOT / outside.removeprefix("repository/")).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Links to files outside of docs/ lead to their copies, those to folders are text; comments, which say what tests run, are left out."""

    def link(found: re.Match[str]) -> str:
        outside = _outside(page.file.src_uri, found[2])
        return f"{found[1]}{outside}{found[3]}" if outside else found[0]

    def folder(found: re.Match[str]) -> str:
        return found[1] if (ROOT / found[2].removeprefix("../")).is_dir() else found[0]

    return LINK.sub(link, FOLDER.sub(folder, COMMENT.sub("", markdown)))


def _outside(page: str, target: str) -> str | None:
    """Where the copy of a linked file stands that is not in docs/; None for all others. Pages in folders have no such links."""
    inside = target.removeprefix("../")
    if inside in ALSO:
        return inside if inside != target else None
    if inside != target or (page in ("index.md", *ALSO) and (ROOT / target).is_file() and not (ROOT / "docs" / target).exists()):
        return f"repository/{inside}" if (ROOT / inside).is_file() else None
    return None
