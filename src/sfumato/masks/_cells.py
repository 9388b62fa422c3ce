"""Cells of records that are collapsed until each has enough candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from sfumato.contract.guarantees import Guarantee
from sfumato.data.codes import joint
from sfumato.data.microdata import IntArray, Microdata


def collapse(
    data: Microdata, cells: Sequence[str], class_width: Mapping[str, float], least: int
) -> tuple[IntArray, dict[str, int]]:
    """Each record's cell, and how many records have cells of which columns.

    All columns at first. The records of cells below ``least`` are put together by all columns but
    the last, then by all but the last two …; what is left over at the end is one cell with nothing
    in common. A cell that is large enough stays as it is, whatever happens to its neighbours; a
    group that is still too small when no column is left joins the largest cell of the file.

    >>> data = Microdata(pl.DataFrame({"SEX": [1, 1, 1, 1, 2, 2], "AREA": [1, 1, 2, 3, 1, 1]}))
    >>> collapse(data, ["SEX", "AREA"], {}, 2)[0].tolist()
    [0, 0, 2, 2, 1, 1]
    """
    columns = [_classes(data, c, class_width.get(c)) for c in cells]
    n = len(data)
    label = np.full(n, -1, dtype=np.int64)
    levels: dict[str, int] = {}
    used = 0
    for depth in range(len(columns), -1, -1):
        open_ = np.flatnonzero(label < 0)
        if not len(open_):
            break
        parts = [(c[open_], int(c.max(initial=0)) + 1) for c in columns[:depth]]
        codes = joint(parts, len(open_))[0]
        sizes = np.bincount(codes)
        enough = sizes >= least
        if depth == 0 and not enough.all() and used:
            # Too few are left even together: they join the largest cell, so that nobody is alone.
            largest = int(np.bincount(label[label >= 0]).argmax())
            label[open_] = largest
            levels["the largest cell"] = len(open_)
            break
        if depth == 0:
            enough[:] = True
        names = np.cumsum(enough) - 1 + used
        taken = enough[codes]
        label[open_[taken]] = names[codes[taken]]
        used += int(enough.sum())
        if taken.any():
            levels[" × ".join(cells[:depth]) or "the rest"] = int(taken.sum())
    return label, levels


def _classes(data: Microdata, column: str, width: float | None) -> IntArray:
    if width is None:
        return data.codes(column)[0]
    values = np.floor(data.numbers(column) / width)
    return pl.Series(np.nan_to_num(values, nan=-np.inf)).rank("dense").to_numpy().astype(np.int64)


@dataclass(frozen=True)
class SameStrings(Guarantee):
    """The strings of values of some columns are the same in every (collapsed) cell."""

    columns: tuple[str, ...]
    cells: tuple[str, ...]
    class_width: Mapping[str, float] = field(default_factory=dict)
    least: int = 2

    def describe(self) -> str:
        return (
            f"the strings of {', '.join(self.columns)} stay in their cells of {' × '.join(self.cells)} "
            f"(cells below {self.least} records collapsed), so that all their moments there are kept"
        )

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        label = pl.Series("cell", collapse(before, self.cells, self.class_width, self.least)[0])
        one, two = (d.select(list(self.columns)).with_columns(label) for d in (before, after))
        by = one.columns
        if one.sort(by).equals(two.sort(by), null_equal=True):
            return None
        return "the strings of some cell aren't those it had before"
