"""Finding the frontier with fewer runs than the grid: where may it be, and is that known well enough?"""

from __future__ import annotations

import math
import os
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.draws import Seed, as_seed
from sfumato.errors import MeasureError, ParameterError
from sfumato.experiment.grid import Experiment, Progress
from sfumato.experiment.outcome import Outcome, non_dominated
from sfumato.experiment.prediction import Surface, distances, fit_surface, spread_out

FloatArray = npt.NDArray[np.float64]

SURFACES = 400
"""Surfaces drawn to see how often a point is on the frontier."""
OPEN = 0.05
"""A point that is on the frontier in a share of the surfaces between this and 1 − this is open."""
START_SECONDS = 6.0
"""What a batch must take before other processes are started for it."""


@dataclass(frozen=True)
class Search:
    """What a search found: the outcome, the runs it made, and those of the whole grid."""

    outcome: Smoothed
    runs: int
    grid_runs: int
    settled: bool
    """Whether nothing was left open; else the budget ended it."""

    @property
    def saved(self) -> float:
        """The share of the grid's runs that weren't needed."""
        return 1.0 - self.runs / self.grid_runs


class Smoothed(Outcome):
    """The runs of a search. Its frontier is judged by surfaces through all runs
    (:mod:`sfumato.experiment.prediction`): risk and loss are the surfaces' values with their errors, also at
    points without a run (``runs`` 0)."""

    def __init__(self, experiment: Experiment, frame: pl.DataFrame, *, ran: int) -> None:
        super().__init__(experiment.plan, frame, ran=ran)
        self.experiment = experiment

    def frontier(self, *, risk: str | None = None, loss: str | None = None) -> pl.DataFrame:
        """Every point of the grid with its risk and loss by the surface, and whether another dominates it.

        ``doubtful`` marks points that are on the frontier in 5 to 95% of the surfaces that the runs allow.
        """
        view = _View(self, risk, loss)
        values = np.column_stack([s.mean for s in view.surfaces])
        for k, name in enumerate(self.axes(risk, loss)):
            if name.endswith(".value"):  # a surface knows no bounds, a measure's value has them
                values[:, k] = values[:, k].clip(*self._measure(name).bounds)
        on, _ = non_dominated(values * view.signs)
        shares = view.shares()
        labels = [p.label for p in self.experiment.points]
        return (
            pl.DataFrame(
                {
                    "point": labels,
                    "risk": values[:, 0],
                    "risk_error": view.surfaces[0].error,
                    "runs": [view.runs[k] for k in range(len(labels))],
                    "loss": values[:, 1],
                    "loss_error": view.surfaces[1].error,
                    "frontier": on,
                    "doubtful": (shares > OPEN) & (shares < 1 - OPEN),
                }
            )
            .filter(~pl.Series(view.refused))
            .sort("loss", "risk")
        )


class _View:
    """The two surfaces of an outcome, and how often each point is on their frontier."""

    def __init__(self, outcome: Smoothed, risk: str | None, loss: str | None) -> None:
        experiment = outcome.experiment
        names = outcome.axes(risk, loss)
        self.signs = np.array([outcome._sign(name) for name in names])
        self.apart = distances([list(column) for column in zip(*_values(experiment), strict=True)])
        self.place = {p.label: k for k, p in enumerate(experiment.points)}
        self.count = len(self.place)
        tables = [self._figure(outcome.frame, name) for name in names]
        for name, table in zip(names, tables, strict=True):
            if not table.height:
                raise MeasureError(f"no run gave a number for {name}", hint="name another figure")
        self.runs = Counter(self.place[label] for label in tables[0]["point"])
        # A point all of whose runs were refused has no place on the map.
        tried = {self.place[label] for label in outcome.frame["point"]}
        self.refused = np.array([k in tried and not self.runs[k] for k in range(self.count)], dtype=np.bool_)
        self.surfaces: list[Surface] = [
            fit_surface(self.apart, places, values).held_to(places, values)
            for t in tables
            for places, values in [([self.place[label] for label in t["point"]], t["value"].to_list())]
        ]

    @staticmethod
    def _figure(frame: pl.DataFrame, name: str) -> pl.DataFrame:
        measure, figure = name.split(".", 1)
        known = pl.col("problem").is_null() & pl.col("value").is_not_nan()
        return frame.filter(known & (pl.col("measure") == measure) & (pl.col("figure") == figure))

    def shares(self) -> FloatArray:
        """In what share of the surfaces that the runs allow each point is on the frontier."""
        random = as_seed(0).draws("search")
        drawn = []
        for surface, sign, name in zip(self.surfaces, self.signs, ("risk", "loss"), strict=True):
            stream = random.stream(purpose=name)
            normals = stream.normal(0, self.count * SURFACES).reshape(self.count, SURFACES)
            drawn.append(sign * surface.draws(normals))
        risk, loss = drawn
        risk[self.refused], loss[self.refused] = math.inf, math.inf
        share = np.zeros(self.count)
        for k in range(SURFACES):
            order = np.lexsort((risk[:, k], loss[:, k]))
            least = np.minimum.accumulate(risk[order, k])
            # On the frontier: less risk than all with less loss.
            share[order] += np.r_[True, risk[order[1:], k] < least[:-1]]
        share[self.refused] = 0.0
        return share / SURFACES

    def next(self, batch: int, replicates: int) -> list[int]:
        """The points to run next, the most telling first; none where nothing is open.

        Open are points that are likely on the frontier and have no run yet, and those of which it isn't
        known whether they are, as long as the surface knows one of their figures less well than the
        whole grid would (error of one run / √replicates).
        """
        share = self.shares()
        runs = np.array([self.runs[k] for k in range(self.count)])
        need = np.zeros(self.count)
        for surface in self.surfaces:
            grid = np.maximum(surface.noise / math.sqrt(replicates), 1e-300)
            need = np.maximum(need, surface.error / grid)
        unseen = (runs == 0) & (share >= 0.5)
        unsure = (share > OPEN) & (share < 1 - OPEN) & (need > 1) & (runs < replicates)
        rank = np.where(unseen, 1.0 + share, np.where(unsure, share * (1 - share), 0.0))
        rank[self.refused] = 0.0
        return [int(k) for k in np.argsort(-rank, kind="stable")[:batch] if rank[k] > 0]


