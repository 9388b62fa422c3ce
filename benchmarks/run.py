"""The whole path at size: read, TopBottomCode, verify, release, against a bare read and write in Polars.

Target: at most 3× the time of ``pl.read_parquet`` + ``write_parquet`` of the same file, and at most 3× the
frame's size in memory; ``sfumato --help`` at most 3× ``python -c pass``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from harness import Table, arguments

MEASURED = """
import sys, threading, time, psutil
process = psutil.Process(); top = 0; done = threading.Event()
def watch():
    global top
    while not done.wait(0.01):
        top = max(top, process.memory_info().rss)
{setup}
base = process.memory_info().rss
thread = threading.Thread(target=watch, daemon=True); thread.start()
start = time.perf_counter(); cpu = time.process_time()
{body}
print(time.perf_counter() - start, time.process_time() - cpu, max(top, process.memory_info().rss) - base)
done.set()
"""

BARE = ("import polars as pl", "pl.read_parquet(sys.argv[1]).write_parquet(sys.argv[2])")
OURS = (
    "import sfumato as sf, sfumato.io, sfumato.release.write, sfumato.report\n"
    "import pyarrow.parquet\nfrom sfumato import registry\nregistry.masks()",
    "plan = sf.Plan(steps=[sf.TopBottomCode(columns=['x1', 'x2'], top_percent=1)])\n"
    "plan.run(sf.read(sys.argv[1]), seed=1).release(sys.argv[2])",
)


def measured(code: tuple[str, str], source: Path, target: Path) -> tuple[float, float, float]:
    script = MEASURED.format(setup=code[0], body=code[1])
    done = subprocess.run(
        [sys.executable, "-c", script, str(source), str(target)], capture_output=True, text=True, check=True
    )
    seconds, cpu, peak = (float(x) for x in done.stdout.split())
    return seconds, cpu, peak


def main() -> None:
    quick = arguments(__doc__ or "").quick
    n = 200_000 if quick else 10_000_000
    table = Table("run", "Read, mask, verify and release", __doc__ or "")
    folder = Path(tempfile.mkdtemp(prefix="sfumato-bench-"))
    try:
        rng = np.random.default_rng(1)
        columns = {f"x{j}": rng.lognormal(10, 1, n).round(2) for j in range(6)}
        columns |= {f"k{j}": rng.integers(0, 50, n) for j in range(6)}
        source = folder / "source.parquet"
        frame = pl.DataFrame(columns)
        size = frame.estimated_size()
        frame.write_parquet(source)
        del frame, columns
        bare = min(measured(BARE, source, folder / f"bare{k}.parquet") for k in range(3))
        ours = min(measured(OURS, source, folder / f"release{k}") for k in range(3))
        for what, (seconds, cpu, peak) in (
            ("bare read + write (Polars)", bare),
            ("sfumato, whole path", ours),
        ):
            table.add(
                what=what, records=n, columns=12, seconds=seconds, cpu_seconds=cpu, ratio=seconds / bare[0],
                peak_over_frame=peak / size,
            )  # fmt: skip
        start = min(timed([sys.executable, "-c", "pass"]) for _ in range(10))
        helped = min(timed([str(Path(sys.executable).parent / "sfumato"), "--help"]) for _ in range(10))
        table.add(what="python -c pass", seconds=start, ratio=1.0)
        table.add(what="sfumato --help", seconds=helped, ratio=helped / start)
    finally:
        shutil.rmtree(folder)
    if not quick:
        table.save()


def timed(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
