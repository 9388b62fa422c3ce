"""The verdict on a run, in words that a person can sign: safe by the limits that were set, or not, and why.

- **safe by the limits you set**: limits on risk are set, among them one on what an attack finds; all of them
  hold, every guarantee holds, and no column is released in which nearly everybody has a value of his own;
- **not safe**: which of these fails, why, and what to do;
- **no limits set**: what the default limits of a public and of a research file say of the figures there are.

Only the first may be handed out. What wasn't measured doesn't hold.

>>> import polars as pl, sfumato as sf
>>> data = sf.Microdata(pl.DataFrame({"AGE": [30, 30, 40]}), sf.Schema(keys=["AGE"]))
>>> sf.Plan().run(data).verdict.safe
False
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sfumato.contract.mask import Mask, Notes
from sfumato.contract.measure import Attack, Measure
from sfumato.contract.result import Result, Results
from sfumato.data.microdata import Microdata
from sfumato.plan.audience import BATTERY, PUBLIC, RESEARCH, Audience
from sfumato.plan.parts import Limit
from sfumato.plan.plan import Plan
from sfumato.run.derivable import WAY_OUT
from sfumato.run.exposure import least_group
from sfumato.run.unmasked import AsCollected

SAFE: Final = "safe by the limits you set"
NOT_SAFE: Final = "not safe"
NO_LIMITS: Final = "no limits set"


@dataclass(frozen=True)
class Reason:
    """One thing that speaks for or against handing a file out."""

    ok: bool
    because: str
    do: str = ""


@dataclass(frozen=True)
class Verdict:
    """Whether a run may be handed out."""

    safe: bool
    head: str
    """One of: safe by the limits you set; not safe; no limits set."""
    reasons: tuple[str, ...]
    """Why not, or what it rests on."""
    do: tuple[str, ...]
    """What to do about it."""

    @property
    def text(self) -> str:
        """The verdict in one paragraph."""
        if self.safe:
            return f"{self.head}: {'; '.join(self.reasons)}."
        because = "; ".join(self.reasons)
        todo = f" Do: {'; '.join(self.do)}." if self.do else ""
        if self.head == NO_LIMITS:
            return f"{self.head}: {because}.{todo}"
        return f"{self.head}, because {because}.{todo}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "safe": self.safe,
            "head": self.head,
            "reasons": list(self.reasons),
            "do": list(self.do),
            "text": self.text,
        }


def judged(
    plan: Plan,
    outcomes: Sequence[tuple[Limit, float, bool]],
    results: Results,
    broken: Sequence[str],
    bare: AsCollected,
    data: Microdata,
    masked: Microdata,
    steps: Sequence[tuple[Mask, Notes]],
    back: Sequence[str] = (),
) -> Verdict:
    """The verdict on what a run found: its limits with the figures measured, the columns as collected, and
    the hidden values that a rule of the schema gives ``back``."""
    always = [*_broken(broken), *(Reason(False, d, WAY_OUT) for d in back), *_bare(bare)]
    measures = {i: m for i, m in zip(plan.measure_ids(), plan.measures, strict=True)}
    risk = [o for o in outcomes if _is_risk(o[0], measures)]
    if not risk:
        return _without_limits(plan, results, measures, always, data, masked, steps)
    reasons = [_limit_reason(*o, results) for o in outcomes]
    if not any(_is_attack(o[0], measures) for o in risk):
        reasons.append(
            Reason(
                False,
                "no limit is set on what an attack finds, and counts of keys don't see what numbers tell",
                f"add a limit: {BATTERY}.rate = {{ at_most = {PUBLIC.rate:g} }}",
            )
        )
    against = [r for r in (*always, *reasons) if not r.ok]
    if against:
        return _verdict(NOT_SAFE, against)
    return Verdict(True, SAFE, tuple(r.because for r in reasons), ())


def _verdict(head: str, against: Sequence[Reason]) -> Verdict:
    do = tuple(dict.fromkeys(r.do for r in against if r.do))
    return Verdict(False, head, tuple(r.because for r in against), do)


def _broken(broken: Sequence[str]) -> list[Reason]:
    return [Reason(False, f"a guarantee is broken: {g}", "nothing may be released") for g in broken]


def _bare(bare: AsCollected) -> list[Reason]:
    if not bare.own_value:
        return []
    names = ", ".join(bare.own_value[:5]) + (" …" if len(bare.own_value) > 5 else "")
    return [
        Reason(
            False,
            f"nearly every record has its own value of {names}, and it is released as it was",
            f"drop {names}, recode or mask it",
        )
    ]


def _measure_of(limit: Limit, measures: dict[str, Measure]) -> Measure | None:
    if limit.measure in measures:
        return measures[limit.measure]
    return next((m for m in measures.values() if m.name == limit.measure), None)


def _is_risk(limit: Limit, measures: dict[str, Measure]) -> bool:
    if limit.measure == BATTERY:
        return True
    measure = _measure_of(limit, measures)
    return measure is not None and measure.side == "risk"


def _is_attack(limit: Limit, measures: dict[str, Measure]) -> bool:
    if limit.measure == BATTERY:
        return limit.figure == "rate"
    # An attack that finds values or members says nothing of who is found in the file.
    return isinstance(_measure_of(limit, measures), Attack)


_WORDS: Final = {
    "rate": ("the strongest attack finds {0:.1%} of the persons", "deal among more records, or recode more"),
    "gain": (
        "the release tells {0:.3f} of what it could of a person's own values (gain)",
        "deal among more records, or make sensitive columns blind",
    ),
    "group": ("the least group has {0:,.0f} records", "recode or deal the keys"),
    "area": ("the smallest area stands for {0:,.0f} people", "join small areas, or drop the finest"),
}


def _limit_reason(limit: Limit, value: float, ok: bool, results: Results) -> Reason:
    share = limit.measure == BATTERY and limit.figure == "rate"
    bounds = " and ".join(
        f"{word} {100 * bound:g}%" if share else f"{word} {bound:g}"
        for word, bound in (("at most", limit.at_most), ("at least", limit.at_least))
        if bound is not None
    )
    allowed = f"allowed: {bounds}"
    if limit.measure == BATTERY and limit.figure in _WORDS:
        words, do = _WORDS[limit.figure]
        if value != value:
            return Reason(
                False, f"{limit.figure} couldn't be measured ({allowed})", "see the notes of the battery"
            )
        said = words.format(value) if value != float("inf") else "no area is released"
        if limit.figure == "group" and value == 1:
            said = said.removesuffix("s")
        if limit.figure == "rate":
            found = results[BATTERY]
            if found.figures.get("measured", value) != value:
                said += f" at most by proof ({found.measured:.1%} measured, within its sampling error)"
        if limit.figure == "gain":
            said += _unsure(results[BATTERY].figures, limit.at_most)
        return Reason(ok, f"{said} ({allowed})", do)
    do = "mask more, or recode keys"
    return Reason(ok, f"{limit.measure}.{limit.figure} is {value:.4g} ({allowed})", do)


def _unsure(figures: Mapping[str, Any], most: float | None) -> str:
    """The worst column with its interval; a small file can't settle whether it is below the limit."""
    column, low, high = (figures.get(f"gain_{k}") for k in ("column", "low", "high"))
    if not column or not isinstance(low, float) or not isinstance(high, float):
        return ""
    said = f", most of {column} ({max(low, 0.0):.2f} to {min(high, 1.0):.2f})"
    if most is not None and low <= most < high:
        said += ", which so few records can't settle"
    return said


