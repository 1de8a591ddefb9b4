"""Where the server writes, looked at before Spark starts: folders that cannot be, and whose ready file it is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamtime.server import options as asked
from streamtime.server import serving
from streamtime.server.options import CannotServe
from streamtime.server.ready import ReadyFile
from streamtime.shell import cli


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ready.json"


@pytest.fixture
def other() -> Iterator[dict[str, Any]]:
    """What another server has written that runs: a process, and a port that answers."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]  # which ends when its stdin is closed
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process, socket.create_server(("127.0.0.1", 0)) as door:
        yield {"pid": process.pid, "host": "127.0.0.1", "connect_port": None, "thrift_port": door.getsockname()[1], "process": process}


def facts(other: dict[str, Any], **more: object) -> str:
    return json.dumps({key: value for key, value in (other | more).items() if key != "process"})


def test_a_file_is_there_from_ready_to_the_end(file: Path) -> None:
    ready = ReadyFile(file)
    ready.claim()
    assert list(file.parent.iterdir()) == []
    ready.write({"pid": 1})
    assert (json.loads(file.read_text()), list(file.parent.iterdir())) == ({"pid": 1}, [file])
    ready.remove()
    ready.remove()
    assert not file.exists()
    nowhere = ReadyFile(None)
    nowhere.claim()
    nowhere.write({})
    nowhere.remove()


def test_a_server_leaves_the_file_of_another(file: Path, other: dict[str, Any]) -> None:
    file.write_text(facts(other))
    second = ReadyFile(file)
    with pytest.raises(CannotServe, match=rf"is of a server that runs, with the pid {other['pid']}: stop it, or give another file"):
        second.claim()
    second.remove()
    assert file.exists()
    first = ReadyFile(file)
    first.write({"pid": 1})
    file.write_text(facts(other))  # both started at once
    first.remove()
    assert file.read_text() == facts(other)


def test_what_a_server_left_that_was_killed_goes(file: Path, other: dict[str, Any]) -> None:
    """Its pid may be another program's by now, or this server's, as in a container; and files may hold anything."""
    with socket.create_server(("127.0.0.1", 0)) as shut:
        port = shut.getsockname()[1]
    left = [facts(other, thrift_port=port), facts(other, pid=os.getpid()), facts(other, thrift_port=None), facts(other, pid=10**30)]
    for text in (*left, "", "[]", '{"pid": "x"}', "null", "\ud83d"):
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        ReadyFile(file).claim()
        assert not file.exists(), text
    other["process"].kill()
    other["process"].wait()
    file.write_text(facts(other))
    ReadyFile(file).claim()
    assert not file.exists()


def test_places_that_cannot_be_written_to_are_one_line(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(asked.TOKEN, raising=False)
    monkeypatch.setattr(serving.java, "check", lambda: 17)
    monkeypatch.setattr(serving.Stop, "listen", lambda _: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").touch()
    (tmp_path / "folder").mkdir()
    below = str(tmp_path / "plain" / "w")
    for given, says in (
        (["--warehouse", below], f"--warehouse: the folder {below} cannot be written to: "),
        (["--temporary", "--spark-log", f"{below}/spark.log"], f"--spark-log: the folder {below} cannot be written to: "),
        (["--temporary", "--ready-file", "nowhere/ready.json"], "--ready-file: nowhere/ready.json cannot be written: [Errno 2] "),
        (["--temporary", "--ready-file", "folder"], "--ready-file: folder cannot be written: "),
    ):
        assert cli.main(["serve", "--health-port", "off", *given]) == 1
        said = capsys.readouterr()
        assert said.err.startswith(f"streamtime: serve: {says}")
        assert (said.err.count("\n"), said.out) == (1, "")
    monkeypatch.setattr(tempfile, "tempdir", below)
    assert cli.main(["serve", "--temporary", "--health-port", "off"]) == 1
    assert capsys.readouterr().err.startswith("streamtime: serve: TMPDIR: no temporary folder can be made: ")
