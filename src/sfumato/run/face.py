"""A run and a battery as a terminal and a notebook show them: the verdict first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sfumato.contract.face import results_table
from sfumato.contract.result import Results
from sfumato.drawing import Picture, folded, gallery, number, percent, plural, span
from sfumato.drawing.face import Html, face, listed, paragraph, table, verdict
from sfumato.errors import ParameterError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.contract.measure import Attack
    from sfumato.contract.result import Result
    from sfumato.data.microdata import Microdata


class _Run(Protocol):
    """What a face needs of a run (which stands above this module)."""

    @property
    def verdict(self) -> Any: ...
    @property
    def masked(self) -> Microdata: ...
    @property
    def steps(self) -> Sequence[Any]: ...
    @property
    def limits(self) -> Sequence[Any]: ...
    @property
    def results(self) -> Results: ...
    @property
    def warnings(self) -> Sequence[str]: ...


def run_words(run: _Run) -> str:
    """A screenful: verdict, steps, results."""
    lines = [
        run.verdict.text,
        f"{plural(len(run.masked), 'record')}, {plural(len(run.masked.columns), 'column')}",
    ]
    lines += [f"  step {s.id}: {s.mask.name}, {folded(list(s.touched))}" for s in run.steps]
    if run.warnings:
        lines.append(f"  {plural(len(run.warnings), 'caution')}: see .warnings")
    return "\n".join([*lines, repr(run.results)])


def run_face(run: _Run) -> str:
    v = run.verdict
    steps = [[s.id, s.mask.name, folded(list(s.touched)), sum(c.ok for c in s.checks)] for s in run.steps]
    limits = [[str(x.limit), x.measured, "holds" if x.ok else "fails"] for x in run.limits]
    cautions = Html(
        f"<details><summary>{plural(len(run.warnings), 'caution')}</summary>{listed(run.warnings)}</details>"
        if run.warnings
        else ""
    )
    return face(
        verdict(v.safe, v.head, v.reasons, v.do),
        results_table(run.results) if len(run.results) else paragraph("Nothing was measured.", "soft"),
        table(["limit", "measured", ""], limits),
        table(["step", "mask", "columns", "promises kept"], steps),
        cautions,
        paragraph('plot("columns"), plot("correlations"), plot("risk"), plot("groups") draw it.', "soft"),
    )


def picture_in(summary: dict[str, Any], what: str) -> Picture:
    """The charts of a summary that show this."""
    charts = gallery(summary)
    if what not in charts:
        raise ParameterError(f"there is no picture of {what!r}", hint=did_you_mean(what, charts))
    if not charts[what]:
        there = [name for name, drawn in charts.items() if drawn]
        raise ParameterError(
            f"this run has nothing to draw of {what!r}", hint=f"there is: {', '.join(there) or 'nothing'}"
        )
    return Picture(charts[what])


class _Tried(Protocol):
    @property
    def attack(self) -> Attack: ...
    @property
    def result(self) -> Result | None: ...
    @property
    def label(self) -> str: ...
    @property
    def reason(self) -> str: ...


def battery_words(tried: Sequence[_Tried], known: Sequence[str]) -> str:
    lines = [f"Battery of {plural(len(tried), 'attack')} by somebody who knows {folded(known)}:"]
    for t in tried:
        if t.result is None:
            lines.append(f"  {t.label}: not run, {t.reason}")
            continue
        interval = f" ({span(*t.result.interval)})" if t.result.interval else ""
        chance = f", by chance {number(t.result.chance)}" if t.result.chance is not None else ""
        lines.append(f"  {t.label}: {percent(t.result.value)} of {t.attack.finds}{interval}{chance}")
    return "\n".join(lines)


def battery_rows(tried: Sequence[_Tried]) -> list[dict[str, Any]]:
    """The rates for a chart: those that could be run."""
    return [
        {
            "name": t.label,
            "value": t.result.value,
            "low": t.result.interval[0] if t.result.interval else None,
            "high": t.result.interval[1] if t.result.interval else None,
            "baseline": t.result.chance,
        }
        for t in tried
        if t.result is not None
    ]


def battery_face(tried: Sequence[_Tried], known: Sequence[str], block_on: Sequence[str]) -> str:
    rows = [
        [
            t.label,
            t.attack.finds,
            None if t.result is None else t.result.value,
            span(*t.result.interval) if t.result is not None and t.result.interval else None,
            None if t.result is None else t.result.chance,
            t.reason or "",
        ]
        for t in tried
    ]
    exactly = f", and exactly {folded(block_on, 12)}" if block_on else ""
    return face(
        f"The intruder knows {folded(known, 12)}{exactly}.",
        table(["attack", "finds", "rate", "95% interval", "by chance", "not run because"], rows),
    )