# -- without limits ---------------------------------------------------------------------------------


def _without_limits(
    plan: Plan,
    results: Results,
    measures: dict[str, Measure],
    always: list[Reason],
    data: Microdata,
    masked: Microdata,
    steps: Sequence[tuple[Mask, Notes]],
) -> Verdict:
    """What the default limits say; it may not be handed out on these, since nobody set them."""
    rates = [
        r for r in results if isinstance(measures.get(r.name), Attack) and _finds_records(measures[r.name])
    ]
    group = least_group(data, masked, steps, plan.release.drop)
    public, research = ([*always, *_by_default(a, rates, group)] for a in (PUBLIC, RESEARCH))
    parts = []
    if public:
        parts.append(
            "by the default limits of a public file this is not safe, because "
            + "; ".join(r.because for r in public)
        )
        other = (
            f"those of a research file (at least {RESEARCH.group} records, at most {RESEARCH.rate:.0%} found)"
        )
        parts.append(f"nor by {other}" if research else f"what was measured is within {other}")
    else:
        parts.append("what was measured is within the default limits of a public file")
    do = [r.do for r in public if r.do]
    if not research:
        do.append("write limits into the plan, so that they are judged in full")
    do.append("`sfumato protect` finds a plan that meets them")
    return Verdict(False, NO_LIMITS, tuple(parts), tuple(dict.fromkeys(do)))


def _finds_records(measure: Measure) -> bool:
    return getattr(measure, "finds", "records") in ("records", "targets")


def _by_default(audience: Audience, rates: Sequence[Result], group: tuple[int, bool, str]) -> list[Reason]:
    out = []
    least, _, how = group
    if least < audience.group:
        out.append(Reason(False, f"{how} (allowed: at least {audience.group})", "recode or deal the keys"))
    if not rates:
        out.append(
            Reason(False, "no attack was run on it", "add limits on the battery, or run `sfumato attack`")
        )
    else:
        worst = max(rates, key=lambda r: r.value)
        if not worst.value <= audience.rate:
            said = f"{worst.name} finds {100 * worst.value:.1f}% (allowed: at most {100 * audience.rate:g}%)"
            out.append(Reason(False, said, "mask more, or recode keys"))
    return out
