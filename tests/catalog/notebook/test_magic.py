"""`%load_ext streamtime`: an IPython shell in this process, with the session of all tests, and its tables in a real browser."""

from __future__ import annotations

import datetime
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from pyspark.sql import DataFrame, SparkSession
from support.browser import browser
from support.programs.notebook import Notebook

from streamtime.notebook import magic
from streamtime.notebook.answer import Answer
from streamtime.notebook.magic import CellRequest, SqlError, read
from streamtime.notebook.progress import Displayed
from streamtime.shell.rendering import Result

CLICKS = """CREATE OR REPLACE TEMP VIEW clicks AS SELECT * FROM VALUES
  ('ann', TIMESTAMP '2024-05-01 10:00:00'), ('ann', TIMESTAMP '2024-05-01 10:04:00'), (NULL, NULL) AS clicks(user_id, ts)"""
CALL = "SELECT * FROM DEDUPLICATE(TABLE(clicks) PARTITION BY user_id ORDER BY ts, within => INTERVAL 10 MINUTES"


@pytest.fixture(scope="module")
def notebook(spark: SparkSession) -> Iterator[Notebook]:
    own = spark.newSession()
    own.sql(CLICKS)
    made = Notebook(spark=own)
    made.run("%load_ext streamtime")
    yield made
    made.close()


# -- what is written in a cell


@pytest.mark.parametrize(
    ("line", "cell", "asked"),
    [
        ("SELECT 1", None, CellRequest("SELECT 1")),
        ("", "SELECT 1\n", CellRequest("\nSELECT 1\n")),
        (" --limit 5 SELECT 1", None, CellRequest(" SELECT 1", limit=5)),
        ("--limit=none", "SELECT 1", CellRequest("\nSELECT 1", limit=None)),
        ("--plot SELECT 1", None, CellRequest(" SELECT 1", drawn=True)),
        ("--limit 5 once << SELECT 1", None, CellRequest(" SELECT 1", limit=5, name="once")),
        ("größe<<", "SELECT 1 << 2", CellRequest("\nSELECT 1 << 2", name="größe")),
        ("-- a comment", "--limit 5\nSELECT 1", CellRequest("-- a comment\n--limit 5\nSELECT 1")),
    ],
)
def test_a_cell_is_options_a_variable_and_sql(line: str, cell: str | None, asked: CellRequest) -> None:
    assert read(line, cell) == asked


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--limit SELECT 1", "--limit: expected a number above zero, at most 2,147,483,646, or none for all, got SELECT"),
        ("--limit 0", "got 0"),
        ("--limit", "got nothing"),
        ("--limits 5 SELECT 1", "there is no option --limits. Did you mean `limit`?"),
        ("--nonsense SELECT 1", "There are --limit N and --plot. A comment needs a space"),
        ("class << SELECT 1", "expected a variable before <<, got class"),
        ("1 << SELECT 1", "got 1"),
        ("--plot x << SELECT 1", "write one of"),
    ],
)
def test_what_is_wrong_in_a_cell_is_said(line: str, said: str) -> None:
    with pytest.raises(SqlError) as error:
        read(line, "")
    assert said in str(error.value)


# -- what it does


def test_a_cell_shows_what_its_statements_give_and_a_variable_takes_the_last(notebook: Notebook) -> None:
    answer = notebook.answer(f"%%sql --limit 1\nSELECT 'a;b' AS `ä ``b`;\n{CLICKS};\n-- once\nSELECT * FROM clicks ORDER BY ts NULLS LAST;")
    assert [list(answer.result.names), *answer.result.rows] == [["user_id", "ts"], ("ann", "2024-05-01 10:00:00")]
    assert repr(answer).endswith("first 1 row, there are more: --limit 10 or --limit none shows them")
    (first,) = notebook.displayed()
    assert first == "ä `b\n------\na;b\n1 row"
    assert notebook.rows("%sql --limit none SELECT * FROM clicks ORDER BY ts DESC, user_id")[-1] == (None, None)
    assert notebook.run(f"%sql once << {CALL})").result is None
    once = notebook.shell.user_ns["once"]
    assert isinstance(once, DataFrame)
    assert once.count() == 1
    assert notebook.displayed() == []
    notebook.run("%sql SET spark.sql.scripting.enabled = true")  # as it is, but on Spark 4.0
    assert notebook.rows("%%sql\nBEGIN SELECT 1; SELECT 'a\u2028b\x0b'; END;\n")[-1] == ("a\u2028b\x0b",)
    assert notebook.run("one = %sql SELECT 1 AS a WHERE false").success
    assert repr(notebook.shell.user_ns["one"]) == "a\n---\n0 rows"
    assert notebook.shell.user_ns["one"].df.columns == ["a"]


