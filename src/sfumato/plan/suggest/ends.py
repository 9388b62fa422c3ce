"""Whether a code of nines above all other values is a top code or a missing code.

Who earns more than can be shown is also high in what goes with earnings; who didn't answer is as
everybody else is. So the records at the code are compared, in every column that rises with this one,
with the records just below it and with all.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.plan.suggest import words
from sfumato.plan.suggest.look import Look

_FEWEST: Final = 5
_WEAKEST: Final = 0.08
_MOST_COLUMNS: Final = 40
_MOST_HOURS: Final = 168


def is_top_code(look: Look, column: str, codes: list[float]) -> bool:
    """Whether the largest values of a column (9s) are at its top rather than missing."""
    if len(codes) > 1:
        return False  # 97, 98 and 99 side by side say why there is no value
    values = look.sample[column].cast(pl.Float64).fill_null(np.nan).to_numpy()
    at = values == codes[0]
    rest = np.isfinite(values) & ~at
    hours = words.is_hours(column) and codes[0] < _MOST_HOURS
    near = bool(rest.any()) and float(values[rest].max()) >= 0.8 * codes[0]
    if at.sum() < _FEWEST or rest.sum() < 50:
        return hours and near
    evidence, strength = 0.0, 0.0
    for other in _comparable(look, column):
        score, size = _shift(values, at, rest, other)
        evidence += score
        strength += size
    if strength > 0:
        risen = evidence > 0.35 * strength and evidence > 3 * np.sqrt(strength / at.sum())
        return bool(risen or (hours and near and evidence >= 0))
    # Where nothing goes with the column: a code that few hold among amounts that most don't have at all, for
    # whom it would be 0 if it didn't apply, is the end of the scale.
    share, none = float(at.mean()), float(np.mean(values[rest] == 0))
    return bool((hours and near) or (none > 0.5 and share < 0.02 and words.is_money(look.label(column))))


def _comparable(look: Look, column: str) -> list[npt.NDArray[np.float64]]:
    out = []
    for c in look.data.columns:
        facts = look.facts[c]
        if c == column or facts.distinct < 2 or c in look.design.get("replicate weights", ()):
            continue
        if facts.is_text and facts.distinct <= 20:
            # A category stands for how this column goes in it; its codes are taken as they are ranked below.
            out.append(look.sample[c].cast(pl.String).fill_null("").rank("dense").cast(pl.Float64).to_numpy())
        elif facts.dtype.is_numeric():
            out.append(look.sample[c].cast(pl.Float64).fill_null(np.nan).to_numpy())
        if len(out) >= _MOST_COLUMNS:
            break
    return out


def _shift(
    values: npt.NDArray[np.float64], at: npt.NDArray[np.bool_], rest: npt.NDArray[np.bool_],
    other: npt.NDArray[np.float64],
) -> tuple[float, float]:  # fmt: skip
    """How far the records at the code stand where this column's high values stand, and how far those do."""
    known = np.isfinite(other)
    at, rest = at & known, rest & known
    if at.sum() < _FEWEST or rest.sum() < 50:
        return 0.0, 0.0
    x, y = _ranks(values[rest]), _ranks(other[rest])
    if x.std() == 0 or y.std() == 0:
        return 0.0, 0.0
    r = float(np.corrcoef(x, y)[0, 1])
    if abs(r) < _WEAKEST:
        return 0.0, 0.0
    order = np.sort(other[rest])
    place = np.searchsorted(order, other[at], "left") / len(order)
    place = (place + np.searchsorted(order, other[at], "right") / len(order)) / 2
    top = x > np.quantile(x, 0.9)
    if top.sum() < 10:
        top = x >= np.quantile(x, 0.9)
    high = float(y[top].mean() - 0.5) * np.sign(r)
    here = float(place.mean() - 0.5) * np.sign(r)
    if high <= 0.02:
        return 0.0, 0.0
    return float(np.clip(here / high, -2, 2)) * r * r, r * r


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    ranked = pl.Series(values).rank("average").to_numpy() / max(len(values), 1)
    return np.asarray(ranked, dtype=np.float64)
