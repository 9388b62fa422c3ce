"""Group swapping against a plain statsmodels loop and scikit-learn's logistic regression.

``--data FOLDER`` names the folder of titanic_889.csv and smho_n874.csv (../shared/data by default).
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small systems: more BLAS threads only wait for each other

import numpy as np
import polars as pl
from scipy.special import expit

import sfumato as sf
from group_swap_tables import files, settings, write_tables
from harness import Table, time_it
from sfumato.draws import Seed
from sfumato.masks.group_swap.pairs import Distances, fit_pair, linear_distances, pair_strata
from sfumato.utility.overlap_table import overlap_table

ABOUT = """
CPU seconds (best of the runs; the machine is shared, so wall times say little). The first two rows make 100
realisations of each published setting (conditional, 20 each way) with all the paper's regressions; the
yardstick is a loop of `numpy.random.choice` and statsmodels formulas, whose propensities are fitted once,
outside its time. The next rows compare and pair 500 strata of a million simulated records and swap 20
records each way; their yardstick is 500 scikit-learn logistic fits (`C=inf`, lbfgs) of a pair of average
size. Then some of these fits in one compiled call, and one by one. The last rows compare the fast search
with all pairs fitted: how many pairs are the same, the mean U_p, and how near the closed form comes to U_p
(where it lies below, the fast search is exact).
"""


def statsmodels_loop(
    data: sf.Microdata, mask: sf.GroupSwap, analyses: dict[str, sf.IntervalOverlap], realisations: int
) -> Callable[[], None]:
    """The same work as one would write it with statsmodels and numpy."""
    import statsmodels.formula.api as smf

    frame = data.to_pandas()
    plan = mask.prepare(data)
    if "FINDIRCT" in frame:
        frame["FINDIRCT"] = (frame["FINDIRCT"] == 2).astype(float)
    rng = np.random.default_rng(1)

    def intervals(current: Any, one: sf.IntervalOverlap) -> list[Any]:
        parts = [part for _, part in current.groupby(list(one.within))] if one.within else [current]
        formula = one.formula.replace("Pclass", "C(Pclass)").replace("hosp_type", "C(hosp_type)")
        fit = smf.logit if one.family == "logistic" else smf.ols
        options = {"disp": 0} if one.family == "logistic" else {}
        out = []
        for part in parts:
            try:
                out.append(fit(formula, part).fit(**options).conf_int().to_numpy())
            except np.linalg.LinAlgError:  # a separated stratum
                out.append(None)
        return out

    def run() -> None:
        before = {name: intervals(frame, one) for name, one in analyses.items()}
        for _ in range(realisations):
            current = frame.copy()
            for pair in plan.pairs:
                ends = [slice(plan.starts[s], plan.starts[s + 1]) for s in pair.pair]
                rows = [plan.rows[e] for e in ends]
                n = len(rows[0])
                scores = pair.fit.scores if pair.fit is not None else np.full(n + len(rows[1]), 0.5)
                weights = [scores[:n], 1 - scores[n:]]
                drawn = [
                    rng.choice(r, pair.count, replace=False, p=w / w.sum())
                    for r, w in zip(rows, weights, strict=True)
                ]
                for column in mask.strata:
                    values = [frame[column].iloc[r[0]] for r in rows]
                    current.loc[drawn[0], column] = values[1]
                    current.loc[drawn[1], column] = values[0]
            for name, one in analyses.items():
                for first, second in zip(before[name], intervals(current, one), strict=True):
                    if first is not None and second is not None and first.shape == second.shape:
                        low, high = (
                            np.maximum(first[:, 0], second[:, 0]),
                            np.minimum(first[:, 1], second[:, 1]),
                        )
                        0.5 * ((high - low) / np.ptp(first, axis=1) + (high - low) / np.ptp(second, axis=1))

    return run


def strata_file(strata: int, records: int, *, skewed: bool = False) -> sf.Microdata:
    """Strata near a three-dimensional surface, so that some are alike; ten covariates."""
    rng = np.random.default_rng(1)
    size = rng.lognormal(0, 0.7, strata)
    size = np.maximum((size / size.sum() * records).astype(int), 60)
    size[0] += max(0, records - size.sum())
    code = np.repeat(np.arange(strata), size)
    place = rng.normal(size=(strata, 3)) @ rng.normal(size=(3, 10)) * 0.6
    at = place[code]
    n = len(code)
    columns: dict[str, Any] = {"STRATUM": code.astype(np.int16)}
    columns["Y"] = (rng.random(n) < expit(at[:, 0])).astype(np.int8)
    for j in range(1, 6):
        x = at[:, j] + rng.normal(0, 1.5, n) + 0.3 * columns["Y"]
        columns[f"X{j}"] = np.exp(x) if skewed else x
    for j in range(6, 10):
        columns[f"X{j}"] = rng.poisson(np.exp(0.1 + 0.4 * at[:, j])).astype(np.int16)
    return sf.Microdata(pl.DataFrame(columns))


def against_exact(table: Table, strata: int, records: int, skewed: bool) -> None:
    """The fast search against all pairs fitted, greedy and matching."""
    data = strata_file(strata, records, skewed=skewed)
    kind = "skewed" if skewed else "even"
    plan = sf.GroupSwap(strata=["STRATUM"], n_swap=1, small_strata="fewer", pairing="greedy").prepare(data)
    parts = [plan.terms[:, plan.starts[s] : plan.starts[s + 1]] for s in range(strata)]
    exact = Distances(parts)
    started = time.process_time()
    exact.fit(itertools.combinations(range(strata), 2))
    exact_cpu = time.process_time() - started
    mean: dict[str, float] = {}
    for method in ("greedy", "matching"):
        want = pair_strata(exact, np.arange(strata), method, fast=False)
        fast = Distances(parts)
        started = time.process_time()
        found = pair_strata(fast, np.arange(strata), method, fast=True)
        cpu = time.process_time() - started
        u = [float(np.mean([exact.u[p] for p in pairs])) for pairs in (found, want)]
        mean[method] = u[0]
        against = f"; {100 * (1 - u[0] / mean['greedy']):.0f}% below greedy's" if method == "matching" else ""
        table.add(
            case=f"{strata} strata, {len(data):,} {kind} records, {method}: fast search",
            cpu_seconds=cpu,
            yardstick=f"all {exact.fits:,} fits",
            yardstick_cpu=exact_cpu,
            ratio=cpu / exact_cpu,
            result=f"{len(set(found) & set(want))} of {len(want)} pairs the same, {fast.fits:,} fits, "
            f"mean U_p {u[0]:.5f} against {u[1]:.5f}{against}",
        )
    _, _, low = linear_distances(parts, np.arange(strata), "share")
    share = low / np.array([exact.u[p] for p in itertools.combinations(range(strata), 2)])
    table.add(
        case=f"the same file: closed form / U_p over all {exact.fits:,} pairs",
        result=f"{share.min():.2f} to {share.max():.3f}, median {np.median(share):.2f} "
        "(the search allows for 1.11)",
    )


def batched(table: Table, data: sf.Microdata, strata: int, pairs: int) -> None:
    """Fits of pairs in one compiled call against the same fits one by one."""
    plan = sf.GroupSwap(strata=["STRATUM"], n_swap=1, pairing="greedy", small_strata="fewer").prepare(data)
    parts = [plan.terms[:, plan.starts[s] : plan.starts[s + 1]] for s in range(strata)]
    some = list(itertools.islice(itertools.combinations(range(strata), 2), pairs))
    one_by_one = time_it(lambda: [fit_pair(parts[a], parts[b], tolerance=1e-6).u for a, b in some], repeat=1)

    def at_once() -> Distances:
        made = Distances(parts, "share", plan.terms, plan.starts)
        made.fit(some)
        return made

    together = time_it(at_once, repeat=2)
    exact = np.array([fit_pair(parts[a], parts[b]).u for a, b in some])
    error = np.abs(np.array([together.value.u[p] for p in some]) - exact).max()
    table.add(
        case=f"{len(some)} fits of these pairs, batched Newton steps from the moments",
        cpu_seconds=together.cpu_seconds,
        yardstick="the same fits one by one",
        yardstick_cpu=one_by_one.cpu_seconds,
        ratio=together.cpu_seconds / one_by_one.cpu_seconds,
        result=f"U_p right to {error:.0e}; the strata's moments included",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--tables", action="store_true", help="only the tables of the method's page")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.tables:
        write_tables(options.data, quick=options.quick)
        return
    table = Table("group_swap", "Group swapping", ABOUT)
    realisations = 10 if options.quick else 100
    given = files(options.data)
    for name, (mask, analyses) in settings(20).items():
        data = given[name]
        ours = time_it(
            lambda d=data, m=mask, a=analyses: overlap_table(d, m.realisations(d, realisations, seed=1), a),
            repeat=2,
        )
        theirs = time_it(statsmodels_loop(data, mask, analyses, realisations), repeat=1, warm_up=False)
        table.add(
            case=f"{name}, {realisations} realisations",
            cpu_seconds=ours.cpu_seconds,
            yardstick="statsmodels loop",
            yardstick_cpu=theirs.cpu_seconds,
            ratio=ours.cpu_seconds / theirs.cpu_seconds,
            result="target: under 1/5",
        )
    some, swap = strata_file(20, 20_000), sf.GroupSwap(strata=["STRATUM"], n_swap=20, small_strata="fewer")
    ours = time_it(lambda: sum(1 for _ in swap.realisations(some, realisations, seed=1)), repeat=2)
    table.add(
        case=f"20 strata, 20,000 records, {realisations} realisations",
        cpu_seconds=ours.cpu_seconds,
        result=f"{1e3 * ours.cpu_seconds / realisations:.0f} ms a realisation",
    )
    strata, records = (60, 60_000) if options.quick else (500, 1_000_000)
    large = strata_file(strata, records)
    theirs = time_it(lambda: sklearn_fits(large, strata), repeat=1, warm_up=False)
    for pairing in ("matching", "greedy"):
        swap = sf.GroupSwap(strata=["STRATUM"], n_swap=20, pairing=pairing, small_strata="fewer")
        swap.mask(strata_file(50, 20_000), seed=1)
        ours = time_it(lambda s=swap: carried_out(s, large), repeat=1, warm_up=False)
        table.add(
            case=f"{strata} strata, {len(large):,} records, 10 covariates, {pairing}",
            cpu_seconds=ours.cpu_seconds,
            yardstick=f"{strata} scikit-learn fits",
            yardstick_cpu=theirs.cpu_seconds,
            ratio=ours.cpu_seconds / theirs.cpu_seconds,
            result=f"{ours.value['pairs_fitted']:,} of {strata * (strata - 1) // 2:,} pairs fitted, peak "
            f"{ours.peak_bytes / 2**30:.2f} GiB above the data (target: under 6), {ours.seconds:.1f} s wall",
        )
    batched(table, large, strata, 100 if options.quick else 500)
    for skewed in (False, True):
        against_exact(table, *((50, 20_000) if options.quick else (200, 200_000)), skewed)
    if not options.quick:
        table.save()
    write_tables(options.data, quick=options.quick)


def carried_out(mask: sf.GroupSwap, data: sf.Microdata) -> dict[str, Any]:
    """The mask's figures, so that the fits can be counted."""
    return dict(mask.carry_out(data, Seed.from_int(1).draws("group_swap"))[1].figures)


def sklearn_fits(data: sf.Microdata, strata: int) -> None:
    """As many fits as strata, each of a pair of average size with the model's terms."""
    from sklearn.linear_model import LogisticRegression

    plan = sf.GroupSwap(strata=["STRATUM"], n_swap=1, pairing="greedy", search="fast").prepare(
        strata_file(50, 20_000)
    )
    terms = len(plan.term_names)
    size = len(data) // strata
    columns = [c for c in data.columns if c != "STRATUM"]
    x = data.matrix(columns)
    products = [x[:, [0]] * x[:, 1:]]
    X = np.hstack([x, *products])[:, :terms]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.repeat([0, 1], size)
    for start in range(strata):
        rows = slice((start * size) % (len(X) - 2 * size), (start * size) % (len(X) - 2 * size) + 2 * size)
        LogisticRegression(C=np.inf, max_iter=200).fit(X[rows], y)


if __name__ == "__main__":
    sys.exit(main())
