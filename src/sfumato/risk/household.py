"""The intruder who knows who lives together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl

from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.assign import Links, solve_sparse
from sfumato.linkage.blocks import make_blocks
from sfumato.linkage.fields import Fields
from sfumato.linkage.learn import learn
from sfumato.linkage.points import PointAttack
from sfumato.linkage.results import attack_result, block_notes

_OF: Final = " of the household"
_SIZE: Final = "size" + _OF
_CANDIDATES: Final = 64
_SCORES: Final = 5_000_000  # of households with households, at a time


@dataclass(frozen=True, kw_only=True)
class HouseholdAttack(PointAttack):
    """Re-identify persons by whom they live with: households are linked 1-1, then their members.

    Many are a woman of 34; few live with a man of 61 and children of 3 and 8. Where the release says
    who belongs to a household, the intruder first links households. A pair of persons weighs what it
    weighs in :class:`AgreementAttack`, with the size of the household as a column more; the values of
    all members help to learn how often a mask left each column alone. A pair of households weighs half
    the sum of each member's weight with whoever fits him best, from both sides. Then he links the
    members, the heaviest pair first. A swap that moves households to another area leaves nearly all of
    it as it was.

    More than ``records`` households are attacked by a random sample.

    Reference: the weights are those of ``AgreementAttack``; that a person's risk is his household's, as in
    Franconi and Polettini (2004), LNCS 3050, 262-272.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> rng = np.random.default_rng(0)
    >>> people = pl.DataFrame({"HOME": np.arange(300) // 3, "AGE": rng.integers(0, 12, 300).astype(str)})
    >>> data = sf.Microdata(people, sf.Schema(household="HOME", keys=["AGE"]))
    >>> sf.AgreementAttack(known=["AGE"]).measure(data, data).rate < 0.1
    True
    >>> sf.HouseholdAttack(known=["AGE"]).measure(data, data).rate > 0.6
    True
    """

    name: ClassVar[str] = "household_attack"
    reference: ClassVar[str] = "after Franconi and Polettini (2004)"

    household: str | None = parameter(
        None, doc="The column that says who lives together; by default the schema's.", columns="household"
    )
    records: int = parameter(3_000, doc="Attack at most so many households, drawn at random.", at_least=1)

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        home = original.schema.household
        if home is None or home not in original.columns or home not in masked.columns:
            return ()
        known = tuple(dict.fromkeys([*intruder.values, *intruder.block_on]))
        return [cls(known=known)] if known else ()

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        home = self.household or original.schema.household
        if home is None or any(home not in d.columns for d in (original, masked)):
            raise MeasureError(
                "the files don't say who lives together", hint="name the column in `household`"
            )
        known = tuple(dict.fromkeys([*self._known(original, masked), *self.block_on]))
        truth = self._truth(original, masked)
        if not len(original) or not len(masked):
            raise MeasureError("a file without records has no households")
        one, two = (_with_homes(d, home, known) for d in (original, masked))
        held = [c for c in one.columns if c.endswith(_OF)]
        lesson = learn(one, two, [*known, *held], make_blocks(one, two, (), draws), draws, {})
        fields = _without(lesson.fields, [c for c in held if c != _SIZE])
        left, left_starts = _by_home(original, home, draws, "original")
        right, right_starts = _by_home(masked, home, draws, "masked")
        sampled = len(left_starts) - 1 > self.records
        if sampled:
            left_starts = left_starts[: self.records + 1]
            left = left[: left_starts[-1]]
        links = self._linked(fields.take(left, right), left, right, left_starts, right_starts, truth)
        attacked = np.zeros(len(truth), np.bool_)
        attacked[left] = True
        blocks = make_blocks(original, masked, (), draws, left=left)
        notes = [
            *block_notes((), known, truth=self.truth),
            "he knows who lives together, and links households before persons",
        ]
        if sampled:
            notes.append(f"a random sample of {self.records:,} households was attacked")
        figures: dict[str, Any] = {
            "keep": {c: lesson.keep[c] for c in known},
            "households": len(left_starts) - 1,
        }
        return attack_result(
            links, [blocks], truth, one_to_one=True, notes=notes, figures=figures, attacked=attacked
        )

    def _linked(
        self,
        fields: Fields,
        left: IntArray,
        right: IntArray,
        left_starts: IntArray,
        right_starts: IntArray,
        truth: IntArray,
    ) -> Links:
        from sfumato.kernels.linkage_homes import home_scores, link_members

        arrays = fields.arrays()
        homes, others = len(left_starts) - 1, len(right_starts) - 1
        most = min(_CANDIDATES, others)
        cols, weights = np.empty((homes, most), np.int64), np.empty((homes, most))
        step = max(1, _SCORES // max(others, 1))
        for first in range(0, homes, step):
            last = min(first + step, homes)
            scores = np.empty((last - first, others))
            home_scores(first, last, left_starts, right_starts, arrays, scores)
            best = np.sort(np.argpartition(-scores, most - 1, axis=1)[:, :most], axis=1)
            cols[first:last] = best
            weights[first:last] = np.take_along_axis(scores, best, axis=1)
        starts = np.arange(homes + 1, dtype=np.int64) * most
        edge = solve_sparse(starts, cols.ravel(), weights.ravel(), others)
        pairs = np.where(edge >= 0, cols.ravel()[edge], -1)
        match, weight = np.full(len(left), -1), np.full(len(left), np.nan)
        link_members(pairs, left_starts, right_starts, arrays, match, weight)
        out = Links(
            np.full(len(truth), -1), np.full(len(truth), np.nan), np.zeros(len(truth)), len(left) * len(right)
        )
        out.match[left] = np.where(match >= 0, right[match], -1)
        out.weight[left] = weight
        out.nearest[left] = (out.match[left] == truth[left]) & (match >= 0)
        return out


def _by_home(data: Microdata, home: str, draws: Draws, which: str) -> tuple[IntArray, IntArray]:
    """The records by household, households and members in random order, and where each household starts."""
    codes, size = data.households(home)
    place = draws.stream(purpose=f"households {which}").permutation(size)
    order = draws.stream(purpose=f"members {which}").permutation(len(codes))
    order = order[np.argsort(place[codes[order]], kind="stable")]
    return order, np.concatenate([[0], np.cumsum(np.bincount(place[codes], minlength=size))]).astype(np.int64)


def _with_homes(data: Microdata, home: str, columns: Sequence[str]) -> Microdata:
    """The file with what each person's household has between its members: their values, and how many."""
    frame = pl.DataFrame({"home": data.households(home)[0]}).with_columns(
        data.column(c).cast(pl.String).fill_null("").alias(c + _OF) for c in columns
    )
    held = [pl.col(c + _OF).sort().implode().list.join("\x1f").over("home") for c in columns]
    size = pl.len().over("home").cast(pl.String).alias(_SIZE)
    return data.with_columns(frame.select(*held, size).get_columns())


def _without(fields: Fields, names: Sequence[str]) -> Fields:
    """The fields but for these."""
    keep = np.array([j for j, name in enumerate(fields.names) if name not in set(names)], np.int64)
    arrays = (
        "kinds",
        "left",
        "right",
        "left_present",
        "right_present",
        "scale",
        "agree",
        "disagree",
        "tables",
    )
    picked = {a: np.ascontiguousarray(getattr(fields, a)[keep]) for a in arrays}
    return replace(fields, names=tuple(fields.names[j] for j in keep), **picked)
