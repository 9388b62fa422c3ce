"""``sf.evaluate``: attacks and utility of a file that sfumato didn't make, judged as a run is."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sfumato.contract.face import results_face
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.measure import Measure
from sfumato.contract.result import Result, Results
from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema
from sfumato.drawing import Picture, folded
from sfumato.drawing.face import Html, listed, verdict
from sfumato.draws import Draws, Seed, as_seed
from sfumato.errors import MaskError, ParameterError, SfumatoError, did_you_mean, suggesting
from sfumato.foreign import exposed
from sfumato.foreign.files import (
    Files,
    attackable,
    data_of,
    holdout_of,
    left_in,
    paired_files,
    touched,
    with_roles,
)
from sfumato.foreign.reading import read_alike
from sfumato.plan.audience import Audience, audience
from sfumato.plan.parts import Limit, ReleaseOptions
from sfumato.plan.plan import Plan
from sfumato.risk.closest_record import ClosestRecord, closeness
from sfumato.run.run import Run, StepRecord, judged_limits
from sfumato.run.verdict import NOT_SAFE, Verdict
from sfumato.utility.analyst_loss import AnalystLoss
from sfumato.utility.information_loss import InformationLoss
from sfumato.utility.propensity import Propensity

Progress = Callable[[str, float, int], None]


@dataclass(frozen=True, kw_only=True)
class Elsewhere(Mask):
    """What another tool did, known by its outcome alone."""

    name: ClassVar[str] = "elsewhere"

    def changes(self, data: Microdata) -> Sequence[str]:
        return ()

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        raise MaskError("what another tool did can't be done again here")


class Evaluation(Results):
    """What was found of somebody's release: the results, the verdict, and everything a run has to show.

    ``verdict`` says whether it may be handed out, ``notes`` how the files were read and whose record is
    whose; ``run`` has both files as they were compared, and ``summary()`` everything as plain values.
    """

    def __init__(
        self,
        run: Run,
        notes: Sequence[str],
        more_to_do: Sequence[str],
        left: Sequence[str] = (),
        unread: Sequence[str] = (),
    ) -> None:
        super().__init__(list(run.results), run.before)
        self.run = run
        self.notes = tuple(notes)
        self.verdict: Verdict = _with(run.verdict, more_to_do, left, unread)

    def summary(self) -> dict[str, Any]:
        """What there is to say, as plain values: what the report is made from."""
        out = self.run.summary()
        out["verdict"] = self.verdict.to_dict()
        out["warnings"] = list(self.notes)
        del out["reproduce"]  # there is no plan to run again
        return out

    def to_dict(self) -> dict[str, Any]:
        """What a program asks for, as plain values."""
        return {
            "ok": self.verdict.safe,
            "verdict": self.verdict.to_dict(),
            "paired": self.run.paired,
            "notes": list(self.notes),
            "limits": [{"limit": str(x.limit), "measured": x.measured, "ok": x.ok} for x in self.run.limits],
            "results": [r.to_dict() for r in self],
        }

    def __repr__(self) -> str:
        return f"{self.verdict.text}\n{super().__repr__()}"

    def _repr_html_(self) -> str:
        v = self.verdict
        notes = Html(f"<details><summary>How the files were read</summary>{listed(self.notes)}</details>")
        return results_face(self, verdict(v.safe, v.head, v.reasons, v.do), notes)

    def plot(self, what: str = "risk") -> Picture:
        """Charts as of a run: ``risk``, ``columns``, ``correlations``, ``groups``; they show the original."""
        return self.run.plot(what)


def _with(found: Verdict, more_to_do: Sequence[str], left: Sequence[str], unread: Sequence[str]) -> Verdict:
    """The run's verdict, with what only a file made elsewhere can have left in."""
    because, ways = [], []
    if left:
        names = ", ".join(left)
        because = [
            f"{names} stands in the released file as it was collected, which leads straight to the person"
        ]
        ways = [f"drop {names}, or number it anew"]
    if unread:
        names = folded(unread)
        because.append(f"nobody has looked at {names}, which the original file doesn't have under that name")
        ways.append(f"call {names} as the original file does, or drop it")
    if not because:
        do = found.do if found.safe else tuple(dict.fromkeys([*more_to_do, *found.do]))
        return dataclasses.replace(found, do=do)
    reasons = (*because, *(() if found.safe else found.reasons))
    return Verdict(False, NOT_SAFE, reasons, tuple(dict.fromkeys([*ways, *more_to_do, *found.do])))


