"""Every attack that fits a masked file, one after another; the strongest is the file's risk."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from sfumato import registry
from sfumato.contract.face import picture_of
from sfumato.contract.known import default_known, is_number
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.own_list import own_list
from sfumato.contract.result import Result
from sfumato.data.differences import changed
from sfumato.data.microdata import Microdata, as_microdata
from sfumato.drawing import Picture
from sfumato.draws import Seed, as_seed
from sfumato.errors import MeasureError, SfumatoError, suggesting
from sfumato.linkage.blocks import make_blocks
from sfumato.linkage.results import wilson
from sfumato.run.face import battery_face, battery_rows, battery_words

MOST_PAIRS = 5_000_000_000
"""Attacks that would compare more pairs than this aren't run; blocking makes them fewer."""


@dataclass(frozen=True)
class Tried:
    """One attack of the battery: what it found and what it cost, or why it wasn't run."""

    attack: Attack
    result: Result | None
    seconds: float
    reason: str = ""
    told: bool = False
    """Whether it uses the parameters of a step, which nobody has unless they are published."""

    @property
    def label(self) -> str:
        """The attack's name with what sets it apart (``linkage l``, ``distance_linkage rank``)."""
        for parameter in ("metric", "form"):
            word = getattr(self.attack, parameter, None)
            if isinstance(word, str):
                return f"{self.attack.name} {word}"
        return self.attack.id or self.attack.name


