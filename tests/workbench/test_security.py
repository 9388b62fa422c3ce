"""Who may talk to the workbench, and what an answer gives away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from sfumato.workbench.bench import Workbench
from sfumato.workbench.changes import HANDLERS
from tests.workbench.conftest import TOKEN, Client

SCREENS = (
    "/data",
    "/keys",
    "/protect",
    "/attack",
    "/compare",
    "/release",
    "/plan",
    "/plan.toml",
    "/help",
    "/state",
)


def test_without_the_token_nothing_is_shown(bench: Workbench) -> None:
    stranger = Client(bench, cookie=False)
    for path in (*SCREENS, "/", "/static/workbench.css", "/report/internal", "/nothing"):
        answer = stranger.get(path)
        assert answer.status_code == 403, path
        assert "WAGE" not in answer.text
    for token in ("", "wrong", TOKEN[:-1], TOKEN + "x"):
        assert stranger.get(f"/?token={token}").status_code == 403
    for path in HANDLERS:
        assert stranger.post(path, {"path": "x"}).status_code == 403, path


def test_a_wrong_cookie_is_no_cookie(bench: Workbench) -> None:
    stranger = Client(bench, cookie=False)
    for cookie in ("sfumato-8123=", "sfumato-8123=wrong", f"other={TOKEN}", f"sfumato-9999={TOKEN}", "=;;,"):
        assert stranger.get("/data", headers={"cookie": cookie}).status_code == 403


def test_the_token_is_changed_for_a_strict_cookie_and_leaves_the_address(bench: Workbench) -> None:
    answer = Client(bench, cookie=False).get(f"/?token={TOKEN}", follow=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].casefold()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize(
    "host", ["evil.example:8123", "127.0.0.1:9999", "127.0.0.1", "localhost.evil.example:8123", ""]
)
def test_another_host_is_refused(client: Client, host: str) -> None:
    answer = client.get("/data", headers={"host": host})
    assert answer.status_code == 421
    assert "WAGE" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8123", "localhost:8123", "[::1]:8123"])
def test_the_names_of_loopback_are_let_in(client: Client, host: str) -> None:
    assert client.get("/data", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8123", ""]
)
def test_a_change_from_another_origin_is_refused(client: Client, origin: str) -> None:
    before = client.bench.now.text
    for path in HANDLERS:
        answer = client.post(path, {"do": "clear"}, headers={"origin": origin} if origin else {})
        assert answer.status_code == 403, path
    assert client.bench.now.text == before


def test_only_forms_change_anything(client: Client) -> None:
    for path in HANDLERS:
        assert client.get(path).status_code in (404, 405), path
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert client.request(method, "/data").status_code == 405


def test_every_answer_has_the_headers(client: Client) -> None:
    for path in (*SCREENS, "/nothing", "/static/workbench.js"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "script-src 'self'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_no_page_has_inline_script_or_style(client: Client) -> None:
    for path in SCREENS[:6]:
        page = client.get(path).text
        assert " style=" not in page
        assert "<style" not in page
        assert page.count("<script") == 1
        assert " on" + "click=" not in page


HOSTILE = "<script>alert('x')</script>"


def test_hostile_names_and_values_are_only_text(made: Callable[..., Workbench]) -> None:
    frame = pl.DataFrame(
        {
            HOSTILE: ["a", "b", HOSTILE] * 20,
            '" onmouseover="alert(1)': list(range(60)),
            '=HYPERLINK("x")': ["<img src=x onerror=alert(2)>", "y", "z"] * 20,
            "\u202etxt.exe": [1, 2, 3] * 20,
            "{{ 7 * 7 }}": [1.5, 2.5, 3.5] * 20,
            "  ": [1, 1, 2] * 20,
        }
    )
    client = Client(made(frame, name="hostile.csv"))
    data = client.bench.data
    assert data is not None
    for at in range(6):
        client.post("/plan/role", {"column": str(at), "role": "key"})
    for path in SCREENS[:7]:
        page = client.get(path).text
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert 'onmouseover="alert' not in page
        assert "\u202e" not in page
    assert "[U+202E]txt.exe" in client.get("/keys").text
    assert "{{ 7 * 7 }}" in client.get("/data").text


def test_files_are_those_that_the_person_names(client: Client, tmp_path: Path) -> None:
    for name in (
        "missing.csv",
        "../missing.csv",
        "/etc/missing",
        "",
        ".",
        "/",
        "\0",
        "~nobody/x",
        "a" * 5000,
    ):
        answer = client.post("/open", {"path": name, "back": "/data"})
        assert answer.status_code == 200
        assert "No file of that name" in answer.text
        assert str(tmp_path) not in answer.text


def test_error_pages_say_neither_path_nor_data(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (
        "/nothing",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/report/secret",
        "/static/workbench.toml",
    ):
        answer = client.get(path)
        assert answer.status_code == 404
        assert str(tmp_path) not in answer.text

    def broken(*_: object) -> None:
        raise RuntimeError("secret value 4711 in /home/somebody/people.csv")

    monkeypatch.setattr("sfumato.workbench.app.data_screen", broken)
    answer = client.get("/data")
    assert answer.status_code == 500
    # The terminal has one line: a traceback would quote the message, and the message may quote the file.
    said = capsys.readouterr()
    for text in (answer.text, said.out, said.err):
        assert "4711" not in text
        assert "somebody" not in text
    assert "a defect (RuntimeError in " in said.err


def test_back_leads_to_the_workbench_alone(client: Client) -> None:
    for back in (
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "/open",
        "/data\r\nX: y",
    ):
        answer = client.post("/plan/roles-checked", {"back": back}, follow=False)
        assert answer.headers["location"].startswith("/keys")
        answer = client.post("/history", {"do": "undo", "back": back}, follow=False)
        assert answer.headers["location"].startswith("/data")


def test_a_form_that_is_too_large_is_refused(client: Client) -> None:
    answer = client.post("/plan/detail", {"value": "x" * 3_000_000})
    assert answer.status_code == 413


def test_forms_of_nobody_change_nothing(client: Client) -> None:
    before = client.bench.now.text
    for path in HANDLERS:
        if path in ("/open", "/again", "/plan/roles-checked", "/history"):
            continue
        for form in (
            {},
            {"column": "999"},
            {"column": "x", "role": "?"},
            {"step": "-1", "do": "remove"},
            {"at": "77"},
        ):
            answer = client.post(path, form)
            assert answer.status_code == 200, (path, form)
    assert client.bench.now.text == before
