"""A run: a plan carried out on data with a secret seed."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.contract.context import Context
from sfumato.contract.engine import Engine
from sfumato.contract.guarantees import Check
from sfumato.contract.mask import Mask, Notes, bound_to
from sfumato.contract.measure import Measure, before_of
from sfumato.contract.result import Result, Results
from sfumato.data.microdata import Microdata
from sfumato.drawing import Picture
from sfumato.draws import Seed, as_seed
from sfumato.engines.memory import Memory
from sfumato.engines.steps import carry_out as carry_out_step
from sfumato.errors import (
    GuaranteeError,
    MaskError,
    MeasureError,
    Problem,
    SchemaError,
    SfumatoError,
    SfumatoWarning,
    did_you_mean,
)
from sfumato.plan.audience import BATTERY, audience
from sfumato.plan.check import data_problems
from sfumato.plan.parts import Limit
from sfumato.plan.plan import Plan
from sfumato.run.board import board
from sfumato.run.derivable import WAY_OUT, Derivation, derivable
from sfumato.run.exposure import WHOLE, exposure, least_group, price
from sfumato.run.face import picture_in, run_face, run_words
from sfumato.run.formulas import formulas
from sfumato.run.looked_at import looked_at
from sfumato.run.predictable import predictable
from sfumato.run.unmasked import as_collected, left_unmasked
from sfumato.run.verdict import Verdict, judged

if TYPE_CHECKING:
    from sfumato.release.write import Release

Progress = Callable[[str, float, int], None]
"""Called with what is being done, how many parts are done, and how many there are."""


@dataclass(frozen=True)
class StepRecord:
    """What one step did."""

    id: str
    mask: Mask
    seconds: float
    touched: dict[str, int]
    """Column → in how many records it changed."""
    notes: Notes
    checks: list[Check]


@dataclass(frozen=True)
class LimitOutcome:
    """Whether a limit of the plan holds."""

    limit: Limit
    measured: float
    """The figure that is judged: what was measured, or a bound that is proved (``found`` was measured)."""
    ok: bool
    found: float | None = None

    @property
    def text(self) -> str:
        return self.worded(f"{self.measured:.6g}")

    def worded(self, figure: str) -> str:
        """The outcome in words, with its figure as it is to be written."""
        verdict = "holds" if self.ok else "fails"
        how = f"measured {figure}"
        if self.found is not None:
            how = f"at most {figure} by proof (measured {self.found:.4g}, within its sampling error)"
        return f"{self.limit}: {verdict}, {how}"


@dataclass(frozen=True, repr=False)
class Run:
    """The outcome of a plan: the masked data, what each step did, what the measures found.

    Rows of ``original`` and ``masked`` are aligned. The seed is held so that a release can be made
    and reproduced, but it is never shown.
    """

    plan: Plan
    original: Microdata
    masked: Microdata
    steps: list[StepRecord]
    results: Results
    limits: list[LimitOutcome]
    seconds: float
    seed: Seed = field(repr=False)
    warnings: list[str] = field(default_factory=list)
    derivations: list[Derivation] = field(default_factory=list)
    """Hidden values that come back by a rule of the schema; a certain one forbids a release."""
    before: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """By a measure's name in the plan: its figure before masking, and what that is. Taken once."""
    paired: bool = True
    """Whether row i of both files is the same person's; of somebody else's release it may not be known."""
    sample: tuple[Microdata, Microdata] | None = None
    """Of a held file: what the measures looked at, in memory."""

    @property
    def ok(self) -> bool:
        """Whether every guarantee and every limit holds, and no hidden value comes back."""
        promised = all(c.ok for s in self.steps for c in s.checks)
        return promised and all(x.ok for x in self.limits) and not any(d.certain for d in self.derivations)

    @property
    def looked_at(self) -> tuple[Microdata, Microdata]:
        """The original and the masked records that measures, verdict and pictures look at."""
        return self.sample or (self.original, self.masked)

    def measure(self, *measures: Measure, seed: Seed | int | None = 0) -> Results:
        """Measures of this run's original and masked data."""
        steps = self.plan.steps
        return Results(
            [m.measure(*self.looked_at, seed=seed, steps=steps) for m in measures],
            lambda: before_of(measures, *self.looked_at),
        )

    @cached_property
    def verdict(self) -> Verdict:
        """Whether this may be handed out, why (or why not), and what to do; see
        :mod:`sfumato.run.verdict`."""
        broken = [c.guarantee for s in self.steps for c in s.checks if not c.ok]
        changed = {c for s in self.steps for c, n in s.touched.items() if n}
        return judged(
            self.plan,
            [(x.limit, x.measured, x.ok) for x in self.limits],
            self.results,
            broken,
            as_collected(self.looked_at[1], changed, self.plan.release.drop),
            *self.looked_at,
            [(s.mask, s.notes) for s in self.steps],
            [str(d) for d in self.derivations if d.certain],
        )

    @cached_property
    def board(self) -> dict[str, Any]:
        """What a review board asks for: scenario, class sizes, groups; see :mod:`sfumato.run.board`."""
        steps = [(s.mask, s.notes) for s in self.steps]
        size, proved, _ = least_group(*self.looked_at, steps, self.plan.release.drop)
        limits = [x.limit for x in self.limits]
        return board(
            *self.looked_at,
            self.plan.release.drop,
            limits,
            size if proved else None,
            paired=self.paired,
            whom=self.plan.audience,
        )

    def release(
        self,
        folder: str | Path,
        *,
        overwrite: bool = False,
        despite_limits: bool = False,
        progress: Progress | None = None,
    ) -> Release:
        """Write the two bundles, ``public/`` and ``internal/``: whole or not at all."""
        from sfumato.release.write import write_release

        options = {"overwrite": overwrite, "despite_limits": despite_limits}
        return write_release(self, Path(folder), **options, progress=progress)

    def __repr__(self) -> str:
        return run_words(self)

    def _repr_html_(self) -> str:
        return run_face(self)

    def plot(self, what: str = "columns") -> Picture:
        """Charts of this run: ``columns`` (distributions before and after), ``correlations``, ``risk``,
        ``groups`` (risk by group), ``areas``, ``map``. They show the original file: keep them inside."""
        return picture_in(self.summary(), what)

    def summary(self, *, public: bool = False) -> dict[str, Any]:
        """What there is to say of this run, as plain values."""
        from sfumato.report import summary

        return summary(self, public=public)


