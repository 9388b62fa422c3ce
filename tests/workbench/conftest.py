"""A workbench without a server: requests go straight to the application, as a browser sends them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest

from sfumato.workbench.app import make_app
from sfumato.workbench.bench import Workbench

TOKEN = "a-token-for-tests"
BASE = "http://127.0.0.1:8123"


def people(records: int = 400, seed: int = 1) -> pl.DataFrame:
    """A small file of persons: two keys with rare values, an amount, an id."""
    r = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "ID": [f"P{i:05d}" for i in range(records)],
            "AGE": r.integers(20, 80, records),
            "SEX": r.choice(["f", "m"], records),
            "REGION": r.choice(["north", "south", "east", "west"], records, p=[0.4, 0.3, 0.25, 0.05]),
            "WAGE": np.round(r.lognormal(10, 0.6, records), -1),
            "RENT": np.round(r.lognormal(6.5, 0.4, records)),
        }
    )


class Client:
    """One browser: keeps its cookie, follows redirects, sends the Origin of its own page."""

    def __init__(self, bench: Workbench, *, cookie: bool = True) -> None:
        self.bench = bench
        self.app = make_app(bench, token=TOKEN, port=8123)
        self.cookies = {"sfumato-8123": TOKEN} if cookie else {}

    def request(self, method: str, path: str, *, follow: bool = True, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(
                transport=transport, base_url=BASE, cookies=self.cookies, follow_redirects=follow
            ) as client:
                return await client.request(method, path, **more)

        return asyncio.run(ask())

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, data: dict[str, Any] | None = None, **more: Any) -> httpx.Response:
        form = (
            {"epoch": str(self.bench.now.epoch), "back": "/keys", **(data or {})}
            if self.bench.session
            else data
        )
        headers = more.pop("headers", {"origin": BASE})
        return self.request("POST", path, data=form, headers=headers, **more)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Workbench]]:
    """Makes workbenches on a file, ready to be asked, and closes them."""
    there: list[Workbench] = []

    def make(frame: pl.DataFrame | None = None, name: str = "people.csv", **options: Any) -> Workbench:
        path = tmp_path / name
        if frame is not None or not path.exists():
            (people() if frame is None else frame).write_csv(path)
        bench = Workbench(tmp_path, propose=options.pop("propose", False), **options)
        there.append(bench)
        bench.open(name)
        wait_read(bench)
        return bench

    yield make
    for bench in there:
        bench.close()


def wait_read(bench: Workbench) -> None:
    """Until the file is read and its roles are suggested."""
    assert bench.opened is not None
    assert bench.opened.ready.wait(60)


@pytest.fixture
def bench(made: Callable[..., Workbench]) -> Workbench:
    return made()


@pytest.fixture
def client(bench: Workbench) -> Client:
    return Client(bench)


def text_of(answer: httpx.Response) -> str:
    """What a person reads: tags taken out, entities read."""
    plain = re.sub(r"<(script|style)\b.*?</\1>", " ", answer.text, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", plain)).split())
