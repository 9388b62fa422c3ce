"""Make the pictures of ``docs/workbench.md``: the workbench on the housing deck, in a real browser.

    python docs/workbench_shots.py

Needs Chromium and ``pip install '.[dev]'``. Each picture is one window of 1280 × 860, written to docs/images.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import sync_playwright

import sfumato as sf
from sfumato.workbench.app import make_app
from sfumato.workbench.bench import Workbench

OUT = Path(__file__).parent / "images"
RECORDS = 2_000
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def main() -> None:
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        deck = sf.decks.housing()
        deck.frame.head(RECORDS).write_csv(Path(folder) / "housing.csv")
        bench = Workbench(Path(folder), audience="research")
        bench.open("housing.csv")
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        app = make_app(bench, token="docs", port=port)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
        threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
        while not server.started:
            time.sleep(0.05)
        with sync_playwright() as play:
            chromium = shutil.which("chromium") or shutil.which("google-chrome")
            browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.set_default_timeout(300_000)
            walk(page, f"http://127.0.0.1:{port}", bench)
            browser.close()
        server.should_exit = True
        bench.close()


def walk(page: Any, base: str, bench: Workbench) -> None:
    def shot(name: str) -> None:
        page.wait_for_timeout(300)
        page.screenshot(path=str(OUT / f"workbench-{name}.png"))

    page.goto(f"{base}/?token=docs")
    page.wait_for_selector("text=A first proposal, already tried")
    page.goto(f"{base}/data")
    shot("data")
    page.click("text=Keep the roles, choose the steps myself")
    page.goto(f"{base}/data")
    page.click("#roles-right")
    page.wait_for_selector("#helps table")
    shot("keys")
    assert bench.opened is not None
    years = bench.opened.file.columns.index("YR_BLT")  # type: ignore[union-attr]
    page.select_option(f"#rc-{years}", index=1)
    page.wait_for_selector(".toast")
    page.goto(f"{base}/protect?add=rank_swap")
    page.fill("#f-window_percent", "12")
    page.click("text=Add the step")
    page.wait_for_selector("#preview-go")
    page.select_option("#pc", label="HOME_VAL")
    page.click("#preview-go")
    page.wait_for_selector("#preview svg.sf-chart")
    shot("protect")
    page.goto(f"{base}/attack")
    page.click("main button[value=run]")
    page.wait_for_selector("#attacks:not(.stale) svg.sf-chart")  # of this plan, not of the proposal
    page.goto(f"{base}/attack")
    shot("attack")
    page.goto(f"{base}/compare")
    page.click("#try-these")
    page.wait_for_selector("#point-F")
    page.goto(f"{base}/compare")
    shot("compare")
    bench.now.step(lambda h: h.go(next(k for k, e in enumerate(h.entries) if e.name == "the first proposal")))
    page.goto(f"{base}/release")
    shot("release")


if __name__ == "__main__":
    main()
