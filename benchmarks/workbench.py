"""The workbench: from click to repaint at 1e5, 1e6 and 1e7 records, memory, and other requests meanwhile.

A click is a recode (or a tolerance) posted, its redirect and the page that follows, asked for over the
loopback as a browser does; six keys, all 63 key sets. Where Chromium is there, it also chooses a recode and
waits for the frame in which the new numbers stand. The yardstick is one ``group_by`` of the six keys over the
records, which a page without cells would need at the least for one of the 63. With ``gaps`` every twentieth
value of two keys is missing, and matches anything.

    python benchmarks/workbench.py                  1e5 and 1e6, and 1e6 with gaps
    python benchmarks/workbench.py 10000000 gaps    1e7, without and with gaps
"""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import polars as pl
import psutil
import uvicorn

from sfumato.workbench.app import make_app
from sfumato.workbench.bench import Workbench

TOKEN = "benchmark"
KEYS = ["AGE", "SEX", "REGION", "EDUCATION", "OCCUPATION", "CHILDREN"]


def people(n: int) -> pl.DataFrame:
    """Keys as a survey has them: ages and occupations in the hundreds together, the rest few, and related."""
    r = np.random.default_rng(1)
    age = np.clip(r.normal(45, 18, n), 16, 95).astype(np.int64)
    education = np.clip((r.normal(4, 2, n) + (age < 30)).astype(np.int64), 0, 9)
    return pl.DataFrame(
        {
            "AGE": age,
            "SEX": r.integers(1, 3, n),
            "REGION": r.choice(16, n, p=np.arange(16, 0, -1) / 136.0) + 1,
            "EDUCATION": education,
            "OCCUPATION": np.clip((education * 4 + r.exponential(4, n)).astype(np.int64), 0, 40),
            "CHILDREN": np.minimum(r.poisson(np.where(age < 25, 0.1, 1.2)), 7),
            "INCOME": np.round(r.lognormal(10, 0.7, n), -1),
        }
    )


def with_gaps(frame: pl.DataFrame) -> pl.DataFrame:
    r = np.random.default_rng(2)
    gone = {c: pl.Series(r.random(len(frame)) < 0.05) for c in ("EDUCATION", "OCCUPATION")}
    return frame.with_columns(pl.when(~g).then(pl.col(c)).alias(c) for c, g in gone.items())


