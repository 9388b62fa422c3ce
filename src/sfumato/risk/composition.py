"""Households found by their members: what a mask of persons one by one doesn't hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import polars as pl

from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.codes import joint_codes
from sfumato.data.microdata import IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.assign import Links, link
from sfumato.linkage.blocks import Blocks, make_blocks
from sfumato.linkage.points import standard_points
from sfumato.linkage.results import attack_result, true_links

MOST_SLOTS: Final = 8
_SIZE: Final = "members of the household"
_FEW: Final = 10


@dataclass(frozen=True, kw_only=True)
class CompositionAttack(Attack):
    """Re-identify households by all their members at once.

    The intruder knows who lives with whom and what ``known`` says of each of them, and the release tells
    which records are one household. He puts the members of each household in order (by the first known
    number, the largest first), compares households of one size, member by member, by the distance of
    ranks, and links them 1-1 at the least total distance. A person-wise mask with 1/k for a person says
    nothing of this: a household of m persons is an m-tuple of clusters, nearly unique from 3 persons on.

    ``value`` is the share of households found. ``composition_rate`` is that of one who knows only
    ``composition`` (say ages, sexes and the area); ``unique`` the share of households whose composition
    nobody shares, ``still_unique`` that of those whose composition one row of the release has, and
    ``truly`` how many of these rows are at that household's place. The breakdown has the rate by size.

    Reference: ours; the problem as in Drechsler, J., Hu, J. (2021). Synthesizing geocodes to facilitate
    access to detailed geographical information. JSSAM 9, 523-548 (households as units of disclosure).

    >>> import polars as pl, sfumato as sf
    >>> home = [i // 2 for i in range(40)]
    >>> data = sf.Microdata(pl.DataFrame({"HOME": home, "AGE": range(20, 60)}), sf.Schema(household="HOME"))
    >>> sf.CompositionAttack(household="HOME", known=["AGE"]).measure(data, data).value
    1.0
    """

    name: ClassVar[str] = "composition_attack"
    reference: ClassVar[str] = "Drechsler, Hu (2021) for the problem"
    compares_all: ClassVar[bool] = False

    household: str = parameter(doc="The column that says who lives with whom.", columns="household")
    known: tuple[str, ...] = parameter(
        (), doc="What he knows of each member; all but the ids by default.", columns=True
    )
    composition: tuple[str, ...] = parameter(
        (), doc="What one knows who knows only the composition; the keys by default.", columns=True
    )

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        home = original.schema.household
        if home is None or home not in original.columns or home not in masked.columns:
            return ()
        of, many = original.households(home)
        if many == len(of) or many < _FEW:
            return ()
        known = tuple(
            c
            for c in dict.fromkeys([*intruder.values, *intruder.block_on])
            if c in original.columns and c in masked.columns and c not in (home, original.schema.id)
        )
        return [cls(household=home, known=known)] if known else ()

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        apart = {self.household, original.schema.id}
        known = self.known or tuple(c for c in original.columns if c in masked.columns and c not in apart)
        if not known:
            raise MeasureError("there is no column by which households could be found")
        if not len(original) or not len(masked):
            raise MeasureError("a file without records has no households")
        truth = self._truth(original, masked)
        keys = (*original.schema.keys, *original.schema.geography)
        composition = self.composition or tuple(c for c in known if c in keys)
        one, two, columns = _wide(original, masked, self.household, known)
        blocks = make_blocks(one, two, [_SIZE], draws)
        links = self._linked(one, two, columns, blocks, truth)
        figures: dict[str, object] = {"households": len(one), "person_rate": _persons(one, links, truth)}
        if composition:
            own = [c for c in columns if c.rpartition(" ")[0] in composition]
            figures["composition_rate"] = _rate(self._linked(one, two, own, blocks, truth), truth)
            figures |= _unique(one, two, own, truth)
        size = one.numbers(_SIZE).astype(np.int64)
        hit = (links.match == truth) & (truth >= 0)
        by_size = pl.DataFrame(
            [{"size": int(s), "households": int((size == s).sum()), "rate": float(hit[size == s].mean())}
             for s in np.unique(size)]
        )  # fmt: skip
        return attack_result(
            links,
            [blocks],
            truth,
            one_to_one=True,
            notes=[
                f"he knows who lives with whom, and of each of them {', '.join(known[:6])}"
                + (" …" if len(known) > 6 else ""),
                "the rate is that of households, not of persons",
            ],
            figures={**figures, "by_size": by_size},
        )

    def _truth(self, original: Microdata, masked: Microdata) -> IntArray:
        """The released household that stands where each household's first record stands."""
        place = true_links(original, masked, None)
        of, many = original.households(self.household)
        there, _ = masked.households(self.household)
        first = np.empty(many, np.int64)
        first[of[::-1]] = np.arange(len(of))[::-1]
        at = place[first]
        return np.where(at >= 0, there[np.maximum(at, 0)], -1)

    def _linked(
        self, one: Microdata, two: Microdata, columns: Sequence[str], blocks: Blocks, truth: IntArray
    ) -> Links:
        points = standard_points(one, two, columns, ranks=True)
        return link(points.fields(points.left, points.right), blocks, truth)


def _rate(links: Links, truth: IntArray) -> float:
    return float(((links.match == truth) & (truth >= 0)).mean())


def _persons(one: Microdata, links: Links, truth: IntArray) -> float:
    """The share of persons who live in a household that was found."""
    size = one.numbers(_SIZE)
    return float(size[(links.match == truth) & (truth >= 0)].sum() / size.sum())


def _unique(one: Microdata, two: Microdata, columns: Sequence[str], truth: IntArray) -> dict[str, object]:
    left, right, size = joint_codes(one, two, [_SIZE, *columns])
    held, found = np.bincount(left, minlength=size), np.bincount(right, minlength=size)
    alone = held[left] == 1
    still = alone & (found[left] == 1)
    place = np.full(size, -1, np.int64)
    place[right] = np.arange(len(right))
    return {
        "unique": float(alone.mean()),
        "still_unique": float(still.mean()),
        "truly": int((still & (place[left] == truth)).sum()),
    }


def _wide(
    original: Microdata, masked: Microdata, household: str, known: Sequence[str]
) -> tuple[Microdata, Microdata, list[str]]:
    """Both files with a row a household: what members share once, the rest in the order of the members."""
    lead = next((c for c in known if _orders(original, c) and _orders(masked, c)), None)
    sides = []
    for data in (original, masked):
        of, many = data.households(household)
        value = np.zeros(len(of)) if lead is None else np.nan_to_num(data.numbers(lead), nan=-np.inf)
        ties, _ = data.codes(list(known))
        order = np.lexsort((ties, -value, of))
        nth = np.arange(len(of)) - np.searchsorted(of[order], of[order])
        sides.append((data, of, many, order, nth))
    shared = {c for c in known if all(_same(data, c, of) for data, of, *_ in sides)}
    made = []
    for data, of, many, order, nth in sides:
        frame: dict[str, pl.Series] = {_SIZE: pl.Series(np.bincount(of, minlength=many))}
        for slot in range(MOST_SLOTS):
            rows = order[nth == slot]
            if not len(rows):
                break
            at = np.full(many, -1, np.int64)
            at[of[rows]] = rows
            take = pl.Series(np.where(at >= 0, at, 0))
            for column in known:
                if column in shared and slot:
                    continue
                values = data.column(column).gather(take)
                frame[f"{column} {slot}"] = pl.select(
                    pl.when(pl.Series(at >= 0)).then(values).otherwise(None)
                ).to_series()
        made.append(pl.DataFrame({n: s.alias(n) for n, s in frame.items()}))
    both = [c for c in made[0].columns if c in made[1].columns and c != _SIZE]
    one, two = (Microdata(frame.select([_SIZE, *both])) for frame in made)
    return one, two, both


def _orders(data: Microdata, column: str) -> bool:
    return data.is_numeric(column) and data.column(column).n_unique() > _FEW


def _same(data: Microdata, column: str, of: IntArray) -> bool:
    codes, _ = data.codes([column])
    first = np.empty(int(of.max()) + 1, np.int64)
    first[of] = codes
    return bool((first[of] == codes).all())
