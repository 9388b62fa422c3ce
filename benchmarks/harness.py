"""What all benchmarks share: time against a named yardstick in the same run, and a table for the docs.

A benchmark is a script: ``python benchmarks/rank_swap.py [--quick]``. It makes a :class:`Table`, adds
a row per case and saves it as ``docs/benchmarks/<name>.md``. Times are never asserted.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import psutil

DOCS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


@dataclass(frozen=True)
class Timing:
    """Best wall time of several runs, the CPU time of that run, and the peak memory above the start."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    value: Any = None


def time_it(function: Callable[[], Any], *, repeat: int = 3, warm_up: bool = True) -> Timing:
    """Time a function: best of ``repeat`` after one warm-up (which compiles kernels)."""
    if warm_up:
        function()
    best: Timing | None = None
    for _ in range(repeat):
        gc.collect()
        with _Peak() as peak:
            cpu, start = time.process_time(), time.perf_counter()
            value = function()
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        now = Timing(seconds, cpu, peak.above, value)
        best = now if best is None or now.seconds < best.seconds else best
    assert best is not None
    return best


class _Peak:
    """The peak of this process's resident memory above its level at the start, sampled."""

    def __enter__(self) -> _Peak:
        self._process = psutil.Process()
        self._base = self._top = self._process.memory_info().rss
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self._top = max(self._top, self._process.memory_info().rss)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._top = max(self._top, self._process.memory_info().rss)

    @property
    def above(self) -> int:
        return self._top - self._base


@dataclass
class Table:
    """Rows of one benchmark, printed and saved as Markdown."""

    name: str
    title: str
    about: str
    rows: list[dict[str, str]] = field(default_factory=list)

    def add(self, **cells: Any) -> None:
        row = {k.replace("_", " "): _show(v) for k, v in cells.items()}
        self.rows.append(row)
        print("  ".join(f"{k}: {v}" for k, v in row.items()), flush=True)

    def markdown(self) -> str:
        heads = list(dict.fromkeys(k for row in self.rows for k in row))
        lines = [f"# {self.title}", "", self.about.strip(), ""]
        lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        lines += ["| " + " | ".join(row.get(h, "") for h in heads) + " |" for row in self.rows]
        load = os.getloadavg()[0]
        lines += [
            "",
            f"Measured {date.today()} with Python {platform.python_version()} on {os.cpu_count()} cores "
            f"(load average {load:.1f}); run again with `python benchmarks/{self.name}.py`.",
            "",
        ]
        return "\n".join(lines)

    def save(self) -> None:
        DOCS.mkdir(parents=True, exist_ok=True)
        (DOCS / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")
        print(f"wrote docs/benchmarks/{self.name}.md", file=sys.stderr)


def arguments(about: str) -> argparse.Namespace:
    """``--quick``: small sizes, nothing saved."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="small sizes; the docs' table isn't written")
    return parser.parse_args()


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