def carry_out(
    plan: Plan,
    data: Microdata,
    seed: Seed | int | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    measure: bool = True,
    attacked: int = WHOLE,
) -> Run:
    """Run every step, verify every guarantee, take every measure, judge every limit.

    ``engine`` says where the file is held and the steps are carried out (in memory by default); the
    records that come out are the same on each. Of a file of more than ``attacked`` records the battery
    attacks so many of whole groups. Raises before anything is masked where the data don't fit the schema,
    and a GuaranteeError where a step broke its promise.
    """
    secret, engine = as_seed(seed), engine or Memory()
    tell = progress or (lambda _what, _done, _all: None)
    started = time.perf_counter()
    parts = len(plan.steps) + (len(plan.measures) if measure else 0) + 1

    def doing(what: str, done: int) -> None:
        tell(what, done, parts)
        engine.doing(lambda share: tell(what, done + share, parts))

    doing("looking at the data", 0)
    data = engine.hold(data)
    bound = bound_to(secret, data)
    said = _vet(plan, data)
    current = data
    records: list[StepRecord] = []
    for at, (label, mask) in enumerate(zip(plan.step_ids(), plan.steps, strict=True)):
        doing(f"step {label}", 1 + at)
        begun = time.perf_counter()
        try:
            context = Context(base=plan.base, original=data)
            after, notes, checks = carry_out_step(mask, current, mask.draws(bound, label), context)
        except (MaskError, GuaranteeError, SchemaError) as problem:
            problem.message, problem.step = f"step {label}: {problem.message}", at
            raise
        records.append(StepRecord(label, mask, time.perf_counter() - begun, notes.touched, notes, checks))
        said += [f"step {label}: {w}" for w in notes.warnings]
        current = after
    released = [c for c in current.columns if c not in plan.release.drop]
    sample = looked_at(data, current, bound)
    said += left_unmasked(sample[1], {r.id: r.touched for r in records}, plan.release.drop, sample[0])
    if len(sample[0]) < len(data):
        said.append(f"measures, verdict and pictures are of a sample of {len(sample[0]):,} records")
    back = derivable(data, current, released)
    said += [f"{d} ({WAY_OUT})" if d.certain else str(d) for d in back]
    if measure:
        said += predictable(*sample, released)
    said += formulas(current, released, plan.release.format)
    if not plan.release.shuffle:
        said.append("the records are released in their original order, which leads back to the source")
    results = []
    before: dict[str, tuple[float, str]] = {}
    if measure:
        for at, (label, one) in enumerate(zip(plan.measure_ids(), plan.measures, strict=True)):
            tell(f"measure {label}", 1 + len(records) + at, parts)
            results.append(one.measure(*sample, steps=plan.steps))
            earlier = one.before(*sample)
            if earlier is not None:
                before[label] = earlier
    wanted = [x.figure for x in plan.limits if x.measure == BATTERY]
    published = plan.release.publish_parameters and bool(plan.steps)
    if measure and (wanted or published):
        # The limits on the battery need no [[measure]]: the battery is whatever fits the file. To publish
        # parameters has a price, which it tells as well.
        tell("battery", parts - 1, parts)
        try:
            found = exposure(
                *sample,
                [(r.mask, r.notes) for r in records],
                lambda part, other: _again(plan, part, other),
                drop=plan.release.drop,
                wanted=wanted or ["rate"],
                records=attacked,
                numbers_known=None if plan.audience is None else audience(plan.audience).numbers_known,
            )
            results.append(found)
            said += [f"the parameters are published: {price(found)}"] if published else []
        except SfumatoError as problem:
            if wanted:
                raise
            said.append(f"what it costs to publish the parameters can't be measured: {problem.message}")
    limits = judged_limits(plan.limits, Results(results)) if measure else []
    tell("done", parts, parts)
    seconds = time.perf_counter() - started
    return Run(
        plan,
        data,
        current,
        records,
        Results(results, before),
        limits,
        seconds,
        secret,
        said,
        back,
        before,
        sample=None if sample[0] is data else sample,
    )


