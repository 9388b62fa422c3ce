"""The intruder who already knows some of the true pairs, and learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from sfumato.contract.known import is_number
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.assign import Links, link
from sfumato.linkage.blocks import Blocks, make_blocks
from sfumato.linkage.fields import Fields, table_fields
from sfumato.linkage.points import PointAttack, Points, rank_shares, standard_points
from sfumato.linkage.results import attack_result, block_notes
from sfumato.risk.distance import whitener_of

MODELS: Final = ("values", "ranks", "displacements")
_SHRINK = 1e-6


@dataclass(frozen=True, kw_only=True)
class SupervisedLinkage(PointAttack):
    """Re-identify records with weights learnt from a share of true pairs that the intruder knows.

    A random share of the true pairs is his. From them he learns three models of how the mask moves
    records: the mean and covariance of the differences of values, those of the differences of
    ranks, and the distribution of each column's rank displacement against that of random pairs; in
    each, how often categories agree. He keeps the model that, learnt from one half of his pairs,
    finds most of the other half, learns it from all of them, and links the rest 1-1. The rate is
    among the records he didn't know.

    Reference: Abril, Navarro-Arribas and Torra (2012), Improving record linkage with supervised
    learning for disclosure risk assessment, Information Fusion 13, 274-284, for the idea; the
    models are ours.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> rng = np.random.default_rng(0)
    >>> people = pl.DataFrame(rng.normal(size=(60, 4)), schema=list("ABCD"))
    >>> moved = people + pl.DataFrame(0.05 * rng.normal(size=(60, 4)), schema=list("ABCD"))
    >>> sf.SupervisedLinkage(known=list("ABCD"), share_known=0.3).measure(people, moved).rate
    1.0
    """

    name: ClassVar[str] = "supervised_linkage"
    reference: ClassVar[str] = "after Abril, Navarro-Arribas and Torra (2012)"

    share_known: float = parameter(
        0.1, doc="The share of true pairs that the intruder knows.", above=0, below=1
    )

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        if not intruder.values:
            return ()
        return [cls(known=intruder.values, block_on=intruder.block_on, share_known=intruder.share_known)]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        known = self._known(original, masked)
        truth = self._truth(original, masked)
        paired = np.flatnonzero(truth >= 0)
        mine = draws.stream(purpose="known pairs").permutation(len(paired))
        number = round(self.share_known * len(paired))
        if number < 4 or number >= len(paired):
            raise MeasureError(
                f"a share of {self.share_known:g} of {len(paired):,} records leaves {number} known pairs; "
                "at least 4 are needed, and one record to look for",
                hint="raise `share_known`",
            )
        lesson, rest = paired[mine[:number]], paired[mine[number:]]
        half = number // 2
        spaces = {
            "values": standard_points(original, masked, known),
            "ranks": standard_points(original, masked, known, ranks=True),
        }
        numbers = tuple(c for c in known if is_number(original, c) and is_number(masked, c))
        shares = rank_shares(original.matrix(numbers)), rank_shares(masked.matrix(numbers))

        def fields(model: str, pairs: IntArray) -> Fields:
            if model == "displacements":
                gains = spaces["values"].learnt_gains(pairs, truth[pairs])
                moved = _displacement_fields(numbers, *shares, pairs, truth[pairs], draws)
                return spaces["values"].flagged(moved, None if gains is None else gains / 2)
            return _residual_fields(spaces[model], pairs, truth[pairs])

        scores = {}
        for model in MODELS:
            links, _ = self._try(
                fields(model, lesson[:half]),
                original,
                masked,
                lesson[half:],
                truth,
                lesson[:half],
                draws,
                False,
            )
            scores[model] = float(links.nearest[lesson[half:]].mean())
        best = max(scores, key=lambda model: scores[model])
        links, blocks = self._try(
            fields(best, lesson), original, masked, rest, truth, lesson, draws, self.one_to_one
        )
        attacked = np.zeros(len(original), dtype=np.bool_)
        attacked[rest] = True
        notes = [
            *block_notes(self.block_on, known, truth=self.truth),
            f"he knows {number:,} true pairs ({self.share_known:.0%}) and learns from them",
            "the rate is among the records that he didn't know",
        ]
        return attack_result(
            links,
            [blocks],
            truth,
            one_to_one=self.one_to_one,
            notes=notes,
            attacked=attacked,
            figures={"model": best, "pairs_known": number, "found_of_other_half": scores},
        )

    def _try(
        self,
        fields: Fields,
        original: Microdata,
        masked: Microdata,
        wanted: IntArray,
        truth: IntArray,
        used: IntArray,
        draws: Draws,
        one_to_one: bool,
    ) -> tuple[Links, Blocks]:
        """Link the wanted records to the released ones that no known pair has taken."""
        free = np.ones(len(masked), dtype=np.bool_)
        free[truth[used]] = False
        blocks = make_blocks(original, masked, self.block_on, draws, left=wanted, right=np.flatnonzero(free))
        links: Links = link(fields, blocks, truth, one_to_one=one_to_one, candidates=self.candidates)
        return links, blocks


def _residual_fields(points: Points, left: IntArray, right: IntArray) -> Fields:
    """Mahalanobis distance by the known pairs' differences, their mean taken out."""
    m = points.left.shape[1]
    gains = points.learnt_gains(left, right)
    if not m:
        return points.fields(points.left, points.right, gains)
    apart = points.right[right] - points.left[left]
    n = len(apart)
    # Few pairs make a poor covariance: shrink it towards its diagonal.
    full = np.atleast_2d(np.cov(apart, rowvar=False)) if n > 1 else np.eye(m)
    trust = n / (n + m)
    residual = trust * full + (1 - trust) * np.diag(np.diag(full)) + _SHRINK * np.eye(m)
    matrix = whitener_of(residual)
    shift = apart.mean(axis=0)
    return points.fields(points.left @ matrix.T, (points.right - shift) @ matrix.T, gains)


def _displacement_fields(
    names: tuple[str, ...],
    left: FloatArray,
    right: FloatArray,
    rows: IntArray,
    places: IntArray,
    draws: Draws,
) -> Fields:
    """Log ratios of how often ranks move so far among known pairs and among random ones."""
    bins = int(np.clip(np.sqrt(len(rows)), 6, 60))
    random = places[draws.stream(purpose="random pairs").permutation(len(places))]
    tables = np.zeros((len(names), bins))
    for j in range(len(names)):
        counts = []
        for other in (places, random):
            apart = np.abs(left[rows, j] - right[other, j])
            cell = np.minimum((apart[~np.isnan(apart)] * bins).astype(np.int64), bins - 1)
            counts.append(np.bincount(cell, minlength=bins) + 0.1)
        tables[j] = np.log(counts[0] / counts[0].sum()) - np.log(counts[1] / counts[1].sum())
    return table_fields(names, left, right, np.full(len(names), float(bins)), tables)
