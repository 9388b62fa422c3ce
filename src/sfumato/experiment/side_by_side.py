"""Several plans on one map: every mask by one loss, and by the same intruder.

The loss is that of ``analyst_loss``; the risk the share that the quick intruder (``linkage.nearest``)
finds, who knows everything that is released. He is there to put plans side by side; a verdict needs the
battery, whose attacks are stronger on swaps and noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sfumato import registry
from sfumato.contract.known import is_number
from sfumato.contract.own_list import own_list
from sfumato.data.microdata import IntArray, Microdata
from sfumato.draws import Seed, as_seed
from sfumato.errors import MeasureError, SfumatoError, SfumatoWarning
from sfumato.experiment.outcome import non_dominated
from sfumato.linkage.nearest import Intruder, coded, unchanged
from sfumato.plan.plan import Plan
from sfumato.run.exposure import released_columns
from sfumato.run.run import Run, carry_out
from sfumato.run.scenario import known_columns

RISK: Final = "quick intruder.rate"
LOSS: Final = "analyst_loss.value"
PEOPLE: Final = 500

Progress = Callable[[str, float, int], None]


@dataclass(frozen=True)
class Placed:
    """A plan's place on the map: means over seeds and their standard errors, or why it was refused."""

    label: str
    risk: float
    risk_error: float
    loss: float
    loss_error: float
    worst: str
    runs: int
    problem: str = ""


def some_records(data: Microdata, records: int, seed: Seed) -> IntArray:
    """Records (of whole households) drawn at random, in the file's order."""
    n = len(data)
    if n <= records:
        return np.arange(n)
    household = data.schema.household
    unit = np.arange(n) if household is None else data.households(household)[0]
    order = seed.draws("sample").stream().permutation(int(unit.max()) + 1)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return np.flatnonzero(rank[unit] < len(order) * records / n)


def masked_by(plan: Plan, data: Microdata, seed: Seed) -> Microdata:
    """The data masked by a plan's steps, without measures and without its warnings."""
    return carried_out(plan, data, seed).masked


def carried_out(plan: Plan, data: Microdata, seed: Seed) -> Run:
    """The run of a plan's steps, without measures and without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        return carry_out(plan, data, seed, measure=False)


def quick_rate(
    data: Microdata,
    masked: Microdata,
    plan: Plan,
    seed: Seed,
    people: int = PEOPLE,
    numbers_known: int | None = None,
) -> float:
    """The share of some persons that the quick intruder finds, who knows everything that is released, or
    the keys and so many numbers."""
    own = own_list(data, masked, plan.steps)
    columns = [c for c in released_columns(data, masked, plan.release.drop) if c in own.columns]
    columns = list(known_columns(data, columns, numbers_known))
    numbers = [c for c in columns if is_number(own, c) and is_number(masked, c)]
    keys = [c for c in columns if c not in numbers]
    mine, released = coded((own, masked), numbers, keys)
    draws = seed.draws("quick intruder")
    who = np.sort(draws.stream(purpose="people").permutation(len(data))[:people])
    return Intruder(released, unchanged(mine, released), draws).rate(mine.take(who), who)


def loss_of(data: Microdata, masked: Microdata, plan: Plan, keep: Sequence[str] = ()) -> tuple[float, str]:
    """The analysts' loss of what a plan would release, and the column that lost the most."""
    drop = plan.release.drop
    schema = data.schema
    hidden = {schema.id, schema.household} | {c for c in drop if c not in (*schema.keys, *schema.sensitive)}
    judged = [c for c in data.columns if c not in hidden]
    released = masked.with_frame(masked.frame.drop([c for c in drop if c in masked.columns]))
    measure = registry.measure("analyst_loss").from_dict({"keep": list(keep)} if keep else {})
    found = measure.measure(data.with_frame(data.frame.select(judged)), released)
    return float(found.value), str(found.worst)


def side_by_side(
    plans: Mapping[str, Plan],
    data: Microdata,
    *,
    keep: Sequence[str] = (),
    replicates: int = 1,
    records: int = 4_000,
    seed: Seed | int | None = 0,
    progress: Progress | None = None,
) -> list[Placed]:
    """Each plan's risk and loss on the same (at most ``records``) records."""
    secret = as_seed(seed)
    rows = some_records(data, records, secret)
    sample = data if len(rows) == len(data) else data.with_frame(data.frame[rows])
    out = []
    for at, (label, plan) in enumerate(plans.items()):
        if progress is not None:
            progress(label, at, len(plans))
        try:
            figures = []
            for replicate in range(replicates):
                own = secret.child(f"run {replicate}")
                masked = masked_by(plan, sample, own)
                loss, worst = loss_of(sample, masked, plan, keep)
                figures.append((quick_rate(sample, masked, plan, own), loss))
        except SfumatoError as problem:
            nan = float("nan")
            out.append(Placed(label, nan, nan, nan, nan, "", 0, problem.message))
            continue
        table = np.array(figures)
        means = table.mean(axis=0)
        errors = table.std(axis=0, ddof=1) / np.sqrt(replicates) if replicates > 1 else np.zeros(2)
        out.append(Placed(label, means[0], float(errors[0]), means[1], float(errors[1]), worst, replicates))
    return out


def points(placed: Sequence[Placed]) -> dict[str, Any]:
    """The map as plain values, in the form of an experiment's."""
    there = [p for p in placed if not p.problem]
    if not there:
        raise MeasureError("every plan was refused: " + "; ".join(f"{p.label}: {p.problem}" for p in placed))
    on, doubtful = non_dominated(
        [[p.risk, p.loss] for p in there], [[p.risk_error, p.loss_error] for p in there]
    )
    rows = [
        {
            "label": p.label,
            "x": float(p.loss),
            "y": float(p.risk),
            "x_error": p.loss_error,
            "y_error": p.risk_error,
            "runs": p.runs,
            "frontier": bool(a),
            "doubtful": bool(b),
        }
        for p, a, b in zip(there, on, doubtful, strict=True)
    ]
    return {"risk": RISK, "loss": LOSS, "risk_better": "lower", "loss_better": "lower", "points": rows}
