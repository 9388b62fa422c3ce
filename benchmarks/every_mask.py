"""Battery against obvious attacks, every mask, on CASC, the three decks and files of ../shared/data.

``python benchmarks/every_mask.py [--quick] [--file NAME]`` writes docs/benchmarks/every_mask.md. Files are
random samples of at most 2,000 records, and each mask is set as its own page would set it. The obvious
attacks are those of ``obvious.py``, written without any of sfumato's code.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

import obvious
import sfumato as sf
from harness import Table
from sfumato.contract.own_list import own_list
from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
RECORDS = 2_000


def sample(frame: pl.DataFrame, n: int = RECORDS) -> pl.DataFrame:
    return frame.sample(min(n, len(frame)), seed=1, shuffle=True)


def files(n: int) -> Iterator[tuple[str, Microdata]]:
    """Each with keys, geography and amounts, where it has them."""
    casc = pl.read_csv(SHARED / "CASCrefmicrodata.csv").cast(pl.Float64)
    yield "CASC", Microdata(sample(casc, n), sf.Schema(sensitive=casc.columns))
    deck = sf.decks.housing()
    money = list(deck.schema.sensitive)
    house = sample(deck.frame, n).with_columns(pl.col(money).cast(pl.Float64))
    yield "housing deck", Microdata(house, deck.schema)
    deck = sf.decks.incomes()
    money = [c for c in deck.schema.sensitive if not deck.schema[c].sum_of][:6]
    keys = ["AGE", "RACE", "SEX", "STATE"]
    rich = sample(deck.frame, n).select(*keys, *(pl.col(c).cast(pl.Float64) for c in money))
    yield "incomes deck", Microdata(rich, sf.Schema(keys=keys[:3], geography=["STATE"], sensitive=money))
    tax = sample(pl.read_csv(SHARED / "income" / "cps_taxunits_2013.csv"), n)
    keys = ["marital_filing", "n_persons", "age_head", "n_under18"]
    money = ["wages", "interest_taxable", "dividends", "pensions", "social_security", "charity_cash"]
    tax = tax.select(
        *keys,
        "state_fips",
        (pl.col("state_fips") // 10).alias("region"),
        *(pl.col(c).cast(pl.Float64) for c in money),
    )
    yield (
        "CPS tax units",
        Microdata(tax, sf.Schema(keys=keys, geography=["region", "state_fips"], sensitive=money)),
    )
    test = pl.read_csv(SHARED / "testdata.csv", null_values="NA", infer_schema_length=None)
    keys = ["urbrur", "roof", "walls", "water", "sex", "age"]
    money = ["expend", "income", "savings"]
    test = sample(test.select(*keys, *(pl.col(c).cast(pl.Float64) for c in money)).drop_nulls(), n)
    yield "testdata", Microdata(test, sf.Schema(keys=keys, geography=["urbrur"], sensitive=money))


def masks(data: Microdata) -> dict[str, list[sf.Mask]]:
    money, keys = list(data.schema.sensitive), list(data.schema.keys)
    areas = list(data.schema.geography)
    out: dict[str, list[sf.Mask]] = {
        "rank swap 15%": [sf.RankSwap(columns=money, window_percent=15)],
        "rank swap 15%, together": [sf.RankSwap(columns=money, window_percent=15, together=True)],
        "rank swap, geometric": [sf.RankSwap(columns=money, window_percent=15, partner="geometric")],
        "random swap 50%": [sf.RandomSwap(columns=money, rate_percent=50)],
        "random swap 50%, together": [sf.RandomSwap(columns=money, rate_percent=50, together=True)],
        "noise d = .1": [sf.AdditiveNoise(columns=money, variance_ratio=0.1)],
        "noise d = .5, zeros flagged": [sf.AdditiveNoise(columns=money, variance_ratio=0.5, flag_zeros=True)],
        "mixture noise d = .1": [sf.MixtureNoise(columns=money, variance_ratio=0.1)],
        "microaggregation k = 5": [sf.Microaggregate(columns=money, k=5)],
        "microaggregation k = 5, one by one": [sf.Microaggregate(columns=money, k=5, together=False)],
        "top and bottom codes": [sf.TopBottomCode(columns=money, top_percent=10, bottom_percent=5)],
    }
    if keys:
        last = next((k for k in keys if data.frame[k].dtype.is_integer()), None)
        out |= {
            "PRAM .9": [sf.Pram(columns=keys, keep_probability=0.9)],
            "t-order swap 10%": [sf.TOrderSwap(keys=keys, rate_percent=10)],
            "local suppression": [sf.LocalSuppress(keys=keys, tolerance=3)],
            "edit 2000, sensitive": [sf.ConfidentialityEdit2000(keys=keys, swap="sensitive")],
            "linkage swap": [
                sf.LinkageSwap(attack=sf.DistanceLinkage(known=money), columns=money, cells=keys[:1])
            ],
            "group swap 20%": [
                sf.GroupSwap(strata=[keys[0]], rate_percent=20, covariates=money[:2], small_strata="fewer")
            ],
            "random swap of keys 20%": [sf.RandomSwap(columns=keys, rate_percent=20)],
        }
        if last is not None:
            out["recode and rank swap 15%"] = [
                sf.Recode(column=last, width=5),
                sf.RankSwap(columns=money, window_percent=15),
            ]
    if areas and keys:
        match = [k for k in keys if k not in areas]
        out |= {
            "edit 1990, 10%": [
                sf.ConfidentialityEdit1990(match_on=match[:1], swap=areas[-1:], within=(), rate_percent=10)
            ],
            "edit 2000, geography": [sf.ConfidentialityEdit2000(keys=keys, within=())],
            "record swap 10%": [
                sf.RecordSwap(
                    hierarchy=areas,
                    keys=match[:2],
                    similar=match[:1],
                    rate_percent=10,
                    tolerance=2,
                    on_conflict="rate",
                )
            ],
        }
    return out


def plain_attacks(
    data: Microdata, mine: Microdata, masked: Microdata, steps: list[sf.Mask]
) -> dict[str, float]:
    """Every obvious attack that makes sense here, on the list that the reader of the release recodes."""
    money = [c for c in data.schema.sensitive if c in masked.columns]
    keys = [c for c in dict.fromkeys([*data.schema.keys, *data.schema.geography]) if c in masked.columns]
    flags = [c for c in mine.columns if c.endswith("_zero")]
    one, two = mine.frame, masked.frame
    out = obvious.agreements(one, two, [*money, *keys, *flags])
    out |= obvious.distances(one, two, money)
    if keys or flags:
        out |= obvious.mixed(one, two, money, [*keys, *flags])
    window = getattr(steps[-1], "window_percent", None)
    if isinstance(window, (int, float)) and not getattr(steps[-1], "together", False):
        out |= obvious.windows(one, two, money, float(window))
    whole = getattr(steps[-1], "together", False) is True and steps[-1].name != "microaggregate"
    if whole or steps[-1].name == "linkage_swap":
        out |= obvious.vector(one, two, money)
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--file")
    parser.add_argument("--records", type=int, default=RECORDS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    table = Table(
        "every_mask",
        "Battery against obvious attacks, every mask",
        f"Share of persons found in samples of at most {args.records:,} records: the battery's strongest "
        "attack, the best of the plain attacks of `benchmarks/obvious.py` (no code of sfumato in them), "
        "and the difference; then the greatest gain on a sensitive value (within 10 percent) and the "
        "membership sign (2 AUC − 1).",
    )
    for name, data in files(500 if args.quick else args.records):
        if args.file and args.file != name:
            continue
        for label, steps in masks(data).items():
            try:
                masked = data
                for step in steps:
                    masked = step.mask(masked, seed=1)
            except SfumatoError as problem:
                print(f"{name}: {label}: {problem.message[:100]}", flush=True)
                continue
            began = time.process_time()
            battery = sf.run_battery(data, masked, steps)
            seconds = time.process_time() - began
            best = battery.strongest
            plain = plain_attacks(data, own_list(data, masked, steps), masked, steps)
            way = max(plain, key=lambda w: plain[w])
            found = {t.attack.finds: t.result.value for t in battery.tried if t.result is not None}
            table.add(
                file=name,
                mask=label,
                battery=f"{best.result.value:.3f}",
                by=best.label,
                obvious=f"{plain[way]:.3f}",
                way=way,
                difference=f"{best.result.value - plain[way]:+.3f}",
                gain=f"{found.get('values', float('nan')):.3f}",
                membership=f"{found.get('members', float('nan')):.3f}",
                cpu=f"{seconds:.0f}",
            )
            print(
                f"{name:14s} {label:36s} {best.result.value:.3f} {best.label:30s} {plain[way]:.3f} {way:24s} "
                f"{best.result.value - plain[way]:+.3f}  cpu {seconds:.0f}",
                flush=True,
            )
    if not args.file:
        table.save()


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