def _again(plan: Plan, part: Microdata, seed: Seed) -> Microdata:
    """A part of the file masked by the same steps, without what is told of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        return carry_out(plan, part, seed, measure=False).masked


def _vet(plan: Plan, data: Microdata) -> list[str]:
    """The warnings; errors are raised, all at once."""
    problems = [*data_problems(data), *plan.check(data)]
    errors = [p for p in problems if p.severity == "error"]
    if errors:
        message = "\n".join(p.message for p in errors)
        hints = list(dict.fromkeys(p.hint for p in errors if p.hint))
        raise SchemaError(message, hint="; ".join(hints) or None)
    said = [_sentence(p) for p in problems]
    for sentence in said:
        warnings.warn(sentence, SfumatoWarning, stacklevel=4)
    return said


def _sentence(problem: Problem) -> str:
    return f"{problem.message} ({problem.hint})" if problem.hint else problem.message


def judged_limits(limits: Sequence[Limit], results: Results) -> list[LimitOutcome]:
    """Whether each limit holds of what was found."""
    return [x for limit in limits for x in _judge(limit, results)]


def _judge(limit: Limit, results: Results) -> list[LimitOutcome]:
    """One outcome for each measure of that name, or else of that kind: a limit holds for all of them."""
    meant = [r for r in results if r.name == limit.measure]
    meant = meant or [r for r in results if r.measure == limit.measure]
    if not meant:
        raise MeasureError(
            f"there is a limit on {limit.measure!r}, but no such measure in the plan",
            hint=did_you_mean(limit.measure, [r.name for r in results]),
        )
    return [_outcome(dataclasses.replace(limit, measure=r.name or limit.measure), r) for r in meant]


def _outcome(limit: Limit, result: Result) -> LimitOutcome:
    try:
        value = float(getattr(result, limit.figure))
    except (AttributeError, TypeError, ValueError):
        raise MeasureError(
            f"the limit on {limit.measure}.{limit.figure} can't be judged: there is no such figure",
            hint="its figures: "
            + ", ".join(["value", *(k for k, v in result.figures.items() if _number(v))]),
        ) from None
    found = result.figures.get("measured") if limit.figure == "rate" and limit.measure == BATTERY else None
    proved = isinstance(found, float) and found > value
    return LimitOutcome(limit, value, limit.holds(value), found if proved else None)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
