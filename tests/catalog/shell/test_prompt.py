"""The interactive shell without a terminal and without Spark: what is sent off, what is a command, and what becomes of what was pasted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from streamtime.shell.console import Failed
from streamtime.shell.prompt import Leave, Shell, command_of, complete, history_file, last_line
from streamtime.shell.script import finished, halves


@pytest.mark.parametrize(
    "text", ["SELECT 1", "SELECT ';", "SELECT 1 -- ;", "SELECT /* ;", "SELECT 1 AS `;", "help me out", "BEGIN SELECT 1;", "l:\nBEGIN END"]
)
def test_an_unfinished_text_goes_on(text: str) -> None:
    assert not finished(text)
    assert not complete(text)


@pytest.mark.parametrize(
    "text",
    ["SELECT 1;", "SELECT ';'; -- done", "SELECT 1;\n", "BEGIN SELECT 1; END;", "BEGIN;", " ", "help", "HELP deduplicate;", "limit none"],
)
def test_a_finished_text_is_sent_off(text: str) -> None:
    assert complete(text)
    assert command_of("quit") == ("quit", "")
    assert command_of("format\ncsv") is None


def test_leaving_and_clearing_work_within_an_unfinished_statement() -> None:
    for text in (
        "\\q",
        "SELECT 1\n\\q",
        "SELECT 'open\n\\q",
        "quit",
        "SELECT 1,\nEXIT",
        "SELECT 1\nFROM t\n quit \n",
        "clear",
        "SELECT\nclear",
    ):
        assert complete(text), text
    for text in ("SELECT 1\nAS exit", "SELECT 'a\nexit", "SELECT /* a\nquit", "SELECT `a\nclear", "SELECT 1 exit", "exit 1 2\nexit now"):
        assert not complete(text), text
    assert last_line("SELECT 1\nexit;") is None  # a statement: the column is called exit
    assert last_line("SELECT 1\nclear") == "clear"


class Told:
    """A console that notes what it is asked, and fails where it is told to."""

    connection = SimpleNamespace(spark=None)
    form, limit = "table", 100

    def __init__(self) -> None:
        self.asked: list[str] = []

    def answer(self, sql: str) -> None:
        self.asked.append(sql)
        if "wrong" in sql:
            raise Failed("this is wrong")


@pytest.fixture
def cleared(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    times: list[bool] = []
    monkeypatch.setattr("streamtime.shell.prompt.clear", lambda: times.append(True))
    return times


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield Shell(Told(), tmp_path / "history")  # type: ignore[arg-type]


def asked(shell: Shell) -> list[str]:
    """The statements since the last time."""
    console = shell.console
    assert isinstance(console, Told)
    console.asked, texts = [], console.asked
    return texts


def test_a_shell_leaves_and_clears(shell: Shell, cleared: list[bool]) -> None:
    shell.obey("SELECT 1,\nclear")
    shell.obey("clear")
    assert cleared == [True]
    shell.obey("SELECT 1;")
    for text in ("\\q", "quit", "exit;", "SELECT\n\\q", "SELECT 1,\nexit"):
        with pytest.raises(Leave):
            shell.obey(text)
    assert asked(shell) == ["SELECT 1"]


def test_what_is_finished_before_a_command_runs_first(shell: Shell, cleared: list[bool], capsys: pytest.CaptureFixture[str]) -> None:
    """A text that was pasted, as if its lines had been typed."""
    insert = "INSERT INTO t VALUES (1);\n-- it's; one\nINSERT INTO t VALUES (';'); -- done"
    ran = ["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (';')"]
    for word in ("exit", "QUIT", "\\q"):
        for rest in ("", "\nSELECT 3", "\nBEGIN SELECT 4;"):
            assert complete(f"{insert}{rest}\n{word}")
            with pytest.raises(Leave):
                shell.obey(f"{insert}{rest}\n {word} \n")
            assert asked(shell) == ran
    with pytest.raises(Leave):
        shell.obey(f"{insert}\nSELECT 'open;\n\\q")
    assert asked(shell) == ran
    shell.obey(f"{insert}\nclear")
    assert (asked(shell), cleared) == (ran, [True])
    assert capsys.readouterr().err == ""
    shell.obey(f"{insert}\nDELETE FROM t\nclear")  # what was not finished is dropped, and nothing runs that was to run with it
    assert (asked(shell), cleared, capsys.readouterr().err) == ([], [True], "2 more statements were not run.\n")


def test_after_the_first_error_a_pasted_text_says_what_was_not_run(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.obey("SELECT 1;\nSELECT wrong;\nSELECT 3;\nSELECT 4;\nexit")  # nobody leaves: the rest is still to be seen to
    assert asked(shell) == ["SELECT 1", "SELECT wrong"]
    assert capsys.readouterr().err == "statement 2 of 4, line 2 failed:\nthis is wrong\n2 more statements were not run.\n"
    shell.obey("SELECT wrong;")
    assert capsys.readouterr().err == "this is wrong\n"


def test_what_is_sql_goes_to_spark(shell: Shell, cleared: list[bool]) -> None:
    for text in ("CLEAR CACHE;", "quit now;", "Exit 1;"):
        assert complete(text)
        shell.obey(text)
    assert (asked(shell), cleared) == (["CLEAR CACHE", "quit now", "Exit 1"], [])
    assert not complete("CLEAR CACHE")


@pytest.mark.parametrize("gap", ["\t", "\u00a0", "  "])
def test_any_blank_parts_a_command_from_its_argument(shell: Shell, capsys: pytest.CaptureFixture[str], gap: str) -> None:
    shell.obey(f"HELP{gap}deduplicate;")
    assert capsys.readouterr().out.startswith("DEDUPLICATE")
    shell.obey(f"limit{gap}7")
    assert (shell.console.limit, capsys.readouterr().out) == (7, "limit 7\n")


@pytest.mark.parametrize("count", ["0", "-1", "2147483647", "9" * 5000, "ten", "1.5"])
def test_a_limit_that_spark_cannot_count_to_is_refused(shell: Shell, capsys: pytest.CaptureFixture[str], count: str) -> None:
    shell.obey(f"limit {count}")
    says = f"expected a number above zero, at most 2,147,483,646, or none for all, got {count[:99]}"
    assert capsys.readouterr().out == f"{says}\nlimit 100\n"
    shell.obey("limit 2147483646")
    assert shell.console.limit == 2147483646
    shell.obey("limit none")
    assert shell.console.limit is None


def test_where_no_history_can_be_kept_the_shell_starts_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for chosen in (str(tmp_path / "file" / "history"), str(tmp_path), ""):  # below a file, a folder, nowhere
        monkeypatch.setenv("STREAMTIME_HISTORY", chosen)
        if not chosen:
            monkeypatch.setattr(Path, "home", homeless)
        with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
            shell = Shell(Told())  # type: ignore[arg-type]
            keys.send_text("SELECT 1;\r")
            assert shell.session.prompt() == "SELECT 1;"
        said = capsys.readouterr().err
        assert said.startswith("Lines are not kept after this session: ")
        assert said.endswith(". STREAMTIME_HISTORY names another file.\n")
        assert said.count("\n") == 1
    monkeypatch.setenv("STREAMTIME_HISTORY", str(tmp_path / "own" / "history"))
    assert history_file().stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("SELECT 1", ""),
        ("SELECT 1; SELECT ';", "SELECT 1;"),
        ("SELECT 1; /* ; SELECT 2;", "SELECT 1;"),
        ("SELECT ';'; BEGIN SELECT 1;", "SELECT ';';"),
        ("BEGIN SELECT 1; END; `a;", "BEGIN SELECT 1; END;"),
        (";", ";"),
        ("", ""),
    ],
)
def test_a_text_is_cut_behind_its_last_statement_that_is_finished(text: str, done: str) -> None:
    assert halves(text) == (done, text.removeprefix(done))
