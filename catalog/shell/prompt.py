"""The interactive SQL shell: history, completion, statements over several lines, and a prompt that survives every error."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected, has_completions
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import clear

from streamtime.shell import manual
from streamtime.shell.batch import UnreadableScript, split, told, unrun
from streamtime.shell.completion import Learned, Vocabulary
from streamtime.shell.console import Console, Failed, Gone
from streamtime.shell.rendering import FORMATS
from streamtime.shell.results import row_limit
from streamtime.shell.running import Cancelled
from streamtime.shell.script import Unclosed, finished, halves, tokens
from streamtime.sql.call.errors import did_you_mean

PROMPT = "streamtime> "
CONTINUED = "       ...> "
HELP = f"""\
A statement ends with `;` and may take several lines. Tab completes; Ctrl-C cancels a query or clears what was typed; Ctrl-D leaves.

  help            this, and the functions of the pack
  help NAME       the reference page of a function, such as help DEDUPLICATE
  format [NAME]   how results are written: {", ".join(FORMATS)}
  limit [N]       the rows that are shown of a result; `limit none` shows all
  clear           drop a statement that is not finished; else clear the screen
  quit            leave; also exit and \\q, on a line of their own in the middle of a statement too. What ends with `;` runs before
"""
WITHIN = ("clear", "quit", "exit")  # take no argument: CLEAR CACHE is SQL. On a line of their own in an unfinished statement too
COMMANDS = ("help", "format", "limit", *WITHIN)
LEAVING = "\\q"
READING = ("select", "with", "show", "describe", "desc", "explain", "values", "from", "table")  # statements that make no new table


class Leave(Exception):
    """The user wants to go."""


class Shell:
    """Reads, answers, and reads again."""

    def __init__(self, console: Console, history: Path | None = None) -> None:
        self.console = console
        self.vocabulary = Vocabulary(commands=COMMANDS)
        self.learned = Learned(console.connection.spark, self.vocabulary)
        self.vocabulary.columns = self.learned.columns
        self.session: PromptSession[str] = PromptSession(
            history=_history(history),
            completer=SqlCompleter(self.vocabulary),
            complete_while_typing=False,
            complete_in_thread=True,  # columns are asked for
            multiline=True,
            prompt_continuation=CONTINUED,
            key_bindings=_keys(),
        )

    def run(self) -> int:
        """Until the user leaves: exit code 0, as errors were seen. 1 if the session is lost."""
        self._learn("tables", "functions", "keywords")
        while True:
            try:
                self.obey(self.session.prompt(PROMPT))
            except KeyboardInterrupt:  # clears what was being typed
                continue
            except Gone as problem:
                print(problem, file=sys.stderr)
                return 1
            except (EOFError, Leave):
                self.learning.join(5)  # a session that stops in the middle of a call would complain
                return 0

    def obey(self, text: str) -> None:
        """Do what was typed: a command of the shell, or statements."""
        if not text.strip():
            return
        try:
            if (word := last_line(text)) is not None:
                self._end(text.rstrip().rpartition("\n")[0], word)
            elif (command := command_of(text)) is not None:
                self._commands()[command[0]](command[1])
            else:
                self._run(text)
        except (UnreadableScript, manual.Unknown) as problem:
            print(problem, file=sys.stderr, flush=True)

    def _run(self, text: str) -> bool:
        """The statements of a text, until one fails; whether none did."""
        script = split(text)
        for number, statement in enumerate(script, 1):
            try:
                self.console.answer(statement.sql)
            except Gone:
                raise
            except (Failed, Cancelled) as problem:
                print(told(problem, script, number), file=sys.stderr, flush=True)
                return False
            if statement.sql.split(maxsplit=1)[0].lower() not in READING:
                self._learn("tables")
        return True

    def _end(self, before: str, word: str) -> None:
        """Leave or clear below other lines: the statements that are finished there were meant to run."""
        done, rest = halves(before)
        if word == "clear" and tokens(rest):
            if waiting := len(split(done)):
                print(unrun(waiting), file=sys.stderr, flush=True)
        elif self._run(done):
            self._commands().get(word, _leave)("")

    def _commands(self) -> dict[str, Callable[[str], None]]:
        return {"help": self._help, "format": self._format, "limit": self._limit, "clear": _clear, "quit": _leave, "exit": _leave}

    def _help(self, name: str) -> None:
        width = shutil.get_terminal_size().columns
        if name:
            print(manual.page(manual.find(name), width), end="")
        else:
            print(HELP)
            print(manual.listing(width))

    def _format(self, name: str) -> None:
        if name.lower() in FORMATS:
            self.console.form = name.lower()
        elif name:
            print(f"there is no format {name}. {did_you_mean(name, FORMATS) or ''}".rstrip())
        print(f"format {self.console.form}; there are {', '.join(FORMATS)}")

    def _limit(self, count: str) -> None:
        try:
            self.console.limit = row_limit(count) if count else self.console.limit
        except ValueError as problem:
            print(problem)
        print(f"limit {'none' if self.console.limit is None else self.console.limit}")

    def _learn(self, *what: str) -> None:
        """Fetch the names that completion offers, while the user types."""
        self.learned.forget()
        self.learning = threading.Thread(target=self.learned.learn, args=what, daemon=True)
        self.learning.start()


class SqlCompleter(Completer):
    """The vocabulary, as prompt_toolkit asks for it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The candidates at the cursor."""
        for candidate in self.vocabulary.complete(document.text_before_cursor, document.text_after_cursor):
            yield Completion(candidate.text, start_position=-candidate.replaces, display_meta=candidate.meaning)


def command_of(text: str) -> tuple[str, str] | None:
    """The command of the shell that a text is, and its argument: it is one line, and needs no semicolon."""
    first, *arguments = text.strip().rstrip(";").split() or [""]
    word = first.lower()
    if "\n" in text.strip() or word not in COMMANDS or len(arguments) > (0 if word in WITHIN else 1):
        return None
    return word, "".join(arguments)


def complete(text: str) -> bool:
    """Whether Enter sends the text off, or begins another line."""
    return not text.strip() or command_of(text) is not None or last_line(text) is not None or finished(text)


def last_line(text: str) -> str | None:
    """`\\q` at the end of whatever was typed; `quit`, `exit` or `clear` as the last line of an unfinished statement."""
    before, _, last = text.rstrip().rpartition("\n")
    word = last.strip().lower()
    if word == LEAVING:
        return word
    if word not in WITHIN or not before.strip():
        return None
    try:
        tokens(before)
    except Unclosed:  # text of a string or a comment
        return None
    return word


def history_file() -> Path:
    """Where lines are kept between sessions: $STREAMTIME_HISTORY, or the user's state folder; readable by nobody else."""
    path = Path(os.environ.get("STREAMTIME_HISTORY") or _state_folder() / "streamtime" / "history")
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600))
    return path


def _state_folder() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")


def _history(path: Path | None) -> History:
    try:
        return FileHistory(path or history_file())
    except (OSError, RuntimeError) as error:  # no right to write there, or no home at all
        print(f"Lines are not kept after this session: {error}. STREAMTIME_HISTORY names another file.", file=sys.stderr)
        return InMemoryHistory()


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~completion_is_selected)
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=has_completions & completion_is_selected)
    def _take(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    return keys


def _clear(_argument: str) -> None:
    clear()


def _leave(_argument: str) -> None:
    raise Leave
