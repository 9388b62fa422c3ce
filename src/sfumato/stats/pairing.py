"""Moments of two aligned files, in blocks: what several utility measures are made of.

Only cells with a value in both files count, so that the two files are compared on the same records;
a covariance counts the records in which both columns do (pairwise complete).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.errors import MeasureError
from sfumato.parallel import in_threads

BLOCK_RECORDS = 1 << 15
RUNS = 32


@dataclass(frozen=True)
class PairedMoments:
    """Means, covariances (n−1) and cell differences of an original (x) and a masked (z) file."""

    columns: tuple[str, ...]
    records: int
    n: FloatArray
    """Records in which both columns of a pair have a value in both files (columns × columns)."""
    mean_x: FloatArray
    mean_z: FloatArray
    cov_x: FloatArray
    cov_z: FloatArray
    sums: FloatArray
    """What ``kernels.moments.compare_cells`` counts."""

    @property
    def sd_x(self) -> FloatArray:
        return np.sqrt(np.diag(self.cov_x))

    @property
    def cor_x(self) -> FloatArray:
        return correlation(self.cov_x)

    @property
    def cor_z(self) -> FloatArray:
        return correlation(self.cov_z)


def correlation(covariance: FloatArray) -> FloatArray:
    """The correlation matrix; a constant column has correlation 0 with the others."""
    sd = np.sqrt(np.diag(covariance))
    scale = np.outer(sd, sd)
    with np.errstate(invalid="ignore", divide="ignore"):
        out = np.where(scale > 0, covariance / scale, 0.0)
    np.fill_diagonal(out, np.where(np.isnan(sd), np.nan, 1.0))
    return np.clip(out, -1.0, 1.0)


def paired_moments(
    original: Microdata, masked: Microdata, columns: Sequence[str], rows: IntArray | None = None
) -> PairedMoments:
    """The moments of these columns, over all records or over ``rows``.

    One pass in blocks, with memory for one block a thread beside the two files. Values are shifted
    by a median of the first records before they are multiplied, so that a mean far from zero costs
    no digits and a constant column has a variance of exactly 0.
    """
    columns = tuple(columns)
    same_length(original, masked)
    pairs = [(_values(original, c, rows), _values(masked, c, rows)) for c in columns]
    n = len(original) if rows is None else len(rows)
    shift = np.array([_shift(x[:4096]) for x, _ in pairs])
    blocks = range(0, n, BLOCK_RECORDS)
    # Blocks go to threads in a fixed number of runs, each adding in order: the sum depends neither on
    # timing nor on how many threads there are.
    runs = np.array_split(np.arange(len(blocks)), max(1, min(len(blocks), RUNS)))

    def add(run: IntArray) -> _Sums:
        return _block_sums(pairs, shift, [blocks[int(b)] for b in run])

    total = _Sums.zero(len(columns))
    for part in in_threads(add, runs):
        total.add(part)
    return total.moments(columns, n, shift)


def _values(data: Microdata, column: str, rows: IntArray | None) -> npt.NDArray[Any]:
    """The column's own memory where it has no gap (a block at a time is made float), else floats."""
    series = data.column(column)
    plain = series.dtype.is_float() or series.dtype.is_integer()
    if plain and not series.null_count() and not data.schema[column].missing:
        out = series.to_numpy()
    else:
        out = data.numbers(column)
    return out if rows is None else out[rows]


@dataclass
class _Sums:
    n: FloatArray
    s_x: FloatArray
    s_z: FloatArray
    p_x: FloatArray
    p_z: FloatArray
    cells: FloatArray

    @classmethod
    def zero(cls, m: int) -> _Sums:
        n, s_x, s_z, p_x, p_z = np.zeros((5, m, m))
        return cls(n, s_x, s_z, p_x, p_z, np.zeros((8, m)))

    def add(self, other: _Sums) -> None:
        for name in ("n", "s_x", "s_z", "p_x", "p_z", "cells"):
            getattr(self, name).__iadd__(getattr(other, name))

    def moments(self, columns: tuple[str, ...], records: int, shift: FloatArray) -> PairedMoments:
        from sfumato.kernels.moments import CHANGED, INFINITE

        for j, column in enumerate(columns):
            if self.cells[INFINITE, j]:
                raise MeasureError(
                    f"{column} holds infinite values, which have no mean",
                    hint="declare them as missing or top-code them first",
                )
        mean_x, cov_x = _moments(self.n, self.s_x, self.p_x)
        mean_z, cov_z = _moments(self.n, self.s_z, self.p_z)
        # Untouched columns have the same moments to the last bit, whatever order they were added in.
        kept = self.cells[CHANGED] == 0
        mean_z[kept] = mean_x[kept]
        both = np.outer(kept, kept)
        cov_z[both] = cov_x[both]
        return PairedMoments(
            columns, records, self.n, mean_x + shift, mean_z + shift, cov_x, cov_z, self.cells
        )


