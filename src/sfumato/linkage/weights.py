"""Matching weights: equal, given, by EM, by frequency; and the Fellegi-Sunter decision rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.data.microdata import FloatArray
from sfumato.errors import ParameterError, did_you_mean
from sfumato.linkage.fields import EQUAL, Fields


def given_weights(fields: Fields, weights: Mapping[str, Any]) -> tuple[FloatArray, FloatArray]:
    """Agreement and disagreement weights from a table: a number, or a pair [agree, disagree], a column."""
    unknown = [name for name in weights if name not in fields.names]
    if unknown:
        raise ParameterError(
            f"`weights` names {unknown[0]!r}, which isn't known to the intruder",
            hint=did_you_mean(unknown[0], fields.names),
        )
    absent = [name for name in fields.names if name not in weights]
    if absent:
        raise ParameterError(f"`weights` leaves out {', '.join(absent)}")
    agree, disagree = np.empty(len(fields)), np.empty(len(fields))
    for j, name in enumerate(fields.names):
        agree[j], disagree[j] = weight_pair(name, weights[name])
    return agree, disagree


def weight_pair(name: str, weight: Any) -> tuple[float, float]:
    """(agree, disagree) from a number or a pair; agreement must weigh more than disagreement."""
    pair = weight if isinstance(weight, (list, tuple)) else (weight, 0.0)
    if len(pair) != 2 or not all(isinstance(w, (int, float)) and np.isfinite(w) for w in pair):
        raise ParameterError(f"the weight of {name} must be a number or a pair [agree, disagree]")
    if pair[0] <= pair[1]:
        raise ParameterError(f"{name} must weigh more where it agrees than where it disagrees, not {pair}")
    return float(pair[0]), float(pair[1])


def log_weights(m: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """ln(m/u) and ln((1−m)/(1−u)), the natural logs of the likelihood ratios.

    >>> agree, disagree = log_weights(np.array([0.9]), np.array([0.1]))
    >>> round(float(agree[0]), 4), round(float(disagree[0]), 4)
    (2.1972, -2.1972)
    """
    return np.log(m) - np.log(u), np.log1p(-m) - np.log1p(-u)


def frequency_weights(fields: Fields, agree: FloatArray, disagree: FloatArray) -> FloatArray:
    """Agreement weights that depend on the value: agreeing on a rare category says more.

    In Fellegi and Sunter's model the agreement weight on value v is ln(m/u_v) with u_v = f_v, the
    value's share of the release; relative to the average agreement weight ln(m/u), u = Σ f_v², that
    is ln(u/f_v) more. With weights on another scale the surplus is brought to that scale by the
    field's own spread, agree − disagree. Numbers keep one weight.
    """
    out = np.repeat(agree[:, None], fields.left_records, axis=1)
    for j in np.flatnonzero(fields.kinds == EQUAL):
        here = (
            fields.right[j][fields.right_present[j] > 0]
            if fields.right_present.shape[1] > 1
            else fields.right[j]
        )
        if not len(here):
            continue
        values, counts = np.unique(here, return_counts=True)
        share = counts / counts.sum()
        place = np.clip(np.searchsorted(values, fields.left[j]), 0, len(values) - 1)
        found = values[place] == fields.left[j]
        u = float((share**2).sum())
        if u >= 1.0:  # one category: agreeing on it says nothing
            continue
        surplus = np.log(u) - np.log(share)
        unit = (agree[j] - disagree[j]) / -np.log(u)
        out[j] = np.where(found, np.maximum(agree[j] + unit * surplus[place], disagree[j]), agree[j])
    return out


def decision_thresholds(
    m: FloatArray, u: FloatArray, *, false_link: float, false_nonlink: float
) -> tuple[float, float]:
    """The Fellegi-Sunter thresholds (upper, lower) on the total weight.

    Over all agreement patterns in decreasing weight, links are those down to the upper threshold:
    the most for which P(weight ≥ upper | no match) ≤ ``false_link``. Non-links are those up to the
    lower one: the most for which P(weight ≤ lower | match) ≤ ``false_nonlink``. Pairs between are
    held for review. Where the two overlap, every pair can be decided and both become the point
    between.
    """
    agree, disagree = log_weights(m, u)
    weight, p_match, p_other = _pattern_law(m, u, agree, disagree)
    order = np.argsort(-weight, kind="stable")
    weight, p_match, p_other = weight[order], p_match[order], p_other[order]
    ends = np.append(np.flatnonzero(np.diff(weight) < 0), len(weight) - 1)
    over = np.cumsum(p_other)[ends]
    under = (np.cumsum(p_match[::-1])[::-1])[np.append(0, ends[:-1] + 1)]
    levels = weight[ends]
    linked = levels[over <= false_link]
    unlinked = levels[under <= false_nonlink]
    upper = float(linked[-1]) if len(linked) else float("inf")
    lower = float(unlinked[0]) if len(unlinked) else float("-inf")
    if lower >= upper:
        upper = lower = (upper + lower) / 2
    return upper, lower


_MOST_PATTERNS = 1 << 18


def _pattern_law(
    m: FloatArray, u: FloatArray, agree: FloatArray, disagree: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The weights of all agreement patterns with their probabilities in both classes.

    Fields are added one by one; patterns of (nearly) one weight are merged where there are too many.
    """
    weight: FloatArray = np.zeros(1)
    p: FloatArray = np.ones(1)
    q: FloatArray = np.ones(1)
    for j in range(len(m)):
        weight = np.concatenate([weight + agree[j], weight + disagree[j]])
        p = np.concatenate([p * m[j], p * (1 - m[j])])
        q = np.concatenate([q * u[j], q * (1 - u[j])])
        if len(weight) > _MOST_PATTERNS:
            step = np.ptp(weight) / (_MOST_PATTERNS // 8)
            cell = np.floor((weight - weight.min()) / step).astype(np.int64)
            p, q = (np.bincount(cell, x).astype(np.float64) for x in (p, q))
            weight = weight.min() + step * np.arange(len(p))
            kept = (p > 0) | (q > 0)
            weight, p, q = weight[kept], p[kept], q[kept]
    return weight, p, q
