"""People who aren't in a release, to compare with those who are.

What a release tells of people in general it tells of those who are not in it as well. Whoever was held back
before masking is such a person: the part is masked by the same steps, and both sides are attacked by the
same rules. A file of other people of the same population does as well.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import numpy as np
import polars as pl

from sfumato.contract.mask import Mask
from sfumato.contract.measure import Attack
from sfumato.contract.own_list import by_steps
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import IntArray, Microdata, as_microdata
from sfumato.draws import Draws, Seed, as_seed
from sfumato.errors import MeasureError, SfumatoError

MOST: Final = 8_000
"""Of a larger file so many records are split."""


@dataclass(frozen=True)
class HeldBack:
    """A release, persons who are in it and persons who aren't, both lists recoded as the release is."""

    released: Microdata
    inside: Microdata
    outside: Microdata
    how: str


def split(data: Microdata, draws: Draws, records: int, share: float) -> tuple[IntArray, IntArray]:
    """A share of (at most ``records`` of) the file and the rest, whole households, in the file's order."""
    n = len(data)
    household = data.schema.household
    unit = np.arange(n) if household is None else data.households(household)[0]
    units = int(unit.max(initial=-1)) + 1
    order = draws.stream(purpose="split").permutation(units)
    used = max(int(units * min(1.0, records / max(n, 1))), min(units, 3))
    side = np.full(units, 2)
    side[order[:used]] = 1
    side[order[: int(share * used + 1e-9)]] = 0
    return np.flatnonzero(side[unit] == 0), np.flatnonzero(side[unit] == 1)


def held_back(
    original: Microdata, steps: Sequence[Mask], seed: Seed | int | None, share: float = 0.75
) -> HeldBack | None:
    """A part of the file masked by the steps, the rest held back; None where the steps refuse a part."""
    secret = as_seed(seed).child("held back")
    inside, outside = split(original, secret.draws("split"), MOST, share)
    if len(inside) < 2 or len(outside) < 2:
        return None
    a, b = (original.with_frame(original.frame[rows]) for rows in (inside, outside))
    released, log = a, logging.getLogger("sfumato")
    before = log.level
    log.setLevel(logging.ERROR)  # what a step says of a part is no news
    try:
        for at, step in enumerate(steps):
            released = step.mask(released, seed=secret.child(f"step {at}"))
    except SfumatoError:
        return None
    finally:
        log.setLevel(before)
    how = f"a quarter of the people was held back and the rest masked by the same {len(steps)} steps"
    return HeldBack(released, *_recoded(a, b, steps), how)


def _recoded(a: Microdata, b: Microdata, steps: Sequence[Mask]) -> tuple[Microdata, Microdata]:
    """Both lists recoded as one: the intruder doesn't know who is in the file, so what a step does to a
    number by its neighbours can't tell him."""
    shared = [c for c in a.columns if c in b.columns]
    frame = pl.concat([a.frame.select(shared), b.frame.select(shared)], how="vertical_relaxed")
    listed = by_steps(Microdata(frame, a.schema.restricted_to(shared)), steps)
    return listed.with_frame(listed.frame[: len(a)]), listed.with_frame(listed.frame[len(a) :])


def from_file(path: Path, original: Microdata, masked: Microdata, steps: Sequence[Mask]) -> HeldBack:
    """Other people of the same population, from a file."""
    from sfumato.io import read

    others = read(path)
    lost = [c for c in original.columns if c in masked.columns and c not in others.columns]
    if lost:
        raise MeasureError(f"the file of other people has no column {lost[0]!r}")
    if len(others) < 2:
        raise MeasureError("the file of other people has fewer than two records")
    return HeldBack(
        masked,
        *_recoded(original, _typed(others, original), steps),
        "other people came from a file of their own",
    )


def _typed(others: Microdata, original: Microdata) -> Microdata:
    """Other people's columns in the types of the file; a value that would change by that is refused."""
    frame = others.frame
    for column in [c for c in frame.columns if c in original.columns]:
        was = frame[column]
        try:
            now = was.cast(original.dtype(column))
            cut = was.dtype.is_float() and now.dtype.is_integer()
            same = not cut or bool(now.cast(was.dtype).eq_missing(was).all())
        except pl.exceptions.PolarsError:
            same = False
        if same:
            frame = frame.with_columns(now)
        else:
            raise MeasureError(
                f"the file of other people has other values in {column}: not all are of type "
                f"{original.dtype(column)}",
                hint="write both files by the same rules",
            )
    return Microdata(frame)


@dataclass(frozen=True, kw_only=True)
class BesideOthers(Attack):
    """An attack on persons whose outcome is compared with that on people who aren't in the release."""

    masks_again: ClassVar[bool] = True

    records: int = parameter(2_000, doc="Attack at most so many persons, drawn at random.", at_least=1)
    truth: str | None = parameter(
        None, doc="The id column with the true links; by default record i belongs to record i.", columns=True
    )
    holdout: str | None = parameter(
        None, doc="A file of other people of the same population, who aren't in the release.", file=True
    )
    _others: ClassVar[HeldBack | None] = None

    def measure(
        self,
        original: Any,
        masked: Any = None,
        *,
        seed: Seed | int | None = 0,
        steps: Sequence[Mask] = (),
    ) -> Result:
        """The result on an original and a masked file; with ``steps``, people held back are the control."""
        one = self._beside(original, masked, seed, steps)
        return super(BesideOthers, one).measure(original, masked, seed=seed, steps=steps)

    def _beside(self, original: Any, masked: Any, seed: Seed | int | None, steps: Sequence[Mask]) -> Self:
        """This attack with people to compare with: those of ``holdout``, or held back before the steps."""
        if original is None or masked is None:
            return self
        first = as_microdata(original)
        others = (
            from_file(self.file(self.holdout), first, as_microdata(masked), steps) if self.holdout else None
        )
        if others is None and steps:
            others = held_back(first, steps, seed)
        if others is None:
            return self
        out = copy.copy(self)
        object.__setattr__(out, "_others", others)
        return out
