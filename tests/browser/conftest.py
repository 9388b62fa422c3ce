"""A real browser on a real server. Where there is no browser the tests are skipped, and say so; where
``SFUMATO_BROWSER=required`` is set (in CI) that is a failure."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn

from sfumato.workbench.app import make_app
from sfumato.workbench.bench import Workbench

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TOKEN = "a-token-for-the-browser"
SHOTS = Path(os.environ.get("SFUMATO_SHOTS", Path(__file__).parents[2] / "artefacts" / "workbench"))
MISSING = (
    "no browser: the workbench's journeys were not tried (apt-get install chromium, or set SFUMATO_CHROMIUM)"
)


def chromium() -> str | None:
    named = os.environ.get("SFUMATO_CHROMIUM")
    return named or next(
        (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all journeys."""
    required = os.environ.get("SFUMATO_BROWSER") == "required"
    path = chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        (pytest.fail if required else pytest.skip)(MISSING)
    with sync_playwright() as play:
        rules = "--host-resolver-rules=MAP rebound.example 127.0.0.1"
        made = play.chromium.launch(executable_path=path, args=[*FLAGS, rules])
        yield made
        made.close()


class Place:
    """A workbench on a server of its own, which can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.start()

    def start(self) -> None:
        self.bench = Workbench(self.folder, propose=False)
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        app = make_app(self.bench, token=TOKEN, port=self.port)
        config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off", ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]}, daemon=True)
        self.thread.start()
        self.listener = listener
        while not self.server.started:
            time.sleep(0.02)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(10)
        self.listener.close()
        self.bench.close()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def tab(browser: Any, place: Place) -> Iterator[Callable[..., Any]]:
    """Opens tabs with the token; no request of theirs may leave this machine, and no script may fail."""
    contexts, strange, wrong = [], [], []

    def opened(*, token: bool = True, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        context.set_default_timeout(30_000)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda r: strange.append(r.url) if _leaves(r.url) else None)
        page.on("pageerror", lambda problem: wrong.append(str(problem)))
        page.on("console", lambda m: wrong.append(m.text) if "Content Security Policy" in m.text else None)
        if token:
            page.goto(place.url(f"/?token={TOKEN}"))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not strange, f"requests left this machine: {strange[:3]}"
    assert not wrong, wrong[:3]


def _leaves(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in (
        "127.0.0.1",
        "localhost",
        "rebound.example",
    )


def shot(page: Any, name: str) -> None:
    """A picture of the whole page, kept with the run."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(SHOTS / f"{name}.png"), full_page=True)
