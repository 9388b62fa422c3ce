"""Records as points in space, for attacks that link the nearest ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.measures import Result
from sfumato.microdata import FloatArray, IntArray, Microdata
from sfumato.parameters import parameter
from sfumato.risk.base import Attack
from sfumato.risk.linkage.assign import Links, link
from sfumato.risk.linkage.blocks import Blocks, make_blocks
from sfumato.risk.linkage.compare import Fields, flag_fields, known_columns, point_fields
from sfumato.risk.linkage.results import attack_result, block_notes, true_links
from sfumato.risk.linkage.sparse import ROUNDS

_RANK = 1e-9  # eigenvalues below this share of the largest are an exact linear relation
_FLAG = 2.0  # what a missing value on one side costs, in squared standardised units


@dataclass(frozen=True, kw_only=True)
class PointAttack(Attack):
    """An intruder who knows numbers and links the records that are nearest in some space."""

    known: tuple[str, ...] = parameter(
        (), doc="The columns whose original values the intruder knows.", columns="sensitive", numeric=True
    )
    block_on: tuple[str, ...] = parameter(
        (), doc="Only records that agree on these columns are compared.", columns=True
    )
    one_to_one: bool = parameter(
        True,
        doc="Whether each released record is linked at most once; else each record's nearest, ties shared.",
    )
    candidates: int = parameter(
        32,
        doc="How many candidates a record starts with in a block too large for a matrix.",
        at_least=1,
    )
    truth: str | None = parameter(
        None, doc="The id column with the true links; by default record i belongs to record i.", columns=True
    )

    def _known(self, original: Microdata, masked: Microdata) -> tuple[str, ...]:
        return known_columns(original, masked, self.known, numbers=True)

    def _link(
        self,
        fields: Fields,
        blocks: Blocks,
        truth: IntArray,
        *,
        one_to_one: bool | None = None,
        rounds: int = ROUNDS,
    ) -> Links:
        return link(
            fields,
            blocks,
            truth,
            one_to_one=self.one_to_one if one_to_one is None else one_to_one,
            candidates=self.candidates,
            rounds=rounds,
        )

    def _blocks(self, original: Microdata, masked: Microdata, draws: Draws) -> Blocks:
        return make_blocks(original, masked, self.block_on, draws)

    def _truth(self, original: Microdata, masked: Microdata) -> IntArray:
        return true_links(original, masked, self.truth)

    def _result(
        self,
        links: Links,
        blocks: Blocks,
        truth: IntArray,
        known: Sequence[str],
        more: Sequence[str],
        **figures: object,
    ) -> Result:
        notes = [*block_notes(self.block_on, known, truth=self.truth), *more]
        return attack_result(links, [blocks], truth, one_to_one=self.one_to_one, notes=notes, figures=figures)


@dataclass(frozen=True)
class Points:
    """The known values of both files: complete (the mean for a missing value), in units of the
    original's standard deviation, with the flags of missing values beside them."""

    names: tuple[str, ...]
    left: FloatArray
    right: FloatArray
    spread: FloatArray
    flags: Fields | None

    def fields(self, left: FloatArray, right: FloatArray) -> Fields:
        """Squared distance between these points, and the flags."""
        points = point_fields([f"axis {j + 1}" for j in range(left.shape[1])], left, right)
        return points if self.flags is None else points.and_also(self.flags)

    def turned(self, matrix: FloatArray) -> Fields:
        """The points after a linear map (axes × columns)."""
        return self.fields(self.left @ matrix.T, self.right @ matrix.T)


def standard_points(
    original: Microdata, masked: Microdata, known: Sequence[str], *, ranks: bool = False
) -> Points:
    """Both files' points; with ``ranks``, each file's ranks as shares of its records.

    A column that is constant in both files says nothing and is left out.
    """
    left, right = original.matrix(known), masked.matrix(known)
    if ranks:
        left, right = rank_shares(left), rank_shares(right)
    kept, flagged = [], []
    for j in range(len(known)):
        one, two = np.isnan(left[:, j]), np.isnan(right[:, j])
        if one.any() or two.any():
            flagged.append((known[j], one, two))
        values = np.concatenate([left[~one, j], right[~two, j]])
        if len(values) and np.ptp(values) > 0:
            kept.append(j)
    if not kept and not flagged:
        raise MeasureError(
            f"every known column is constant ({', '.join(known)}): there is nothing to link by",
            hint="name columns that vary in `known`",
        )
    left, right = left[:, kept], right[:, kept]
    spreads = np.ones(len(kept))
    for j in range(len(kept)):
        one, two = np.isnan(left[:, j]), np.isnan(right[:, j])
        base = left[~one, j] if (~one).any() and np.ptp(left[~one, j]) > 0 else right[~two, j]
        centre, spread = float(base.mean()), float(base.std())
        spreads[j] = spread
        for side, gone in ((left, one), (right, two)):
            side[:, j] = (np.where(gone, centre, side[:, j]) - centre) / spread
    flags = None
    if flagged:
        one, two = (np.column_stack([f[k] for f in flagged]).astype(np.float64) for k in (1, 2))
        flags = flag_fields([f"{f[0]} missing" for f in flagged], one, two, _FLAG)
    return Points(tuple(known[j] for j in kept), left, right, spreads, flags)


def rank_shares(values: FloatArray) -> FloatArray:
    """Mid-ranks of each column as shares of its values, NaN left as it is."""
    from scipy.stats import rankdata

    out = np.full(values.shape, np.nan)
    for j in range(values.shape[1]):
        here = ~np.isnan(values[:, j])
        if here.any():
            out[here, j] = (rankdata(values[here, j]) - 0.5) / here.sum()
    return out


def whitener(covariance: FloatArray) -> FloatArray:
    """The map (axes × columns) after which this covariance is the identity.

    Exact linear relations (columns that add up) have no noise and are left out, on the correlation
    scale, so that columns of different units count alike.
    """
    spread = np.sqrt(np.diag(covariance))
    safe = np.where(spread > 0, spread, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(safe, safe))
    live = values > _RANK * max(values.max(initial=0.0), 1e-300)
    return np.asarray((vectors[:, live] / np.sqrt(values[live])).T / safe[None, :])
