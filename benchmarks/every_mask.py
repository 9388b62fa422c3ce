"""Battery against obvious attacks, every mask, on CASC, CPS tax units and two decks.

``python benchmarks/every_mask.py [--quick] [--file NAME] [--rows FILE]`` writes
docs/benchmarks/every_mask.md. Files are random samples of at most 2,000 records with a few coarse keys
and one to six amounts, so that not everybody is found whatever a mask does. The obvious attacks are
those of ``obvious.py``, written without any of sfumato's code. With ``--rows`` every row is written to
that file once it is there, and a second run goes on from it.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import obvious
import sfumato as sf
from harness import Table
from sfumato.contract.own_list import own_list
from sfumato.data.differences import changed
from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
RECORDS = 2_000


def sample(frame: pl.DataFrame, n: int) -> pl.DataFrame:
    return frame.sample(min(n, len(frame)), seed=1, shuffle=True)


def files(n: int) -> Iterator[tuple[str, Microdata]]:
    """Each with a few keys, geography and amounts, where it has them."""
    casc = pl.read_csv(SHARED / "CASCrefmicrodata.csv").cast(pl.Float64)
    casc = casc.select("AFNLWGT", "AGI", "EMCONTRB", "FEDTAX", "PTOTVAL", "INTVAL")
    yield "CASC", Microdata(sample(casc, n), sf.Schema(sensitive=casc.columns))
    deck = sf.decks.housing()
    money = list(deck.schema.sensitive)
    house = sample(deck.frame, n).with_columns(pl.col(money).cast(pl.Float64))
    yield "housing deck", Microdata(house, deck.schema)
    tax = sample(pl.read_csv(SHARED / "income" / "cps_taxunits_2013.csv"), n)
    keys, money = ["marital_filing", "n_persons", "age_head"], ["wages", "interest_taxable", "pensions"]
    tax = tax.select(
        *keys,
        "state_fips",
        (pl.col("state_fips") // 10).alias("region"),
        *(pl.col(c).cast(pl.Float64) for c in money),
    )
    roles = sf.Schema(keys=keys, geography=["region", "state_fips"], sensitive=money)
    yield "CPS tax units", Microdata(tax, roles)
    deck = sf.decks.persons(max(n // 2, 10), start=4_000)
    keep = ["HHID", "COUNTY", "TRACT", "AGE", "SEX", "RACE", "EARNINGS"]
    people = deck.frame.select(keep).head(n).with_columns(pl.col("EARNINGS").cast(pl.Float64))
    roles = sf.Schema(
        household="HHID",
        keys=["AGE", "SEX", "RACE"],
        geography=["COUNTY", "TRACT"],
        sensitive=["EARNINGS"],
    )
    yield "persons deck", Microdata(people, roles)


@dataclass(frozen=True)
class Case:
    """Steps, and what somebody knows of them: probabilities of having stayed, windows, groups."""

    steps: list[sf.Mask]
    keep: dict[str, float] = field(default_factory=dict)
    window: float | None = None
    whole: bool = False
    groups: int | None = None
    keys_only: bool = False
    """He knows no amounts: a mask of keys does nothing to those, and exact amounts tell everybody."""


def amounts(money: list[str], n: int) -> dict[str, Case]:
    """Masks of numbers."""
    deal = {"columns": money, "smallest": 5}
    out = {
        "rank swap 15%": Case([sf.RankSwap(columns=money, window_percent=15)], window=15),
        "rank swap R0 = .9, two bounds": Case(
            [sf.RankSwap(columns=money, correlation=0.9, far_values="code")]
        ),
        "rank swap, geometric": Case([sf.RankSwap(columns=money, window_percent=15, partner="geometric")]),
        "random swap 50%": Case(
            [sf.RandomSwap(columns=money, rate_percent=50)], keep=dict.fromkeys(money, 0.5)
        ),
        "noise d = .1": Case([sf.AdditiveNoise(columns=money, variance_ratio=0.1)]),
        "noise d = .5, zeros flagged": Case(
            [sf.AdditiveNoise(columns=money, variance_ratio=0.5, flag_zeros=True)]
        ),
        "mixture noise d = .1": Case([sf.MixtureNoise(columns=money, variance_ratio=0.1)]),
        "microaggregation k = 5": Case([sf.Microaggregate(columns=money, k=5)]),
        "microaggregation k = 5, one by one": Case(
            [sf.Microaggregate(columns=money, k=5, together=False)], groups=5
        ),
        "top and bottom codes": Case([sf.TopBottomCode(columns=money, top_percent=10, bottom_percent=5)]),
        "cluster shuffle k = 5, amounts": Case([sf.ClusterShuffle(**deal)]),
        "synthesis of amounts": Case([sf.Synthesise(columns=money, leaf=5)]),
        "controlled distortion": Case(
            [
                sf.ControlledDistortion(
                    records=list(range(0, n, max(n // 10, 1))), shift={money[0]: 10.0}, columns=money
                )
            ]
        ),
    }
    if len(money) > 1:
        out |= {
            "rank swap 15%, together": Case(
                [sf.RankSwap(columns=money, window_percent=15, together=True)], whole=True
            ),
            "random swap 50%, together": Case(
                [sf.RandomSwap(columns=money, rate_percent=50, together=True)],
                keep=dict.fromkeys(money, 0.5),
                whole=True,
            ),
        }
    return out


def masks(data: Microdata) -> dict[str, Case]:
    """Every mask that makes sense of a file, and what its method says."""
    money, keys = list(data.schema.sensitive), list(data.schema.keys)
    areas = list(data.schema.geography)
    out = amounts(money, len(data))
    everything = [c for c in data.columns if c != data.schema.household]
    out["cluster shuffle k = 20"] = Case([sf.ClusterShuffle(columns=everything, smallest=20)])
    out["synthesis"] = Case([sf.Synthesise(columns=everything, leaf=20)])
    if not keys:
        return out
    whole = next((k for k in keys if data.frame[k].dtype.is_integer() and data.frame[k].n_unique() > 5), None)
    strata = min(keys, key=lambda k: data.frame[k].n_unique())
    spot = {"keys_only": True}
    out |= {
        "PRAM .7": Case([sf.Pram(columns=keys, keep_probability=0.7)], keep=dict.fromkeys(keys, 0.7), **spot),
        "t-order swap 20%": Case(
            [sf.TOrderSwap(keys=keys, rate_percent=20)], keep=dict.fromkeys(keys, 0.8), **spot
        ),
        "local suppression": Case([sf.LocalSuppress(keys=keys, tolerance=3)], **spot),
        "edit 2000, sensitive": Case(
            [sf.ConfidentialityEdit2000(keys=keys, swap="sensitive")],
            keep=dict.fromkeys(money, 0.7),
            whole=True,
        ),
        "group swap 20%": Case(
            [sf.GroupSwap(strata=[strata], rate_percent=20, covariates=money[:2], small_strata="fewer")],
            keep={strata: 0.8},
            **spot,
        ),
        "random swap of keys 20%": Case(
            [sf.RandomSwap(columns=keys, rate_percent=20)], keep=dict.fromkeys(keys, 0.8), **spot
        ),
    }
    if len(money) > 1:
        out["linkage swap"] = Case(
            [sf.LinkageSwap(attack=sf.DistanceLinkage(known=money), columns=money, cells=[strata])],
            whole=True,
        )
    if whole is not None:
        out["recode and rank swap 15%"] = Case(
            [sf.Recode(column=whole, width=5), sf.RankSwap(columns=money, window_percent=15)], window=15
        )
        out["truncation and noise d = .1"] = Case(
            [sf.Truncate(column=whole, digits=1), sf.AdditiveNoise(columns=money, variance_ratio=0.1)]
        )
    if areas:
        match = [k for k in keys if k not in areas]
        similar = min(match, key=lambda k: data.frame[k].n_unique())
        out |= {
            "edit 1990, 10%": Case(
                [sf.ConfidentialityEdit1990(match_on=[similar], swap=areas[-1:], within=(), rate_percent=10)],
                keep={areas[-1]: 0.9},
                **spot,
            ),
            "edit 2000, geography": Case(
                [sf.ConfidentialityEdit2000(keys=keys, within=())], keep=dict.fromkeys(areas, 0.7), **spot
            ),
            "record swap 10%": Case(
                [
                    sf.RecordSwap(
                        hierarchy=areas,
                        keys=match[:2],
                        similar=() if data.schema.household else [similar],
                        rate_percent=10,
                        tolerance=2,
                        on_conflict="rate",
                    )
                ],
                keep=dict.fromkeys(areas, 0.9),
                **spot,
            ),
        }
    return out


def plain_attacks(data: Microdata, mine: Microdata, masked: Microdata, case: Case) -> dict[str, float]:
    """Every obvious attack that makes sense here, on the list that the reader of the release recodes."""
    money = [c for c in data.schema.sensitive if c in masked.columns]
    keys = [c for c in dict.fromkeys([*data.schema.keys, *data.schema.geography]) if c in masked.columns]
    flags = [c for c in mine.columns if c.endswith("_zero")]
    one, two = mine.frame, masked.frame
    touched = {c for step in case.steps for c in step.changes(data)}
    exact = [c for c in [*keys, *flags] if c not in touched or one[c].equals(two[c])]
    if case.keys_only:
        money = []
    known = [*money, *keys, *flags]
    out = obvious.agreements(one, two, known, case.keep)
    if money:
        out |= obvious.distances(one, two, money, exact)
    if money and len(exact) < len(keys):
        out |= obvious.mixed(one, two, money, [*keys, *flags], case.keep)
    if case.window is not None:
        out |= obvious.windows(one, two, money, exact, case.window)
    if case.whole:
        out |= obvious.vector(one, two, money)
    if case.groups is not None:
        out |= obvious.averaged(one, two, money, exact, case.groups)
    household = data.schema.household
    if household is not None:
        out |= obvious.homes(one, two, household, known)
    return out


def measured(name: str, data: Microdata, label: str, case: Case) -> dict[str, Any] | str:
    """One row, or why there is none."""
    try:
        masked = data
        for step in case.steps:
            masked = step.mask(masked, seed=1)
        keys = [*data.schema.keys, *data.schema.geography]
        known = [c for c in keys if changed(data.column(c), masked.column(c))] if case.keys_only else []
        began = time.process_time()
        battery = sf.run_battery(data, masked, case.steps, known=known, finds="records")
    except SfumatoError as problem:
        return problem.message[:200]
    seconds = time.process_time() - began
    plain = plain_attacks(data, own_list(data, masked, case.steps), masked, case)
    way = max(plain, key=lambda w: plain[w])
    best = battery.strongest
    assert best.result is not None
    return {
        "file": name,
        "records": len(data),
        "mask": label,
        "battery": best.result.value,
        "by": best.label,
        "obvious": plain[way],
        "way": way,
        "cpu": seconds,
        "plain cpu": time.process_time() - began - seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--file")
    parser.add_argument("--mask")
    parser.add_argument("--rows", type=Path, help="where rows are kept; a second run goes on from them")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many, and go on later")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: dict[tuple[str, str], Any] = {}
    if args.rows and args.rows.exists():
        for line in args.rows.read_text().splitlines():
            row = json.loads(line)
            rows[row["file"], row["mask"]] = row
    begun, whole = time.process_time(), True
    wanted: list[tuple[str, str]] = []
    for name, data in files(300 if args.quick else RECORDS):
        for label, case in masks(data).items():
            if (args.file and args.file != name) or (args.mask and args.mask != label):
                continue
            wanted.append((name, label))
            if (name, label) in rows:
                continue
            if time.process_time() - begun > args.seconds:
                whole = False
                continue
            row = measured(name, data, label, case)
            if isinstance(row, str):
                row = {"file": name, "mask": label, "refused": row}
            rows[name, label] = row
            if args.rows:
                with args.rows.open("a") as out:
                    out.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
    if whole and not (args.quick or args.file or args.mask):
        write([rows[w] for w in wanted])


def write(rows: list[dict[str, Any]]) -> None:
    made = [r for r in rows if "refused" not in r]
    least = min(r["battery"] - r["obvious"] for r in made)
    table = Table(
        "every_mask",
        "Battery against obvious attacks, every mask",
        "Share of persons found in random samples of at most 2,000 records with a few coarse keys and "
        "one to six amounts (of a mask of keys, he knows the keys alone): the battery's strongest "
        "attack; the best of the plain attacks of `benchmarks/obvious.py`, written by what each method "
        "says and without any code of sfumato; and the difference. "
        f"One masked file each. {len(made)} rows; the least difference is {least:+.3f}.",
    )
    for r in made:
        table.add(
            file=r["file"],
            records=f"{r['records']:,}",
            mask=r["mask"],
            battery=f"{r['battery']:.3f}",
            by=r["by"],
            obvious=f"{r['obvious']:.3f}",
            way=r["way"],
            difference=f"{r['battery'] - r['obvious']:+.3f}",
            cpu=f"{r['cpu']:.0f}",
        )
    for r in rows:
        if "refused" in r:
            print(f"{r['file']}: {r['mask']}: {r['refused']}")
    table.save()


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
