"""A sample's combinations counted in a population: how many people each of them can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.cells.table import CellTable
from sfumato.data.microdata import IntArray, Microdata
from sfumato.errors import MeasureError


@dataclass(frozen=True)
class InPopulation:
    """``matches[i]``: the people of the population that agree with cell i of the sample.
    ``presence[j]``: the people of the sample that agree with cell j of the population, whose own
    number (under the same convention) is ``sizes[j]``."""

    sample: CellTable
    population: CellTable
    matches: IntArray
    presence: IntArray
    sizes: IntArray


def in_population(sample: CellTable, population: CellTable) -> InPopulation:
    """Count each side's cells in the other.

    The two tables are laid one under the other over common codes, so that the convention of missing
    values holds across them as it does within one.

    >>> import polars as pl, sfumato as sf
    >>> people = sf.Microdata(pl.DataFrame({"age": [3, 3, 4, 5]})).cells(["age"])
    >>> few = sf.Microdata(pl.DataFrame({"age": [3, 4]})).cells(["age"])
    >>> in_population(few, people).matches.tolist()
    [2, 1]
    """
    if sample.keys != population.keys:
        raise MeasureError("the sample and the population have other keys")
    both = _stacked(sample, population)
    n = len(sample)
    zero_first = np.concatenate([np.zeros(n, np.int64), population.counts])
    zero_last = np.concatenate([sample.counts, np.zeros(len(population), np.int64)])
    matches = both.agreeing(zero_first)
    return InPopulation(sample, population, matches[:n], both.agreeing(zero_last)[n:], matches[n:])


def population_counts(table: CellTable, population: Microdata) -> IntArray:
    """How many records of a population agree with each cell of the sample."""
    return in_population(table, CellTable.of(population, table.keys, missing=table.missing)).matches


def _stacked(sample: CellTable, population: CellTable) -> CellTable:
    levels: dict[str, pl.Series] = {}
    rows = []
    for j, key in enumerate(sample.keys):
        one, two = sample.levels[key], population.levels[key]
        merged, first, second = _common(one, two)
        levels[key] = merged
        rows.append(
            np.concatenate(
                [
                    np.append(first, len(merged))[sample.codes[j].astype(np.int64)],
                    np.append(second, len(merged))[population.codes[j].astype(np.int64)],
                ]
            )
        )
    counts = np.concatenate([sample.counts, population.counts])
    return CellTable(levels, np.array(rows, np.int32), counts, None, [], sample.missing)


def _common(one: pl.Series, two: pl.Series) -> tuple[pl.Series, IntArray, IntArray]:
    """The values of either, and each one's places in them."""
    if one.dtype != two.dtype:
        if one.dtype.is_numeric() and two.dtype.is_numeric():
            one, two = one.cast(pl.Float64), two.cast(pl.Float64)
        else:
            one, two = one.cast(pl.String), two.cast(pl.String)
    two = two.rename(one.name)
    merged = pl.concat([one, two]).unique().sort()
    return merged, _places(merged, one), _places(merged, two)


def _places(merged: pl.Series, some: pl.Series) -> IntArray:
    index = pl.DataFrame({"v": merged, "at": np.arange(len(merged), dtype=np.int64)})
    found = pl.DataFrame({"v": some}).join(index, on="v", how="left", maintain_order="left")
    return found["at"].to_numpy().astype(np.int64)


def check_population(table: CellTable, matches: IntArray) -> Sequence[str]:
    """What to say where the population can't be the one that the sample comes from."""
    fewer = matches < table.counts
    if not fewer.any():
        return ()
    return (
        f"{int(table.counts[fewer].sum()):,} records have combinations of which the population has fewer "
        "than the sample: it isn't the population they come from, or its keys are coded otherwise",
    )
