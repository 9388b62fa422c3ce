"""What a hostile test finds: kills, mutations, damaged files, odd frames, values recovered through rules.

Counts and no times, so that they can be given again: ``make hostile`` (or ``python benchmarks/hostile.py``).
Every number in the last two columns should be 0. A kill is a SIGKILL at a random moment of a release; a
mutation changes one place of a plan's text; a damaged file has bytes flipped or its end cut off; an odd
frame is a mask or measure on a column that nobody expects (``tests/contract/nasty.py``); a recovery is a
masked value that ``SUM − OTHER`` gives back in a run that may be released, for every mask there is.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from harness import DOCS, Table
from sfumato import registry
from sfumato.contract.mask import Mask
from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "contract"))
import nasty
from cases import deck_for, example

PLAN = """
format = 1
title = "housing"
data = "people.csv"

[roles]
id = "ID"
keys = ["SEX", "RACE"]
sensitive = ["WAGE", "RENT"]
geography = ["STATE", "COUNTY"]

[variables.TOTAL]
sum_of = ["WAGE", "RENT"]
unit = 1

[variables.INCOME]
top = 60_000
missing = [-9, { from = -99, to = -90 }]
labels = { 0 = "none" }

[[step]]
id = "swap"
mask = "rank_swap"
columns = ["WAGE", "RENT"]
window_percent = 5

[[step]]
mask = "local_suppress"
tolerance = 3

[[measure]]
measure = "linkage"
known = ["WAGE"]
block_on = ["SEX"]

[limits]
linkage.rate = { at_most = 0.10 }

[release]
drop = ["ID"]
format = "parquet"
"""

WRITER = """
import sys, polars as pl, sfumato as sf
run = sf.Plan(steps=[sf.RandomSwap(columns=["WAGE"], rate_percent=40)]).run(sf.read(sys.argv[1]), seed=1)
print("ready", flush=True)
run.release(sys.argv[2], overwrite=True)
print("done", flush=True)
"""


def uncaught(work: Callable[[], Any]) -> bool:
    """Whether something but an error of ours comes out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            work()
        except SfumatoError:
            return False
        except (Exception, pl.exceptions.PanicException):
            return True
    return False


def kills(tries: int, folder: Path) -> tuple[int, int]:
    """Releases killed, and those that stand in part afterwards (or lost the one that stood before)."""
    data = pl.DataFrame({"WAGE": np.arange(60_000), "K": np.arange(60_000) % 9})
    data.write_parquet(folder / "people.parquet")
    (folder / "writer.py").write_text(WRITER)
    partial = 0
    rng = random.Random(1)
    target = folder / "out" / "r"
    for attempt in range(tries):
        standing = target.exists()
        process = subprocess.Popen(
            [sys.executable, str(folder / "writer.py"), str(folder / "people.parquet"), str(target)],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.5) if attempt else 5.0)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if target.exists():
            manifest = json.loads((target / "internal" / "MANIFEST.json").read_text())
            there = {p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file()}
            partial += set(manifest["files"]) != there - {"internal/MANIFEST.json"}
        else:
            partial += standing
    return tries, partial


def mutations(tries: int, folder: Path) -> tuple[int, int]:
    """Plans with one place changed, and those that came out as a traceback."""
    deck_for(sf.RandomSwap).frame.write_csv(folder / "people.csv")
    words = [
        "[]", "{}", "{ a = 1 }", "[[1]]", "[{ a = 1 }]", "-1", "1e400", "nan", "true", '""', '"x"',
        "1979-05-27", '"\\u0000"', "99999999999999999999", "0.05", "[1, 'a']", "=",
    ]  # fmt: skip
    rng = random.Random(2)
    lines = PLAN.strip().split("\n")
    bad = 0

    def load(text: str) -> None:
        plan = sf.Plan.loads(text, base=folder)
        plan.check()

    for _ in range(tries):
        new = list(lines)
        at = rng.randrange(len(new))
        kind = rng.randrange(6)
        if kind == 0:
            del new[at]
        elif kind == 1 and "=" in new[at]:
            new[at] = new[at].split("=")[0] + "= " + rng.choice(words)
        elif kind == 2:
            new.insert(at, rng.choice(lines))
        elif kind == 3:
            place = rng.randrange(len(new[at]) + 1)
            new[at] = new[at][:place] + rng.choice("[]{}\"'=.\x00\t9é#") + new[at][place:]
        elif kind == 4:
            other = rng.randrange(len(new))
            new[at], new[other] = new[other], new[at]
        else:
            new[at] = new[at].replace(rng.choice("abcdeWAGE"), rng.choice(["", "zz", "[", "🙂"]))
        text = "\n".join(new)
        bad += uncaught(lambda text=text: load(text))
    return tries, bad