class Page:
    """A browser without a picture: one connection that keeps its cookie."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self.head = {"cookie": f"sfumato-{port}={TOKEN}", "origin": f"http://127.0.0.1:{port}"}

    def ask(self, method: str, path: str, form: dict[str, object] | None = None) -> tuple[float, int]:
        """Seconds until the whole page is there, redirects followed, and its size."""
        self.connection.close()  # a connection that was idle may be gone; the next request opens one
        begun = time.perf_counter()
        body = urlencode(form, doseq=True) if form is not None else None
        head = {**self.head, **({"content-type": "application/x-www-form-urlencoded"} if body else {})}
        self.connection.request(method, path, body, head)
        answer = self.connection.getresponse()
        text = answer.read()
        while answer.status in (302, 303):
            self.connection.request("GET", answer.headers["location"].partition("#")[0], headers=self.head)
            answer = self.connection.getresponse()
            text = answer.read()
        assert answer.status == 200, answer.status
        return time.perf_counter() - begun, len(text)


def served(bench: Workbench) -> tuple[uvicorn.Server, int]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    app = make_app(bench, token=TOKEN, port=port)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, lifespan="off"))
    threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return server, port


def clicks(n: int, gaps: bool = False) -> None:
    process = psutil.Process(os.getpid())
    with tempfile.TemporaryDirectory() as folder:
        frame = with_gaps(people(n)) if gaps else people(n)
        frame.write_parquet(Path(folder) / "people.parquet")
        begun = time.process_time()
        frame.group_by(KEYS).len()
        yardstick = time.process_time() - begun
        del frame
        plan = f'format = 1\ndata = "people.parquet"\n[roles]\nkeys = {KEYS}\nsensitive = ["INCOME"]\n'
        (Path(folder) / "people.toml").write_text(plan.replace("'", '"'))
        bench = Workbench(Path(folder), propose=False)
        bench.open("people.toml")
        assert bench.opened is not None
        bench.opened.ready.wait()
        server, port = served(bench)
        page = Page(port)
        first, _ = page.ask("GET", "/keys")
        age = KEYS.index("AGE")
        view = bench.view()
        assert view is not None
        bench.helps(view, patience=600)
        levels = [r.level for r in bench.rungs(view)["AGE"]]
        wall: dict[str, list[float]] = {"recode": [], "tolerance": []}
        cpu: dict[str, list[float]] = {"recode": [], "tolerance": []}
        for k in range(8):
            for kind in wall:
                form: dict[str, object] = {"epoch": bench.now.epoch, "back": "/keys", "tab": "bench"}
                if kind == "recode":
                    form |= {"column": age, "level": levels[k % len(levels)]}
                else:
                    form |= {"key": list(range(6)), "dimension": 6, "tolerance_number": 3 + k}
                before = time.process_time()
                path = "/plan/recode" if kind == "recode" else "/plan/scenario"
                wall[kind].append(page.ask("POST", path, form)[0])
                cpu[kind].append(time.process_time() - before)
                view = bench.view()
                assert view is not None
                bench.helps(view, patience=600)  # the next click doesn't meet the ranking of the last
        memory = process.memory_info().rss / 1e6
        painted = [1000 * s for s in in_browser(port, age, bench)]
        print(
            f"| {n:,}{', gaps' if gaps else ''} | {len(view.table):,} | {first:.2f} s | "
            + " | ".join(
                f"{1000 * statistics.median(wall[kind]):.0f} ({1000 * min(wall[kind]):.0f} to "
                f"{1000 * max(wall[kind]):.0f}) | {1000 * statistics.median(cpu[kind]):.0f} | "
                f"{statistics.median(cpu[kind]) / yardstick:.2f}"
                for kind in wall
            )
            + (f" | {statistics.median(painted):.0f} (from {min(painted):.0f})" if painted else " | -")
            + f" | {memory:,.0f} MB |",
            flush=True,
        )
        server.should_exit = True
        bench.close()


PAINT = """async ([id, to]) => {
  const begun = performance.now(), old = document.getElementById('work');
  const select = document.getElementById(id);
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  select.selectedIndex = to;
  select.dispatchEvent(new Event('change', { bubbles: true }));
  while (document.getElementById('work') === old) await frame();
  await frame();
  return (performance.now() - begun) / 1000;
}"""


def in_browser(port: int, column: int, bench: Workbench) -> list[float]:
    """Seconds from a choice in the page to the frame that shows what it did."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        return []
    from playwright.sync_api import sync_playwright

    out = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        page.goto(f"http://127.0.0.1:{port}/?token={TOKEN}")
        page.goto(f"http://127.0.0.1:{port}/keys")
        for k in range(6):
            out.append(page.evaluate(PAINT, [f"rc-{column}", 1 + k % 3]))
            view = bench.view()
            assert view is not None
            bench.helps(view, patience=600)
        browser.close()
    return out


def meanwhile() -> None:
    """The latency of a page while a job of ten seconds or more runs in another process."""
    with tempfile.TemporaryDirectory() as folder:
        people(20_000).write_parquet(Path(folder) / "people.parquet")
        plan = f'format = 1\ndata = "people.parquet"\n[roles]\nkeys = {KEYS}\nsensitive = ["INCOME"]\n'
        plan += '[[step]]\nmask = "rank_swap"\ncolumns = ["INCOME"]\nwindow_percent = 10\n'
        plan += "[limits]\nbattery.rate = { at_most = 0.05 }\nbattery.gain = { at_most = 0.1 }\n"
        (Path(folder) / "people.toml").write_text(plan.replace("'", '"'))
        bench = Workbench(Path(folder), propose=False)
        bench.open("people.toml")
        assert bench.opened is not None
        bench.opened.ready.wait()
        server, port = served(bench)
        page = Page(port)
        for path in ("/protect", "/keys"):
            page.ask("GET", path)
        job = bench.start("run")
        waits: list[float] = []
        while job.active and job.seconds < 60:
            waits += [page.ask("GET", path)[0] for path in ("/state", "/protect")]
            time.sleep(0.05)
        waits.sort()
        print(
            f"while a job of {job.seconds:.0f} s ran ({job.state}): {len(waits)} requests, median "
            f"{1000 * statistics.median(waits):.1f} ms, 95% below "
            f"{1000 * waits[int(0.95 * len(waits))]:.1f} ms, worst {1000 * waits[-1]:.1f} ms"
        )
        server.should_exit = True
        bench.close()


if __name__ == "__main__":
    sizes = [int(float(a)) for a in sys.argv[1:] if a != "gaps"]
    print(
        "| records | cells | first page | recode, ms | CPU ms | of one group_by | tolerance, ms | CPU ms | "
        "of one group_by | recode in Chromium, ms | server |"
    )
    for size in sizes or (100_000, 1_000_000):
        clicks(size)
    for size in (sizes if "gaps" in sys.argv else []) or ([] if sizes else [1_000_000]):
        clicks(size, gaps=True)
    if not sizes:
        meanwhile()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
