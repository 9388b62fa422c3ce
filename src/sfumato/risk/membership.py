"""The intruder who asks whether a person is in the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.codes import joint_codes
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.blocks import make_blocks
from sfumato.linkage.neighbours import nearest_records, without
from sfumato.linkage.points import standard_points
from sfumato.linkage.results import true_links

_Z95 = 1.959963984540054


@dataclass(frozen=True, kw_only=True)
class MembershipAttack(Attack):
    """Tell whether a person is in the file, by how near the release comes to what is known of him.

    Two signs are tried: how near the nearest released record is, and how many of the person's known
    values occur in their columns, each by how rare it is (Σ −ln f). Each is taken for the release, and
    for the release without the person: without his record, and without his value where the release has
    each value as often as the original. The area under the curve (AUC) is the chance that the sign is
    stronger where the person is in the file than where he isn't, for two persons drawn at random;
    ``value`` is 2·AUC − 1 by the better sign: 0 for a coin, 1 for certainty.

    It compares with a release that lacks the person's record, not with one masked anew without him;
    what the person does to the others' records isn't seen. More than ``records`` persons are attacked
    by a random sample.

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
    records: int = parameter(2_000, doc="Attack at most so many persons, drawn at random.", at_least=1)
    truth: str | None = parameter(
        None, doc="The id column with the true links; by default record i belongs to record i.", columns=True
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
        truth = true_links(original, masked, self.truth)
        people = np.flatnonzero(truth >= 0)
        if not len(people) or len(masked) < 2:
            raise MeasureError("there are too few records to tell anybody apart")
        sampled = len(people) > self.records
        if sampled:
            people = people[draws.stream(purpose="persons").permutation(len(people))[: self.records]]
        points = standard_points(original, masked, known)
        blocks = make_blocks(original, masked, (), draws, left=people)
        rows, found, weights = nearest_records(points.fields(points.left, points.right), blocks, 2)
        second = without(found, found == truth[rows][:, None], 1)
        apart_from_him = np.take_along_axis(weights, np.maximum(second, 0), axis=1)[:, 0]
        signs = {
            "nearest record": (weights[:, 0], apart_from_him),
            "values": _values(original, masked, known, rows),
        }
        areas = {name: auc(*pair) for name, pair in signs.items()}
        best = max(areas, key=lambda name: areas[name])
        n = len(rows)
        half = _Z95 * _auc_error(areas[best], n)
        value = max(0.0, 2 * areas[best] - 1)
        ends = 2 * (areas[best] - half) - 1, 2 * (areas[best] + half) - 1
        return Result(
            value=value,
            unit="2 AUC − 1",
            interval=(max(0.0, min(ends[0], value)), min(1.0, max(ends[1], value))),
            notes=(
                f"the intruder has the original values of {', '.join(known)} and asks who is in the file",
                f"the better sign is the {best}; without the person his record is left out of the release",
                *([f"a random sample of {n:,} persons was attacked"] if sampled else []),
            ),
            figures={
                "rate": value,
                "baseline": 0.0,
                "attacked": n,
                "auc": areas[best],
                "auc_nearest": areas["nearest record"],
                "auc_values": areas["values"],
                "sign": best,
            },
        )


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
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([inside, outside]))
    n, m = len(inside), len(outside)
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))


def _auc_error(area: float, n: int) -> float:
    """Hanley and McNeil's standard error with n on either side."""
    q1, q2 = area / (2 - area), 2 * area * area / (1 + area)
    spread = area * (1 - area) + (n - 1) * (q1 - area * area) + (n - 1) * (q2 - area * area)
    return float(np.sqrt(max(spread, 0.0)) / n)
