"""Oganian and Lesaja (2016), section 4: noise on top of the swaps, what it costs and what is found."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

import numpy as np
import polars as pl

import sfumato as sf
from papers.framework import SHOWN, Context, Table, carry_out
from papers.oganian_readings import (
    BINARY,
    NUMBERS,
    SMHO,
    STRATA,
    TITANIC,
    overlaps,
    read,
    realisations,
    swap,
)
from sfumato.data.microdata import Microdata

RISK: Final = {(TITANIC, 20): "4", (TITANIC, 40): "3", (SMHO, 20): "2", (SMHO, 40): "1.5"}
NAMES: Final = {TITANIC: "Titanic", SMHO: "SMHO"}


def as_reals(data: Microdata, name: str) -> Microdata:
    return data.with_columns({c: data.frame[c].cast(pl.Float64) for c in NUMBERS[name]})


def noise(name: str) -> Any:
    return sf.AdditiveNoise(columns=list(NUMBERS[name]), variance_ratio=0.15, within=list(STRATA[name]))


def in_tenths(data: Microdata, release: Microdata, name: str) -> float:
    """Percent found by one who knows two numbers, by tenths of their distribution, and the stratum.

    Ties are shared, and the mean is over the pairs of numbers.
    """
    cuts = {c: np.unique(np.quantile(data.numbers(c), np.arange(0.1, 1, 0.1))) for c in NUMBERS[name]}
    one, two = (
        d.with_columns({c: pl.Series(np.searchsorted(cuts[c], d.numbers(c))).cast(pl.String) for c in cuts})
        for d in (data, release)
    )
    rates = [
        sf.Linkage(known=pair, block_on=STRATA[name], one_to_one=False).measure(one, two, seed=0).value
        for pair in combinations(NUMBERS[name], 2)
    ]
    return 100 * float(np.mean(rates))


def risk(context: Context) -> Table:
    """Section 4: noise after the swap, and re-identification."""
    from papers.oganian import HOW

    table = Table(
        "Section 4. Noise, and re-identification rates in percent",
        "Group swapping, then normal noise with c = 0.15 of each stratum's covariance. The paper says only "
        "that its intruder knows a subset of the attributes; of a dozen intruders tried, the one shown knows "
        "two of the four numbers to tenths of their distribution, and the stratum. Since he was chosen to "
        "come near, the digits aren't judged. The further column: one who knows one number, the stratum and "
        "the binary variable; and one who knows all of them and whitens by the covariance. Don't quote the "
        "small figures as the risk of the method.",
        improved="one number and binary; all, whitened",
    )
    weak: dict[Any, float] = {}
    strong: dict[Any, float] = {}
    losses = []
    for (name, n), text in RISK.items():
        label = f"{NAMES[name]}, {n} swapped"
        if context.file(name) is None:
            table.absent([(label, "rate", text)], HOW[name])
            continue
        data = as_reals(read(context, name), name)
        numbers, blocks = list(NUMBERS[name]), [*STRATA[name], BINARY[name]]
        rows, single, better = [], [], []
        for seed in range(context.count(0.25)):
            swapped = carry_out(swap(name, n), data, seed, "section 4 swap")[0]
            release = carry_out(noise(name), swapped, seed, "section 4 noise")[0]
            rows.append(in_tenths(data, release, name))
            found = [
                sf.DistanceLinkage(known=[c], block_on=blocks).measure(data, release, seed=seed).value
                for c in numbers
            ]
            single.append(100 * float(np.mean(found)))
            attack = sf.DistanceLinkage(known=numbers, block_on=blocks, metric="mahalanobis")
            better.append(100 * float(attack.measure(data, release, seed=seed).value))
        weak[name, n], strong[name, n] = float(np.mean(rows)), float(np.mean(better))
        table.add(label, "rate", text, context.mean(rows), standing=SHOWN,
                  improved=f"{np.mean(single):.1f}; {np.mean(better):.1f}")  # fmt: skip
        losses += _lost(context, name, n)
    if weak:
        table.claim(
            "more swapping, less risk",
            all(weak[k, 20] > weak[k, 40] for k in (TITANIC, SMHO) if (k, 20) in weak),
            ", ".join(f"{v:.1f}" for v in weak.values()),
        )
        off = max(abs(weak[key] - float(text)) for key, text in RISK.items() if key in weak)
        table.claim(
            "an intruder with two numbers in tenths and the stratum comes within 1.5 points of the printed "
            "rates",
            off < 1.5,
            f"largest difference {off:.1f} points",
            ours=True,
        )
        table.claim(
            "an intruder who knows all the numbers finds more than three times as many",
            all(strong[k] > 3 * weak[k] for k in weak),
            ", ".join(f"{weak[k]:.1f} → {strong[k]:.1f}" for k in weak),
            ours=True,
        )
        table.claim(
            "the noise lowers the average overlap of conditional swaps by about 3 to 5 percent (mean over "
            "analyses and rates: 2 to 6)",
            2 <= float(np.mean([loss for _, loss in losses])) <= 6,
            ", ".join(f"{label} {loss:.1f}" for label, loss in losses),
            reason="single analyses differ more than the text says",
        )
    return table


def _lost(context: Context, name: str, n: int) -> list[tuple[str, float]]:
    """By how many percent the noise lowers each analysis's average overlap."""
    made = realisations(context, name, n, probabilities="conditional")[: 4 if context.quick else 20]
    noisy = [carry_out(noise(name), as_reals(m, name), i, "section 4 noise")[0] for i, m in enumerate(made)]
    before, after = (overlaps(context, name, m) for m in (made, noisy))
    return [
        (f"{label} at {n}", 100 * (1 - after[label]["average"].value / one["average"].value))
        for label, one in before.items()
    ]
