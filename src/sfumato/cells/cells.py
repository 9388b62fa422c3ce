"""The counts of every key combination in a file, and what recoding does to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.frequency import Number, match_counts
from sfumato.data.codes import code_column, label, pack
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.data.recoding import without_last
from sfumato.data.schema import Variable
from sfumato.drawing.face import face, table
from sfumato.drawing.words import percent
from sfumato.errors import InputError, ParameterError, counted, did_you_mean


@runtime_checkable
class Recoder(Protocol):
    """What maps the distinct values of one column to classes: ``Recode`` and ``Truncate`` do."""

    @property
    def column(self) -> str: ...
    def class_of(self, values: pl.Series, variable: Variable | None = None) -> pl.Series: ...


Missing: TypeAlias = Literal["matches_anything", "category"]
CONVENTIONS: Final = ("matches_anything", "category")


class Cells:
    """What :class:`~sfumato.cells.table.CellTable` holds and does, but for judging it by a tolerance."""

    def __init__(
        self,
        levels: Mapping[str, pl.Series],
        codes: npt.NDArray[Any],
        counts: IntArray,
        weights: FloatArray | None,
        lifts: Sequence[npt.NDArray[np.int32]],
        missing: Missing,
    ) -> None:
        self.levels = dict(levels)
        self.keys = tuple(levels)
        self.codes = codes
        self.counts = counts
        self.weights = weights
        self.missing = missing
        self._lifts = tuple(lifts)
        tops = codes.max(axis=1) if codes.shape[1] else np.zeros(len(self.keys), np.int64)
        self.has_missing = tuple(int(t) == len(v) for t, v in zip(tops, levels.values(), strict=True))
        self.sizes = np.array(
            [max(1, len(v) + gone) for v, gone in zip(levels.values(), self.has_missing, strict=True)],
            np.int64,
        )

    @classmethod
    def of(
        cls,
        data: Microdata,
        keys: Sequence[str],
        *,
        weight: str | None = None,
        missing: Missing = "matches_anything",
    ) -> Self:
        """The table of a file's keys, in one pass over its records."""
        keys = (keys,) if isinstance(keys, str) else tuple(keys)
        if not keys:
            raise ParameterError(
                "no key was named", hint="give `keys`, or name them in the schema: data.with_roles(keys=[…])"
            )
        twice = sorted({k for k in keys if keys.count(k) > 1})
        if twice:
            raise ParameterError(f"the keys name {', '.join(twice)} twice")
        if missing not in CONVENTIONS:
            raise ParameterError(
                f"`missing` can't be {missing!r}", hint=did_you_mean(str(missing), CONVENTIONS)
            )
        coded = [code_column(data, key) for key in keys]
        levels = {key: values for key, (_, values) in zip(keys, coded, strict=True)}
        columns = [codes for codes, _ in coded]
        sizes = [len(v) + 1 for v in levels.values()]
        packed, total = pack(columns, sizes)
        lift, first = label(packed, total)
        small = max(sizes) <= 1 << 16
        table = np.empty((len(keys), len(first)), np.uint16 if small else np.int32)
        for j, column in enumerate(columns):
            table[j] = column[first]
        weights = None
        if weight is not None:
            weights = _sums(lift, checked_weights(data, weight), len(first))
        counts = np.bincount(lift, minlength=len(first)).astype(np.int64)
        return cls(levels, table, counts, weights, [lift], missing)

    # -- what it is -------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many combinations occur."""
        return len(self.counts)

    def __repr__(self) -> str:
        size = f"{len(self):,} combinations of {' × '.join(self.keys)}"
        convention = self.missing.replace("_", " ")
        return f"{type(self).__name__}({size}, {counted(self.records, 'record')}, missing {convention})"

    def _repr_html_(self) -> str:
        """How many combinations and records there are by size: the counts, never who they are."""
        sizes = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None))
        rows = []
        for low, high in sizes:
            held = (self.counts >= low) & ((self.counts <= high) if high else True)
            name = f"{low}" if low == high else f"{low} to {high}" if high else f"{low} and more"
            n = int(self.counts[held].sum())
            rows.append([name, int(held.sum()), n, percent(n / max(self.records, 1))])
        return face(
            repr(self), table(["records that share all keys", "combinations", "records", "share"], rows)
        )

    @cached_property
    def records(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def record_cell(self) -> npt.NDArray[np.int32]:
        """Each record's cell."""
        at = self._lifts[0]
        for step in self._lifts[1:]:
            at = step[at]
        return at

    def at_records(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A value of each cell, given to each of its records."""
        return values[self.record_cell]

    def position(self, key: str) -> int:
        if key not in self.levels:
            raise ParameterError(f"{key!r} isn't one of the keys", hint=did_you_mean(key, self.keys))
        return self.keys.index(key)

    def positions(self, key_set: Sequence[str] | None) -> list[int]:
        if key_set is None:
            return list(range(len(self.keys)))
        return [self.position(k) for k in ((key_set,) if isinstance(key_set, str) else key_set)]

    def to_frame(self) -> pl.DataFrame:
        """One row a combination that occurs, in the order of its values, with its count."""
        columns = {}
        for j, (key, levels) in enumerate(self.levels.items()):
            index = pl.Series(self.codes[j].astype(np.int64))
            valid = index.set(index == len(levels), None)
            columns[key] = levels.gather(valid)
        frame = pl.DataFrame({**columns, "count": self.counts})
        if self.weights is not None:
            frame = frame.with_columns(weight=pl.Series(self.weights))
        return frame.sort(list(self.keys), nulls_last=True)

    def entropy(self, key: str) -> float:
        """The entropy of one key in bits, −Σ p log₂ p over its levels (missing is one of them).

        mu-ARGUS shows it beside each variable: what a record's value tells, and so what a
        suppression loses.
        """
        counts = np.bincount(self.codes[self.position(key)], weights=self.counts.astype(np.float64))
        share = counts[counts > 0] / self.records
        return float(-(share * np.log2(share)).sum()) + 0.0

    # -- counting ---------------------------------------------------------------------------------

    def groups(self, key_set: Sequence[str] | None = None) -> tuple[npt.NDArray[np.int32], IntArray]:
        """Each cell's combination in a key set (0 … g−1), and a cell that has that combination."""
        at = self.positions(key_set)
        return label(*pack([self.codes[j] for j in at], [int(self.sizes[j]) for j in at]))

    def marginal(self, key_set: Sequence[str]) -> Self:
        """The table of some of the keys."""
        at = self.positions(key_set)
        group, first = self.groups(key_set)
        levels = {self.keys[j]: self.levels[self.keys[j]] for j in at}
        return self._regrouped(levels, self.codes[at][:, first], group)

    def frequencies(self, key_set: Sequence[str] | None = None, *, enough: int | None = None) -> IntArray:
        """How many records agree with each cell on a key set, under the missing convention.

        With ``enough``, counting stops once a cell has that many: values from ``enough`` on are
        lower bounds, all others are exact.
        """
        return self.agreeing(self.counts, key_set, enough)

    def weighted_frequencies(self, key_set: Sequence[str] | None = None) -> FloatArray:
        """The sum of the weights of the records that :meth:`frequencies` counts."""
        if self.weights is None:
            raise ParameterError("this table has no weights", hint="CellTable.of(data, keys, weight=…)")
        return self.agreeing(self.weights, key_set)

    def partial_frequencies(self, share: float, *, weighted: bool = False) -> FloatArray:
        """:meth:`frequencies` (or weights) where a match with another cell that has a missing key counts
        only ``share``: records as a whole, other records' blanks in part. A cell that is missing in
        every key agrees with all."""
        amounts = self.counts.astype(np.float64)
        if weighted:
            if self.weights is None:
                raise ParameterError("this table has no weights", hint="CellTable.of(data, keys, weight=…)")
            amounts = self.weights
        blank = np.array([len(self.levels[k]) for k in self.keys])[:, None] == self.codes
        if share == 1 or self.missing == "category" or not blank.any():
            return self.agreeing(amounts)
        part = np.where(blank.any(axis=0), share, 1.0)
        # The cell's own records share its blanks: they count whole.
        counted = self.agreeing(amounts * part) + (1 - part) * amounts
        return np.where(blank.all(axis=0), amounts.sum(), counted)

    def agreeing(
        self, amounts: npt.NDArray[Number], key_set: Sequence[str] | None = None, enough: int | None = None
    ) -> npt.NDArray[Number]:
        """The sum of an amount of each cell over all cells that agree with it on a key set."""
        at = self.positions(key_set)
        wild = self.missing == "matches_anything" and any(self.has_missing[j] for j in at)
        gone = [len(self.levels[self.keys[j]]) for j in at]
        return match_counts(
            self.codes[at], [int(self.sizes[j]) for j in at], gone, amounts, enough, wild=wild
        )

    # -- changing ---------------------------------------------------------------------------------

    def recode(self, key: str, classes: Mapping[Any, Any] | Sequence[Any] | pl.Series) -> Self:
        """The table after a recode: each level of a key becomes a class.

        ``classes`` maps level → class (levels it doesn't name keep their value), or lists one class
        for each of ``levels[key]`` in order. A class of None makes the value missing. The records
        are not looked at; cells that fall together are added up.
        """
        at = self.position(key)
        old = self.levels[key]
        new = _classes(old, classes, key)
        dense = new.drop_nulls().unique().sort()
        to = dict(zip(dense.to_list(), range(len(dense)), strict=True))
        remap = np.array([len(dense) if c is None else to[c] for c in new.to_list()] + [len(dense)], np.int64)
        codes = self.codes.copy()
        codes[at] = remap[self.codes[at]].astype(codes.dtype)
        levels = {**self.levels, key: dense.alias(key)}
        return self._merged(levels, codes)

    def truncate(self, key: str, digits: int = 1) -> Self:
        """The table after the last ``digits`` characters of a key's codes are cut off."""
        return self.recode(key, without_last(self.levels[self.keys[self.position(key)]], digits))

    def apply(self, mask: Recoder, variable: Variable | None = None) -> Self:
        """The table after a ``Recode`` or ``Truncate`` step: its classes of this table's levels.

        ``variable`` is the schema's word on the column (a step may use its hierarchy).
        """
        levels = self.levels[self.keys[self.position(mask.column)]]
        return self.recode(mask.column, mask.class_of(levels, variable))

    def suppress(self, key: str, where: BoolArray) -> Self:
        """The table after a key is made missing in some cells (a flag for each cell)."""
        at = self.position(key)
        codes = self.codes.copy()
        codes[at][np.asarray(where, bool)] = len(self.levels[key])
        return self._merged(self.levels, codes)

    def _merged(self, levels: Mapping[str, pl.Series], codes: npt.NDArray[Any]) -> Self:
        sizes = [len(v) + 1 for v in levels.values()]
        group, first = label(*pack(list(codes), sizes))
        return self._regrouped(levels, codes[:, first], group)

    def _regrouped(
        self, levels: Mapping[str, pl.Series], codes: npt.NDArray[Any], group: npt.NDArray[np.int32]
    ) -> Self:
        n = codes.shape[1]
        counts = np.zeros(n, np.int64)
        np.add.at(counts, group, self.counts)
        weights = None
        if self.weights is not None:
            weights = _sums(group, self.weights, n)
        return type(self)(levels, codes, counts, weights, [*self._lifts, group], self.missing)


def _sums(group: npt.NDArray[np.int32], amounts: FloatArray, n: int) -> FloatArray:
    return np.bincount(group, weights=amounts, minlength=n).astype(np.float64)


def _classes(levels: pl.Series, classes: Any, key: str) -> pl.Series:
    if isinstance(classes, Mapping):
        strange = [v for v in classes if v not in set(levels.to_list())]
        if strange and len(strange) == len(classes) and len(levels):
            raise ParameterError(f"no value of {key} is recoded: it has no {strange[0]!r}")
        listed = [classes.get(v, v) for v in levels.to_list()]
    else:
        listed = list(classes)
        if len(listed) != len(levels):
            raise ParameterError(f"{key} has {len(levels):,} levels, but {len(listed):,} classes were given")
    if len({type(v) for v in listed if v is not None}) > 1:
        listed = [None if v is None else str(v) for v in listed]
    if not any(v is not None for v in listed):
        return pl.Series(key, listed, dtype=levels.dtype)
    return pl.Series(key, listed, strict=False)


def checked_weights(data: Microdata, weight: str) -> FloatArray:
    """The sampling weights; refuses missing and negative ones."""
    values = data.numbers(weight)
    gone = int((~np.isfinite(values)).sum())
    if gone:
        raise InputError(
            f"the weight {weight} is missing in {counted(gone, 'record')}",
            hint="a record without a weight stands for an unknown number of people; fill it in or drop it",
        )
    negative = int((values < 0).sum())
    if negative:
        raise InputError(f"the weight {weight} is negative in {counted(negative, 'record')}")
    return values
