"""Files larger than memory: plans carried out from disk to disk on a census of households.

The file is made in chunks from the households deck. Every row is a process of its own (its peak is that
process's), and its CPU time stands beside that of a bare ``scan_parquet → sink_parquet`` of the same file.
Each plan ends in a whole release: masked, verified, shuffled, written, read back.
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
from pathlib import Path

import sfumato as sf
from harness import Table
from sfumato.contract.mask import Mask

AMOUNTS = ["INCOME", "HOME_VAL", "RENT"]
PLANS: dict[str, list[Mask]] = {
    "release alone": [],
    "coding and recoding": [
        sf.TopBottomCode(columns=AMOUNTS, top=150_000, id="top"),
        sf.Recode(column="N_OVER18", mapping={"-0": "none", "1-2": "few", "3-": "many"}),
        sf.Truncate(column="TRACT", digits=2),
    ],
    "coding and noise on 3": [
        sf.TopBottomCode(columns=AMOUNTS, top=500_000),
        sf.AdditiveNoise(columns=AMOUNTS, variance_ratio=0.1),
    ],
    "PRAM on 3": [sf.Pram(columns=["TENURE", "TRAILER", "N_FAMILIES"], keep_probability=0.8)],
    "rank swap of 3": [sf.RankSwap(columns=AMOUNTS, window_percent=5)],
    "edit 1990": [
        sf.ConfidentialityEdit1990(
            match_on=["SIZE", "N_OVER18"], swap=["COUNTY", "TRACT", "BLOCK"], within=["STATE"], rate_percent=5
        )
    ],
}


def make(path: Path, records: int) -> None:
    """The households, a million at a time."""
    from sfumato.decks.households import household_chunks
    from sfumato.io import write_chunks

    write_chunks(path, (chunk.frame for chunk in household_chunks(records)), format="parquet")


def work(task: str, path: Path, out: Path) -> None:
    """One row, in this process."""
    import polars as pl

    from sfumato.decks.households import HOUSEHOLD_SCHEMA
    from sfumato.engines.streaming import Streaming

    warnings.simplefilter("ignore")
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    if task == "scan to sink":
        pl.scan_parquet(path).sink_parquet(out / "bare.parquet")
    else:
        schema = HOUSEHOLD_SCHEMA.with_roles(keys=("SIZE", "TENURE"), household=None)
        schema = schema.with_variable("SIZE", sum_of=())
        plan = sf.Plan(
            steps=PLANS[task], schema=schema, release={"identifiers": ["COUNTY", "TRACT", "BLOCK"]}
        )
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
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    out_: dict[str, float] = json.loads(told.splitlines()[-1])
    return out_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1e5 records; the docs' table isn't written")
    parser.add_argument("--records", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--plans", nargs="+", choices=list(PLANS), default=list(PLANS))
    parser.add_argument("--folder", type=Path, default=None, help="where the files are made (and removed)")
    parser.add_argument("--work", nargs=3, metavar=("TASK", "FILE", "OUT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work[0], Path(args.work[1]), Path(args.work[2]))
    table = Table("census", "Files larger than memory", __doc__ or "")
    with tempfile.TemporaryDirectory(dir=args.folder) as made:
        folder = Path(made)
        for records in [1e5] if args.quick else args.records:
            path = folder / "households.parquet"
            make(path, int(records))
            bare = row("scan to sink", path, folder)
            table.add(
                records=int(records),
                plan="scan to sink",
                records_a_second=int(records / bare["seconds"]),
                cpu_seconds=bare["cpu"],
                peak_MB=int(bare["peak"]),
                cpu_ratio=1.0,
            )
            for task in args.plans:
                told = row(task, path, folder)
                table.add(
                    records=int(records),
                    plan=task,
                    records_a_second=int(records / told["seconds"]),
                    cpu_seconds=told["cpu"],
                    peak_MB=int(told["peak"]),
                    cpu_ratio=told["cpu"] / bare["cpu"],
                )
            path.unlink()
    if not args.quick:
        table.save()


if __name__ == "__main__":
    main()
