"""Ages of households: groups of alike couples (and of alike dependants) get the ages of one of them.

The mean of a group would make couples more alike than they are (their ages' correlation rises); one
member's ages keep it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.draws import Draws
from sfumato.masks.cluster_shuffle.block_deal import Pools, blurred_ages
from sfumato.masks.cluster_shuffle.blocks import KIN, Wide
from sfumato.masks.cluster_shuffle.clauses import Clauses
from sfumato.masks.cluster_shuffle.reading import Households
from sfumato.masks.cluster_shuffle.settings import Settings
from sfumato.stats.levels import CodeArray


class AgeBlur:
    """Ages of groups of alike couples (and of alike dependants) replaced by one of the group's."""

    def __init__(
        self, mask: Settings, wide: Wide, cluster: IntArray, shape: IntArray, homes: Households, draws: Draws
    ) -> None:
        self.least, self.wide, self.cluster, self.shape = mask.blur, wide, cluster, shape
        self.lot = [draws.stream(stratum=str(i), purpose="ages").uniform(0, len(cluster)) for i in range(3)]
        slots = homes.mem.who.shape[1]
        at = [wide.where(homes.age, s) for s in range(slots)] if homes.age is not None else []
        self.couple, self.others = at[:2], at[2:]
        sex = [wide.where(c, s) for s in (0, 1) for c in [homes.sex or ""]]
        self.sexes = [w for w in sex if w >= 0]
        self.kin = [wide.where(KIN, s) for s in range(2, slots)]

    def _numbers(self, columns: Sequence[int]) -> FloatArray:
        made = []
        for w in columns:
            code = self.wide.codes[:, w]
            table = np.nan_to_num(self.wide.columns[w].levels.numbers, nan=-1.0)
            made.append(np.where(code >= 0, table[np.maximum(code, 0)], 0.0))
        return np.column_stack(made) if made else np.zeros((len(self.cluster), 0))

    def _key(self, *parts: IntArray | CodeArray) -> IntArray:
        code = np.unique(np.column_stack(parts), axis=0, return_inverse=True)[1]
        return np.asarray(code, np.int64).ravel()

    def apart(self, between: Pools) -> tuple[CodeArray, int]:
        """The rows' codes, couples and dependants blurred apart; how many had too few to share with."""
        out = self.wide.codes.copy()
        if self.least < 2 or not self.couple:
            return out, 0
        none = np.zeros((len(out), 0))
        sexes = [self.wide.codes[:, w] for w in self.sexes]
        few = 0
        for pool, columns, extra, keys, lot in (
            (0, self.couple, none, sexes, self.lot[0]),
            (1, self.others, 100.0 * self._numbers(self.kin), [], self.lot[1]),
        ):
            if not columns:
                continue
            key = self._key(between.of[:, pool], *keys)
            made, small = blurred_ages(out, columns, self._numbers(columns), key, extra, self.least, lot)
            somebody = (self.wide.codes[:, columns] >= 0).any(axis=1)
            out[:, columns] = np.where(self.wide.codes[:, columns] >= 0, made, out[:, columns])
            few += small if somebody.all() else min(small, int(somebody.sum()))
        return out, few

    def together(self, codes: CodeArray, frozen: BoolArray, edits: Clauses) -> CodeArray:
        """Rows that can't be mended keep couple and dependants, blurred together; as they were where even
        that would break an edit."""
        from sfumato.kernels.blocks import count_broken

        both = next(b.end for b in reversed(self.wide.blocks) if b.name in ("couple", "dependants"))
        out = codes.copy()
        out[frozen, :both] = self.wide.codes[frozen, :both]
        for block in self.wide.blocks:  # what else the edits look at
            if block.begin >= both and edits.touching(block.begin, block.end):
                out[frozen, block.begin : block.end] = self.wide.codes[frozen, block.begin : block.end]
        columns = [*self.couple, *self.others]
        if self.least > 1 and columns:
            key = self._key(self.cluster, self.shape, *(self.wide.codes[:, w] for w in self.sexes))
            extra = 100.0 * self._numbers(self.kin)
            made, _ = blurred_ages(
                self.wide.codes, columns, self._numbers(columns), key, extra, self.least, self.lot[2]
            )
            ages = np.where(self.wide.codes[:, columns] >= 0, made, self.wide.codes[:, columns])
            out[np.ix_(np.flatnonzero(frozen), np.array(columns))] = ages[frozen]
        broken = count_broken(out, *edits.arrays(), *self.wide.numbers()) > 0
        back = frozen & broken
        cells = np.ix_(np.flatnonzero(back), np.array(columns, np.int64))
        out[cells] = self.wide.codes[cells]
        return out
