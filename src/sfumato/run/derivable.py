"""Which hidden values come back: computed from the released columns by the rules of the schema.

A look at the finished release that knows nothing of masks. A value is hidden where a column isn't
released, or where the release has another value (or none) than the original. Whoever reads the
dictionary knows the rules: a sum gives any one of its members from the others, a ratio too, and a
finer code (of an area, say) its coarser one. What can be computed so from values that are released as
they were comes back, and nothing may be released.

>>> import polars as pl, sfumato as sf
>>> schema = sf.Schema(variables={"T": {"sum_of": ["A", "B"]}})
>>> data = sf.Microdata(pl.DataFrame({"A": [1, 2], "B": [3, 4], "T": [4, 6]}), schema)
>>> masked = data.with_columns({"A": pl.Series([1, None])})
>>> print(derivable(data, masked, ["A", "B", "T"])[0])
A comes back in 1 of 1 hidden value: T − B
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from sfumato.data.microdata import BoolArray, FloatArray, Microdata
from sfumato.data.rules import Rule, SumOf, Values, judgeable, rules_of, values_of
from sfumato.errors import counted

WAY_OUT: Final = "mask or recode another column of the rule as well, or name one in `drop` under [release]"
_PATTERNS: Final = 5_000
_BITS: Final = 62
_NEAR: Final = 0.1
"""What comes back within a tenth of its value is told."""


@dataclass(frozen=True)
class Derivation:
    """A column whose hidden values can be computed from what is released."""

    column: str
    how: str
    records: int
    hidden: int
    certain: bool = True
    """Whether nothing may be released for it: by a rule of the schema, exactly."""

    def __str__(self) -> str:
        hidden = counted(self.hidden, "hidden value")
        return f"{self.column} comes back in {self.records:,} of {hidden}: {self.how}"


def derivable(original: Microdata, masked: Microdata, released: Sequence[str]) -> list[Derivation]:
    """Every column with hidden values that the schema's rules give back."""
    rules = [r for r in rules_of(original.schema) if judgeable(original, r)]
    nested = _nested(original)
    areas = [c for pair in nested for c in pair]
    tied = list(dict.fromkeys([*(m for r in rules for m in r.members), *areas]))
    if not len(original) or not tied:
        return []
    looked = original.compare(
        masked, lambda one, two, _: _in_block(one, two, released, rules, nested, tied), tied
    )
    out = []
    for column in dict.fromkeys(c for part in looked for c, seen in part.items() if seen.how):
        seen = [part[column] for part in looked]
        how = next(s.how for s in seen if s.how)
        back, hidden = sum(s.back for s in seen), sum(s.hidden for s in seen)
        out.append(Derivation(column, how, back, hidden, _counts(original, column, released)))
    # A coarser area that isn't released follows from the finer one, and hides nothing.
    return [d for d in out if d.records and (d.certain or d.column not in areas)]


def _nested(data: Microdata) -> list[tuple[str, str]]:
    """Every finer code with a coarser one that it lies in."""
    named = {*data.schema.geography, *(c for c, v in data.schema.variables.items() if v.lies_in)}
    there = [c for c in data.columns if c in named]
    return [(fine, w) for fine in there for w in data.schema.wider(fine) if w in data.columns]


@dataclass(frozen=True)
class _Seen:
    """Of a column in some records: how hidden values come back, how many do, and how many are hidden."""

    how: str
    back: int
    hidden: int


def _in_block(
    original: Microdata,
    masked: Microdata,
    released: Sequence[str],
    rules: Sequence[Rule],
    nested: Sequence[tuple[str, str]],
    tied: Sequence[str],
) -> dict[str, _Seen]:
    shown = {c: _shown(original, masked, c) if c in released else _none(original) for c in tied}
    there = {c: ~original.missing(c) for c in tied}
    known = {c: a.copy() for c, a in shown.items()}
    how: dict[str, str] = {}
    values = {r: values_of(original, r.members) for r in rules}
    valid = {r: r.holds(values[r]) for r in rules}
    while True:
        found = [*_by_rules(rules, values, valid, known), *_by_nesting(nested, there, known)]
        found = found or _by_elimination(rules, valid, known)
        if not found:
            break
        for column, rows, words in found:
            known[column] |= rows
            how.setdefault(column, words)
    out = {}
    for column in tied:
        hidden = there[column] & ~shown[column]
        back = int((hidden & known[column]).sum())
        out[column] = _Seen(how.get(column, ""), back, int(hidden.sum()))
    return out


