"""EM for the latent-class model of agreement patterns under conditional independence.

A compared pair is a match with probability λ; field j agrees with probability m_j among matches and
u_j among the others, independently of the other fields (Fellegi and Sunter 1969; Winkler 1988). A
missing field adds nothing. The likelihood of the pattern counts is maximised by EM in logarithms, from
several starts; it never falls from one step to the next.

On well-masked files the free fit drifts: it finds another class than the matches ("same income
bracket"). So λ can be fixed at the rate of links that a 1-1 linkage can have, or bounded by it, u can
be held at its value among random pairs, and a fit whose expected number of matches is far from the
possible one says that it drifted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import FloatArray
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.blocks import Blocks
from sfumato.linkage.fields import Fields

Share = Literal["fixed", "bounded", "free"]
_EDGE = 1e-6
_SHORT = 15
_MOST_PAIRS = 20_000_000
_MOST_CODES = 1 << 21


@dataclass(frozen=True)
class Patterns:
    """Agreement patterns (1 agree, 0 disagree, −1 missing) and how many pairs have each."""

    states: npt.NDArray[np.int8]
    counts: FloatArray

    @property
    def pairs(self) -> float:
        return float(self.counts.sum())


@dataclass(frozen=True)
class EMFit:
    """A fitted latent-class model.

    ``expected_matches`` is the sum of the pairs' match probabilities; ``drift`` its ratio to the
    number of matches that was expected. ``trusted`` says whether the fit converged and its drift
    lies between ½ and 2.
    """

    m: FloatArray
    u: FloatArray
    share: float
    log_likelihood: tuple[float, ...]
    converged: bool
    expected_matches: float
    drift: float
    starts: int

    @property
    def trusted(self) -> bool:
        return self.converged and 0.5 <= self.drift <= 2.0


def agreement_patterns(fields: Fields, blocks: Blocks, draws: Draws, *, most: int = _MOST_PAIRS) -> Patterns:
    """The patterns of all pairs within blocks, or of a random sample of records where there are too many."""
    from sfumato.kernels import linkage as kernels

    ordered = fields.take(blocks.left, blocks.right)
    m = len(fields)
    holes = bool((ordered.left_present == 0).any() or (ordered.right_present == 0).any())
    base = 3 if holes else 2
    if base**m > _MOST_CODES:
        raise MeasureError(
            f"EM over {m} fields has too many agreement patterns",
            hint="name fewer columns in `known` (up to 21, or 13 with missing values), or use equal weights",
        )
    left_sizes, _ = blocks.sizes
    rows = np.arange(len(blocks.left))
    low = np.repeat(blocks.right_starts[:-1], left_sizes)
    high = np.repeat(blocks.right_starts[1:], left_sizes)
    if blocks.pairs > most:
        pick = draws.stream(purpose="em sample").uniform(0, len(rows)) < most / blocks.pairs
        rows, low, high = rows[pick], low[pick], high[pick]
    counts = np.zeros(base**m, dtype=np.int64)
    kernels.pattern_counts(rows, low, high, ordered.arrays(), base, counts)
    seen = np.flatnonzero(counts)
    digits = (seen[:, None] // base ** np.arange(m)) % base
    states = np.where(digits == 2, -1, digits).astype(np.int8)
    return Patterns(states, counts[seen].astype(np.float64))


def fit_em(
    patterns: Patterns,
    *,
    expected_share: float,
    share: Share = "fixed",
    u: FloatArray | None = None,
    starts: int = 4,
    iterations: int = 2000,
    tolerance: float = 1e-9,
) -> EMFit:
    """The best of several EM fits.

    ``expected_share`` is the share of matches among the pairs that a 1-1 linkage can have: λ is
    held at it ("fixed"), kept at or below twice it ("bounded") or starts from it ("free"). Given
    ``u``, only m (and λ) are estimated. The starts differ in m (0.95, 0.8, 0.6, 0.99).
    """
    if not 0 < expected_share < 1:
        raise MeasureError(
            "EM needs pairs that can't match as well as pairs that can",
            hint="with blocks of one record there is nothing to estimate; use equal weights",
        )
    # Short runs from every start tell which is worth finishing.
    firsts = (0.95, 0.8, 0.6, 0.99, 0.7, 0.9)[: max(1, starts)]
    short = min(_SHORT, iterations)
    tried = [(_run(patterns, expected_share, share, u, m0, short, tolerance)[3][-1], m0) for m0 in firsts]
    m, us, lam, history, converged, expected = _run(
        patterns, expected_share, share, u, max(tried)[1], iterations, tolerance
    )
    wanted = expected_share * patterns.pairs
    return EMFit(m, us, lam, tuple(history), converged, expected, expected / wanted, len(firsts))


def _run(
    patterns: Patterns,
    expected_share: float,
    share: Share,
    fixed_u: FloatArray | None,
    m0: float,
    iterations: int,
    tolerance: float,
) -> tuple[FloatArray, FloatArray, float, list[float], bool, float]:
    m_fields = patterns.states.shape[1]
    agrees = (patterns.states == 1).astype(np.float64)
    holes = bool((patterns.states < 0).any())
    # [agrees, differs], or [agrees] alone where nothing is missing: one product serves both classes.
    states = np.hstack([agrees, (patterns.states == 0)]) if holes else agrees
    c, total = patterns.counts, patterns.pairs
    marginal = random_agreement(patterns)
    m = np.clip(np.maximum(m0, marginal), _EDGE, 1 - _EDGE)
    u = _inside(marginal if fixed_u is None else fixed_u)
    lam = expected_share
    history: list[float] = []
    converged = False
    while True:
        in_match = np.log(lam) + _log_law(states, m, holes)
        in_other = np.log1p(-lam) + _log_law(states, u, holes)
        both = np.logaddexp(in_match, in_other)
        history.append(float(c @ both))
        weight = c * np.exp(in_match - both)
        if len(history) > 1 and history[-1] - history[-2] <= tolerance * abs(history[-1]):
            converged = True
        if converged or len(history) > iterations:
            return m, u, float(lam), history, converged, float(weight.sum())
        sums = np.stack([weight, c - weight]) @ states
        seen = (
            sums[:, :m_fields] + sums[:, m_fields:]
            if holes
            else np.array([[weight.sum()], [total - weight.sum()]])
        )
        m = _ratio(sums[0, :m_fields], np.broadcast_to(seen[0], m_fields), m)
        if fixed_u is None:
            u = _ratio(sums[1, :m_fields], np.broadcast_to(seen[1], m_fields), u)
        if share != "fixed":
            most = 2 * expected_share if share == "bounded" else 1 - _EDGE
            lam = float(np.clip(weight.sum() / total, 1e-12, min(most, 1 - _EDGE)))


def _log_law(states: FloatArray, p: FloatArray, holes: bool) -> FloatArray:
    """The log-probability of every pattern, fields independent with P(agree) = p."""
    if holes:
        return np.asarray(states @ np.concatenate([np.log(p), np.log1p(-p)]))
    return np.asarray(states @ (np.log(p) - np.log1p(-p)) + np.log1p(-p).sum())


def _inside(p: FloatArray) -> FloatArray:
    return np.clip(np.asarray(p, dtype=np.float64), _EDGE, 1 - _EDGE)


def _ratio(part: FloatArray, whole: FloatArray, before: FloatArray) -> FloatArray:
    return _inside(np.divide(part, whole, out=before.copy(), where=whole > 1e-300))


def random_agreement(patterns: Patterns) -> FloatArray:
    """u by random pairs: the share of all compared pairs that agree, by field.

    The matches among them (about one in a block's size) are part of it; in small blocks u is a
    little too high for that.
    """
    agrees, seen = patterns.states == 1, patterns.states >= 0
    whole = patterns.counts @ seen
    return _inside(np.divide(patterns.counts @ agrees, whole, out=np.full(len(whole), 0.5), where=whole > 0))
