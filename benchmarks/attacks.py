"""Which attack breaks which mask: rates on the CASC file, the housing deck and an outside file.

``python benchmarks/attacks.py [--quick]`` writes docs/benchmarks/attacks.md. The reference data are
expected at ../shared/data.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import sfumato as sf
from harness import DOCS, Table, arguments
from sfumato.microdata import Microdata
from sfumato.risk.curve import known_curve
from sfumato.risk.intruder import TABLE_5

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
Masker = Callable[[Microdata, int], Microdata]


def casc() -> Microdata:
    return Microdata(pl.read_csv(SHARED / "CASCrefmicrodata.csv").cast(pl.Float64))


def casc_masks(columns: list[str]) -> dict[str, tuple[sf.masks.base.Mask, sf.risk.base.Attack]]:
    """Name → the mask and the intruder who knows it."""
    out = {}
    for window in (5, 10, 15, 25):
        mask = sf.RankSwap(columns=columns, window_percent=window)
        out[f"rank swap {window}%"] = (mask, sf.RankAttack(columns=columns))
    for d in (0.01, 0.05, 0.1, 0.2):
        mask = sf.AdditiveNoise(columns=columns, variance_ratio=d)
        out[f"normal noise d = {d}"] = (mask, sf.NoiseAttack(columns=columns))
    for d in (0.01, 0.05, 0.1, 0.2):
        mask = sf.MixtureNoise(columns=columns, variance_ratio=d)
        out[f"mixture noise d = {d}"] = (mask, sf.NoiseAttack(columns=columns))
    return out


def on_casc(seeds: int) -> Table:
    data = casc()
    columns = data.columns
    table = Table(
        "attacks_casc",
        "Attacks on the CASC file",
        f"Share of the 1,080 records re-identified, all 13 variables known; means (standard deviations) "
        f"over {seeds} seeds (papers' linkage: three times as many). The intruder of the last "
        "three columns knows the method, not its parameters.",
    )
    attacks = {
        "linkage d": sf.Linkage(known=columns, metric="d"),
        "linkage l": sf.Linkage(known=columns),
        "distance": sf.DistanceLinkage(known=columns),
        "Mahalanobis": sf.DistanceLinkage(known=columns, metric="mahalanobis"),
        "ranks": sf.DistanceLinkage(known=columns, metric="rank"),
        "self-trained": sf.SelfTrainedLinkage(known=columns),
        "10% of pairs known": sf.SupervisedLinkage(known=columns),
    }
    for name, (mask, aware) in casc_masks(columns).items():
        rates: dict[str, list[float]] = {}
        cost: dict[str, float] = {}
        for seed in range(3 * seeds):
            masked = mask.mask(data, seed=seed)
            for label, attack in {**attacks, "method-aware": aware}.items():
                if seed >= seeds and not label.startswith("linkage"):
                    continue
                begin = time.process_time()
                result = attack.measure(data, masked, seed=seed)
                cost[label] = cost.get(label, 0.0) + time.process_time() - begin
                rates.setdefault(label, []).append(result.value)
                if isinstance(attack, sf.RankAttack):
                    rates.setdefault("certain", []).append(result.certain_rate)
                    rates.setdefault("propagated", []).append(result.propagated_rate)
        table.add(mask=name, **{k: f"{np.mean(v):.3f} ({np.std(v):.3f})" for k, v in rates.items()})
        print("   CPU seconds a run:", {k: round(v / len(rates[k]), 2) for k, v in cost.items()})
    return table


def curves(seeds: int) -> Table:
    data = casc()
    columns = data.columns
    table = Table(
        "attacks_curve",
        "Rates over the number of known variables",
        f"CASC, mean over {6 * seeds} random sets of k variables and {seeds} seeds.",
    )
    cases = {
        "rank swap 15%, linkage l": (
            sf.RankSwap(columns=columns, window_percent=15),
            sf.Linkage(known=columns),
        ),
        "rank swap 15%, rank attack": (
            sf.RankSwap(columns=columns, window_percent=15),
            sf.RankAttack(columns=columns),
        ),
        "normal noise d = 0.1, linkage l": (
            sf.AdditiveNoise(columns=columns, variance_ratio=0.1),
            sf.Linkage(known=columns),
        ),
        "normal noise d = 0.1, noise attack": (
            sf.AdditiveNoise(columns=columns, variance_ratio=0.1),
            sf.NoiseAttack(columns=columns, form="normal"),
        ),
    }
    for name, (mask, attack) in cases.items():
        found = pl.concat(
            known_curve(attack, data, mask.mask(data, seed=s), sizes=[2, 3, 4, 5, 7, 10, 13], seed=s)
            for s in range(seeds)
        )
        means = found.group_by("known").agg(pl.col("mean").mean(), pl.col("sd").mean()).sort("known")
        table.add(
            case=name, **{f"k = {r['known']}": f"{r['mean']:.3f} ± {r['sd']:.3f}" for r in means.to_dicts()}
        )
    return table


def housing() -> Microdata:
    tops = dict(zip(TABLE_5, (100_000, 350_000, 1_800, 9_000, 62), strict=True))
    return Microdata(
        pl.read_parquet(SHARED / "housing_deck.parquet"),
        sf.Schema(
            keys=["REGION", "BEDROOMS", "BATHS", "YR_BLT"],
            sensitive=list(TABLE_5),
            variables={c: {"top": t, "bottom": 0} for c, t in tops.items()},
        ),
    )


def on_housing(seeds: int) -> tuple[Table, Table]:
    data = housing()
    money = list(TABLE_5)
    test = sf.IntruderTest(
        block_on=data.schema.keys, skeptical_of=["REGION"], known=money, weights=dict(TABLE_5)
    )
    moore = Table(
        "attacks_moore",
        "Moore's intruder on the housing deck",
        f"771 targets, mean counts over {seeds} seeds; in brackets the paper's Tables 6 and 7 on its file.",
    )
    published = {
        "rank swap K0 = 0.10": (124, 54, 378, 215),
        "rank swap R0 = 0.975": (100, 52, 266, 353),
        "rank swap R0 = 0.95": (90, 51, 236, 394),
        "rank swap R0 = 0.9": (89, 53, 204, 405),
        "noise R0 = 0.99": (126, 52, 411, 191),
        "noise R0 = 0.975": (103, 54, 328, 286),
        "noise R0 = 0.95": (96, 54, 280, 342),
        "noise R0 = 0.9": (92, 55, 230, 394),
    }
    blocked = Table(
        "attacks_housing",
        "Attacks on the housing deck",
        "64,998 records, five amounts known, and BEDROOMS, BATHS, YR_BLT, REGION exactly. One seed.",
    )
    for name, printed in published.items():
        kind, number = name.split(" R0 = ") if "R0" in name else ("rank swap", None)
        counts = []
        for seed in range(seeds):
            if kind == "noise":
                mask = sf.AdditiveNoise(columns=money, variance_ratio=1 / float(number) - 1)
            elif number is None:
                mask = sf.RankSwap(columns=money, mean_change=0.10, interval="theorem")
            else:
                mask = sf.RankSwap(columns=money, correlation=float(number), interval="theorem")
            masked = mask.mask(data, seed=seed)
            r = test.measure(data, masked, seed=seed)
            counts.append((r.correct, r.incorrect, r.questionable, r.false))
        mean = np.mean(counts, axis=0)
        words = ("correct", "incorrect", "questionable", "false")
        moore.add(mask=name, **{w: f"{m:.0f} ({p})" for w, m, p in zip(words, mean, printed, strict=True)})
        on = ("BEDROOMS", "BATHS", "YR_BLT", "REGION")
        row = {}
        for label, attack in {
            "linkage l": sf.Linkage(known=money, block_on=on),
            "method-aware": sf.NoiseAttack(columns=money, block_on=on, form="normal")
            if kind == "noise"
            else sf.RankAttack(columns=money, block_on=on),
        }.items():
            result = attack.measure(data, masked)
            row[label] = f"{result.value:.3f}"
        row["by chance"] = f"{result.baseline:.3f}"
        blocked.add(mask=name, **row)
    return moore, blocked


def outside() -> Table:
    """The 1989 American Housing Survey as an outside file against a masked 1991 one."""
    table = Table(
        "attacks_outside",
        "An outside file",
        "The intruder has the 1989 American Housing Survey (51,823 units); the 1991 survey is the release "
        "(51,027 units, 42,407 of them in both). Three amounts that changed in two years, tenure exact; "
        "true links by the unit's id.",
    )
    files = []
    for year in (1989, 1991):
        frame = pl.read_csv(SHARED / "ahs" / f"ahs_national_{year}.csv", infer_schema_length=None)
        frame = frame.drop_nulls(["MARKETVAL", "HINCP", "TOTHCAMT"])
        files.append(Microdata(frame.with_columns(pl.col("HINCP").clip(lower_bound=1))))
    old, new = files
    columns = ["MARKETVAL", "HINCP", "TOTHCAMT"]
    for name, masked in {
        "as it is": new,
        "rank swap 5%": sf.RankSwap(columns=columns, window_percent=5).mask(new, seed=1),
        "normal noise d = 0.05": sf.AdditiveNoise(columns=columns, variance_ratio=0.05).mask(new, seed=1),
    }.items():
        result = sf.Linkage(known=columns, block_on=["TENURE"], truth="CONTROL").measure(old, masked)
        table.add(
            release=name,
            attacked=result.attacked,
            correct=result.correct,
            rate=f"{result.rate:.5f}",
            by_chance=f"{result.baseline:.5f}",
            pairs=result.pairs,
        )
    return table


def main() -> None:
    options = arguments(__doc__ or "")
    if not SHARED.is_dir():
        print("the reference data aren't at ../shared/data: nothing was measured", file=sys.stderr)
        return
    seeds = 1 if options.quick else 10
    parts: list[Table] = []
    for make in (
        lambda: [on_casc(seeds)],
        lambda: [curves(1 if options.quick else 2)],
        lambda: on_housing(1 if options.quick else 5),
        lambda: [outside()],
    ):
        parts += make()
        if not options.quick:
            save(parts)


def save(parts: list[Table]) -> None:
    """All tables so far, on one page."""
    DOCS.mkdir(parents=True, exist_ok=True)
    text = "# Which attack breaks which mask\n\n"
    for part in parts:
        own = f"benchmarks/{part.name}.py"
        text += part.markdown().replace("# ", "## ", 1).replace(own, "benchmarks/attacks.py") + "\n"
    (DOCS / "attacks.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