def _counts(original: Microdata, column: str, released: Sequence[str]) -> bool:
    """Whether a column that comes back was meant to be hidden: masked, or sensitive and left out."""
    return column in released or column in original.schema.sensitive


def _none(data: Microdata) -> BoolArray:
    return np.zeros(len(data), dtype=np.bool_)


def _shown(original: Microdata, masked: Microdata, column: str) -> BoolArray:
    """In which records the release has the original value."""
    if column not in masked.columns:
        return _none(original)
    one, two = original.column(column), masked.column(column)
    if one.dtype != two.dtype:
        kind = pl.Float64 if one.dtype.is_numeric() and two.dtype.is_numeric() else pl.String
        one, two = one.cast(kind), two.cast(kind)
    same = (one == two).fill_null(False).to_numpy()
    if one.dtype.is_float():  # a rule that was added up again may differ in the last bit
        x, z = one.cast(pl.Float64).to_numpy(), two.cast(pl.Float64).to_numpy()
        with np.errstate(invalid="ignore"):
            same |= np.abs(x - z) <= 1e-12 * np.abs(x)
    return np.asarray(same & ~original.missing(column))


_Found = tuple[str, BoolArray, str]


def _by_rules(
    rules: Sequence[Rule],
    values: Mapping[Rule, Values],
    valid: dict[Rule, BoolArray],
    known: dict[str, BoolArray],
) -> list[_Found]:
    """What one rule gives where it lacks one member only: nothing where that would be 0 by 0."""
    out = []
    for rule in rules:
        single = valid[rule] & (np.sum([~known[m] for m in rule.members], axis=0) == 1)
        if single.any():
            for member in rule.members:
                rows = single & ~known[member]
                if rows.any():
                    rows &= _gives(rule, member, values[rule])
                if rows.any():
                    out.append((member, rows, rule.by(member)))
    return out


def _gives(rule: Rule, member: str, values: Values) -> BoolArray:
    """In which records the rule gives the member from the others, or nearly (a ratio is rounded)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        made, true = rule.solve(member, values), values[member]
        near = np.abs(made - true) <= _NEAR * np.maximum(np.abs(true), 1.0)
    return np.asarray(np.isfinite(made) & near)


def _by_nesting(
    nested: Sequence[tuple[str, str]], there: dict[str, BoolArray], known: dict[str, BoolArray]
) -> list[_Found]:
    """The coarser code in which a finer one lies."""
    out = []
    for fine, coarse in nested:
        rows = known[fine] & ~known[coarse] & there[coarse]
        if rows.any():
            out.append((coarse, rows, f"{fine} lies in it"))
    return out


def _by_elimination(
    rules: Sequence[Rule], valid: dict[Rule, BoolArray], known: dict[str, BoolArray]
) -> list[_Found]:
    """What several sums give together where none of them does alone."""
    sums = [r for r in rules if isinstance(r, SumOf)]
    columns = list(dict.fromkeys(m for r in sums for m in r.members))
    if len(sums) < 2 or len(columns) + len(sums) > _BITS:
        return []
    matrix = np.zeros((len(sums), len(columns)))
    for i, rule in enumerate(sums):
        for part in rule.parts:
            matrix[i, columns.index(part)] -= 1.0
        matrix[i, columns.index(rule.result)] += 1.0
    bits = [*(~known[c] for c in columns), *(valid[r] for r in sums)]
    pattern = np.sum([b.astype(np.int64) << k for k, b in enumerate(bits)], axis=0)
    kinds, which = np.unique(pattern, return_inverse=True)
    rows: dict[str, BoolArray] = {}
    for number, kind in enumerate(kinds[:_PATTERNS]):
        unknown = [j for j in range(len(columns)) if kind >> j & 1]
        usable = [i for i in range(len(sums)) if kind >> (len(columns) + i) & 1]
        for j in _determined(matrix[np.ix_(usable, unknown)]):
            rows.setdefault(columns[unknown[j]], np.zeros(len(which), dtype=np.bool_))
            rows[columns[unknown[j]]] |= which == number
    return [(c, found, "several sums together") for c, found in rows.items()]


def _determined(matrix: FloatArray) -> list[int]:
    """The unknowns that a system of equations fixes: zero in every direction that it leaves open."""
    if 0 in matrix.shape:
        return []
    _, sizes, directions = np.linalg.svd(matrix, full_matrices=True)
    rank = int((sizes > 1e-9).sum())
    free = directions[rank:]
    return [j for j in range(matrix.shape[1]) if np.abs(free[:, j]).max(initial=0.0) < 1e-9]
