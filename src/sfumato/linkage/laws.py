"""What the method says of a pair of numbers: log-likelihoods that needn't be learnt.

A fact of a step (``contract.disclosure``) becomes fields whose weights are ln P(b | a)/P(b) up to a constant:

- exchanged ranks: the displacement s, as a share of the ranks, has density ln 2/(2W) · 2^(|s|/W) within the
  window W, and ln 2/L · e^−v · 2^(−e^−v), v = |s|/L, without one; a reach bounds the values as well. Ties are
  at their mean rank, so that the edge of a window is soft where there are many;
- added noise: −½|w|² of the white noise w = (dΣ)^−½ (z − x), and −Σ (|w_j| − θ)²/2σ² for a mixture.

Values that a swap or noise leaves alone (missing, coded) say nothing here: their kind is compared by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sfumato.contract.disclosure import Exchanged, Fact, NoiseAdded, of_kind
from sfumato.contract.known import is_number
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.linkage.fields import Fields, point_fields, table_fields
from sfumato.linkage.points import rank_shares, whitener
from sfumato.stats.rank_law import SCALE_PER_WINDOW

_CELLS: Final = 200
_FAR: Final = 12.0  # what it costs to be outside of a window


@dataclass(frozen=True)
class Laws:
    """Fields with known weights, and the columns whose displacements they explain."""

    fields: Fields | None = None
    columns: frozenset[str] = frozenset()


NO_LAWS: Final = Laws()


def laws_of(original: Microdata, masked: Microdata, known: Sequence[str], facts: Sequence[Fact]) -> Laws:
    """The laws of those of the known numbers that one fact alone speaks of, in files without strata."""
    numbers = [c for c in known if is_number(original, c) and is_number(masked, c)]
    told = [f for kind in (Exchanged, NoiseAdded) for f in of_kind(kind, facts) if not f.within]
    parts: list[Fields] = []
    columns: set[str] = set()
    for fact in told:
        others = {c for f in facts if f is not fact for c in f.columns}
        mine = [c for c in fact.columns if c in numbers and c not in others]
        if isinstance(fact, Exchanged):
            mine = [c for c in mine if fact.window_percent.get(c, 0.0) > 0]
            made = [f for c in mine for f in _exchanged(original, masked, c, fact)]
        elif isinstance(fact, NoiseAdded):
            made = [_noise(original, masked, mine, fact)] if len(mine) and len(original) > len(mine) else []
        columns.update(mine if made else ())
        parts += made
    if not parts:
        return NO_LAWS
    fields = parts[0]
    for part in parts[1:]:
        fields = fields.and_also(part)
    return Laws(fields, frozenset(columns))


def _moving(data: Microdata, columns: Sequence[str]) -> FloatArray:
    """The values that a mask may move; the others are NaN."""
    values = data.matrix(list(columns))
    for j, column in enumerate(columns):
        values[~data.eligible(column), j] = np.nan
    return values


def _exchanged(original: Microdata, masked: Microdata, column: str, fact: Exchanged) -> list[Fields]:
    window = fact.window_percent[column] / 100
    values = [_moving(d, [column]) for d in (original, masked)]
    ranks = [rank_shares(v) for v in values]
    # With what share of all values a value is tied, on average; zeros are a kind of their own.
    there = values[1][~np.isnan(values[1])]
    _, counts = np.unique(there[there != 0], return_counts=True)
    tied = max(float((counts**2).sum()) / max(float(counts.sum()) * len(there), 1.0), 1e-6)
    if fact.law == "geometric":
        scale = window * SCALE_PER_WINDOW
        v = np.arange(_CELLS) / (_CELLS / 12)  # as far as twelve scales
        table = np.log(np.log(2) / scale) - v - np.log(2) * np.exp(-v)
        cells = _CELLS / 12 / scale
    else:
        reaches = min(window + 2 * tied, 1.0)
        s = (np.arange(_CELLS) + 0.5) / _CELLS * 1.2 * reaches
        table = np.log(np.log(2) / (2 * window)) + np.log(2) * np.minimum(s / window, 1.0)
        table -= _FAR * np.clip((s - window) / (2 * tied), 0.0, 1.0)
        cells = _CELLS / (1.2 * reaches)
    out = [table_fields([f"{column} exchanged"], ranks[0], ranks[1], np.array([cells]), table[None, :])]
    reach = fact.reach.get(column)
    if reach:
        u = np.arange(_CELLS) / (_CELLS / 2)
        bound = np.where(u > 1.01, -_FAR, 0.0)
        cells = _CELLS / 2 / reach
        out.append(
            table_fields([f"{column} within reach"], values[0], values[1], np.array([cells]), bound[None, :])
        )
    return out


def _noise(original: Microdata, masked: Microdata, columns: Sequence[str], fact: NoiseAdded) -> Fields:
    left, right = (_moving(d, columns) for d in (original, masked))
    d = fact.variance_ratio
    whole = left[~np.isnan(left).any(axis=1)]
    middle = np.array([side[~np.isnan(side)].mean() if (~np.isnan(side)).any() else 0.0 for side in left.T])
    # What stayed has no noise to tell: it stands at the mean on both sides.
    left, right = (np.where(np.isnan(side), middle, side) for side in (left, right))
    if len(whole) < max(10 * len(columns), 0.2 * len(left)):
        whole = left
    cov = np.atleast_2d(np.cov(whole, rowvar=False))
    names = [f"{c} and noise" for c in columns]
    if fact.rescaled:
        a = 1.0 / np.sqrt(1.0 + d)
        right = (right - (1 - a) * middle) / a
    if fact.form == "mixture" and not fact.independent and len(columns) == len(fact.columns):
        from sfumato.stats.covariance import ROOTS

        root = np.linalg.pinv(ROOTS["principal" if fact.root == "auto" else fact.root](cov), rcond=1e-9)
        one, two = (side @ root.T / np.sqrt(d) for side in (left, right))
        sigma = fact.component_variance
        return point_fields(names, one, two, centre=float(np.sqrt(1 - sigma)), width=float(np.sqrt(sigma)))
    matrix = whitener(np.diag(np.diag(cov)) if fact.independent else cov) / np.sqrt(2 * d)
    one, two = left @ matrix.T, right @ matrix.T
    return point_fields([f"noise {j + 1}" for j in range(one.shape[1])], one, two)
