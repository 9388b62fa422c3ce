"""A file of households as one wide table, in blocks that move whole.

- *couple*: ages, sexes and relations of R and P;
- *dependants*: ages and relations of all others;
- each dependant's sex;
- in each slot, a person's status with the amounts that are zero in part; those that mostly stand beside
  another one change places by themselves, too, among persons who have one: they would tell of each other;
- each other column of a person in each slot, and each column of the household.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from sfumato.data.microdata import FloatArray, IntArray
from sfumato.masks.cluster_shuffle.members import Members
from sfumato.stats.levels import CUTS, CodeArray, Levels, features, scores
from sfumato.stats.ranks import mid_ranks

RARE_SLOT: Final = 0.02
"""Slots that fewer households have are dealt, but their moments aren't kept."""
_TIED: Final = 0.1
_BESIDE: Final = 0.5
_FEW: Final = 20
_FLAG: Final = 0.005
KIN: Final = "kin, not released"
"""What each member is to the reference person, as far as it is known; it isn't released."""

COUPLE, DEPENDANTS, HOUSEHOLD = 0, 1, 2
"""Pools: who has a partner; how many A and K; the whole cluster. Slot s has pool 3 + s."""


@dataclass(frozen=True)
class Column:
    """One column of the wide table: a column of the file in one slot (−1 for the household's own)."""

    levels: Levels
    """With this slot's codes and counts."""
    source: int
    """Which of the file's columns, −1 for none."""
    slot: int

    @property
    def name(self) -> str:
        return f"{self.levels.name} {self.slot}"


@dataclass(frozen=True)
class Block:
    """A run of columns that move whole; ``apart`` are those that may move by themselves, too."""

    name: str
    begin: int
    end: int
    pool: int
    apart: tuple[int, ...] = ()


@dataclass(frozen=True)
class Wide:
    """The wide table: a row a household."""

    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    codes: CodeArray

    def table(self, keep: str) -> list[list[FloatArray]]:
        """What is kept of each column, as tables of features by level: ``moments``, ``values`` alone,
        those of ``couples`` and households alone, or ``none``."""
        few = keep != "moments"
        n = len(self.codes)
        out: list[list[FloatArray]] = []
        couple = next((range(b.begin, b.end) for b in self.blocks if b.name == "couple"), range(0))
        for w, one in enumerate(self.columns):
            there = int(one.levels.counts.sum())
            left_out = keep == "none" or (keep == "couples" and one.slot > 1)
            if left_out or one.levels.name == KIN or there < RARE_SLOT * n:
                out.append([])
                continue
            made = features(one.levels, cuts=CUTS if w in couple and one.levels.ordered and not few else ())
            out.append(made[:1] if few else made)
        return out

    def features(self, codes: CodeArray, tables: Sequence[Sequence[FloatArray]]) -> np.ndarray[
        tuple[int, int], np.dtype[np.float32]
    ]:  # fmt: skip
        """The features of these codes, 0 where nobody is."""
        out = np.zeros((len(codes), sum(len(t) for t in tables)), np.float32)
        u = 0
        for w, own in enumerate(tables):
            there = codes[:, w] >= 0
            for table in own:
                out[there, u] = table.astype(np.float32)[codes[there, w]]
                u += 1
        return out

    def kinds(self) -> tuple[CodeArray, IntArray]:
        """Whether each level of each column is 0, something else or missing; where each column begins."""
        at = np.concatenate([[0], np.cumsum([len(c.levels) for c in self.columns])]).astype(np.int64)
        made = [np.where(c.levels.missing, 2, c.levels.numbers != 0).astype(np.int32) for c in self.columns]
        return np.concatenate(made), at

    def numbers(self) -> tuple[FloatArray, IntArray]:
        """The number of each level of each column: of a category, its place among the levels."""
        at = np.concatenate([[0], np.cumsum([len(c.levels) for c in self.columns])]).astype(np.int64)
        made = [
            c.levels.numbers
            if c.levels.ordered
            else np.where(c.levels.missing, np.nan, np.arange(float(len(c.levels))))
            for c in self.columns
        ]
        return np.concatenate(made), at

    def where(self, name: str, slot: int) -> int:
        """The place of a column in a slot, −1 where there is none."""
        return next((w for w, c in enumerate(self.columns) if c.levels.name == name and c.slot == slot), -1)

    def anywhere(self, name: str, slot: int) -> int:
        """The place of a column in a slot, or of the household's own column."""
        at = self.where(name, slot)
        return at if at >= 0 else self.where(name, -1)

    def scores(self, block: Block) -> FloatArray:
        """One number a row by which a block is dealt: the score of its first ordered column, or the sum of
        the amounts of a bundle; 0 where nobody is."""
        own = self.columns[block.begin : block.end]
        amounts = [w for w in range(block.begin, block.end) if len(self.columns[w].levels) > _FEW]
        if len(amounts) > 1 and block.pool > HOUSEHOLD:
            total = np.zeros(len(self.codes))
            for w in amounts:
                total += _taken(np.nan_to_num(self.columns[w].levels.numbers), self.codes[:, w])
            return _ranked(total, self.codes[:, block.begin] >= 0)
        w = next((i for i, c in enumerate(own) if c.levels.ordered and c.levels.counts.sum()), 0)
        return _taken(scores(own[w].levels), self.codes[:, block.begin + w])