def damages(tries: int, folder: Path) -> tuple[int, int]:
    """Damaged files, and those that came out as a traceback (a crash would end this program)."""
    data = sf.Microdata(deck_for(sf.RandomSwap).frame.select("SEX", "WAGE", "WEALTH"))
    files = []
    for suffix in ("csv", "parquet", "arrow", "sav", "dta"):
        sf.write(data, folder / f"whole.{suffix}", overwrite=True)
        files.append((suffix, (folder / f"whole.{suffix}").read_bytes()))
    rng = random.Random(3)
    bad = 0
    for number in range(tries):
        suffix, whole = files[number % len(files)]
        broken = bytearray(whole)
        if rng.random() < 0.3:
            del broken[rng.randrange(len(broken)) :]
        else:
            for _ in range(rng.choice([1, 4, 40])):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
        path = folder / f"broken.{suffix}"
        path.write_bytes(bytes(broken))
        bad += uncaught(lambda path=path: sf.read(path).frame)
    return tries, bad


def frames(names: list[str]) -> tuple[int, int]:
    """Odd frames, and those with a traceback, a NaN or an infinity."""
    total = bad = 0
    classes = {**registry.masks(), **registry.measures()}
    for name in names:
        for _, one, data in nasty.cases_of(classes[name]):
            total += 1
            bad += nasty.tried(one, data) is not None
    return total, bad


def recoveries(names: list[str]) -> tuple[int, int]:
    """Masked values that a sum ties to others, and those that come back in a run that may be released."""
    total = back = 0
    for name in names:
        cls = registry.masks()[name]
        data = deck_for(cls, complete=True)
        mask: Mask = example(cls, data)
        for column in [c for c in mask.changes(data) if c in data.columns and data.is_numeric(c)][:3]:
            other = np.random.default_rng(7).integers(1, 500, len(data)).astype(float)
            frame = data.frame.with_columns(OTHER=pl.Series(other))
            frame = frame.with_columns(SUM=pl.col(column).cast(pl.Float64) + pl.col("OTHER"))
            tied = Microdata(frame, data.schema.with_variable("SUM", sum_of=[column, "OTHER"]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run = sf.Plan(steps=[mask]).run(tied, seed=3, measure=False)
            before = tied.column(column).cast(pl.Float64)
            after = run.masked.column(column).cast(pl.Float64, strict=False)
            guess = run.masked.column("SUM").cast(pl.Float64, strict=False) - run.masked.column("OTHER")
            changed = before.ne_missing(after)
            total += int(changed.sum())
            back += int((changed & ((guess - before).abs() < 1e-6)).fill_null(False).sum()) if run.ok else 0
    return total, back


def before(page: Path) -> dict[str, list[str]]:
    """The rows of the page as it stands, by what was tried: pieces that aren't run again keep theirs."""
    if not page.exists():
        return {}
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    return {cells[0]: cells for line in lines if (cells := [c.strip() for c in line.strip("|").split("|")])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; the docs' table isn't written")
    parser.add_argument(
        "--only", nargs="+", metavar="PIECE", help="these pieces alone; the others keep their rows"
    )
    args = parser.parse_args()
    quick = args.quick
    logging.disable(logging.CRITICAL)
    os.environ["RUST_BACKTRACE"] = "0"
    masks, measures = list(registry.masks()), list(registry.measures())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pieces: dict[str, tuple[str, str, Callable[[], tuple[int, int]]]] = {
            "kills": (
                "releases killed", "partial or lost releases", lambda: kills(4 if quick else 165, folder),
            ),
            "mutations": ("plans mutated", "tracebacks", lambda: mutations(200 if quick else 3_000, folder)),
            "damages": ("files damaged", "tracebacks", lambda: damages(20 if quick else 250, folder)),
            "masks": (
                "masks × odd frames", "tracebacks or NaN", lambda: frames(masks[-2:] if quick else masks),
            ),
            "measures": (
                "measures × odd frames",
                "tracebacks or NaN",
                lambda: frames(measures[-2:] if quick else measures),
            ),
            "recoveries": (
                "masked values tied by a sum", "values recovered", lambda: recoveries(masks),
            ),
        }  # fmt: skip
        unknown = set(args.only or ()) - set(pieces)
        if unknown:
            parser.error(f"there is no piece {min(unknown)}; there are {', '.join(pieces)}")
        table = Table("hostile", "A hostile test, with counts", __doc__ or "")
        standing = before(DOCS / "hostile.md")
        for piece, (what, wrong, run) in pieces.items():
            if args.only and piece not in args.only:
                if what in standing:
                    heads = ("tried", "number", "what_goes_wrong", "found")
                    table.add(**dict(zip(heads, standing[what], strict=True)))
                continue
            found = run()
            table.add(tried=what, number=found[0], what_goes_wrong=wrong, found=found[1])
    if not quick:
        table.save()


if __name__ == "__main__":
    main()
