"""Compare the values that an intruder knows with the released ones, field by field.

A field is a column, or a transform of some, made ready for the kernels: plain arrays without NaN,
one row a field. What a pair of values adds to the pair's weight is the field's kind (see
``sfumato.kernels.linkage``).

For numbers (Yancey, Winkler and Creecy 2002, section 3.4), with a the known and b the released value,
rel = |a − b| / max(|a|, 0.1) by the d method and |ln a − ln b| / max(|ln a|, 0.1) by the l method; full
agreement at rel = 0 falls linearly to full disagreement at rel = t. The l method compares values of one
sign by the logarithms of their absolute values; values of different signs, and a zero with a non-zero,
disagree in full; two zeros agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sfumato.contract.known import default_known, is_number
from sfumato.data.codes import joint_codes
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.errors import MeasureError

Metric = Literal["l", "d"]

# Kinds, as the kernels number them (not imported: that would load numba with the registry).
TENT, EQUAL, SQUARE, MODES, TABLE = range(5)

_NEGATIVE, _ZERO = 1e6, 2e6  # coordinates that no logarithm reaches: another sign always disagrees


@dataclass(frozen=True)
class Fields:
    """The two files, field by field: ``left`` is known to the intruder, ``right`` is released."""

    names: tuple[str, ...]
    kinds: IntArray
    left: FloatArray
    right: FloatArray
    left_present: FloatArray
    right_present: FloatArray
    scale: FloatArray
    agree: FloatArray
    disagree: FloatArray
    tables: FloatArray

    @property
    def left_records(self) -> int:
        return int(self.left.shape[1])

    @property
    def right_records(self) -> int:
        return int(self.right.shape[1])

    def __len__(self) -> int:
        return len(self.names)

    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """What the kernels take, in their order."""
        return (
            self.kinds,
            self.left,
            self.right,
            self.left_present,
            self.right_present,
            self.scale,
            self.agree,
            self.disagree,
            self.tables,
        )

    def weight_range(self) -> tuple[float, float]:
        """Bounds on the weight of any pair."""
        low = high = 0.0
        for j, kind in enumerate(self.kinds):
            if kind in (SQUARE, MODES):
                a, b = self.left[j], self.right[j]
                reach = max(np.max(a, initial=0.0), np.max(b, initial=0.0))
                reach -= min(np.min(a, initial=0.0), np.min(b, initial=0.0))
                apart = max(reach, float(self.disagree[j])) ** 2
                low -= max(apart * (float(self.scale[j].max()) if kind == MODES else 1.0), 2.0)
                continue
            ends = self.tables[j] if kind == TABLE else np.append(self.agree[j], self.disagree[j])
            low, high = low + min(0.0, float(ends.min())), high + max(0.0, float(ends.max()))
        return low, high

    def take(self, left: IntArray, right: IntArray) -> Fields:
        """The same fields of some records, in this order."""
        return replace(
            self,
            left=_picked(self.left, left),
            right=_picked(self.right, right),
            left_present=_picked(self.left_present, left),
            right_present=_picked(self.right_present, right),
            scale=_picked(self.scale, left),
            agree=_picked(self.agree, left),
        )

    def weighted(self, agree: FloatArray, disagree: FloatArray) -> Fields:
        """The same comparisons with other weights."""
        agree = np.ascontiguousarray(agree if agree.ndim == 2 else agree[:, None], dtype=np.float64)
        return replace(self, agree=agree, disagree=np.ascontiguousarray(disagree, dtype=np.float64))

    def and_also(self, other: Fields) -> Fields:
        """These fields and others of the same records."""
        width = max(self.tables.shape[1], other.tables.shape[1])
        tables = [
            np.pad(f.tables, ((0, 0), (0, width - f.tables.shape[1])), mode="edge") for f in (self, other)
        ]
        return Fields(
            self.names + other.names,
            np.concatenate([self.kinds, other.kinds]),
            np.concatenate([self.left, other.left]),
            np.concatenate([self.right, other.right]),
            _stack(self.left_present, other.left_present),
            _stack(self.right_present, other.right_present),
            _stack(self.scale, other.scale),
            _stack(self.agree, other.agree),
            np.concatenate([self.disagree, other.disagree]),
            np.concatenate(tables),
        )


def _picked(array: FloatArray, order: IntArray) -> FloatArray:
    if array.shape[1] == 1:
        return array
    out = np.empty((array.shape[0], len(order)))
    for j in range(array.shape[0]):
        np.take(array[j], order, out=out[j], mode="clip")  # orders are valid; clipping needs no buffer
    return out


def _stack(one: FloatArray, two: FloatArray) -> FloatArray:
    width = max(one.shape[1], two.shape[1])
    parts = [np.broadcast_to(a, (a.shape[0], width)) if a.shape[1] == 1 else a for a in (one, two)]
    return np.ascontiguousarray(np.concatenate(parts))


def agreement_fields(
    original: Microdata,
    masked: Microdata,
    known: Sequence[str],
    *,
    metric: Metric = "l",
    tolerance: float = 0.2,
) -> Fields:
    """The fields of probabilistic linkage: tents for numbers, equality for categories; weights 1 and 0."""
    m, n, N = len(known), len(original), len(masked)
    left, right = np.empty((m, n)), np.empty((m, N))
    scale = np.ones((m, n))
    left_gone, right_gone = np.zeros((m, n), dtype=np.bool_), np.zeros((m, N), dtype=np.bool_)
    kinds = np.empty(m, dtype=np.int64)
    for j, column in enumerate(known):
        if is_number(original, column) and is_number(masked, column):
            kinds[j] = TENT
            a, b = original.numbers(column), masked.numbers(column)
            left_gone[j], right_gone[j] = np.isnan(a), np.isnan(b)
            a[left_gone[j]] = b[right_gone[j]] = 0.0
            if metric == "d":
                left[j], right[j], size = a, b, np.abs(a)
            else:
                left[j], size = _log_scale(a)
                right[j], _ = _log_scale(b)
            scale[j] = 1.0 / (tolerance * np.maximum(size, 0.1))
        else:
            kinds[j] = EQUAL
            left_gone[j], right_gone[j] = original.missing(column), masked.missing(column)
            left[j], right[j] = joint_codes(original, masked, [column])[:2]
    return Fields(
        tuple(known),
        kinds,
        left,
        right,
        _present(left_gone),
        _present(right_gone),
        scale if (kinds == TENT).any() else np.ones((m, 1)),
        np.ones((m, 1)),
        np.zeros(m),
        np.zeros((m, 1)),
    )


def point_fields(
    names: Sequence[str],
    left: FloatArray,
    right: FloatArray,
    *,
    centre: float | None = None,
    width: float = 1.0,
) -> Fields:
    """Squared distance between points (records × dimensions); with ``centre``, from noise near ± centre.

    NaN is a missing value: on one side only it counts as the expected squared difference of two
    standardised values, 2; on both sides as 0.
    """
    m = left.shape[1]
    left_gone, right_gone = np.isnan(left).T, np.isnan(right).T
    return Fields(
        tuple(names),
        np.full(m, SQUARE if centre is None else MODES, dtype=np.int64),
        np.ascontiguousarray(np.where(left_gone, 0.0, left.T)),
        np.ascontiguousarray(np.where(right_gone, 0.0, right.T)),
        _present(left_gone),
        _present(right_gone),
        np.full((m, 1), 1.0 / (2.0 * width * width)),
        np.zeros((m, 1)),
        np.full(m, centre or 0.0),
        np.zeros((m, 1)),
    )


def flag_fields(
    names: Sequence[str], left: npt.NDArray[Any], right: npt.NDArray[Any], gains: FloatArray
) -> Fields:
    """Equality of codes (records × fields), worth a field's gain."""
    m = left.shape[1]
    return Fields(
        tuple(names),
        np.full(m, EQUAL, dtype=np.int64),
        np.ascontiguousarray(left.T, dtype=np.float64),
        np.ascontiguousarray(right.T, dtype=np.float64),
        np.ones((m, 1)),
        np.ones((m, 1)),
        np.ones((m, 1)),
        gains.reshape(m, 1).astype(np.float64),
        np.zeros(m),
        np.zeros((m, 1)),
    )


