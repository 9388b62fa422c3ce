"""Finding the frontier with fewer runs: successive halving of the grid's doubt."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.draws import Seed
from sfumato.experiment import Experiment, Point, Progress
from sfumato.frontier import Outcome


@dataclass(frozen=True)
class Search:
    """What a search found: the outcome, the runs it made, and those of the whole grid."""

    outcome: Outcome
    runs: int
    grid_runs: int

    @property
    def saved(self) -> float:
        """The share of the grid's runs that weren't needed."""
        return 1.0 - self.runs / self.grid_runs


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
) -> Search:
    """Run every point twice, then double the replicates of those that may still be on the frontier.

    A point is behind by the most standard errors by which another is better in both means (standard
    deviations of all points pooled, since two runs say little of one). After each round the points
    that nobody is ahead of stay, and of the others those behind by at most two errors, as long as no
    more than half of all stay. Seeds are those of the whole grid, so that what survives is exactly what
    the whole grid would have given it. Points that trade risk for loss against each other are all on
    the frontier and none can be dropped: the saving comes from plans that are worse in both.
    """
    with tempfile.TemporaryDirectory(prefix="sfumato-") as scratch:
        kept = Path(folder) if folder is not None else Path(scratch)
        alive, replicates = list(experiment.points), min(2, experiment.replicates)
        made: dict[str, int] = {}
        while True:
            for point in alive:
                made[point.label] = replicates
            tasks = [(p, r) for p in experiment.points for r in range(made[p.label])]
            outcome = experiment.run(
                data, seed=seed, folder=kept, processes=processes, progress=progress, tasks=tasks
            )
            if replicates >= experiment.replicates:
                break
            alive = _survivors(outcome, alive, risk, loss)
            replicates = min(2 * replicates, experiment.replicates)
    total = len(experiment.points) * experiment.replicates
    return Search(outcome, sum(made.values()), total)


def _survivors(outcome: Outcome, alive: list[Point], risk: str | None, loss: str | None) -> list[Point]:
    table = outcome.frontier(risk=risk, loss=loss)
    signs = np.array([outcome._sign(name) for name in outcome.axes(risk, loss)])
    values = table.select("risk", "loss").to_numpy() * signs
    runs = table["runs"].to_numpy()
    spread = table.select(pl.col("risk_error", "loss_error").fill_null(0.0).fill_nan(0.0)).to_numpy()
    pooled = np.sqrt(np.mean(spread**2 * runs[:, None], axis=0))
    error = pooled / np.sqrt(runs)[:, None]
    behind: dict[str, float] = {}
    for i, label in enumerate(table["point"]):
        unit = np.sqrt(error**2 + error[i] ** 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            gap = np.nan_to_num((values[i] - values) / unit, nan=0.0)
        gap[i] = 0.0
        behind[label] = float(gap.min(axis=1).max())
    names = [p.label for p in alive if p.label in behind]
    half = sorted(names, key=behind.__getitem__)[: -(-len(names) // 2)]
    out = {n for n in names if behind[n] <= 0 or (n in half and behind[n] <= 2)}
    # A point that gave no figure yet (all its runs were refused) has nothing to judge it by.
    judged = set(table["point"])
    return [p for p in alive if p.label in out or p.label not in judged]
