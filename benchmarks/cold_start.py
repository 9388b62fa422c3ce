"""What the compiler costs: the first demo of an installation, ``sfumato warm``, and the demo after it.

``python benchmarks/cold_start.py [--quick]``. Each runs in a process of its own with a cache of kernels that
starts empty; CPU seconds, those of the compiler by numba's own events.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Table

ABOUT = """
`sfumato demo` with an empty cache of kernels, `sfumato warm`, and the demo after it, in CPU seconds on one
thread. *compiler* is the part between the events with which numba begins and ends a compilation.

Target: the compiler's part of the first demo below 5 CPU seconds, once the cache is filled by `sfumato warm`
(`make` runs it when it sets up). A demo without it waits for the compiler and says so.
"""


def inside(words: list[str]) -> None:
    """Run a command in this process and print its CPU seconds and the compiler's."""
    from numba.core import event

    spent, began, depth, kernels = 0.0, 0.0, 0, 0

    class Watch(event.Listener):
        def on_start(self, event):
            nonlocal began, depth
            began = time.process_time() if depth == 0 else began
            depth += 1

        def on_end(self, event):
            nonlocal spent, depth, kernels
            depth -= 1
            kernels += 1
            spent += time.process_time() - began if depth == 0 else 0.0

    event.register("numba:compile", Watch())
    from sfumato.cli import main as sfumato

    if sfumato(words) not in (0, 1):
        raise SystemExit(2)
    print(f"MEASURED {time.process_time():.1f} {spent:.1f} {kernels}")


def measured(words: list[str], cache: str) -> tuple[float, float, int]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "SFUMATO_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    command = [sys.executable, __file__, "--inside", *words]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    total, compiler, kernels = out.rsplit("MEASURED", 1)[1].split()
    return float(total), float(compiler), int(kernels)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a demo of 800 records; nothing is saved")
    parser.add_argument("--inside", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        inside(args.inside)
        return
    table = Table("cold_start", "The first run", ABOUT)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        records = ["--records", "800"] if args.quick else []
        for label, cache, words in (
            ("demo, nothing compiled before", "first", ["demo", "--out", str(place / "one"), *records]),
            ("sfumato warm", "second", ["warm", "--quiet"]),
            ("demo after warm", "second", ["demo", "--out", str(place / "two"), *records]),
        ):
            total, compiler, kernels = measured(words, str(place / cache))
            table.add(command=label, CPU_s=total, compiler_CPU_s=compiler, kernels_compiled=kernels)
    if not args.quick:
        table.save()


if __name__ == "__main__":
    main()
