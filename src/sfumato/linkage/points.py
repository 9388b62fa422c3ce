"""Records as points in space, for attacks that link the nearest ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.contract.known import is_number
from sfumato.contract.measure import Attack
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.codes import joint_codes
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.assign import Links, link
from sfumato.linkage.blocks import Blocks, make_blocks
from sfumato.linkage.fields import Fields, flag_fields, known_columns, point_fields
from sfumato.linkage.results import attack_result, block_notes, true_links
from sfumato.linkage.sparse import ROUNDS
from sfumato.stats.ranks import mid_ranks

LEARNERS = 2_000
"""Persons of a large file from whose links a metric or a form is learnt; then all are linked, once."""
_LESSON_PAIRS = 10_000_000  # with fewer pairs everybody is learnt from
_RANK = 1e-9  # eigenvalues below this share of the largest are an exact linear relation
_FLAG = 2.0  # what a missing value on one side costs, in squared standardised units


@dataclass(frozen=True, kw_only=True)
class PointAttack(Attack):
    """An intruder who links the records whose known values are nearest in some space."""

    known: tuple[str, ...] = parameter(
        (), doc="The columns whose original values the intruder knows.", columns="sensitive"
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
        return known_columns(original, masked, self.known, numbers=False)

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

    def _lesson_blocks(
        self,
        original: Microdata,
        masked: Microdata,
        blocks: Blocks,
        draws: Draws,
        block_on: Sequence[str] | None = None,
    ) -> Blocks:
        """The blocks to learn from: of a large file, some persons with all of their candidates."""
        if len(blocks.left) <= LEARNERS or blocks.pairs <= _LESSON_PAIRS:
            return blocks
        some = draws.stream(purpose="learners").permutation(len(original))[:LEARNERS]
        return make_blocks(
            original, masked, self.block_on if block_on is None else block_on, draws, left=some
        )

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
    """The known values of both files: numbers, complete (the mean for a missing value) and in units
    of the original's standard deviation; beside them flags: what is missing, and categories."""

    names: tuple[str, ...]
    left: FloatArray
    right: FloatArray
    spread: FloatArray
    flags: Fields | None

    def fields(self, left: FloatArray, right: FloatArray, gains: FloatArray | None = None) -> Fields:
        """Squared distance between these points, and the flags (at other gains than their own)."""
        points = point_fields([f"axis {j + 1}" for j in range(left.shape[1])], left, right)
        return self.flagged(points, gains)

    def flagged(self, points: Fields, gains: FloatArray | None = None) -> Fields:
        """These fields and the flags."""
        if self.flags is None:
            return points
        return points.and_also(
            self.flags if gains is None else self.flags.weighted(gains, np.zeros_like(gains))
        )

    def turned(self, matrix: FloatArray, gains: FloatArray | None = None) -> Fields:
        """The points after a linear map (axes × columns)."""
        return self.fields(self.left @ matrix.T, self.right @ matrix.T, gains)

    def learnt_gains(self, rows: IntArray, places: IntArray) -> FloatArray | None:
        """What a flag's agreement is worth, learnt from pairs taken to be true.

        Twice the difference ln(m/u) − ln((1−m)/(1−u)) of Fellegi and Sunter's weights, m the share
        of those pairs that agree and u that of random ones: in units of squared distance where the
        residuals have variance 1.
        """
        if self.flags is None:
            return None
        m = (self.flags.left[:, rows] == self.flags.right[:, places]).sum(axis=1) + 0.5
        m = m / (len(rows) + 1.0)
        u = np.clip(
            [_random_agreement(*pair) for pair in zip(self.flags.left, self.flags.right, strict=True)],
            1e-6,
            1 - 1e-6,
        )
        return np.asarray(np.maximum(2.0 * (np.log(m / u) - np.log((1 - m) / (1 - u))), 0.0))


def standard_points(
    original: Microdata, masked: Microdata, known: Sequence[str], *, ranks: bool = False
) -> Points:
    """Both files' points; with ``ranks``, each file's ranks as shares of its records.

    Categories agree or not, as in Gower's coefficient; a disagreement costs 2 / (1 − u), u the share
    of random pairs that agree, so that over random pairs a category counts as much as a number. A
    column that is constant in both files says nothing and is left out.
    """
    everything = known
    known = [c for c in everything if is_number(original, c) and is_number(masked, c)]
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
    codes = {c: joint_codes(original, masked, [c])[:2] for c in everything if c not in known}
    agreeing = {c: _random_agreement(*pair) for c, pair in codes.items()}
    telling = [c for c in codes if agreeing[c] < 1.0]
    if not kept and not flagged and not telling:
        raise MeasureError(
            f"every known column is constant ({', '.join(everything)}): there is nothing to link by",
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
    if flagged or telling:
        sides = [
            np.column_stack([f[k + 1] for f in flagged] + [codes[c][k] for c in telling]) for k in (0, 1)
        ]
        gains = np.array([_FLAG] * len(flagged) + [_FLAG / (1.0 - agreeing[c]) for c in telling])
        flags = flag_fields([*(f"{f[0]} missing" for f in flagged), *telling], sides[0], sides[1], gains)
    return Points(tuple(known[j] for j in kept), left, right, spreads, flags)


def _random_agreement(left: FloatArray | IntArray, right: FloatArray | IntArray) -> float:
    """The share of all pairs whose codes are equal."""
    one, two = np.bincount(left.astype(np.int64)), np.bincount(right.astype(np.int64))
    size = min(len(one), len(two))
    pairs = float(len(left)) * len(right)
    return float(one[:size].astype(np.float64) @ two[:size]) / pairs if pairs else 1.0


def rank_shares(values: FloatArray) -> FloatArray:
    """Mid-ranks of each column as shares of its values, NaN left as it is."""
    out = np.full(values.shape, np.nan)
    for j in range(values.shape[1]):
        here = ~np.isnan(values[:, j])
        if here.any():
            out[here, j] = (mid_ranks(values[here, j]) - 0.5) / here.sum()
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
