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
from harness import Table, time_it
from sfumato.masks._strata_pairs import Distances, pair_strata
from sfumato.utility.overlap_table import overlap_table

ABOUT = """
CPU seconds (best of the runs; the machine is shared, so wall times say little). The first two rows make 100
realisations of each published setting (conditional, 20 each way) with all the paper's regressions; the
yardstick is a loop of `numpy.random.choice` and statsmodels formulas, whose propensities are fitted once,
outside its time. The third row compares and pairs 500 strata of a million simulated records and swaps 20
records each way; its yardstick is 500 scikit-learn logistic fits (`C=inf`, lbfgs) of a pair of average size.
The last rows compare the fast search with all pairs fitted: how many pairs are the same, and the mean U_p.
"""
REST = "BEDS + SEENCNT + EOYCNT"


def titanic(folder: Path) -> sf.Microdata:
    frame = pl.read_csv(folder / "titanic_889.csv").with_columns(
        pl.col("Age").fill_null(pl.col("Age").mean())
    )
    return sf.Microdata(frame, {"variables": {"Pclass": {"kind": "categorical"}}})


def smho(folder: Path) -> sf.Microdata:
    frame = pl.read_csv(folder / "smho_n874.csv")
    return sf.Microdata(frame, {"variables": {"hosp_type": {"kind": "categorical"}}})


def settings(n_swap: int, **more: Any) -> dict[str, tuple[sf.GroupSwap, dict[str, sf.IntervalOverlap]]]:
    """The paper's two experiments: the mask and the regressions."""
    both = {"n_swap": n_swap, "centre": "half", **more}
    sex, kind = ["Pclass", "Sex"], ["hosp_type"]

    def logistic(formula: str, within: list[str] | None = None) -> sf.IntervalOverlap:
        return sf.IntervalOverlap(formula=formula, family="logistic", within=within or [])

    return {
        "Titanic": (
            sf.GroupSwap(strata=sex, formula="Survived * (Age + Fare + SibSp + Parch)", **both),
            {
                "Reg1": logistic("Survived ~ Pclass + Sex + Age"),
                "Reg2": logistic("Survived ~ Age + Fare", sex),
            },
        ),
        "SMHO": (
            sf.GroupSwap(
                strata=kind,
                formula=f"FINDIRCT * (EXPTOTAL + {REST})",
                distance_formula=f"FINDIRCT + EXPTOTAL + {REST}",
                **both,
            ),
            {
                "Reg3": logistic(f"FINDIRCT ~ EXPTOTAL + {REST} + hosp_type"),
                "Reg4": sf.IntervalOverlap(formula=f"EXPTOTAL ~ {REST} + FINDIRCT + hosp_type"),
                "Reg5": logistic(f"FINDIRCT ~ EXPTOTAL + {REST}", kind),
                "Reg6": sf.IntervalOverlap(formula=f"EXPTOTAL ~ {REST} + FINDIRCT", within=kind),
            },
        ),
    }


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


def tables_of_the_paper(folder: Path, realisations: int) -> None:
    """J over the realisations, for the docs page."""
    for n_swap in (20, 40):
        for label, more in {
            "conditional": {},
            "uniform": {"probabilities": "uniform"},
            "balanced, capacity": {"draw": "balanced"},
            "balanced, equal": {"draw": "balanced", "allocation": "equal"},
        }.items():
            for name, (mask, analyses) in settings(n_swap, **more).items():
                data = titanic(folder) if name == "Titanic" else smho(folder)
                for row in overlap_table(
                    data, mask.realisations(data, realisations, seed=1), analyses
                ).to_dicts():
                    print(
                        f"{row['analysis']} n_swap {n_swap} {label}: J {row['average']:.3f} "
                        f"(se {row['standard_error']:.3f}) [{row['low']:.2f}, {row['high']:.2f}] "
                        f"{row['non_overlaps']}/{row['intervals']} apart, {row['not_estimable']} unknown",
                        flush=True,
                    )


def against_exact(table: Table, strata: int, records: int, skewed: bool) -> None:
    data = strata_file(strata, records, skewed=skewed)
    kind = "skewed" if skewed else "even"
    plan = sf.GroupSwap(strata=["STRATUM"], n_swap=1, small_strata="fewer", pairing="greedy").prepare(data)
    parts = [plan.terms[:, plan.starts[s] : plan.starts[s + 1]] for s in range(strata)]
    exact = Distances(parts)
    started = time.process_time()
    exact.fit(itertools.combinations(range(strata), 2))
    exact_cpu = time.process_time() - started
    for method in ("greedy", "matching"):
        want = pair_strata(exact, np.arange(strata), method, fast=False)
        fast = Distances(parts)
        started = time.process_time()
        found = pair_strata(fast, np.arange(strata), method, fast=True)
        cpu = time.process_time() - started
        u = [float(np.mean([exact.u[p] for p in pairs])) for pairs in (found, want)]
        table.add(
            case=f"{strata} strata, {len(data):,} {kind} records, {method}: fast search",
            cpu_seconds=cpu,
            yardstick=f"all {exact.fits:,} fits",
            yardstick_cpu=exact_cpu,
            ratio=cpu / exact_cpu,
            result=f"{len(set(found) & set(want))} of {len(want)} pairs the same, {fast.fits:,} fits, "
            f"mean U_p {u[0]:.5f} against {u[1]:.5f}",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; the docs' table isn't written")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--tables", action="store_true", help="the paper's tables instead")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.tables:
        tables_of_the_paper(options.data, 10 if options.quick else 100)
        return
    table = Table("group_swap", "Group swapping", ABOUT)
    realisations = 10 if options.quick else 100
    for name, (mask, analyses) in settings(20).items():
        data = titanic(options.data) if name == "Titanic" else smho(options.data)
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
    strata, records = (60, 60_000) if options.quick else (500, 1_000_000)
    large = strata_file(strata, records)
    swap = sf.GroupSwap(strata=["STRATUM"], n_swap=20)
    swap.mask(strata_file(50, 20_000), seed=1)
    ours = time_it(lambda: swap.mask(large, seed=1), repeat=1, warm_up=False)
    theirs = time_it(lambda: sklearn_fits(large, strata), repeat=1, warm_up=False)
    table.add(
        case=f"{strata} strata, {len(large):,} records, 10 covariates, matching",
        cpu_seconds=ours.cpu_seconds,
        yardstick=f"{strata} scikit-learn fits",
        yardstick_cpu=theirs.cpu_seconds,
        ratio=ours.cpu_seconds / theirs.cpu_seconds,
        result=f"peak {ours.peak_bytes / 2**30:.2f} GiB above the data (target: under 6), "
        f"{ours.seconds:.1f} s wall",
    )
    for skewed in (False, True):
        against_exact(table, *((50, 20_000) if options.quick else (200, 200_000)), skewed)
    if not options.quick:
        table.save()


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
