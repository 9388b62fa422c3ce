"""The plan of least loss that meets limits on the battery, among plans of any masks and compositions.

All plans are put on one map by one loss and a quick intruder (:mod:`sfumato.experiment.side_by_side`). He
finds less than the battery, so that a plan by which he already finds too many can't hold. The others are
carried out in the order of their loss, each with the full battery, its gain and its least group, until one
holds: nothing that loses less does.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sfumato import registry
from sfumato.contract.mask import Mask
from sfumato.data.microdata import Microdata
from sfumato.draws import Seed, as_seed
from sfumato.errors import SfumatoError, SfumatoWarning
from sfumato.experiment.candidates import workshop
from sfumato.experiment.side_by_side import PEOPLE, Placed, Progress, side_by_side, some_records
from sfumato.plan.parts import Limit
from sfumato.plan.plan import Plan
from sfumato.run.run import Run, carry_out

RECORDS: Final = 4_000
MOST: Final = 12
"""Plans that are carried out with the full battery."""


@dataclass(frozen=True)
class Tried:
    """A plan with the full battery: its figures, or why it was refused."""

    label: str
    loss: float
    figures: Mapping[str, float] = field(default_factory=dict)
    misses: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class LeastLoss:
    """The map of all plans, what was tried in full, and the plan that holds (None where none does)."""

    placed: Sequence[Placed]
    tried: Sequence[Tried]
    best: str | None
    run: Run | None
    settled: bool
    """Whether nothing that loses less is left untried."""


def least_loss(
    plans: Mapping[str, Plan],
    data: Microdata,
    limits: Sequence[Limit],
    *,
    keep: Sequence[str] = (),
    audience: str | None = None,
    records: int = RECORDS,
    most: int = MOST,
    seed: Seed | int | None = 0,
    progress: Progress | None = None,
) -> LeastLoss:
    """Find it on (at most ``records`` of) the file."""
    secret = as_seed(seed)
    placed = side_by_side(
        plans, data, keep=keep, replicates=1, records=records, seed=secret, progress=progress
    )
    rows = some_records(data, records, secret)
    sample = data if len(rows) == len(data) else data.with_frame(data.frame[rows])
    rate = next((x.at_most for x in limits if x.figure == "rate"), None)
    there = sorted((p for p in placed if not p.problem), key=lambda p: p.loss)
    # Some hundred persons looked for: the luck of so few is allowed for.
    luck = 0.0 if rate is None else 3 * math.sqrt(rate * (1 - rate) / min(PEOPLE, len(sample)))
    hopeful = [p for p in there if rate is None or p.risk <= rate + luck]
    tried: list[Tried] = []
    for at, one in enumerate(hopeful[:most]):
        if progress is not None:
            progress(f"battery: {one.label}", at, min(len(hopeful), most))
        plan = replace(plans[one.label], limits=tuple(limits), measures=(), audience=audience, source=None)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SfumatoWarning)
                run = carry_out(plan, sample, secret)
        except SfumatoError as problem:
            tried.append(Tried(one.label, one.loss, problem=problem.message))
            continue
        figures = {x.limit.figure: float(x.measured) for x in run.limits}
        misses = tuple(x.limit.figure for x in run.limits if not x.ok)
        tried.append(Tried(one.label, one.loss, figures, misses))
        if not misses:
            return LeastLoss(placed, tried, one.label, run, True)
    return LeastLoss(placed, tried, None, None, len(hopeful) <= most)


# -- compositions -----------------------------------------------------------------------------------

NUMBERS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("rank_swap", {"window_percent": 5}),
    ("rank_swap", {"window_percent": 15}),
    ("rank_swap", {"window_percent": 30}),
    ("additive_noise", {"variance_ratio": 0.1}),
    ("additive_noise", {"variance_ratio": 0.5}),
    ("microaggregate", {"k": 5}),
    ("microaggregate", {"k": 20}),
)
KEYS: Final = (0, 3, 10)
"""Records that must share all keys after recodes and suppression; 0: keys as they are."""
SHUFFLES: Final = (10, 20, 50)


def compositions(plan: Plan, data: Microdata) -> dict[str, Plan]:
    """Plans made of several masks for a file: recode → suppress → swap, noise or averages; and shuffles.

    Those that a mask refuses on this file are left out.
    """
    base = replace(plan, steps=(), measures=(), limits=(), source=None)
    schema = data.schema
    shop = workshop(data, (), plan.release.drop, base)
    numbers = [
        c
        for c in schema.sensitive
        if c in shop.columns
        and data.is_numeric(c)
        and data.kind(c) == "continuous"
        and c not in schema.ratios
    ]
    heads: dict[str, tuple[list[Mask], tuple[str, ...]]] = {}
    for k in KEYS if shop.ladders.keys else (0,):
        if not k:
            heads["keys as they are"] = ([], ())
            continue
        steps, gone = shop.ladders.steps(shop.ladders.best(k).levels)
        left = [key for key in shop.ladders.keys if key not in gone]
        if left:
            steps = [*steps, registry.mask("local_suppress").from_dict({"keys": left, "tolerance": k})]
        heads[f"recode and suppress to {k}"] = (steps, tuple(gone))
    tails: dict[str, list[Mask]] = {"numbers as they are": []}
    for name, given in NUMBERS if numbers else ():
        said = ", ".join(f"{p} {v}" for p, v in given.items())
        tails[f"{name} {said}"] = [registry.mask(name).from_dict({"columns": numbers, **given})]
    out: dict[str, Plan] = {}
    for (head, (first, lost)), (tail, then) in itertools.product(heads.items(), tails.items()):
        release = replace(base.release, drop=tuple(dict.fromkeys([*shop.drop, *lost])))
        steps = [replace(m, id=f"step_{at}") for at, m in enumerate([*first, *then], start=1)]
        out[f"{head}; {tail}"] = replace(base, steps=tuple(steps), release=release)
    for size in SHUFFLES:
        if 4 * size <= len(data):
            mask = registry.mask("cluster_shuffle").from_dict(
                {"columns": list(shop.columns), "smallest": size}
                | ({"unit": shop.household, "members": "apart"} if shop.household else {})
            )
            release = replace(base.release, drop=shop.drop)
            out[f"all columns dealt among {size}"] = replace(base, steps=(mask,), release=release)
    return {label: p for label, p in out.items() if not _refused(p, data)}


def _refused(plan: Plan, data: Microdata) -> bool:
    return any(p.severity == "error" for p in plan.check(data))
