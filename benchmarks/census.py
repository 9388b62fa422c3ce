"""Files larger than memory: plans carried out from disk to disk on a census of households.

The file is made in chunks from the households deck, with three amounts more: 23 columns (the record swap: the
persons of the same deck, 12 columns; the cluster shuffle: three tenths of the households). Every row is a
process of its own (its peak is that process's), and its CPU time stands beside that of a bare
``scan_parquet → sink_parquet`` of the same file. Each plan ends in a whole release: masked, verified,
shuffled, written, read back; the tolerance is measured on the file as it stands. *ns* is CPU time a record.

Targets: at most 16 GiB; the cost a record grows by the sort's logarithm only (of 1e8 over 1e6: 1.33).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

import sfumato as sf
from harness import Table
from sfumato.contract.mask import Mask
from sfumato.decks.households import HOUSEHOLD_SCHEMA, KEYS_1990, PERSON_SCHEMA, household_chunks
from sfumato.draws import Seed

MORE = ("TAXES", "SAVINGS", "ENERGY")
AMOUNTS = ["INCOME", "HOME_VAL", "RENT", *MORE]
SIMILAR = ["SIZE", "N_OVER18"]
SCHEMA = (
    HOUSEHOLD_SCHEMA.with_roles(
        keys=("SIZE", "TENURE", "N_FAMILIES", "TRAILER"), household=None, sensitive=tuple(AMOUNTS)
    )
    .with_variable("SIZE", sum_of=())
    .with_variable("TAXES", kind="continuous", unit=1)
    .with_variable("SAVINGS", kind="continuous", unit=1)
    .with_variable("ENERGY", kind="continuous", unit=1)
)
PLANS: dict[str, list[Mask]] = {
    "release alone": [],
    "coding and recoding": [
        sf.TopBottomCode(columns=AMOUNTS[:3], top=150_000, id="top"),
        sf.Recode(column="N_OVER18", mapping={"-0": "none", "1-2": "few", "3-": "many"}),
        sf.Truncate(column="BLOCK", digits=3),
    ],
    "coding and noise on 6": [
        sf.TopBottomCode(columns=AMOUNTS, top=500_000),
        sf.AdditiveNoise(columns=AMOUNTS, variance_ratio=0.1),
    ],
    "PRAM on 3": [sf.Pram(columns=["TENURE", "TRAILER", "N_FAMILIES"], keep_probability=0.8)],
    "rank swap of 5": [sf.RankSwap(columns=AMOUNTS[:5], window_percent=5)],
    "edit 1990": [
        sf.ConfidentialityEdit1990(
            match_on=SIMILAR, swap=["COUNTY", "TRACT", "BLOCK"], within=["STATE"], rate_percent=5
        )
    ],
    "edit 2000": [
        sf.ConfidentialityEdit2000(
            keys=["COUNTY", "SIZE", "TENURE", "N_FAMILIES", "TRAILER"], swap="geography", tolerance=3
        )
    ],
    "record swap of persons": [sf.RecordSwap(rate_percent=10, on_conflict="rate")],
    "cluster shuffle of 8": [
        sf.ClusterShuffle(columns=[*AMOUNTS, "SIZE", "N_OVER18"], smallest=10, keep="none")
    ],
    "tolerance, triples of 11 keys": [],
}
FILES = {"record swap of persons": "persons", "cluster shuffle of 8": "fewer"}
"""Whose file isn't that of all households."""


def with_more(chunk: pl.DataFrame, start: int) -> pl.DataFrame:
    """Three amounts more, addressed by the household like all others."""
    draws = Seed.from_int(1990).draws("census benchmark")
    income = chunk["INCOME"].to_numpy()
    new = []
    for name, share, spread in zip(MORE, (0.2, 1.5, 0.05), (0.3, 1.2, 0.4), strict=True):
        z = draws.stream(name).normal(start, len(chunk))
        new.append(pl.Series(name, np.rint(share * income * np.exp(spread * z)).astype(np.int64)))
    return chunk.with_columns(new)


