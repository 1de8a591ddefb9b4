"""The documentation as a site, and the cheat sheet: built strictly, complete, and without a request to another host. No JVM."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pypdf import PdfReader
from support import ROOT

from streamtime.shelf import FUNCTIONS

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    return folder


class Loaded(HTMLParser):
    """What a browser loads of a page by itself; links that wait for a click are not among it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.found.append(given.get("href") or "")
        if tag != "a":
            self.found += [given.get(name) or "" for name in ("src", "srcset", "poster", "data") if name in given]
        self.found += URL.findall(given.get("style") or "")


URL = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s]+)""")
ELSEWHERE = re.compile(r"(?:[a-z]+:)?//")


def loaded(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        yield from URL.findall(text)
        return
    parser = Loaded()
    parser.feed(text)
    yield from parser.found
    for style in re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL):
        yield from URL.findall(style)


def test_a_page_loads_nothing_from_another_host(site: Path) -> None:
    files = [path for suffix in ("html", "css") for path in site.rglob(f"*.{suffix}")]
    assert len(files) > 30
    elsewhere = {path.name: found for path in files if (found := [name for name in loaded(path) if ELSEWHERE.match(name)])}
    assert elsewhere == {}


def test_the_check_finds_what_is_loaded(tmp_path: Path) -> None:
    page, sheet = tmp_path / "page.html", tmp_path / "sheet.css"
    page.write_text(
        '<link rel="stylesheet" href="//a.b/c.css"><a href="https://x.y"></a><img src="z.svg"><style>@import "https://q.r"</style>'
    )
    sheet.write_text("body { background: url('http://m.n/o.png') }")
    assert list(loaded(page)) == ["//a.b/c.css", "z.svg", "https://q.r"]
    assert list(loaded(sheet)) == ["http://m.n/o.png"]


def test_every_page_and_function_is_there_and_found(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md")} - {"reference/README.html"}
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert pages - built == set()
    searched = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    assert {spec.name for spec in FUNCTIONS} - {entry["title"] for entry in searched} == set()
    navigation = re.findall(r'href="([^"]+)"', (site / "index.html").read_text().partition('data-md-component="content"')[0])
    in_order = [name for name in navigation if name.startswith("reference/") and name != "reference/index.html"]
    assert list(dict.fromkeys(in_order)) == [*(f"reference/{spec.name.lower()}.html" for spec in FUNCTIONS), "reference/python.html"]
    assert "<!-- run" not in (site / "changelogs.html").read_text()


def words(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).split())  # a PDF has one sign for f and i


class Text(HTMLParser):
    """What a reader sees of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("head", "template"):
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.inside and tag == self.inside[-1]:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.text += data


def test_the_cheat_sheet_is_one_page_and_says_what_its_html_says() -> None:
    """Where this fails: python3 run.py cheatsheet."""
    seen = Text()
    seen.feed((DOCS / "cheatsheet.html").read_text(encoding="utf-8"))
    printed = PdfReader(DOCS / "cheatsheet.pdf").pages
    assert len(printed) == 1
    assert sorted(words(printed[0].extract_text())) == sorted(words(seen.text))
    assert {spec.name for spec in FUNCTIONS if spec.name not in seen.text} == set()
