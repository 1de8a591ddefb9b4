"""README.md and docs/*.md: each block runs, and shows what it really puts out. STREAMTIME_GOLDEN=write makes what is shown anew."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support import PROGRAMS, ROOT, TESTS
from support.pages.documents import Reader, blocks

from streamtime.shell.script import statements

PAGES = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
CONVERSATIONS = {"docs/assignment.md": "assign"}  # where the blocks are run by tests/golden, as parts of a longer story
RUN = {page: path for page, path in PAGES.items() if page not in CONVERSATIONS}
# A page's tables have a few rows
SMALL = {"spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1", "spark.sql.adaptive.enabled": "false"}
# Why blocks are not run, and how many
NOT_RUN = {
    "for Databricks, where nothing of this was run": 1,
    "it installs, or takes minutes": 10,
    "it is a log, with times in it": 1,
    "tests/catalog/dbt/test_ways.py runs it": 16,
    "tests/catalog/server/test_serving.py runs it": 4,
    "tests/catalog/shell runs it": 3,
    "tests/catalog/statements/test_query.py runs it": 2,
    "tests/whole/test_cluster.py runs it": 3,
    "tests/whole/test_pipelines.py runs it": 4,
    "tests/whole/test_start.py submits it": 2,
    "text of another engine": 6,
}


@pytest.fixture
def own(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of the page's own: its views go with it, its schemas afterwards."""
    session = spark.newSession()
    there = {row[0] for row in session.sql("SHOW SCHEMAS").collect()}
    for name, value in SMALL.items():
        session.conf.set(name, value)
    session.sql("CREATE SCHEMA a_page")
    session.sql("USE a_page")
    yield session
    for (name,) in session.sql("SHOW SCHEMAS").collect():
        if name not in there:
            session.sql(f"DROP SCHEMA `{name}` CASCADE")


@pytest.mark.short("what readers try first")
@pytest.mark.parametrize("page", [page for page, path in RUN.items() if "```" in path.read_text()])
def test_a_page_shows_what_its_blocks_put_out(page: str, own: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGES[page].read_text()
    read = Reader(own, tmp_path, monkeypatch).read(text)
    if os.environ.get("STREAMTIME_GOLDEN") == "write" and own.version.startswith("4.2."):
        PAGES[page].write_text(read)
    assert read == PAGES[page].read_text()


@pytest.mark.parametrize(("page", "statements_on_it", "rows_on_it"), [("docs/assignment.md", 11, 27)])
def test_a_page_shows_what_its_conversation_says(page: str, statements_on_it: int, rows_on_it: int) -> None:
    """Each statement on the page is asked there, and each row of its tables is an answer."""
    text = PAGES[page].read_text()
    golden = TESTS / "golden" / CONVERSATIONS[page]
    asked = {" ".join(s.sql.split()) for s in statements(golden.with_suffix(".sql").read_text())}
    answered = golden.with_suffix(".out").read_text().splitlines()
    shown = [" ".join(s.sql.split()) for block in re.findall(r"```sql\n(.*?)```", text, re.DOTALL) for s in statements(block)]
    assert len(shown) == statements_on_it
    assert [s for s in shown if s not in asked] == []
    rows = [line for block in re.findall(r"```text\n.*?\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    assert len(rows) == rows_on_it
    assert [row for row in rows if re.sub(r"  +", " | ", row) not in answered] == []


def test_what_is_not_run_has_one_of_these_reasons() -> None:
    found = Counter(block.unrun for path in RUN.values() for block in blocks(path.read_text()) if block.unrun)
    assert dict(found) == NOT_RUN


# Pages of a place where people work: what starts there
PLACES = {
    "dbt": "python3 run.py dbt", "doors": "streamtime.session()", "expectations": "streamtime.session()", "install": "streamtime sql",
    "monitoring": "streamtime.session()", "notebooks": "%load_ext streamtime", "pipelines": "streamtime serve", "plain": "streamtime.session()",
    "serve": "streamtime serve", "shell": "streamtime sql", "udtf": "streamtime.session()",
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_page_of_a_place_begins_with_how_to_install_how_to_start_and_a_first_answer(place: str) -> None:
    """Before its first heading, in this order; `python3 run.py` installs, starts and answers."""
    top = (ROOT / "docs" / f"{place}.md").read_text().split("\n## ")[0]
    install = top.find("python3 run.py" if place == "dbt" else "pip install")
    start = top.find(PLACES[place], install)
    answer = re.compile(r"```text|^\| ?\w+ .*\|$|-e \"|select \*|^\$ ", re.MULTILINE).search(top, max(start, 0))
    assert 0 <= install <= start
    assert answer is not None


def test_what_another_test_runs_is_taken_from_the_page() -> None:
    """That test, or a program that it starts, reads the page: what is changed there is changed in the test."""
    named = {
        (page, found[1])
        for page, path in RUN.items()
        for block in blocks(path.read_text())
        if (found := re.match(r"(tests/\S+) ", block.unrun)) is not None
    }
    assert len(named) > 5
    programs = "".join(path.read_text() for path in PROGRAMS.glob("*_client.py"))
    silent = []
    for page, where in sorted(named):
        files = [ROOT / where] if where.endswith(".py") else (ROOT / where).glob("*.py")
        if Path(page).name not in "".join(path.read_text() for path in files) + programs:
            silent.append((page, where))
    assert silent == []


def test_a_page_begins_with_an_example() -> None:
    """A block, a table or a picture within the first 25 lines."""
    late = [page for page, path in PAGES.items() if not re.search(r"(?m)^(```|\||!\[)", "\n".join(path.read_text().splitlines()[:25]))]
    assert late == []


class Statements(HTMLParser):
    """What the cheat sheet has in <pre>, and what it needs for that in <template>."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.found = "", [""]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("pre", "template"):
            self.inside = tag
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = "" if tag == self.inside else self.inside

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.found[-1] += data


@pytest.mark.short("what readers try first")
def test_all_of_the_cheat_sheet_is_right(own: SparkSession) -> None:
    """What is wrong with a call is said when it is analysed."""
    seen = Statements()
    seen.feed((ROOT / "docs" / "cheatsheet.html").read_text())
    asked = [own.sql(statement.sql) for text in seen.found for statement in statements(text)]
    assert sum(bool(df.columns) for df in asked) == 18


PAGE = """\
# A page

```sql
SELECT 1 AS a;
```

| b |
|--:|
| 1 |

Prose.

```text
no output of anything
```
"""


def test_what_is_wrong_on_a_page_is_found(own: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(own, tmp_path, monkeypatch)
    first = PAGE.partition("\nProse.")[0]
    assert reader.read(first) == first.replace("| b |", "|   a |\n|----:|\n|   1 |\n\n| b |")
    with pytest.raises(AssertionError, match="line 4: it puts out nothing"):
        reader.read("# Setup\n\n```sql\nUSE default;\n```\n\n| b |\n|--:|\n")
    with pytest.raises(AssertionError, match="line 14: is `text` output"):
        reader.read(PAGE)
    with pytest.raises(ValueError, match="line 1: neither a block nor prose"):
        list(blocks("  ```sql\nSELECT 1\n  ```"))
    with pytest.raises(ValueError, match="line 2: neither a block nor prose"):
        list(blocks("<!-- not run: no block follows -->\nprose"))
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):  # an error that is not shown as one
        reader.read("```sql\nSELECT nothing;\n```\n\n| x |\n|---|\n")