def make(path: Path, records: int, kind: str) -> int:
    """The file, a million households at a time; how many records it has."""
    from sfumato.io import write_chunks

    made = 0

    def chunks() -> Iterator[pl.DataFrame]:
        nonlocal made
        if kind == "persons":  # a little more than two persons a household
            for chunk in household_chunks(max(1, int(records / 2.6)), of_persons=True):
                made += len(chunk)
                yield chunk.frame
            return
        for chunk in household_chunks(records if kind == "households" else int(0.3 * records)):
            frame = with_more(chunk.frame, made)
            made += len(frame)
            yield frame

    write_chunks(path, chunks(), format="parquet")
    return made


def work(task: str, path: Path, out: Path) -> None:
    """One row, in this process."""
    from sfumato.engines.streaming import Streaming

    warnings.simplefilter("ignore")
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    if task == "scan to sink":
        pl.scan_parquet(path).sink_parquet(out / "bare.parquet")
    elif task.startswith("tolerance"):
        with Streaming(out) as engine:
            data = engine.hold(sf.Microdata(pl.scan_parquet(path), SCHEMA))
            sf.measure(data, sf.Tolerance(keys=KEYS_1990, max_dimension=3))
    else:
        schema = PERSON_SCHEMA if FILES.get(task) == "persons" else SCHEMA
        hidden = ["COUNTY", "TRACT", "BLOCK"]
        plan = sf.Plan(steps=PLANS[task], schema=schema, release={"identifiers": hidden})
        with Streaming(out) as engine:
            data = sf.Microdata(pl.scan_parquet(path), schema)
            plan.run(data, seed=1, engine=engine, measure=False).release(out / "release", despite_limits=True)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    told = {"seconds": time.perf_counter() - started, "cpu": cpu, "peak": after.ru_maxrss / 1024}
    print(json.dumps(told))


def row(task: str, path: Path, folder: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = [sys.executable, __file__, "--work", task, str(path), out]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    out_: dict[str, float] = json.loads(told.splitlines()[-1])
    return out_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1e5 records; the docs' table isn't written")
    parser.add_argument("--records", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--plans", nargs="+", choices=list(PLANS), default=list(PLANS))
    parser.add_argument("--folder", type=Path, default=None, help="where the files are made (and removed)")
    parser.add_argument("--dry", action="store_true", help="the docs' table isn't written")
    parser.add_argument("--work", nargs=3, metavar=("TASK", "FILE", "OUT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work[0], Path(args.work[1]), Path(args.work[2]))
    table = Table("census", "Files larger than memory", __doc__ or "")
    with tempfile.TemporaryDirectory(dir=args.folder) as made:
        folder = Path(made)
        for asked in [1e5] if args.quick else args.records:
            for kind in ("households", "persons", "fewer"):
                plans = [p for p in args.plans if FILES.get(p, "households") == kind]
                if plans:
                    measured(table, folder, int(asked), kind, plans)
    if not (args.quick or args.dry):
        table.save()


def measured(table: Table, folder: Path, asked: int, kind: str, plans: list[str]) -> None:
    """A file of one kind, the bare scan of it, and the plans on it."""
    path = folder / f"{kind}.parquet"
    records = make(path, asked, kind)
    bare = row("scan to sink", path, folder)
    for task in ("scan to sink", *plans):
        told = bare if task == "scan to sink" else row(task, path, folder)
        table.add(
            records=records,
            plan=f"{task} ({kind})" if task == "scan to sink" else task,
            records_a_second=int(records / told["seconds"]),
            cpu_seconds=told["cpu"],
            ns=round(1e9 * told["cpu"] / records),
            peak_MB=int(told["peak"]),
            cpu_ratio=told["cpu"] / bare["cpu"],
        )
    path.unlink()


if __name__ == "__main__":
    main()