def _taken(table: FloatArray, codes: CodeArray) -> FloatArray:
    return np.where(codes >= 0, table[np.maximum(codes, 0)], 0.0) if len(table) else np.zeros(len(codes))


def _ranked(values: FloatArray, there: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> FloatArray:
    from scipy.special import ndtri

    out = np.zeros(len(values))
    if there.any():
        out[there] = ndtri(mid_ranks(values[there]) / (there.sum() + 1))
    return out


def wide_table(
    persons: Sequence[tuple[int, Levels]],
    household: Sequence[tuple[int, Levels]],
    mem: Members,
    *,
    age: str | None,
    sex: str | None,
    relation: str | None,
) -> Wide:
    """The wide table of person columns (coded by record) and household columns (coded by household)."""
    by_name = {levels.name: (at, levels) for at, levels in persons}
    kin = _kin(mem)
    columns: list[Column] = []
    blocks: list[Block] = []
    n_slots = mem.who.shape[1]

    def add(levels: Levels, source: int, slot: int) -> None:
        codes = levels.codes if slot < 0 else mem.slots(levels.codes)[:, slot]
        counts = np.bincount(codes[codes >= 0], minlength=len(levels))
        columns.append(Column(replace(levels, codes=codes, counts=counts), source, slot))

    def block(name: str, begin: int, pool: int, apart: tuple[int, ...] = ()) -> None:
        if len(columns) > begin:
            blocks.append(Block(name, begin, len(columns), pool, apart))

    whole = [c for c in (age, sex, relation) if c is not None and c in by_name]
    for slot in range(min(2, n_slots)):
        for name in whole:
            add(by_name[name][1], by_name[name][0], slot)
        add(kin, -1, slot)
    block("couple", 0, COUPLE)
    begin = len(columns)
    for slot in range(2, n_slots):
        for name in whole:
            if name != sex:
                add(by_name[name][1], by_name[name][0], slot)
        add(kin, -1, slot)
    block("dependants", begin, DEPENDANTS)
    if sex in by_name:
        for slot in range(2, n_slots):
            begin = len(columns)
            add(by_name[sex][1], by_name[sex][0], slot)
            block(f"sex {slot}", begin, 3 + slot)
    rest = [(at, levels) for at, levels in persons if levels.name not in whole]
    together = bundles([levels for _, levels in rest])
    apart = beside([levels for _, levels in rest if len(levels) > _FEW and levels.name in together[0]])
    for slot in range(n_slots):
        for names in together:
            begin = len(columns)
            for at, levels in rest:
                if levels.name in names:
                    add(levels, at, slot)
            own = tuple(w for w in range(begin, len(columns)) if columns[w].levels.name in apart)
            block(" ".join((*names, str(slot))), begin, 3 + slot, own if len(names) > 1 else ())
    for at, levels in household:
        begin = len(columns)
        add(levels, at, -1)
        block(levels.name, begin, HOUSEHOLD)
    return Wide(tuple(columns), tuple(blocks), np.column_stack([c.levels.codes for c in columns]))


def bundles(columns: Sequence[Levels]) -> list[tuple[str, ...]]:
    """The columns of a person that are dealt together: a status, and amounts that are zero in part.

    The status is the category that tells best which amounts are zero, if it tells a tenth of it.
    """
    amounts = [c for c in columns if c.ordered and len(c) > _FEW and _partly_zero(c)]
    if len(amounts) < 2:
        return [(c.name,) for c in columns]
    told = {c.name: max(_share_told(c, a) for a in amounts) for c in columns if len(c) <= _FEW}
    status = max(told, key=lambda name: told[name], default=None)
    names = [a.name for a in amounts]
    if status is not None and told[status] >= _TIED:
        names = [status, *names]
    return [tuple(names), *((c.name,) for c in columns if c.name not in names)]


def beside(amounts: Sequence[Levels]) -> set[str]:
    """The amounts whose holders mostly have another one of them, too."""
    held = [(c.numbers != 0.0)[c.codes] & ~c.missing[c.codes] for c in amounts]
    out = set()
    for one, own in zip(amounts, held, strict=True):
        others = np.logical_or.reduce([h for h in held if h is not own] or [np.zeros_like(own)])
        if own.any() and float(others[own].mean()) > _BESIDE:
            out.add(one.name)
    return out


def _partly_zero(column: Levels) -> bool:
    there = ~column.missing
    total = float(column.counts[there].sum())
    zero = float(column.counts[column.numbers == 0.0].sum())
    return bool(total and _FLAG < zero / total < 1 - _FLAG)


def _share_told(status: Levels, amount: Levels) -> float:
    """The share of the variance of "the amount isn't zero" that lies between the statuses."""
    ok = ~amount.missing[amount.codes] & ~status.missing[status.codes]
    flag = (amount.numbers != 0.0)[amount.codes][ok].astype(np.float64)
    if not len(flag) or flag.var() == 0:
        return 0.0
    code = status.codes[ok]
    held = np.bincount(code, minlength=len(status))
    mean = np.bincount(code, flag, minlength=len(status)) / np.maximum(held, 1)
    return float((held * (mean - flag.mean()) ** 2).sum() / (len(flag) * flag.var()))


def _kin(mem: Members) -> Levels:
    numbers = np.arange(1.0, 5.0)
    codes = mem.relation - np.int32(1)
    return Levels(
        KIN,
        codes,
        np.bincount(codes, minlength=4),
        numbers,
        np.zeros(4, np.bool_),
        {KIN: pl.Series(KIN, numbers)},
        True,
    )
