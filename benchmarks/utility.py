"""Utility measures against yardsticks in the same run, how well an experiment fills the cores, and what a
search for the frontier saves. Writes docs/benchmarks/utility.md whole."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from harness import DOCS, Table, arguments, time_it
from sfumato.experiment.search import search

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
VERDICTS: list[tuple[str, float, str, float]] = []
"""Case, measured, "≤" or "≥" or "<", asked."""


def judged(case: str, measured: float, sign: str, asked: float, unit: str = "") -> dict[str, Any]:
    """The cells of a figure that has a target; the page's verdict is made of these."""
    VERDICTS.append((case, measured, sign, asked))
    return {"ratio": measured, "target": f"{sign} {asked:g}{unit}", "met": _met(measured, sign, asked)}


def _met(measured: float, sign: str, asked: float) -> str:
    good = {"≤": measured <= asked, "<": measured < asked, "≥": measured >= asked}[sign]
    return "yes" if good else "no"


def verdict() -> str:
    missed = [v for v in VERDICTS if _met(*v[1:]) == "no"]
    if not missed:
        return f"All {len(VERDICTS)} targets are met in this run."
    named = "; ".join(f"{case}: {found:.3g}, asked {sign} {asked:g}" for case, found, sign, asked in missed)
    return f"**Missed in this run** ({len(missed)} of {len(VERDICTS)}): {named}."


def files(n: int, m: int) -> tuple[Any, Any, sf.Microdata, sf.Microdata]:
    rng = np.random.default_rng(0)
    x = rng.lognormal(3, 1, (n, m))
    z = x * rng.uniform(0.9, 1.1, (n, m))
    names = [f"V{j}" for j in range(m)]
    return x, z, *(sf.Microdata(pl.DataFrame(v, schema=names)) for v in (x, z))


def information_loss(table: Table, n: int, repeat: int) -> None:
    x, z, one, two = files(n, 13)
    measure = sf.InformationLoss(columns=one.columns)
    yard = time_it(lambda: (np.cov(x, rowvar=False), np.abs(x - z).mean()), repeat=repeat)
    ours = time_it(lambda: measure.measure(one, two), repeat=repeat)
    case = f"InformationLoss {n:,} × 13"
    table.add(
        case=case,
        seconds=ours.seconds,
        cpu_seconds=ours.cpu_seconds,
        peak_MiB=ours.peak_bytes / 2**20,
        yardstick="np.cov + np.abs(x − z).mean()",
        its_seconds=yard.seconds,
        **judged(case, ours.cpu_seconds / yard.cpu_seconds, "≤", 4),
    )


def information_loss_large(table: Table, n: int) -> None:
    names = [f"V{j}" for j in range(13)]
    rng = np.random.default_rng(1)
    one = pl.DataFrame({c: rng.lognormal(3, 1, n) for c in names})
    two = one.with_columns(pl.all() * 1.01)
    measure = sf.InformationLoss(columns=names)
    ours = time_it(lambda: measure.measure(one, two), repeat=1, warm_up=False)
    import psutil

    case = f"InformationLoss {n:,} × 13, GiB of the process at its end"
    table.add(
        case=case,
        seconds=ours.seconds,
        cpu_seconds=ours.cpu_seconds,
        peak_MiB=ours.peak_bytes / 2**20,
        yardstick="both files included",
        **judged(case, psutil.Process().memory_info().rss / 2**30, "<", 8, " GiB"),
    )


