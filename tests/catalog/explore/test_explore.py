"""`streamtime explore`: what the page is told, and the page in a real browser, with the keyboard."""

from __future__ import annotations

import http.client
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pyspark.sql import SparkSession
from support import ROOT
from support.browser import browser

from streamtime.explore import server
from streamtime.explore.server import Missing, application, durations_of, serve
from streamtime.explore.study import Study, as_sql
from streamtime.shell import cli, connection
from streamtime.shell.connection import Connection
from streamtime.shell.failures import readable
from streamtime.statements.calls import Statement

MINUTE, HOUR = 60_000_000, 3_600_000_000
TEXT = (ROOT / "docs" / "pictures" / "sessionize.sql").read_text(encoding="utf-8")


# -- the SQL of a setting: text alone


@pytest.mark.parametrize(
    ("text", "durations", "expected"),
    [
        ("F(TABLE(t) ORDER BY ts, gap => INTERVAL 1 DAY)", {"gap": 90 * MINUTE}, "F(TABLE(t) ORDER BY ts, gap => INTERVAL 1 HOUR 30 MINUTES)"),
        ("F(TABLE(t) ORDER BY ts, gap => INTERVAL 1 DAY)", {"grace": 0}, "F(TABLE(t) ORDER BY ts, gap => INTERVAL 1 DAY, grace => INTERVAL 0 SECONDS)"),
        ("F(TABLE(t) ORDER BY ts, GAP => x /* , */ , `grace` => y)", {"gap": None}, "F(TABLE(t) ORDER BY ts /* , */ , `grace` => y)"),
        ("F(TABLE(t) ORDER BY ts, gap => x, grace => f(1, 2))", {"grace": None, "gap": 1}, "F(TABLE(t) ORDER BY ts, gap => INTERVAL 1 MICROSECOND)"),
    ],
)  # fmt: skip
def test_the_sql_of_a_setting_differs_in_its_durations_alone(text: str, durations: dict[str, int | None], expected: str) -> None:
    statement = Statement(f"SELECT ')' FROM {text} AS x -- )")
    (call,) = statement.calls({"f"})
    assert as_sql(statement, call, durations) == f"SELECT ')' FROM {expected} AS x -- )"


def test_a_question_is_an_object_of_durations() -> None:
    assert durations_of({"within": 5, "grace": None}) == {"within": 5, "grace": None}
    for wrong in (None, [], {"within": "1"}, {"within": -1}, {"within": True}, {"within": 2**60}, {"within": 1.5}):
        with pytest.raises(ValueError, match="microseconds"):
            durations_of(wrong)


# -- what the page is told


@pytest.fixture(scope="module")
def study(spark: SparkSession) -> Study:
    return Study.of(spark, TEXT)


def test_a_setting_is_asked_once_and_its_sql_gives_its_picture(spark: SparkSession, study: Study) -> None:
    plain = study.answer({})
    assert [s["name"] for s in plain["settings"]] == ["gap", "grace"]
    gap, grace = plain["settings"]
    assert gap["stops"][gap["place"]] == {"micros": 30 * MINUTE, "words": "30 minutes"}
    assert gap["stops"][0]["micros"] == 0, "a session needs a gap: it cannot be left out"
    assert grace["stops"][0]["micros"] is None
    assert [r["outcome"] for r in plain["rows"]] == ["opened", "opened", "opened", "merged", "opened", "late"]
    asked = study.calls
    assert study.answer({}) is plain
    assert study.calls == asked
    longer = study.answer({"grace": HOUR})
    assert study.calls == asked + 1
    assert [r["outcome"] for r in longer["rows"]][-1] == "opened"
    assert "grace => INTERVAL 1 HOUR)" in longer["sql"]
    again = Study.of(spark, longer["sql"]).answer({})
    assert again["picture"] == longer["picture"]
    assert study.answer({"grace": None})["picture"]["title"] == "SESSIONIZE: gap 30 minutes"
    assert json.loads(json.dumps(longer)) == json.loads(json.dumps(study.answer({"grace": HOUR})))
    assert study.progress().keys() == {"done", "of"}


# -- over HTTP


