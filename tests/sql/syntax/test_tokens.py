"""SQL text as statements, and what of it never ends."""

from __future__ import annotations

import pytest

from streamtime.sql.syntax.tokens import said_from, statements, unclosed


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("SELECT 'open", 7),
        ('SELECT 1 AS x, "open;', 15),
        ("SELECT `open", 7),
        ("SELECT 1 /* /* one */", 9),
        ("SELECT 'it\\'s', \"\"\"\", `a``b` /* /* */ */ -- it's", None),
        ("SELECT r'\\', 'closed' /**/", None),
        ("", None),
    ],
)
def test_strings_names_and_comments_that_never_end_are_found(text: str, at: int | None) -> None:
    assert unclosed(text) == at


def test_statements_lie_between_semicolons() -> None:
    text = "a; 'b;' /* ; */; -- ;\n"
    assert [text[start:end] for start, end in statements(text)] == ["a", " 'b;' /* ; */", " -- ;\n"]


HANDLED = "DECLARE EXIT HANDLER FOR DIVIDE_BY_ZERO BEGIN SELECT 'h'; END; SELECT 1/0;"
BRANCHES = "IF x THEN BEGIN SELECT CASE x WHEN 1 THEN 2 END AS end; END; END IF; CASE WHEN x THEN SELECT 4; END CASE;"
LOOPS = "WHILE x DO SET x = 1; END WHILE; l: LOOP BEGIN END; LEAVE l; END LOOP l; REPEAT SELECT 1; UNTIL x END REPEAT; FOR SELECT 1 DO SELECT 2; END FOR;"


@pytest.mark.parametrize("script", [HANDLED, BRANCHES, LOOPS, "SELECT begin, t.end, end FROM t;", "", "l: BEGIN SELECT 1; END l;"])
@pytest.mark.parametrize("opening", ["BEGIN", "begin NOT ATOMIC", "/* one */ `a b`: BEGIN"])
def test_a_script_is_one_statement(opening: str, script: str) -> None:
    text = f"{opening} {script} END"
    assert [text[slice(*s)] for s in statements(text)] == [text]
    more = f"SELECT 1; {text}; SELECT begin; SELECT CASE WHEN a THEN b END; {text}"
    assert [more[slice(*s)].strip() for s in statements(more)] == ["SELECT 1", text, "SELECT begin", "SELECT CASE WHEN a THEN b END", text]
    endless = f"SELECT 1;{opening} {script}"
    assert statements(endless) == [(0, 8), (9, len(endless))]


def test_what_another_database_says_to_begin_a_transaction_is_no_script() -> None:
    for text in ("BEGIN; SELECT 1", "BEGIN TRANSACTION; SELECT 1", "SELECT a:begin; SELECT 1"):
        assert len(statements(text)) == 2, text


def test_a_statement_says_something_behind_its_blanks_and_comments() -> None:
    for before in ("", " \n", "-- a\r", "-- a\\\nb\n \u2028--\x0b;\x0c\n", "\x85"):
        assert said_from(f"x;{before}SELECT '-- b'", 2, len(before) + 15) == len(before) + 2
        assert said_from(f"x;{before};", 2, len(before) + 2) == len(before) + 2