@dataclass(frozen=True, repr=False)
class Battery:
    """The outcome of all attacks: those that find records, strongest first, then the others."""

    tried: tuple[Tried, ...]
    known: tuple[str, ...]
    block_on: tuple[str, ...]

    @property
    def strongest(self) -> Tried:
        """The attack with the highest rate among all records (Moore's test looks at targets only)."""
        ran = [t for t in self.tried if t.result is not None and t.attack.finds in ("records", "targets")]
        if not ran:
            reasons = "; ".join(f"{t.label}: {t.reason}" for t in self.tried) or "no attack fits this file"
            raise MeasureError(f"no attack could be run ({reasons})")
        whole = [t for t in ran if t.attack.finds == "records"]
        return max(whole or ran, key=lambda t: t.result.value if t.result else -1.0)

    def __repr__(self) -> str:
        return battery_words(self.tried, self.known)

    def _repr_html_(self) -> str:
        return battery_face(self.tried, self.known, self.block_on)

    def plot(self) -> Picture:
        """The rate of every attack, with its interval and chance."""
        return picture_of(battery_rows(self.tried), "what each attack finds")

    def strongest_of(self, *, told: bool) -> Tried | None:
        """The strongest among the attacks that use a step's parameters, or among those that don't."""
        ran = [
            t for t in self.tried if t.result is not None and t.attack.finds == "records" and t.told == told
        ]
        return max(ran, key=lambda t: t.result.value if t.result else -1.0, default=None)

    def to_frame(self) -> pl.DataFrame:
        """One row an attack."""
        rows = []
        for t in self.tried:
            r = t.result
            rows.append(
                {
                    "attack": t.label,
                    "finds": t.attack.finds,
                    "rate": r.value if r else None,
                    "low": r.interval[0] if r and r.interval else None,
                    "high": r.interval[1] if r and r.interval else None,
                    "baseline": r.figures["baseline"] if r else None,
                    "attacked": r.figures["attacked"] if r else None,
                    "seconds": t.seconds,
                    "knows": "; ".join(r.notes) if r else t.reason,
                }
            )
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the confidential part, as plain values."""
        best = self.strongest
        return {
            "strongest": {"attack": best.label, "rate": best.result.value if best.result else None},
            "known": list(self.known),
            "block_on": list(self.block_on),
            "attacks": [
                {
                    "attack": t.label,
                    "parameters": t.attack.to_dict(),
                    "seconds": round(t.seconds, 3),
                    "result": t.result.to_dict() if t.result else None,
                    "reason": t.reason,
                }
                for t in self.tried
            ],
        }


def fitting_attacks(
    original: Microdata,
    masked: Microdata,
    steps: Sequence[Mask] = (),
    *,
    known: Sequence[str] = (),
    block_on: Sequence[str] | None = None,
    share_known: float = 0.1,
) -> tuple[list[Attack], Intruder]:
    """The attacks that fit these files and these steps, and what the intruder knows.

    ``original`` is his own list (``contract.own_list``). He knows the sensitive numbers (else all
    numbers that the mask changed) and every key. Keys that no step touched are blocks; those that one
    touched are compared like values, since most records may have kept theirs. For each step there is
    one who knows the method and its parameters, if an attack understands what the step discloses.
    """
    intruder = what_he_knows(original, masked, known=known, block_on=block_on, share_known=share_known)
    kinds = [cls for cls in registry.measures().values() if issubclass(cls, Attack)]
    out = [attack for cls in kinds for attack in cls.fitting(original, masked, intruder)]
    out += _told(kinds, original, steps, intruder)
    return [a for k, a in enumerate(out) if a not in out[:k]], intruder


def _told(
    kinds: Sequence[type[Attack]], original: Microdata, steps: Sequence[Mask], intruder: Intruder
) -> list[Attack]:
    """The attacks of somebody who knows the steps and their parameters."""
    out: list[Attack] = []
    for step in steps:
        for cls in kinds:
            try:
                out += cls.against(step, original, intruder)
            except SfumatoError:  # the step was given other columns, or another type, by the one before
                continue
    return out


def what_he_knows(
    original: Microdata,
    masked: Microdata,
    *,
    known: Sequence[str] = (),
    block_on: Sequence[str] | None = None,
    share_known: float = 0.1,
) -> Intruder:
    """What the intruder knows where nobody says what he knows."""
    touched, schema = _touched(original, masked), original.schema
    values = tuple(known) or default_known(original, masked)
    if not known and not schema.sensitive:  # what was left as it was needs no attack of its own
        values = tuple(c for c in values if c in touched) or values or tuple(sorted(touched))
    added = [c for c in original.columns if c in masked.columns and c.endswith("_zero")]
    keys = [
        c
        for c in dict.fromkeys([*schema.keys, *schema.geography, *added])
        if c in original.columns and c in masked.columns and c not in values
    ]
    blocks = tuple(block_on) if block_on is not None else tuple(c for c in keys if c not in touched)
    if not known:
        values += tuple(c for c in keys if c not in blocks)
    if not values:  # keys alone, and all as they were: to compare them is the attack
        values, blocks = blocks, ()
    numbers = tuple(c for c in values if is_number(original, c) and is_number(masked, c))
    return Intruder(values=values, numbers=numbers, block_on=blocks, share_known=share_known)


@suggesting
def run_battery(
    original: Any,
    masked: Any,
    steps: Sequence[Mask] = (),
    *,
    known: Sequence[str] = (),
    block_on: Sequence[str] | None = None,
    share_known: float = 0.1,
    seed: Seed | int | None = 0,
    most_pairs: int = MOST_PAIRS,
    finds: str | None = None,
    progress: Callable[[str, float, int], None] | None = None,
) -> Battery:
    """Run every attack that fits; one that can't be run is listed with the reason.

    ``finds`` runs only those that look for one kind of thing: ``"records"``, say.

    >>> import polars as pl, sfumato as sf
    >>> from sfumato.run.battery import run_battery
    >>> people = sf.Microdata(pl.DataFrame({"A": [1.0, 5.0, 9.0], "B": [2.0, 8.0, 4.0]}))
    >>> outcome = run_battery(people, people)
    >>> outcome.strongest.result.value
    1.0
    """
    second = as_microdata(masked)
    first = own_list(as_microdata(original), second, steps)
    attacks, intruder = fitting_attacks(
        first, second, steps, known=known, block_on=block_on, share_known=share_known
    )
    attacks = [a for a in attacks if finds is None or a.finds == finds]
    kinds = list(dict.fromkeys(type(a) for a in attacks))
    untold = [a for cls in kinds for a in cls.fitting(first, second, intruder)]
    pairs = make_blocks(first, second, intruder.block_on, as_seed(seed).draws("battery")).pairs
    tried = []
    for number, attack in enumerate(attacks):
        if progress is not None:
            progress(attack.name, number, len(attacks))
        if pairs > most_pairs and attack.compares_all:
            tried.append(
                Tried(attack, None, 0.0, f"it would compare {pairs:,} pairs; name columns to block on")
            )
            continue
        begin = time.perf_counter()
        try:
            if attack.masks_again:
                result, reason = attack.measure(original, second, seed=seed, steps=steps), ""
            else:
                result, reason = attack.measure(first, second, seed=seed), ""
            result = _nearest(result) if attack.finds == "records" else result
        except SfumatoError as problem:
            result, reason = None, problem.message
        tried.append(Tried(attack, result, time.perf_counter() - begin, reason, attack not in untold))
    tried.sort(key=lambda t: (t.attack.finds != "records", -(t.result.value if t.result else -1.0)))
    return Battery(tuple(tried), intruder.values, intruder.block_on)


def _nearest(result: Result) -> Result:
    """By each person's nearest record, where that finds more people than the 1-1 links.

    With a few coarse keys many records tie, and one who must be content with what others leave him loses.
    """
    rate, figures = result.figures.get("nearest_rate"), result.figures
    if not isinstance(rate, float) or not rate > result.value:
        return result
    n = int(figures.get("attacked", 0) or 0)
    note = f"each person's nearest record, ties shared; 1-1 finds {100 * result.value:.1f}%"
    return replace(
        result,
        value=rate,
        interval=wilson(rate * n, n),
        notes=(*result.notes, note),
        figures={**figures, "rate": rate, "one_to_one_rate": result.value},
    )


def _touched(original: Microdata, masked: Microdata) -> set[str]:
    """The columns whose values differ between the files."""
    shared = [c for c in original.columns if c in masked.columns]
    if len(original) != len(masked):
        return set(shared)
    return {
        c
        for c in shared
        if original.dtype(c) != masked.dtype(c) or changed(original.column(c), masked.column(c))
    }