def propensity(table: Table, n: int, repeat: int) -> None:
    from sklearn.linear_model import LogisticRegression

    _, _, one, two = files(n // 2, 10)
    X = np.ascontiguousarray(np.concatenate([one.matrix(one.columns), two.matrix(two.columns)]))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.r_[np.zeros(n // 2), np.ones(n // 2)]
    yard = time_it(lambda: LogisticRegression(C=1e6).fit(X, y), repeat=repeat)
    for label, permutations in ((", no null", 0), (", its default null of 20 shuffles", 20)):
        measure = sf.Propensity(columns=one.columns, permutations=permutations)
        ours = time_it(lambda measure=measure: measure.measure(one, two), repeat=repeat)
        case = f"Propensity {n:,} × 10 stacked{label}"
        table.add(
            case=case,
            seconds=ours.seconds,
            cpu_seconds=ours.cpu_seconds,
            peak_MiB=ours.peak_bytes / 2**20,
            yardstick="scikit-learn LogisticRegression, same matrix, standardised",
            its_seconds=yard.seconds,
            **judged(case, ours.cpu_seconds / yard.cpu_seconds, "≤", 10),
        )


# -- experiments ----------------------------------------------------------------------------------

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def casc() -> sf.Microdata:
    return sf.Microdata(pl.read_csv(SHARED / "CASCrefmicrodata.csv"))


def one_experiment(runs: int, processes: int) -> None:
    """An experiment in this fresh process; its wall and CPU time go to the standard output."""
    data = casc()
    plan = sf.Plan(
        steps=[sf.RankSwap(id="ranks", columns=data.columns, window_percent=5)],
        measures=[
            sf.InformationLoss(columns=data.columns),
            sf.Linkage(known=data.columns, weights="equal"),
        ],
    )
    grid = sf.Experiment(plan, {"ranks.window_percent": [5, 10, 15, 20]}, replicates=max(1, runs // 4))
    begun, cpu = time.perf_counter(), _cpu()
    outcome = grid.run(data, processes=processes, seed=1)
    print(json.dumps({"wall": time.perf_counter() - begun, "cpu": _cpu() - cpu, "ran": outcome.ran}))


def _cpu() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def experiment(table: Table, runs: int) -> None:
    """Each in a fresh process with its bytecode cached, as an installation has it."""
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as cache:
        common = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        common["PYTHONPYCACHEPREFIX"] = cache
        single = {**common, **dict.fromkeys((*ONE_THREAD, "POLARS_MAX_THREADS", "SFUMATO_THREADS"), "1")}

        def fresh(count: int, processes: int, env: dict[str, str]) -> dict[str, float]:
            words = [sys.executable, __file__, "--one-experiment", str(count), str(processes)]
            done = subprocess.run(words, env=env, check=True, capture_output=True, text=True)
            return dict(json.loads(done.stdout.splitlines()[-1]))

        fresh(4, 1, single)  # fills the caches
        one, free, many = fresh(runs, 1, single), fresh(runs, 1, common), fresh(runs, cores, common)
    case = f"experiment of {many['ran']:.0f} runs on CASC, {cores} processes: speed-up / {cores}"
    shown = {"seconds": many["wall"], "cpu_seconds": many["cpu"]}
    table.add(
        case=case,
        **shown,
        yardstick="one process, one thread",
        its_seconds=one["wall"],
        **judged(case, one["wall"] / many["wall"] / cores, "≥", 0.8),
    )
    table.add(
        case="the same",
        **shown,
        yardstick="one process, as many threads as it likes",
        its_seconds=free["wall"],
        ratio=free["wall"] / many["wall"] / cores,
    )
    table.add(
        case="the same, by CPU time: what the speed-up / cores could be at most",
        **shown,
        yardstick="one process, one thread, its CPU time",
        its_seconds=one["cpu"],
        ratio=one["cpu"] / many["cpu"],
    )


# -- the search -----------------------------------------------------------------------------------

FIGURES = ("information_loss.s0", "information_loss.s2")
WINDOWS = [1, 2, 4, 6, 9, 12, 16, 20]


def decks() -> dict[str, tuple[sf.Microdata, sf.Plan, dict[str, list[Any]]]]:
    """Two decks of 40 plans: two masks in a row, the strength of both varied."""
    first = casc()
    five = ["INCOME", "HOME_VAL", "MORTGAGE", "MAINTAIN", "TAXES"]
    housing = pl.read_parquet(SHARED / "housing_deck.parquet").drop_nulls(five).sample(600, seed=1)
    second = sf.Microdata(housing)
    out = {}
    for name, data, columns, mask, vary in (
        (
            "CASC, 1,080 × 13: rank swap, then noise",
            first,
            first.columns,
            sf.AdditiveNoise(id="then", columns=first.columns, variance_ratio=0.1),
            {"then.variance_ratio": [0.005, 0.02, 0.05, 0.1, 0.2]},
        ),
        (
            "housing, 600 × 5: rank swap, then random swap",
            second,
            five,
            sf.RandomSwap(id="then", columns=five, rate_percent=10),
            {"then.rate_percent": [0, 2, 5, 10, 20]},
        ),
    ):
        plan = sf.Plan(
            steps=[sf.RankSwap(id="ranks", columns=columns, window_percent=5), mask],
            measures=[sf.InformationLoss(columns=columns), sf.DistanceLinkage(known=columns)],
        )
        out[name] = (data, plan, {"ranks.window_percent": WINDOWS, **vary})
    return out


class Block(sf.Experiment):
    """An experiment whose replicates are those from ``first`` on: several independent ones of one store."""

    first = 0

    def run(self, data: Any = None, *, tasks: Any = None, **how: Any) -> Any:
        wanted = list(self.tasks()) if tasks is None else tasks
        return super().run(data, tasks=[(point, self.first + r) for point, r in wanted], **how)


def hypervolume(points: Sequence[tuple[float, float]], worst: tuple[float, float]) -> float:
    """The area that points (risk, loss) dominate, up to the worst of both."""
    area, top = 0.0, worst[0]
    for risk, loss in sorted(points, key=lambda p: (p[1], p[0])):
        if risk < top and loss < worst[1]:
            area += (top - risk) * (worst[1] - loss)
            top = risk
    return area


def searches(table: Table, replicates: int, blocks: int, figures: Sequence[str]) -> None:
    for name, (data, plan, vary) in decks().items():
        with tempfile.TemporaryDirectory() as folder:
            how = {"seed": 1, "folder": folder}
            truth = sf.Experiment(plan, vary, replicates=replicates * blocks).run(data, **how)
            for figure in figures:
                known = truth.frontier(loss=figure)
                means = {p: (r, x) for p, r, x in known.select("point", "risk", "loss").iter_rows()}
                worst = (max(r for r, _ in means.values()), max(x for _, x in means.values()))
                there = set(known.filter("frontier")["point"])
                whole = hypervolume(list(means.values()), worst)
                rows = []
                for block in range(blocks):
                    grid = Block(plan, vary, replicates=replicates)
                    grid.first = block * replicates
                    found = search(grid, data, loss=figure, processes=1, **how)
                    full = grid.run(data, processes=1, **how)
                    row = [found.runs, found.grid_runs]
                    for outcome in (full, found.outcome):
                        marked = set(outcome.frontier(loss=figure).filter("frontier")["point"])
                        kept = hypervolume([means[p] for p in marked], worst)
                        row += [len(marked & there) / len(there), 100 * (1 - kept / whole)]
                    rows.append(row)
                runs, total, *scores = np.mean(rows, axis=0).tolist()
                table.add(
                    deck=name,
                    loss=figure,
                    on_the_true_frontier=f"{len(there)} of {len(means)} plans",
                    grid_runs=round(total),
                    search_runs=runs,
                    saved_percent=100 * (1 - runs / total),
                    recall_grid=scores[0],
                    recall_search=scores[2],
                    hypervolume_lost_percent_grid=scores[1],
                    hypervolume_lost_percent_search=scores[3],
                )


ABOUT = """Ratios are of CPU time to a yardstick in the same run, except where an experiment's speed-up is
named: that is of wall time, and other work on the machine lowers it. {verdict}"""

SEARCH = """An experiment of 40 plans with {replicates} replicates each, by the whole grid and by
`sfumato compare --search`, judged by the means of {truth} replicates: `recall` is the share of the plans on
that frontier which are marked, `hypervolume lost` how much less area the marked plans dominate than the true
frontier. Means over {blocks} independent experiments. The grid itself misses plans by Monte-Carlo error: that
is what the search is to be compared with."""


def main() -> None:
    if sys.argv[1:2] == ["--one-experiment"]:
        one_experiment(int(sys.argv[2]), int(sys.argv[3]))
        return
    quick = arguments(__doc__ or "").quick
    table = Table("utility", "Utility measures", "")
    information_loss(table, 100_000 if quick else 1_000_000, 3)
    propensity(table, 100_000 if quick else 1_000_000, 2 if quick else 3)
    experiment(table, 8 if quick else 100)
    information_loss_large(table, 200_000 if quick else 10_000_000)
    replicates, blocks = (2, 1) if quick else (5, 4)
    found = Table("utility", "", "")
    searches(found, replicates, blocks, FIGURES[1:] if quick else FIGURES)
    table.about = ABOUT.format(verdict=verdict())
    told = SEARCH.format(replicates=replicates, truth=replicates * blocks, blocks=blocks)
    # The second table without a title and foot of its own, between the first and its foot.
    rows = [line for line in found.markdown().splitlines() if line.startswith("|")]
    top, foot = table.markdown().rsplit("\n\nMeasured ", 1)
    page = "\n".join([top, "", "## The search", "", told, "", *rows, "", f"Measured {foot}"])
    if quick:
        print(page)
        return
    (DOCS / "utility.md").write_text(page, encoding="utf-8")
    print("wrote docs/benchmarks/utility.md", file=sys.stderr)


if __name__ == "__main__":
    main()