def test_a_name_with_a_colon_is_the_value_of_a_variable_and_never_text(notebook: Notebook) -> None:
    nasty = "ann' OR true --"
    notebook.shell.user_ns.update(who="ann", evil=nasty, day=datetime.date(1000, 1, 1), nothing=None, INT=5, braces="x", some=[1, 2])
    (row,) = notebook.rows(
        "%sql SELECT :who, :evil, :day, :nothing, array_contains(:some, 2), '$who {braces} :who', CAST(struct(1) AS STRUCT<a:INT>).a"
    )
    assert row == ("ann", nasty, "1000-01-01", None, "true", "$who {braces} :who", "1")
    first, last = (moment.replace(tzinfo=datetime.UTC) for moment in (datetime.datetime.min, datetime.datetime.max))
    ahead, here = first.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=1))), datetime.datetime(1500, 3, 1)
    notebook.shell.user_ns.update(date=datetime.date.min, first=first, last=last, ahead=ahead, here=here)
    (row,) = notebook.rows(
        "%sql SELECT string(:date), string(:first), string(:last), unix_seconds(:first) - unix_seconds(:ahead), unix_seconds(:here)"
    )
    local = str(int(time.mktime(here.timetuple())))
    assert row == ("0001-01-01", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "3600", local)
    wanted = "%sql SELECT count(*) FROM DEDUPLICATE(TABLE(SELECT * FROM clicks WHERE user_id = {}) PARTITION BY user_id ORDER BY ts)"
    assert notebook.rows(wanted.format(":evil")) == [("0",)]
    assert notebook.rows(wanted.format(":who")) == [("1",)]
    notebook.shell.user_ns["within"] = datetime.timedelta(minutes=3)
    assert len(notebook.rows(f"%sql {CALL.replace('INTERVAL 10 MINUTES', ':within')})")) == 2
    error = notebook.run("%sql SELECT :missing").error_in_exec
    assert "[UNBOUND_SQL_PARAMETER]" in str(error)
    assert "Give it one in a cell above" in str(error)
    error = notebook.run("%sql SELECT :spark").error_in_exec
    assert str(error).startswith("%sql: the variable `spark` is a SparkSession, which no SQL value is made of (")


def test_an_error_is_lines_with_its_place_and_no_traceback(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor does what stands below run: neither the cell's other statements nor, in a notebook, other cells."""
    found = notebook.run(f"%%sql\nSELECT 1 AS a;\n\n{CALL},\n  withn => 5);\nDROP VIEW clicks")
    assert isinstance(found.error_in_exec, SqlError)
    said = str(found.error_in_exec).splitlines()
    assert said[0] == "statement 2 of 3, line 4 of the cell, failed, and 1 more was not run:"
    assert "Did you mean `within`?" in said[1]
    assert said[-1].strip() == "^"
    assert found.error_in_exec._render_traceback_() == said
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    assert [text.split() for text in notebook.displayed()] == [["a", "---", "1", "1", "row"]]
    assert notebook.rows("%sql SELECT count(*) FROM clicks") == [("3",)]
    for cell, part in (
        ("%sql SELECT nothing", "[UNRESOLVED_COLUMN"),
        ("%sql", "there is no statement"),
        ("%%sql\n-- nothing", "there is no statement"),
        ("%sql SELECT 'a", "is not closed"),
        ("%sql x << CREATE TEMP VIEW v AS SELECT 1", "gives no rows: there is no DataFrame for `x`"),
        ("%sql --plot SELECT 1", "plot"),
    ):
        error = notebook.run(cell).error_in_exec
        assert isinstance(error, SqlError), cell
        assert part in str(error), cell


def test_tab_offers_functions_options_tables_and_columns_in_sql_alone(notebook: Notebook) -> None:
    assert "%%sql\nSELECT * FROM DEDUPLICATE(" in notebook.completed("%%sql\nSELECT * FROM dedu|")
    assert "%sql x << SELECT * FROM clicks" in notebook.completed("%sql x << SELECT * FROM clic|")
    assert notebook.completed("%%sql --limit 5\nSELECT us| FROM clicks")[:1] == ["%%sql --limit 5\nSELECT user_id"]
    assert notebook.completed(f"%%sql\n{CALL}, refr|)") == [f"%%sql\n{CALL}, refresh => "]
    assert notebook.completed(f"%%sql\n{CALL}, keep => 'u|") == [f"%%sql\n{CALL}, keep => 'unique'"]
    for option in ("--plot", "--limit 5", "--limit=none"):
        assert f"%sql {option} SELECT * FROM DEDUPLICATE(" in notebook.completed(f"%sql {option} SELECT * FROM dedu|")
        assert notebook.completed(f"%sql {option} SELECT user_i| FROM clicks") == [f"%sql {option} SELECT user_id"]
    assert "print" in notebook.completed("prin|")
    assert "%sql SELECT 1\nprint" in notebook.completed("%sql SELECT 1\nprin|")
    notebook.run("%sql CREATE TEMP VIEW clicks_again AS SELECT 1 AS other")
    assert "%sql SELECT oth" not in notebook.completed("%sql SELECT oth| FROM clicks")
    assert "%sql SELECT * FROM clicks_again" in notebook.completed("%sql SELECT * FROM clicks_a|")


def test_the_stop_button_cancels_the_query_and_the_session_goes_on(notebook: Notebook) -> None:
    """A minute's query, which a signal ends after a second and a half, as Jupyter's button sends it."""
    sleep = "SELECT count(*) FROM range(0, 600, 1, 1) WHERE java_method('java.lang.Thread', 'sleep', bigint(100)) IS NULL"
    stop, began = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)), time.monotonic()
    stop.start()
    error = notebook.run(f"%%sql\n{sleep};\nDROP VIEW clicks").error_in_exec
    assert time.monotonic() - began < 30
    assert isinstance(error, SqlError)
    assert re.search(r"cancelled after \d+\.\d s", str(error)), error
    assert "statement 1 of 2" in str(error)
    assert notebook.rows("%sql SELECT count(*) FROM clicks") == [("3",)]
    assert notebook.displayed() == []


