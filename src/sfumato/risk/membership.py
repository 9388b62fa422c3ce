"""The intruder who asks whether a person is in the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.contract.held_back import BesideOthers, HeldBack
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.codes import joint_codes
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.blocks import make_blocks
from sfumato.linkage.neighbours import nearest_records, without
from sfumato.linkage.points import standard_points
from sfumato.linkage.results import true_links
from sfumato.stats.ranks import mid_ranks

_Z95 = 1.959963984540054
_NEAREST, _VALUES = "nearest record", "values"

Signs = dict[str, FloatArray]


@dataclass(frozen=True, kw_only=True)
class MembershipAttack(BesideOthers):
    """Tell whether a person is in the file, by how near the release comes to what is known of him.

    Two signs are tried: how near the nearest released record is, and how many of the person's known
    values occur in their columns, each by how rare it is (Σ −ln f). The area under the curve (AUC) is the
    chance that the sign is stronger for somebody who is in the file than for somebody who isn't, for two
    persons drawn at random; ``value`` is 2·AUC − 1 by the better sign: 0 for a coin, 1 for certainty.

    Who isn't in the file: the people of ``holdout``, a file of the same population; else, where the steps
    are known (in a battery), a quarter of the people, held back while the rest is masked by the same steps.
    Without either, each person is compared with the release without himself: without his record, and
    without his value where the release has each value as often as the original. What he did to the
    others' records isn't seen then. More than ``records`` persons are attacked by a random sample.

    Reference: Homer et al. (2008), PLoS Genetics 4(8), for the question; Hanley and McNeil (1982),
    Radiology 143, 29-36, for the interval.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> people = pl.DataFrame(np.random.default_rng(0).lognormal(9, 1, (200, 3)), schema=list("ABC"))
    >>> sf.MembershipAttack(known=list("ABC")).measure(people, people).value
    1.0
    """

    name: ClassVar[str] = "membership_attack"
    reference: ClassVar[str] = "Homer et al. (2008); Hanley and McNeil (1982)"
    finds: ClassVar[Literal["records", "targets", "values", "members"]] = "members"
    compares_all: ClassVar[bool] = False

    known: tuple[str, ...] = parameter(
        (), doc="The columns that the intruder knows; by default all but ids and weight.", columns=True
    )

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        known = tuple(dict.fromkeys([*intruder.values, *intruder.block_on]))
        return [cls(known=known)] if known else ()

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        schema = original.schema
        apart = {schema.id, schema.household, schema.weight}
        known = self.known or tuple(c for c in original.columns if c in masked.columns and c not in apart)
        if not known:
            raise MeasureError("the intruder knows no column", hint="name the columns in `known`")
        if len(masked) < 2:
            raise MeasureError("there are too few records to tell anybody apart")
        held = self._others
        if held is not None and all(c in held.outside.columns for c in known):
            inside, outside = self._against(held, known, draws)
            how = held.how
        else:
            inside, outside = self._without_himself(original, masked, known, draws)
            how = "without the person his record is left out of the release"
        areas = {name: auc(inside[name], outside[name]) for name in inside}
        best = max(areas, key=lambda name: areas[name])
        n, m = len(inside[best]), len(outside[best])
        half = _Z95 * _auc_error(areas[best], n, m)
        value = max(0.0, 2 * areas[best] - 1)
        ends = 2 * (areas[best] - half) - 1, 2 * (areas[best] + half) - 1
        return Result(
            value=value,
            unit="2 AUC − 1",
            interval=(max(0.0, min(ends[0], value)), min(1.0, max(ends[1], value))),
            notes=(
                f"the intruder has the original values of {', '.join(known)} and asks who is in the file",
                f"the better sign is the {best}; {how}",
                f"{n:,} persons in the file were attacked and {m:,} who aren't",
            ),
            figures={
                "rate": value,
                "baseline": 0.0,
                "attacked": n,
                "auc": areas[best],
                "auc_nearest": areas[_NEAREST],
                "auc_values": areas[_VALUES],
                "sign": best,
            },
        )

    def _against(self, held: HeldBack, known: Sequence[str], draws: Draws) -> tuple[Signs, Signs]:
        """The signs of people in the release and of people who aren't, in the same units."""
        frames = [d.select(list(known)) for d in (held.inside, held.outside)]
        both = held.inside.with_frame(pl.concat(frames, how="vertical_relaxed"))
        size, out = len(held.inside), []
        for first, last in ((0, size), (size, len(both))):
            order = draws.stream(purpose=f"persons {first > 0}").permutation(last - first)
            people = first + order[: self.records]
            rows, _, weights = _nearest(both, held.released, known, people, draws)
            out.append({_NEAREST: weights[:, 0], _VALUES: _values(both, held.released, known, rows)[0]})
        return out[0], out[1]

    def _without_himself(
        self, original: Microdata, masked: Microdata, known: Sequence[str], draws: Draws
    ) -> tuple[Signs, Signs]:
        """The signs of each person, and the same on the release without him."""
        truth = true_links(original, masked, self.truth)
        people = np.flatnonzero(truth >= 0)
        if not len(people):
            raise MeasureError("there are too few records to tell anybody apart")
        people = people[draws.stream(purpose="persons").permutation(len(people))[: self.records]]
        rows, found, weights = _nearest(original, masked, known, people, draws)
        second = without(found, found == truth[rows][:, None], 1)
        apart_from_him = np.take_along_axis(weights, np.maximum(second, 0), axis=1)[:, 0]
        with_him, alone = _values(original, masked, known, rows)
        return {_NEAREST: weights[:, 0], _VALUES: with_him}, {_NEAREST: apart_from_him, _VALUES: alone}


def _nearest(
    data: Microdata, released: Microdata, known: Sequence[str], people: IntArray, draws: Draws
) -> tuple[IntArray, IntArray, FloatArray]:
    points = standard_points(data, released, known)
    blocks = make_blocks(data, released, (), draws, left=people)
    return nearest_records(points.fields(points.left, points.right), blocks, 2)


def _values(
    original: Microdata, masked: Microdata, known: Sequence[str], rows: np.ndarray
) -> tuple[FloatArray, FloatArray]:
    """Σ −ln f over the known values that occur in the release, with and without the person's own."""
    inside, outside = np.zeros(len(rows)), np.zeros(len(rows))
    for column in known:
        one, two, size = joint_codes(original, masked, [column])
        before, after = np.bincount(one, minlength=size), np.bincount(two, minlength=size)
        mine = one[rows]
        worth = -np.log((after[mine] + 1.0) / (len(masked) + 1.0))
        own = after[mine] >= before[mine]
        inside += worth * (after[mine] > 0)
        outside += worth * (after[mine] - own > 0)
    return inside, outside


def auc(inside: FloatArray, outside: FloatArray) -> float:
    """The chance that a draw of the first exceeds one of the second, ties by half.

    >>> auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    ranks = mid_ranks(np.concatenate([inside, outside]))
    n, m = len(inside), len(outside)
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))


def _auc_error(area: float, n: int, m: int) -> float:
    """Hanley and McNeil's standard error with n inside and m outside."""
    q1, q2 = area / (2 - area), 2 * area * area / (1 + area)
    spread = area * (1 - area) + (n - 1) * (q1 - area * area) + (m - 1) * (q2 - area * area)
    return float(np.sqrt(max(spread, 0.0) / (n * m)))