@suggesting
def evaluate(
    original: Any,
    released: Any,
    *,
    id: str | None = None,
    synthetic: bool = False,
    holdout: Any = None,
    known: Sequence[str] = (),
    block_on: Sequence[str] | None = None,
    for_: str | Audience = "public",
    limits: Any = None,
    roles: Schema | None = None,
    keep: Sequence[str] = (),
    seed: Seed | int | None = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Attack and measure a released file that any tool, or a person, made of an original one.

    Parameters
    ----------
    original, released
        Frames, Microdata, or paths. The released file may have its records reordered, fewer or more;
        columns in another order, of other types, recoded, with ``*`` or ``NA`` for what is hidden.
    id
        A column of both files that says whose record is whose. Without it the place in the file does, if the
        values bear that out; else nobody can count who is found, and the verdict says so.
    synthetic
        Released records are nobody's in particular. What is judged then is whether the release is nearer
        to its persons than to others, and what it tells of their values: give a ``holdout``.
    holdout
        People of the same population whom the release never saw.
    known, block_on
        What the intruder knows, and exactly; by default every column that both files have.
    for_
        ``"public"`` or ``"research"``: whose default limits judge it, unless ``limits`` are given as in a
        plan.
    roles
        A schema; by default the original's own, else what ``sfumato init`` would propose.
    keep
        Analyses that must survive, such as ``"INCOME ~ AGE + SEX"``.

    >>> import polars as pl, sfumato as sf
    >>> people = sf.decks.housing().frame.head(300)
    >>> found = sf.evaluate(people, people.sample(fraction=1.0, shuffle=True, seed=1), id="IDNUM")
    >>> found.verdict.safe, found["battery"].rate > 0.9
    (False, True)
    """
    who = audience(for_)
    started = time.perf_counter()
    tell = progress or (lambda _what, _done, _all: None)
    tell("reading the files", 0, 6)
    first, notes = with_roles(data_of(original, "original"), roles, id)
    reading = read_alike(first, data_of(released, "released"))
    notes += reading.notes
    for name in (*known, *(block_on or ())):
        if name not in reading.shared:
            raise ParameterError(
                f"the files have no common column {name!r}", hint=did_you_mean(name, reading.shared)
            )
    tell("looking for pairs", 1, 6)
    files = paired_files(reading, id, synthetic, notes)
    others = None if holdout is None else holdout_of(holdout, reading, notes)
    seen = attackable(files)
    tell("attacking", 2, 6)
    battery, more_to_do = exposed.judged_by(
        files, others, seen, synthetic=synthetic, known=known, block_on=block_on, audience=who, seed=seed,
        progress=progress,
    )  # fmt: skip
    plan = Plan(
        schema=files.original.schema,
        limits=_limits(limits, who, synthetic=synthetic),
        release=ReleaseOptions(
            drop=tuple(c for c in (files.original.schema.id,) if c), shuffle=not files.ordered
        ),
        title="A release made elsewhere",
    )
    tell("measuring", 4, 6)
    plan, results, before, failed = _measured(plan, files, others, seen, keep, seed)
    notes += failed
    results = [battery, *results]
    run = Run(
        plan,
        files.original,
        files.released,
        [StepRecord("made elsewhere", Elsewhere(), 0.0, touched(files), Notes(), [])],
        Results(results),
        judged_limits(plan.limits, Results(results)),
        time.perf_counter() - started,
        as_seed(seed),
        notes,
        [],
        before,
        files.paired,
    )
    tell("done", 6, 6)
    return Evaluation(run, notes, more_to_do, left_in(files, id), reading.unread)


# -- limits and measures ----------------------------------------------------------------------------


def _limits(given: Any, who: Audience, *, synthetic: bool) -> tuple[Limit, ...]:
    if given is not None:
        return Plan(limits=given).limits
    # Records of a synthetic file aren't persons: how many share their keys says nothing of a group's size.
    return tuple(x for x in who.limits() if not (synthetic and x.figure == "group"))


def _measured(
    plan: Plan, files: Files, others: Microdata | None, seen: tuple[str, ...], keep: Sequence[str],
    seed: Seed | int | None,
) -> tuple[Plan, list[Result], dict[str, tuple[float, str]], list[str]]:  # fmt: skip
    """What analysts lose, and how near the release is; with what couldn't be measured, in words."""
    numbers = tuple(
        c
        for c in seen
        if all(d.is_numeric(c) and d.kind(c) == "continuous" for d in (files.original, files.released))
    )
    wanted: list[Measure] = [
        ClosestRecord(),
        AnalystLoss(columns=seen, keep=tuple(keep)),
        Propensity(columns=seen),
    ]
    if files.paired and numbers:
        wanted.insert(1, InformationLoss(columns=numbers))
    done: list[Measure] = []
    results, failed = [], []
    before: dict[str, tuple[float, str]] = {}
    for one in wanted:
        try:
            if isinstance(one, ClosestRecord):
                draws = as_seed(seed).draws("closest record")
                found = closeness(files.original, files.released, seen, draws, others)
                found = dataclasses.replace(
                    found, name=one.name, measure=one.name, direction=one.direction, bounds=one.bounds
                )
            else:
                found = one.measure(files.original, files.released, seed=seed)
        except SfumatoError as problem:
            failed.append(f"{one.name} couldn't be measured: {problem.message}")
            continue
        done.append(one)
        results.append(found)
        earlier = one.before(files.original, files.released) if not math.isnan(found.value) else None
        if earlier is not None:
            before[one.name] = earlier
    return dataclasses.replace(plan, measures=tuple(done)), results, before, failed
