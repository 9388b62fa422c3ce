"""Columns released as they are that give a masked one away, though no rule of the schema says so.

An age beside a birth date, a percentile beside the amount, a flag beside a suppressed value, a
household's total beside its members, a weight that only one stratum has: nobody declared them, and
each undoes a mask. A sample of the records shows them; what is found is a warning, since a strong
relation may be no secret.

>>> import polars as pl, sfumato as sf
>>> data = sf.Microdata(pl.DataFrame({"BORN": range(1940, 2000), "AGE": range(84, 24, -1)}))
>>> masked = data.with_columns({"AGE": data.column("AGE").shuffle(1)})
>>> predictable(data, masked, ["BORN", "AGE"])
['AGE is masked, but BORN is released as it is and gives it (R² 1)']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.errors import SfumatoError

_RECORDS: Final = 5_000
_LEAST: Final = 20
_R2: Final = 0.99
_PAIRS: Final = 2_000
_BY_CHANCE: Final = 1e-6
_SHARE: Final = 0.05
_SHOWN: Final = 3


def predictable(original: Microdata, masked: Microdata, released: Sequence[str]) -> list[str]:
    """A sentence for each masked column that columns released as they are predict almost exactly."""
    schema = original.schema
    ids = {schema.id, schema.household}
    rows = np.unique(np.linspace(0, max(len(original) - 1, 0), _RECORDS).astype(np.int64))
    if len(original) < _LEAST:
        return []
    changed = {c: _changed(original, masked, c) for c in original.columns if c in released and c not in ids}
    hidden = {c: flag for c, flag in changed.items() if flag.any()}
    hidden |= {
        c: np.ones(len(original), np.bool_)
        for c in schema.sensitive
        if c not in released and c in original.columns
    }
    as_is = [c for c in released if c not in ids and c not in hidden and c in masked.columns]
    if not hidden or not as_is:
        return []
    sample = pl.Series(rows)
    few = original.with_frame(original.select(list(hidden)).select(pl.all().gather(sample)))
    seen = masked.with_frame(masked.select(as_is).select(pl.all().gather(sample)))
    out: dict[str, str] = {}
    numbers = {c: v for c in as_is if (v := _numbers(seen, c)) is not None}
    for column in hidden:
        target = _numbers(few, column)
        word = _by_numbers(target, numbers) if target is not None else None
        if word is None and schema.household is not None:
            word = _by_household(original, masked, column, list(numbers))
        if word is not None:
            out[column] = word
    codes = {c: u for c in as_is if (u := _codes(seen, c)) is not None}
    left = [c for c in hidden if c not in out][: max(1, _PAIRS // max(len(codes), 1))]
    for column in left:
        target_codes = _codes(few, column)
        if target_codes is not None:
            word = _by_classes(target_codes, codes, hidden[column][rows])
            if word is not None:
                out[column] = word
    verb = {c: "is masked" if c in released else "isn't released" for c in out}
    return [f"{column} {verb[column]}, but {word}" for column, word in out.items()]


def _changed(original: Microdata, masked: Microdata, column: str) -> BoolArray:
    if column not in masked.columns:
        return np.ones(len(original), np.bool_)
    one, two = original.column(column), masked.column(column)
    if one.dtype != two.dtype:
        one, two = one.cast(pl.String, strict=False), two.cast(pl.String, strict=False)
    if one.dtype.is_nested() or one.dtype == pl.Object:
        return np.zeros(len(original), np.bool_)
    return np.asarray(one.ne_missing(two).to_numpy())


def _numbers(data: Microdata, column: str) -> FloatArray | None:
    """The column as numbers, if it has any that differ; missing ones as NaN."""
    dtype = data.dtype(column)
    if not (dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean):
        return None
    try:
        values = data.numbers(column)
    except (SfumatoError, pl.exceptions.PolarsError):
        return None
    fine = values[np.isfinite(values)]
    if len(fine) < _LEAST or fine.min() == fine.max() or np.abs(fine).max() > 1e150:
        return None
    return np.where(np.isfinite(values), values, np.nan)


def _codes(data: Microdata, column: str) -> IntArray | None:
    """Dense codes of the column's values, −1 where one is missing; None where nearly all differ."""
    dtype = data.dtype(column)
    if dtype.is_nested() or dtype in (pl.Object, pl.Null, pl.Binary):
        return None
    codes, k = data.codes(column)
    if 2 * k > len(data) or k < 2:
        return None
    return np.where(data.missing(column), -1, codes)


# -- numbers from numbers -------------------------------------------------------------------------


