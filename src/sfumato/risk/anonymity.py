"""k-anonymity and l-diversity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells import CellTable
from sfumato.cells.keys import MISSING_DOC, check_keys, chosen_keys, key_notes, key_table
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.codes import code_column, label, pack
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import MeasureError, Problem

MAX_COMPARISONS: Final = 5_000_000_000


@dataclass(frozen=True, kw_only=True)
class KAnonymity(RiskMeasure):
    """Count the records that fewer than k records share their keys with.

    ``value`` is the number of records whose combination of all keys has a frequency below ``k``
    (the record itself is counted). ``achieved`` is the smallest frequency: the k that the file has.
    ``violations_2``, ``violations_3`` and ``violations_5`` are the usual three counts, and
    ``frequencies`` (confidential) is every record's.

    Reference: Samarati, P. (2001). Protecting respondents' identities in microdata release. IEEE
    TKDE 13, 1010-1027.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [30, 30, 40]}))
    >>> found = sf.measure(data, sf.KAnonymity(k=2, keys=["AGE"]))[0]
    >>> found.value, found.achieved
    (1, 1)
    """

    name: ClassVar[str] = "k_anonymity"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Samarati (2001)"

    k: int = parameter(3, doc="How many records must share each combination.", at_least=2)
    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        return [*self.check_columns(types), *check_keys(self.keys, (), schema, types)]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        table = key_table(masked, chosen_keys(self.keys, (), masked.schema), self.missing)
        frequency = table.frequencies()

        def below(k: int) -> int:
            return int(table.counts[frequency < k].sum())

        violations = below(self.k)
        sizes = pl.DataFrame({"frequency": frequency, "records": table.counts})
        return Result(
            value=violations,
            unit="records",
            breakdown=sizes.group_by("frequency").agg(pl.col("records").sum()).sort("frequency"),
            notes=tuple(key_notes(table)),
            figures={
                "achieved": int(frequency.min()) if len(frequency) else 0,
                "violations": violations,
                "rate": violations / table.records if table.records else 0.0,
                **{f"violations_{k}": below(k) for k in (2, 3, 5)},
                "combinations": len(table),
            },
            confidential={"frequencies": table.at_records(frequency)},
        )


@dataclass(frozen=True, kw_only=True)
class LDiversity(RiskMeasure):
    """Count the records whose peers have too few different sensitive values.

    The peers of a record are the records that share its keys. With q_s the shares of the sensitive
    values among them (missing ones left out), in falling order:

    - ``variant="distinct"``: l = the number of different values;
    - ``"entropy"``: l = exp(−Σ q_s ln q_s);
    - ``"recursive"``: (c, l)-diversity, q_1 < c · (q_l + q_(l+1) + …).

    ``value`` is the number of records that fail ``l`` in the chosen variant, for the worst of the
    sensitive columns; ``mean_distinct``, ``min_distinct``, ``mean_entropy`` and ``min_entropy`` are
    over records, of the first column; the breakdown has them for every column.

    Reference: Machanavajjhala, A. et al. (2007). l-diversity: privacy beyond k-anonymity. ACM TKDD 1.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [30, 30, 40, 40], "ILL": ["a", "b", "a", "a"]}))
    >>> found = sf.measure(data, sf.LDiversity(keys=["AGE"], sensitive=["ILL"], l=2))[0]
    >>> found.value, found.mean_distinct
    (2, 1.5)
    """

    name: ClassVar[str] = "l_diversity"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Machanavajjhala et al. (2007)"

    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    sensitive: tuple[str, ...] = parameter((), doc="The sensitive columns.", columns="sensitive")
    l: float = parameter(2, doc="How diverse the sensitive values must be.", above=1)  # noqa: E741
    c: float = parameter(2, doc='The constant of variant="recursive".', above=0)
    variant: str = parameter(
        "distinct", doc="How diversity is measured.", choices=("distinct", "entropy", "recursive")
    )
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))

    def _check(self) -> Sequence[tuple[str, str | None]]:
        if self.variant == "recursive" and not float(self.l).is_integer():
            return [(f"`l` must be a whole number for the recursive variant, not {self.l}", None)]
        return ()

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = [*self.check_columns(types), *check_keys(self.keys, (), schema, types)]
        if not (self.sensitive or schema.sensitive):
            out.append(
                Problem(0, "no sensitive column was named", "give `sensitive`, or name them as a role")
            )
        both = set(self.keys or schema.keys) & set(self.sensitive or schema.sensitive)
        out += [Problem(0, f"{name} can't be a key and a sensitive column at once") for name in sorted(both)]
        return out

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        table = key_table(masked, chosen_keys(self.keys, (), masked.schema), self.missing)
        names = self.sensitive or masked.schema.sensitive
        rows, fails = [], np.zeros(len(table), np.bool_)
        for name in names:
            spread = _Spread.of(table, masked, name, int(self.l), self.c)
            failed = {
                "distinct": spread.distinct < self.l,
                "entropy": spread.entropy < self.l - 1e-12,
                "recursive": ~spread.recursive,
            }[self.variant]
            fails |= failed
            share = table.counts / max(table.records, 1)
            rows.append(
                {
                    "sensitive": name,
                    "violations": int(table.counts[failed].sum()),
                    "mean_distinct": float((spread.distinct * share).sum()),
                    "min_distinct": int(spread.distinct.min(initial=np.iinfo(np.int64).max)),
                    "mean_entropy": float((spread.entropy * share).sum()),
                    "min_entropy": float(spread.entropy.min(initial=np.inf)),
                    "recursive_violations": int(table.counts[~spread.recursive].sum()),
                }
            )
        violations = int(table.counts[fails].sum())
        first = {k: v for k, v in rows[0].items() if k not in ("sensitive", "violations")}
        return Result(
            value=violations,
            unit="records",
            breakdown=pl.DataFrame(rows),
            notes=(f"variant: {self.variant}", *key_notes(table)),
            figures={
                "violations": violations,
                "rate": violations / table.records if table.records else 0.0,
                "variant": self.variant,
                **first,
            },
            confidential={"flags": table.at_records(fails)},
        )


@dataclass(frozen=True)
class _Spread:
    """The diversity of one sensitive column in each cell."""

    distinct: IntArray
    entropy: FloatArray
    recursive: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, table: CellTable, data: Microdata, name: str, l: int, c: float) -> _Spread:  # noqa: E741
        codes, levels = code_column(data, name)
        there = codes < len(levels)
        # Counts of each (cell, value) that occurs, values missing left out.
        cell = table.record_cell[there].astype(np.int64)
        packed, total = pack([cell, codes[there]], [max(len(table), 1), len(levels) + 1])
        names, first = label(packed, total)
        of_cell, value = cell[first], codes[there][first].astype(np.int64)
        count = np.bincount(names, minlength=len(first)).astype(np.int64)
        if table.missing == "matches_anything" and any(table.has_missing):
            of_cell, value, count = _with_peers(table, of_cell, value, count)
        return cls._from_counts(len(table), of_cell, count, l, c)

    @classmethod
    def _from_counts(cls, cells: int, of_cell: IntArray, count: IntArray, l: int, c: float) -> _Spread:  # noqa: E741
        order = np.lexsort((-count, of_cell))
        of_cell, count = of_cell[order], count[order].astype(np.float64)
        total = np.bincount(of_cell, weights=count, minlength=cells)
        distinct = np.bincount(of_cell, minlength=cells).astype(np.int64)
        starts = np.cumsum(distinct) - distinct
        rank = np.arange(len(count)) - starts[of_cell]
        share = count / total[of_cell]
        entropy = np.exp(np.bincount(of_cell, weights=-share * np.log(share), minlength=cells))
        tail = np.bincount(of_cell, weights=np.where(rank >= l - 1, share, 0.0), minlength=cells)
        top = np.bincount(of_cell, weights=np.where(rank == 0, share, 0.0), minlength=cells)
        entropy = np.where(distinct > 0, entropy, 0.0)
        return cls(distinct, entropy, top < c * tail)


def _with_peers(
    table: CellTable, of_cell: IntArray, value: IntArray, count: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """(cell, value, count) with the counts of all cells that agree with each cell."""
    from sfumato.kernels.cells import agreeing_cells

    gone = np.array([len(table.levels[k]) for k in table.keys], np.int64)
    open_cells = int((table.codes == gone[:, None]).any(axis=0).sum())
    if open_cells * len(table) > MAX_COMPARISONS:
        raise MeasureError(
            f"l_diversity: {open_cells:,} combinations have missing keys, too many to compare with others",
            hint='count a missing value as a category (missing="category"), or recode the keys first',
        )
    mine, peer = agreeing_cells(np.ascontiguousarray(table.codes.astype(np.int64)), gone)
    order = np.argsort(of_cell, kind="stable")
    sizes = np.bincount(of_cell, minlength=len(table))
    starts = np.cumsum(sizes) - sizes
    # Each (cell, peer) pair brings all values of the peer.
    repeat = sizes[peer]
    target = np.repeat(mine, repeat)
    inside = np.arange(repeat.sum()) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    source = order[np.repeat(starts[peer], repeat) + inside]
    packed, total = pack([target, value[source]], [max(len(table), 1), int(value.max(initial=0)) + 1])
    names, first = label(packed, total)
    sums = np.bincount(names, weights=count[source].astype(np.float64), minlength=len(first))
    return target[first], value[source][first], sums.astype(np.int64)