def _moments(n: FloatArray, s: FloatArray, p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """s[j, k] = Σ x_j over records that have both columns; p[j, k] = Σ x_j x_k there."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.diag(s) / np.diag(n)
        covariance = (p - s * s.T / n) / (n - 1)
    covariance[n < 2] = np.nan
    diagonal = np.einsum("ii->i", covariance)
    np.maximum(diagonal, 0.0, out=diagonal)
    return mean, covariance


def _block_sums(
    pairs: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]], shift: FloatArray, starts: Sequence[int]
) -> _Sums:
    from sfumato.kernels.moments import CELLS, compare_cells

    m, n = len(pairs), len(pairs[0][0])
    out = _Sums.zero(m)
    size = min(BLOCK_RECORDS, n)
    work, both = np.empty((3, m, size)), np.empty((2, size))
    for start in starts:
        k = min(size, n - start)
        xc, zc, seen = work[:, :, :k]
        cells = np.zeros((m, 8))
        for j, (x, z) in enumerate(pairs):
            # Copied into our own buffers: any number type becomes float, one kernel serves them all.
            both[0, :k], both[1, :k] = x[start : start + k], z[start : start + k]
            compare_cells(both[0, :k], both[1, :k], shift[j], xc[j], zc[j], seen[j], cells[j])
        out.cells += cells.T
        if (cells[:, CELLS] == k).all():
            out.n += k
            out.s_x += xc.sum(axis=1)[:, None]
            out.s_z += zc.sum(axis=1)[:, None]
        else:
            out.n += seen @ seen.T
            out.s_x += xc @ seen.T
            out.s_z += zc @ seen.T
        out.p_x += xc @ xc.T
        out.p_z += zc @ zc.T
    return out


def _shift(head: npt.NDArray[Any]) -> float:
    """An upper median of the first values: an element of the column, so that a constant column is
    shifted to exactly 0 (0 where no value is finite)."""
    there = head[np.isfinite(head)]
    return float(np.partition(there, len(there) // 2)[len(there) // 2]) if len(there) else 0.0


def same_length(original: Microdata, masked: Microdata) -> None:
    """Refuse files whose records can't be compared one by one."""
    if len(original) != len(masked):
        raise MeasureError(
            f"the original has {len(original):,} records and the masked file {len(masked):,}",
            hint="measures need the two files in the same order, before records are shuffled or dropped",
        )
    if not len(original):
        raise MeasureError("the files have no records")


def numeric_columns(data: Microdata, named: Sequence[str]) -> tuple[str, ...]:
    """The columns to measure: those named; else the sensitive numeric ones; else all numeric ones
    that have no other role and aren't categories."""
    if named:
        return tuple(named)
    schema = data.schema
    ready = [c for c in data.columns if data.is_numeric(c) and data.kind(c) == "continuous"]
    sensitive = [c for c in schema.sensitive if c in ready]
    out = sensitive or [c for c in ready if schema.role_of(c) is None]
    if not out:
        raise MeasureError(
            "there is no numeric column to measure", hint="name them with `columns`, or the role `sensitive`"
        )
    return tuple(out)


def twice(columns: Sequence[str], parameter_name: str) -> list[tuple[str, str | None]]:
    """The check that no column is named twice."""
    doubled = sorted({c for c in columns if list(columns).count(c) > 1})
    return [(f"`{parameter_name}` names {', '.join(doubled)} twice", None)] if doubled else []