def _by_numbers(target: FloatArray, numbers: dict[str, FloatArray]) -> str | None:
    for words, change in (("", _plain), (" by rank", _ranks), (" in logs", _logs)):
        y = change(target)
        x = {c: v for c, values in numbers.items() if (v := change(values)) is not None}
        if y is None or not x:
            continue
        single = {c: _r2(y, v[:, None]) for c, v in x.items()}
        best = max(single, key=lambda c: single[c])
        if single[best] > _R2:
            return f"{best} is released as it is and gives it{words} (R² {single[best]:.4g})"
        if words != " by rank" and 2 <= len(x) <= len(y) // 5:
            matrix = np.column_stack(list(x.values()))
            together = _r2(y, matrix)
            if together > _R2:
                names = _telling(y, matrix, list(x))
                return f"{names} are released as they are and give it together{words} (R² {together:.4g})"
    return None


def _plain(values: FloatArray) -> FloatArray | None:
    return values


def _logs(values: FloatArray) -> FloatArray | None:
    return np.log(values) if np.nanmin(values) > 0 else None


def _ranks(values: FloatArray) -> FloatArray | None:
    rank = pl.Series(values).fill_nan(None).rank("average").cast(pl.Float64)
    return np.asarray(rank.fill_null(float("nan")).to_numpy())


def _r2(y: FloatArray, x: FloatArray) -> float:
    """R² of a linear prediction, the lesser of that of all records and that without the farthest 1%.

    A single outlier makes any two heavy tails look like one line.
    """
    there = np.isfinite(y)
    values = []
    for share in (1.0, 0.99):
        rows = there & (np.abs(y - np.nanmedian(y)) <= np.nanquantile(np.abs(y - np.nanmedian(y)), share))
        values.append(_fit(y[rows], x[rows]))
    return min(values)


def _fit(y: FloatArray, x: FloatArray) -> float:
    if len(y) < max(_LEAST, 2 * x.shape[1]):
        return 0.0
    scaled = _scaled(x)
    total = float(np.square(y - y.mean()).sum())
    if not total > 0 or not np.isfinite(total):
        return 0.0
    coefficients, *_ = np.linalg.lstsq(scaled, y - y.mean(), rcond=1e-10)
    rest = y - y.mean() - scaled @ coefficients
    return float(1.0 - np.square(rest).sum() / total)


def _scaled(x: FloatArray) -> FloatArray:
    """Centred columns of unit spread, missing values at the mean."""
    with np.errstate(invalid="ignore"):
        centred = np.nan_to_num(x - np.nanmean(x, axis=0))
    spread = centred.std(axis=0)
    return np.asarray(centred / np.where(spread > 0, spread, 1.0))


def _telling(y: FloatArray, x: FloatArray, names: Sequence[str]) -> str:
    """The columns that a joint prediction rests on, by the size of their coefficients."""
    there = np.isfinite(y)
    coefficients, *_ = np.linalg.lstsq(_scaled(x[there]), y[there] - y[there].mean(), rcond=1e-10)
    order = np.argsort(-np.abs(coefficients))
    strong = [names[j] for j in order if abs(coefficients[j]) > 1e-3 * np.abs(coefficients).max()]
    more = f" and {len(strong) - _SHOWN} more" if len(strong) > _SHOWN else ""
    return ", ".join(strong[:_SHOWN]) + more


# -- classes from classes, members from their household -------------------------------------------


def _by_classes(target: IntArray, codes: dict[str, IntArray], hidden: BoolArray) -> str | None:
    """A column each of whose values goes with one value of the target, more often than by chance."""
    hidden = hidden & (target >= 0)
    if hidden.sum() < _SHOWN:
        return None
    counts = np.bincount(target[target >= 0])
    share = counts / counts.sum()
    best, word = _SHARE, None
    for column, u in codes.items():
        both = (u >= 0) & (target >= 0)
        pairs, size = np.unique(u[both] * len(share) + target[both], return_counts=True)
        group, value = pairs // len(share), pairs % len(share)
        single = np.bincount(group)[group] == 1
        # So many records of one class with the same value: by chance?
        with np.errstate(divide="ignore"):
            sure = single & (size * np.log(share[value]) < np.log(_BY_CHANCE / max(len(pairs), 1)))
        given = np.zeros(int(u.max(initial=0)) + 1, np.bool_)
        given[group[sure]] = True
        back = float((hidden & (u >= 0) & given[np.maximum(u, 0)]).sum() / hidden.sum())
        if back >= best:
            best = np.nextafter(back, 2.0)
            word = f"{column} is released as it is and tells it for {100 * back:.3g}% of the hidden values"
    return word


def _by_household(original: Microdata, masked: Microdata, column: str, numbers: Sequence[str]) -> str | None:
    """A column that is the sum of the target over each household."""
    household = original.schema.household
    values = _numbers(original, column)
    if household is None or values is None or np.isnan(values).any():
        return None
    codes, size = original.households(household)
    added = np.bincount(codes, weights=values, minlength=size)[codes]
    for other in numbers[: _PAIRS // 20]:
        seen = masked.numbers(other)
        with np.errstate(invalid="ignore"):
            same = np.abs(seen - added) <= 1e-6 * np.maximum(np.abs(added), 1.0)
        if same.mean() > _R2:
            return f"{other} is released as it is, and is its sum over each household"
    return None