def search(
    experiment: Experiment,
    data: Any = None,
    *,
    risk: str | None = None,
    loss: str | None = None,
    seed: Seed | int | None = 0,
    folder: str | Path | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
    budget_percent: float = 35.0,
) -> Search:
    """Run points spread over the grid once, then those where the frontier may be, until it is settled.

    A smooth surface (:mod:`sfumato.experiment.prediction`) through all runs gives risk and loss of every
    point with their errors. Surfaces drawn from what the runs allow show how often each point is on the
    frontier.
    Next are run: points that are there in most surfaces and weren't run yet, then points in doubt (in 5
    to 95%) whose figures are less well known than the whole grid's replicates would make them. It ends when
    there are none, or after ``budget_percent`` of the grid's runs; what is in doubt then is marked.
    Runs and seeds are the grid's own, so the whole grid can be run later in the same folder.
    """
    if not 0 < budget_percent <= 100:
        raise ParameterError(f"`budget_percent` must be above 0 and at most 100, not {budget_percent!r}")
    points, replicates = experiment.points, experiment.replicates
    total = len(points) * replicates
    budget = max(min(len(points), 2), math.floor(total * budget_percent / 100))
    apart = distances([list(column) for column in zip(*_values(experiment), strict=True)])
    start = max(math.ceil(len(points) / 3), 6 * (1 + len(experiment.vary)))
    made: Counter[int] = Counter(spread_out(apart, min(start, budget, len(points))))
    if budget - len(made) >= len(made) and replicates > 1:
        # A few points twice: what is error and what is surface?
        made.update(spread_out(apart, min(4, len(made))))
    cores = processes or os.cpu_count() or 1
    batch = max(cores, len(points) // 8)
    given = experiment.plan.data() if data is None else data
    settled, ran, at_once = False, 0, cores
    with tempfile.TemporaryDirectory(prefix="sfumato-") as scratch:
        kept = Path(folder) if folder is not None else Path(scratch)
        while True:
            tasks = [(p, r) for k, p in enumerate(points) for r in range(made[k])]
            found = experiment.run(
                given, seed=seed, folder=kept, processes=at_once, progress=progress, tasks=tasks
            )
            ran += found.ran
            outcome = Smoothed(experiment, found.frame, ran=ran)
            left = budget - made.total()
            if not found.frame["problem"].null_count():
                break  # every run was refused: there is nothing to go by
            chosen = _View(outcome, risk, loss).next(min(batch, max(left, 1)), replicates)
            settled = not chosen
            if settled or left <= 0:
                break
            made.update(chosen)
            # Another process costs seconds to start: a batch of quick runs is sooner done here.
            took = found.frame.unique(["point", "replicate"])["seconds"].mean()
            at_once = cores if float(took or 0.0) * len(chosen) > START_SECONDS else 1  # type: ignore[arg-type]
    return Search(outcome, made.total(), total, settled)


def _values(experiment: Experiment) -> list[tuple[Any, ...]]:
    return [tuple(value for _, value in p.values) for p in experiment.points]