def table_fields(
    names: Sequence[str], left: FloatArray, right: FloatArray, scale: FloatArray, tables: FloatArray
) -> Fields:
    """A table of weights by the distance of two values (records × fields, NaN missing) · scale."""
    m = left.shape[1]
    left_gone, right_gone = np.isnan(left).T, np.isnan(right).T
    return Fields(
        tuple(names),
        np.full(m, TABLE, dtype=np.int64),
        np.ascontiguousarray(np.where(left_gone, 0.0, left.T)),
        np.ascontiguousarray(np.where(right_gone, 0.0, right.T)),
        _present(left_gone),
        _present(right_gone),
        np.ascontiguousarray(scale.reshape(m, 1), dtype=np.float64),
        np.zeros((m, 1)),
        np.zeros(m),
        np.ascontiguousarray(tables),
    )


def _present(gone: npt.NDArray[np.bool_]) -> FloatArray:
    return np.ascontiguousarray((~gone).astype(np.float64)) if gone.any() else np.ones((gone.shape[0], 1))


def _log_scale(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Places on the scale of logarithms, one stretch a sign, and the absolute logarithms."""
    if values.min(initial=1.0) > 0:
        logs = np.log(values)
        return logs, np.abs(logs)
    logs = np.log(np.abs(values), out=np.zeros_like(values), where=values != 0)
    size = np.abs(logs)
    logs += np.where(values < 0, _NEGATIVE, np.where(values == 0, _ZERO, 0.0))
    return logs, size


def known_columns(
    original: Microdata, masked: Microdata, known: Sequence[str], *, numbers: bool
) -> tuple[str, ...]:
    """The columns that the intruder knows: those given, else the sensitive ones, else all numbers."""
    known = known or default_known(original, masked)
    if numbers:
        wrong = [c for c in known if not (original.dtype(c).is_numeric() or original.dtype(c).is_temporal())]
        if wrong:
            raise MeasureError(
                f"{wrong[0]} doesn't hold numbers, which this attack needs",
                hint="put it into `block_on`, or use Linkage or DistanceLinkage: they compare categories",
            )
    if not known:
        raise MeasureError("the intruder knows no column", hint="name the columns in `known`")
    return tuple(known)