@contextmanager
def served(study: Study, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a page that is served."""
    import uvicorn

    addresses: list[str] = []
    servers: list[uvicorn.Server] = []

    class Watched(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(uvicorn, "Server", Watched)
    thread = threading.Thread(target=lambda: serve(study, 0, readable, addresses.append), daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not (servers and servers[0].started):
        assert time.monotonic() < until, "it does not start"
        time.sleep(0.01)
    yield addresses[0]
    servers[0].should_exit = True
    thread.join(30)


def asked(
    address: str, path: str | None = None, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[\w-]{30,}/)", address)
    assert found, address
    client = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
    try:
        client.request(method, found[2] + (path or "") if path is None or not path.startswith("/") else path, body, headers)
        answer = client.getresponse()
        return answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()}
    finally:
        client.close()


def test_only_who_has_the_address_gets_an_answer(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(study, monkeypatch) as address:
        status, page, headers = asked(address)
        assert status == 200
        assert "explore.js" in page
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        for path in ("/", "/x/", "/x/explore.js", "/x/progress", "nothing", "../server.py"):
            assert asked(address, path)[0] == 404, path
        assert asked(address, "/x/picture", "POST", "{}")[0] == 404
        assert asked(address, "picture")[0] == 404
        assert asked(address, Host="example.com")[0] == 400, "a page elsewhere that names this address by a host of its own"
        assert asked(address, Host="localhost:1")[0] == 200
        for body in ("", "[]", "no json", json.dumps({"x": "y" * 20_000})):
            status, said, _ = asked(address, "picture", "POST", body)
            assert (status, "error" in json.loads(said)) == (400, True), body
        status, said, _ = asked(address, "picture", "POST", '{"nix": 5}')
        assert status == 422
        assert "SESSIONIZE, `nix`: no such option" in json.loads(said)["error"]
        assert "Traceback" not in said
        assert asked(address, "progress")[0] == 200
        port = int(re.findall(r":(\d+)/", address)[0])
        others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)} - {"127.0.0.1", "127.0.1.1", "::1"}
        for other in others:
            with socket.socket(socket.AF_INET6 if ":" in str(other) else socket.AF_INET) as knocking:
                assert knocking.connect_ex((str(other), port)), f"{other} answers, which is not loopback"


def test_the_page_needs_nothing_of_anybody_else() -> None:
    for path in server.PAGE.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text.replace("HTTP", ""), path.name
    assert {path.name for path in server.PAGE.iterdir()} == {name for name, _ in server.FILES.values()}


def test_without_its_packages_it_is_said_what_to_install(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(Missing, match=r"in a clone, pip install '\.\[explore\]'"):
        application(study, "t", readable)


def test_the_command_says_what_is_wrong(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(connection, "local", lambda **_: Connection(spark, spark.sql, remote=True))
    monkeypatch.setattr(Connection, "close", lambda self: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert cli.main(["explore", "-e", TEXT, "--port", str(taken.getsockname()[1])]) == 1
        assert "in use" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["explore", "-e", TEXT, "--port", "70000"])
    assert "expected a port" in capsys.readouterr().err


# -- in a browser


def places(page: Page) -> dict[str, Any]:
    """What is shown of the rows."""
    return {
        "place": page.inner_text("#place"),
        "sentence": page.inner_text("#sentence"),
        "to come": page.locator(".mark.to-come").count(),
        "now": page.locator(".mark .now").count(),
    }


@pytest.mark.long("the same page is asked without a browser by the other tests")
def test_the_page_in_a_browser_by_keyboard_alone(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(study, monkeypatch) as address, browser() as chromium:
        context = chromium.new_context(viewport={"width": 1000, "height": 900}, color_scheme="dark")
        page = context.new_page()
        wrong: list[str] = []
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith((address, "data:")) else wrong.append(request.url))
        page.goto(address)
        expect(page.locator("#title")).to_have_text("SESSIONIZE: gap 30 minutes, grace 30 minutes", timeout=60_000)
        assert page.locator(".mark").count() == 6
        expect(page.locator("#dropped li")).to_have_count(1)
        assert "ann" in page.inner_text("#dropped")
        assert places(page)["place"] == "all 6 rows"

        page.keyboard.press("Home")
        assert places(page) == {"place": "row 0 of 6", "sentence": "No row has come yet.", "to come": 6, "now": 0}
        for _ in range(4):
            page.keyboard.press("ArrowRight")
        found = places(page)
        assert (found["place"], found["to come"], found["now"]) == ("row 4 of 6", 2, 1)
        assert found["sentence"].startswith("Merged two sessions into one")
        page.keyboard.press("ArrowLeft")
        assert places(page)["place"] == "row 3 of 6"
        page.keyboard.press(" ")
        expect(page.locator("#play")).to_contain_text("Pause")
        expect(page.locator("#place")).to_have_text("row 5 of 6", timeout=10_000)
        page.keyboard.press(" ")
        expect(page.locator("#play")).to_contain_text("Play")
        page.keyboard.press("End")
        assert places(page)["place"] == "all 6 rows"

        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")  # the second slider: grace
        assert page.evaluate("document.activeElement.name") == "grace"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "where the focus is can be seen"
        page.keyboard.press("End")  # a slider keeps its own keys
        expect(page.locator("#sql")).to_contain_text("grace => INTERVAL ", timeout=60_000)
        expect(page.locator("#dropped-title")).to_have_text("No row was dropped", timeout=60_000)
        assert page.evaluate("document.activeElement.name") == "grace", "the focus stays"
        assert page.get_attribute("input[name=grace]", "aria-valuetext") == page.inner_text("#settings label:nth-child(2) output")

        page.focus("#next")
        page.keyboard.press("Enter")
        page.keyboard.press(" ")  # presses the button, and does not play
        assert places(page)["place"] == "row 2 of 6"
        assert page.inner_text("#play") == "▶ Play"

        page.set_viewport_size({"width": 360, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, "a phone does not scroll sideways"

        monkeypatch.setattr(Study, "answer", lambda self, durations: (_ for _ in ()).throw(ValueError("a fault, in words")))
        page.focus("input[name=gap]")
        page.keyboard.press("Home")
        expect(page.locator("#error")).to_have_text("a fault, in words", timeout=60_000)
        assert page.locator(".mark").count() == 6, "the picture before it stays"
        assert [line for line in wrong if "422" not in line] == []