def test_plot_gives_the_picture_of_the_last_statement(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(magic, "plot", lambda spark, sql, args: ("the picture of", sql, args))
    assert notebook.run(f"%%sql --plot\nSELECT 1; {CALL})").result == ("the picture of", f"{CALL})", {})
    notebook.shell.user_ns["who"] = "ann"
    assert notebook.run(f"%%sql --plot\n{CALL}) WHERE user_id = :who").result[2] == {"who": "ann"}
    assert len(notebook.displayed()) == 1


def test_progress_is_shown_below_the_cell_and_goes(notebook: Notebook, spark: SparkSession) -> None:
    notebook.all_displayed()
    progress = Displayed()
    progress.start(spark, "nobody", remote=False)
    progress.show()
    assert notebook.all_displayed() == []
    progress.began -= 90
    progress.show()
    progress.show()
    progress.hide()
    assert notebook.all_displayed() == [*["running, 90 s (the stop button cancels)"] * 2, ""]


def test_the_pack_needs_no_ipython_and_the_extension_starts_no_spark() -> None:
    code = "import sys, streamtime; from streamtime.shell import cli; assert 'IPython' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- the table


def test_a_table_is_html_in_which_nothing_of_a_value_is_markup() -> None:
    rows = [("<b>&\"'", None), ("", "1"), ("NULL", "-0.5"), ("a\x00\x1b[31m\nb", "NaN")]
    answer = Answer(None, Result(("<i>", "n"), rows, (False, True)), 4, False)  # type: ignore[arg-type]
    text = answer._repr_html_()
    assert '<th>&lt;i&gt;</th><th class="number">n</th>' in text
    assert '<tr><td>&lt;b&gt;&amp;&quot;&#x27;</td><td class="number null">NULL</td></tr>' in text
    assert '<tr><td></td><td class="number">1</td></tr>' in text
    assert '<tr><td>NULL</td><td class="number">-0.5</td></tr>' in text
    assert "<td>a\\x00\\x1b[31m\nb</td>" in text
    plan = Answer(None, Result(("plan",), [("a\n  b",)]), 1, False)._repr_html_()  # type: ignore[arg-type]
    assert '<td class="lines">a\n  b</td>' in plan


def test_in_a_browser_a_table_sorts_by_a_click_or_a_key_and_turns_its_pages() -> None:
    """Numbers by their value however many digits they have, nulls last, equal ones as they came."""
    big = 2**63
    numbers = [str(big + 1), str(big), str(-big - 1), str(-big), None, "NaN", "7", *(str(i) for i in range(40))]
    rows = [(f"k{i % 3}" if i else None, number) for i, number in enumerate(numbers)]
    one = Answer(None, Result(("key", "n"), rows, (False, True)), len(rows), False)._repr_html_()  # type: ignore[arg-type]
    few = Answer(None, Result(("key",), [("b",), ("a",)]), 2, False)._repr_html_()  # type: ignore[arg-type]
    with browser() as opened:
        page = opened.new_page()
        page.set_content(f"<html><body><div id=one>{one}</div><div id=few>{few}</div></body></html>")

        def column(number: int, box: str = "#one") -> list[str]:
            return page.locator(f"{box} tbody td:nth-child({number})").all_inner_texts()

        assert column(2) == ["NULL" if n is None else n for n in numbers[:20]]
        page.get_by_text("next ›").first.click()
        page.get_by_text("next ›").first.click()
        assert column(2) == numbers[40:]
        expect(page.get_by_text("page 3 of 3")).to_be_visible()
        expect(page.get_by_text("next ›").first).to_be_disabled()
        head = page.locator("#one th").nth(1)
        head.click()
        assert column(2)[:5] == [str(-big - 1), str(-big), "0", "1", "2"]
        head.press("Enter")
        assert column(2)[:5] == ["NaN", str(big + 1), str(big), "39", "38"]
        page.get_by_text("next ›").first.click()
        page.get_by_text("next ›").first.click()
        assert column(2)[-2:] == [str(-big - 1), "NULL"]
        head.press(" ")
        assert column(2)[0] == numbers[0]
        page.locator("#one th").first.click()
        assert column(1) == ["k0"] * 15 + ["k1"] * 5
        assert column(2)[:2] == [numbers[3], numbers[6]]
        assert column(1, "#few") == ["b", "a"]
        expect(page.locator("#few .pages")).to_be_hidden()
