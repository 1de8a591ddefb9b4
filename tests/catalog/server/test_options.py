"""What a server refuses before anything starts: doors to other machines without a lock, settings that would open one, secrets that others read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from streamtime.server import command, passwords, settings
from streamtime.server import options as asked
from streamtime.server.doors import with_gate
from streamtime.server.options import CannotServe, Options, check, loopback, token
from streamtime.session import delta_jars, partitions_for
from streamtime.shell import cli

Secret = Callable[[str, str], Path]
ANYWHERE = {"host": "0.0.0.0"}


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secret:
    monkeypatch.delenv(asked.TOKEN, raising=False)

    def made(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    return made


def test_this_machine_alone_needs_no_lock() -> None:
    check(Options())
    check(Options(host="localhost", warehouse=Path("anywhere")))
    check(Options(host="::1"))


@pytest.mark.parametrize(
    ("host", "alone"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("10.1.2.3", False)],
)
def test_loopback_is_what_no_other_machine_reaches(host: str, alone: bool) -> None:
    assert loopback(host) == alone


def test_beyond_this_machine_each_door_needs_its_lock(secret: Secret) -> None:
    shown, users = secret("token", "x" * 16), secret("users", passwords.line("ana", "pw"))
    key = secret("key", "")
    locks = {"token_file": shown, "passwords": users, "keystore": key, "keystore_password_file": key}
    check(Options(**ANYWHERE, **locks))
    check(Options(**ANYWHERE, token_file=shown, thrift_port=None))
    check(Options(**ANYWHERE, **{k: v for k, v in locks.items() if k != "token_file"}, connect_port=None))
    for without, says in {
        "token_file": "Spark Connect needs --connect-token-file FILE, or --connect-port off",
        "passwords": "JDBC needs --passwords FILE",
        "keystore": "JDBC needs --tls-keystore FILE: else passwords would travel as they are",
    }.items():
        with pytest.raises(CannotServe, match=r"--host 0\.0\.0\.0 can be reached from other machines") as refused:
            check(Options(**ANYWHERE, **{k: v for k, v in locks.items() if k != without}))
        assert says in str(refused.value)


def test_the_token_may_stand_where_spark_looks_for_it(secret: Secret, monkeypatch: pytest.MonkeyPatch) -> None:
    assert token(Options()) == ""
    monkeypatch.setenv(asked.TOKEN, "a token of the environment")
    assert token(Options()) == "a token of the environment"
    check(Options(**ANYWHERE, thrift_port=None))
    assert token(Options(token_file=secret("t", "  0123456789abcdef\n"))) == "0123456789abcdef"


@pytest.mark.parametrize("text", ["", "short", "with a space in it", "0123456789abcdef\n0123456789abcdef", "0123456789äbcdef"])
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(secret: Secret, text: str) -> None:
    with pytest.raises(CannotServe, match="expected at least 16 letters"):
        token(Options(token_file=secret("t", text)))


def test_a_secret_that_others_can_read_is_none(secret: Secret, tmp_path: Path) -> None:
    path = secret("t", "x" * 20)
    path.chmod(0o640)
    with pytest.raises(CannotServe, match=f"others may read {path}. Run: chmod 600"):
        token(Options(token_file=path))
    with pytest.raises(CannotServe, match=r"--connect-token-file: .*cannot be read"):
        token(Options(token_file=tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({"connect_port": None, "thrift_port": None}, "both doors are shut"),
        ({"settings": {"spark.connect.grpc.binding.address": "0.0.0.0"}}, "use --host and --connect-port"),
        ({"settings": {"spark.hadoop.hive.server2.authentication": "NONE"}}, "use --host, --thrift-port, --passwords"),
        ({"settings": {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin"}}, "starts Spark Connect itself"),
        ({"settings": {"spark.connect.authenticate.token": "x"}}, "use --connect-token-file"),
        ({"settings": {"spark.master": "yarn"}}, "use --master"),
        ({"keystore": Path("k")}, "--tls-keystore needs --tls-password-file"),
        ({"keystore": Path("k"), "keystore_password_file": Path("p")}, "there is no file k"),
        ({"master": "spark://head:7077"}, "Give --conf spark.driver.host=ADDRESS"),
        ({"host": "no.such.host.invalid"}, "there is no address no.such.host.invalid"),
    ],
)
def test_what_cannot_be_right_is_refused_with_the_way_out(made: dict[str, object], says: str) -> None:
    with pytest.raises(CannotServe) as refused:
        check(Options(**made))  # type: ignore[arg-type]
    assert says in str(refused.value)


def test_interceptors_of_connect_that_are_given_stand_beside_the_gate() -> None:
    for given, made in {"": [], "a.B": ["a.B"], " a.B , c.D,": ["a.B", "c.D"], "a.B,streamtime.Gate": ["a.B"]}.items():
        assert with_gate(given) == ",".join([*made, "streamtime.Gate"])


def test_a_spark_without_hive_or_doors_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-connect_2.13-4.2.0.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    check(Options(thrift_port=None))
    with pytest.raises(CannotServe, match="no spark-hive-thriftserver: give --thrift-port off"):
        check(Options())
    with pytest.raises(CannotServe, match=r"no Hive, .*give --temporary"):
        check(Options(thrift_port=None, warehouse=Path("w")))


def test_a_refusal_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(asked.TOKEN, raising=False)
    assert cli.main(["serve", "--host", "0.0.0.0"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("streamtime: serve: --host 0.0.0.0 can be reached from other machines, so Spark Connect needs")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--connect-port", "70000"], "expected a port from 0 to 65535, or off, got 70000"),
        (["--grace", "long"], "expected a number of seconds, got long"),
        (["--memory", "much"], "expected a size such as 512m or 8g, got much"),
    ],
)
def test_a_wrong_option_says_what_is_expected(capsys: pytest.CaptureFixture[str], given: list[str], says: str) -> None:
    with pytest.raises(SystemExit):
        cli.main(["serve", *given])
    assert says in capsys.readouterr().err


def test_what_conf_says_adds_to_paths_and_goes_before_the_rest(tmp_path: Path) -> None:
    given = {
        "spark.driver.extraClassPath": "/mine.jar",
        "spark.driver.extraJavaOptions": "-Dmine=1",
        "spark.sql.warehouse.dir": "/mine",
        "spark.driver.host": "10.0.0.5",
        "spark.jars": "/more.jar",
    }
    made = settings.of(
        Options(master="spark://head:7077", cores="16", settings=given, warehouse=tmp_path / "w"),
        tmp_path,
        tmp_path / "log",
        tmp_path / "c",
    )
    assert made["spark.driver.extraClassPath"].split(os.pathsep) == [str(tmp_path / "c"), "/mine.jar"]
    assert made["spark.driver.extraJavaOptions"].endswith(" -Dmine=1")
    assert (made["spark.sql.warehouse.dir"], made["spark.sql.catalogImplementation"]) == ("/mine", "hive")
    assert (made["spark.master"], made["spark.cores.max"]) == ("spark://head:7077", "16")
    assert made["spark.driver.bindAddress"] == made["spark.driver.host"] == "10.0.0.5"
    jars = made["spark.jars"].split(",")  # executors on other machines have not the driver's files
    assert jars == [*map(str, delta_jars()), "/more.jar"]
    here = settings.of(Options(), tmp_path, tmp_path / "log", tmp_path / "c")
    assert here["spark.sql.catalogImplementation"] == "in-memory"
    unknown = settings.of(Options(master="spark://head:7077", settings=given), tmp_path, tmp_path / "log", tmp_path / "c")
    assert unknown["spark.sql.shuffle.partitions"] == "200"  # a cluster with who knows how many cores
    assert "spark.sql.shuffle.partitions" not in made | here
    assert [partitions_for(cores) for cores in ("16", "2", 64, "32,2")] == [16, 4, 64, 32]
    assert 4 <= partitions_for("*") <= max(4, os.cpu_count() or 1)
    assert not here.keys() & {
        "spark.master",
        "spark.cores.max",
        "spark.driver.bindAddress",
        "spark.driver.host",
        "spark.jars",
    }  # as `session` has them
    assert not [key for key in (*made, *here) if "token" in key or "password" in key]


# -- the file of passwords


def test_a_password_is_known_by_a_hash_that_no_two_lines_share() -> None:
    one, two = passwords.line("ana", "pässword: 1"), passwords.line("bo", "pässword: 1")
    assert "pässword" not in one
    assert one.partition(":")[2] != two.partition(":")[2]
    known = passwords.users(f"# who may come\n\n{one}\n{two}  \n", "users")
    assert passwords.right(known, "ana", "pässword: 1")
    for user, password in (("ana", ""), ("ana", "password: 1"), ("Ana", "pässword: 1"), ("", ""), ("carl", "pässword: 1")):
        assert not passwords.right(known, user, password)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no user in it"),
        ("# ana\n", "there is no user in it"),
        ("ana:secret", "line 1: expected user:scrypt:salt:hash"),
        ("ana:scrypt:zz:00", "line 1: expected user:scrypt:salt:hash"),
        ("ana:scrypt::", "line 1: expected user:scrypt:salt:hash"),
        ("\nana:scrypt:00:11\nana:scrypt:00:22", "line 3: a second line for the user ana"),
    ],
)
def test_a_file_of_passwords_that_cannot_be_meant_is_refused(text: str, says: str) -> None:
    with pytest.raises(CannotServe, match=says):
        passwords.users(text, "users")


@pytest.mark.parametrize("user", ["", "a:b", " a", "#a", "a\nb", "änn"])
def test_a_name_that_would_not_come_back_is_refused(user: str) -> None:
    with pytest.raises(CannotServe, match="expected a user's name"):
        passwords.line(user, "pw")


def test_the_command_writes_a_line_that_the_file_takes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.sys.stdin, "isatty", lambda: False, raising=False)
    monkeypatch.setattr(cli.sys.stdin, "readline", lambda: " spaces count \n", raising=False)
    assert cli.main(["password", "ana"]) == 0
    assert passwords.right(passwords.users(capsys.readouterr().out, "users"), "ana", " spaces count ")
    monkeypatch.setattr(cli.sys.stdin, "readline", lambda: "\n", raising=False)
    assert cli.main(["password", "ana"]) == 1
    assert "the password is empty" in capsys.readouterr().err


def test_a_password_is_typed_twice_in_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def typed(*lines: str) -> tuple[int, str]:
        left = [*lines]

        def asked(_: str) -> str:
            if not left:
                raise EOFError  # Ctrl-D
            return left.pop(0)

        monkeypatch.setattr(command.getpass, "getpass", asked)
        code = cli.main(["password", "ana"])
        return code, capsys.readouterr().err

    monkeypatch.setattr(cli.sys.stdin, "isatty", lambda: True, raising=False)
    assert typed("one", "one") == (0, "")
    assert typed("one", "two") == (1, "streamtime: password: the two passwords differ\n")
    assert typed("", "") == (1, "streamtime: password: the password is empty\n")
    assert typed() == typed("one") == (130, "\n")
