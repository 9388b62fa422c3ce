"""The worst of several estimates, without the luck of looking at several.

The largest of m noisy figures is too large by about as many standard errors as the largest of m draws, and
the mean of all hides the one that is truly large. Each figure is drawn towards their mean by the share of its
distance that chance explains: with θ the weighted mean, s² the squared standard error of a figure and τ² the
variance that is left between the true ones, θ + τ²/(τ² + s²) · (y − θ). Where chance explains all, all are
the mean; where the errors are small, each is itself.

Reference: DerSimonian and Laird (1986), Controlled Clinical Trials 7, 177-188 (τ²); Efron and Morris (1975),
JASA 70, 311-319 (the figures drawn together).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sfumato.data.microdata import FloatArray


@dataclass(frozen=True)
class Worst:
    """The largest estimate: its place, its value without luck, and an interval that holds for all at once."""

    at: int
    value: float
    low: float
    high: float


def together(values: Sequence[float], errors: Sequence[float]) -> FloatArray:
    """The figures, each drawn towards their mean by what chance explains.

    >>> together([0.0, 0.1, 0.2], [1.0, 1.0, 1.0]).round(3).tolist()
    [0.1, 0.1, 0.1]
    >>> together([0.0, 0.1, 0.2], [0.001, 0.001, 0.001]).round(3).tolist()
    [0.0, 0.1, 0.2]
    """
    y, s2 = np.asarray(values, float), np.square(np.asarray(errors, float))
    if len(y) < 2:
        return y
    weight = 1.0 / s2
    mean = float((weight * y).sum() / weight.sum())
    beyond = float((weight * np.square(y - mean)).sum()) - (len(y) - 1)
    between = max(0.0, beyond / float(weight.sum() - np.square(weight).sum() / weight.sum()))
    return np.asarray(mean + between / (between + s2) * (y - mean))


def worst_of(values: Sequence[float], errors: Sequence[float], level: float = 0.95) -> Worst:
    """The largest, with Bonferroni's interval around the figure as it was measured.

    >>> worst = worst_of([0.0, 0.0, 0.0, 0.3], [0.02, 0.02, 0.02, 0.02])
    >>> worst.at, round(worst.value, 2), round(worst.low, 2), round(worst.high, 2)
    (3, 0.3, 0.25, 0.35)
    """
    drawn = together(values, errors)
    at = int(np.argmax(drawn))
    if len(drawn) > 1 and np.ptp(drawn) == 0:
        at = int(np.argmax(values))
    z = NormalDist().inv_cdf(1 - (1 - level) / (2 * len(drawn)))
    room = z * float(errors[at])
    return Worst(at, float(drawn[at]), float(values[at]) - room, float(values[at]) + room)
