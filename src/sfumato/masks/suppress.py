"""Local suppression: blank the fewest key values that leave no unsafe combination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sfumato.cells import CellTable
from sfumato.cells.keys import MISSING_DOC, check_dimension, check_keys, chosen_keys, chosen_sets, key_table
from sfumato.contract.engine import Locality
from sfumato.contract.guarantees import Guarantee
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.parameters import Fault, parameter
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import Problem, counted


@dataclass(frozen=True, kw_only=True)
class LocalSuppress(Mask):
    """Suppress key values until no combination in any key set is unsafe.

    A combination is unsafe where fewer than ``tolerance`` records have it (mu-ARGUS's threshold is
    inclusive: its 3 is 4 here). Key sets are given by name, or as all combinations of up to
    ``max_dimension`` keys; with neither, all keys are one set, which is k-anonymity.

    ``method="optimal"`` finds, for each record, the keys of least weight whose suppression makes it
    safe in every key set: a weighted hitting set of its minimal unsafe combinations, by branch and
    bound. ``method="greedy"`` takes the key that hits the most. ``importance`` lists the keys from
    the most to the least important: of equally few suppressions, the less important keys go; or it
    gives each key a weight, and the least total weight is suppressed. By default keys with more
    levels are less important.

    With ``share`` a value suppressed in one unsafe record counts as a match for another one
    (sdcMicro's reading of k-anonymity), which needs fewer suppressions; still, every unsafe record
    loses a value. Without it enough original records agree with each record by themselves, whatever
    happens to others. By default it is on for one key set and off for several.

    Where ``missing="category"`` a suppression makes new combinations; rounds follow until none is
    unsafe, and cost many more suppressions.

    Reference: de Waal, A. G., Willenborg, L. C. R. J. (1998). Optimal local suppression in microdata.
    Journal of Official Statistics 14, 421-435.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AREA": ["n", "n", "n", "n"], "AGE": [30, 30, 30, 99]}))
    >>> sf.LocalSuppress(keys=["AREA", "AGE"], tolerance=2).mask(data).frame["AGE"].to_list()
    [30, 30, 30, None]
    """

    name: ClassVar[str] = "local_suppress"
    draws_nothing: ClassVar[bool] = True
    blanks: ClassVar[bool] = True
    reference: ClassVar[str] = "de Waal, Willenborg (1998)"

    tolerance: int = parameter(
        3, doc="Each combination must have at least this many records.", at_least=2, public=True
    )
    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys", public=True)
    key_sets: tuple[tuple[str, ...], ...] = parameter(
        (), doc="The combinations of keys to make safe, by name.", columns=True, public=True
    )
    max_dimension: int | None = parameter(
        None, doc="Make all combinations of up to this many keys safe.", at_least=1, public=True
    )
    importance: tuple[str, ...] | dict[str, float] = parameter(  # noqa: RUF009
        (),
        doc="The keys from most to least important, or a weight for each.",
        columns=True,
        above=0,
        public=True,
    )
    method: str = parameter(
        "optimal",
        doc="The fewest suppressions, or a quick choice.",
        choices=("optimal", "greedy"),
        public=True,
    )
    missing: str = parameter(
        "matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"), public=True
    )
    household: str | None = parameter(
        None,
        doc="A column of households: what one member loses, all members lose.",
        columns=True,
        public=True,
    )
    share: bool | None = parameter(
        None, doc="Whether a value suppressed in one record counts as a match for others.", public=True
    )

    def _check(self) -> Sequence[Fault]:
        out: list[Fault] = []
        if self.key_sets and self.max_dimension is not None:
            out.append(
                (
                    "`key_sets` and `max_dimension` exclude each other",
                    "name the sets, or a dimension",
                    "key_sets",
                )
            )
        if self.share and (self.max_dimension is not None or len(self.key_sets) > 1):
            out.append(("`share` needs one key set", "leave it out, or name one key set", "share"))
        if self.share and (self.missing == "category" or self.method == "greedy"):
            out.append(
                ('`share` goes with method="optimal" and missing="matches_anything" only', None, "share")
            )
        twice = {k for k in self.importance if list(self.importance).count(k) > 1}
        out += [(f"`importance` names {k} twice", None, "importance") for k in sorted(twice)]
        return out

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = [*self.check_columns(types), *check_keys(self.keys, self.key_sets, schema, types)]
        keys = chosen_keys(self.keys, self.key_sets, schema)
        out += check_dimension(keys, self.max_dimension)
        if len(keys) > 62:
            out.append(Problem(0, f"{len(keys)} keys are too many for local suppression (62 at most)"))
        out += [
            Problem(0, f"`importance` names {k!r}, which isn't one of the keys", parameter="importance")
            for k in self.importance
            if k in types and k not in keys
        ]
        return out

    @property
    def locality(self) -> Locality:
        return "keys"

    def changes(self, data: Microdata) -> Sequence[str]:
        return chosen_keys(self.keys, self.key_sets, data.schema)

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        keys = tuple(self.changes(data))
        sets = tuple(chosen_sets(keys, self.key_sets, self.max_dimension))
        return [NoUnsafeCombination(keys, sets, self.tolerance, self.missing), OnlySuppressed(keys)]

    def makes_safe(self, data: Microdata, keys: Sequence[str], tolerance: int) -> bool:
        # Fewer keys are shared by as many records or more.
        sets = chosen_sets(self.changes(data), self.key_sets, self.max_dimension)
        return tolerance <= self.tolerance and any(set(keys) <= set(s) for s in sets)

    def needs(self, data: Microdata) -> Sequence[str]:
        return tuple(dict.fromkeys([*self.changes(data), *([self.household] if self.household else [])]))

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        keys = tuple(self.changes(data))
        table = key_table(data, keys, self.missing)
        sets = chosen_sets(keys, self.key_sets, self.max_dimension)
        before = table.assess(self.tolerance, sets)
        masks, proven = self._suppressed(data, table, sets, notes)
        unsafe = table.at_records(before.unsafe_sets) > 0
        new: dict[str, pl.Series] = {}
        total, log = 0, []
        for j, key in enumerate(keys):
            where = (masks >> j & 1).astype(bool) & ~data.missing(key)
            count = int(where.sum())
            notes.figure("suppressions", count, key)
            total += count
            if count:
                new[key] = pl.select(
                    pl.when(pl.lit(pl.Series(where))).then(None).otherwise(pl.lit(data.column(key)))
                ).to_series()
                log.append(pl.DataFrame({"record": np.flatnonzero(where), "suppressed": [key] * count}))
        touched = masks != 0
        notes.figure("total_suppressions", total)
        notes.figure("records_suppressed", int(touched.sum()))
        notes.figure("unsafe_records_before", int(unsafe.sum()))
        notes.figure("proven_optimal", proven)
        if touched.mean() > 0.2:
            notes.warn(
                f"{100 * touched.mean():.0f}% of the records lose a value; recode or truncate keys first"
            )
        if log:
            notes.add_log(pl.concat(log))
        return data.with_columns(new) if new else data

    def _suppressed(
        self, data: Microdata, table: CellTable, sets: Sequence[Sequence[str]], notes: Notes
    ) -> tuple[IntArray, bool]:
        """A bit for each key to be suppressed in each record, and whether that is known to be least."""
        from sfumato.cells.sharing import together
        from sfumato.cells.suppression import as_category, each_record, union_by

        weights = self.weights(table)
        at = [table.positions(s) for s in sets]
        household = data.households(self.household)[0] if self.household else None
        exact = self.method == "optimal"
        if self.missing == "category":
            codes = np.stack([table.codes[j][table.record_cell] for j in range(len(table.keys))])
            levels = [len(table.levels[k]) for k in table.keys]
            masks, rounds = as_category(
                codes.astype(np.int64), levels, at, self.tolerance, weights, household, exact=exact
            )
            notes.figure("rounds", rounds)
            return masks, False
        if exact and len(at) == 1 and self.share is not False:
            counted = not isinstance(self.importance, Mapping)
            found = together(table, self.tolerance, at[0], weights, counted=counted)
        else:
            found = each_record(table, self.tolerance, at, weights, exact=exact)
        masks = found.keys if found.of_records else table.at_records(found.keys)
        return (masks, found.proven) if household is None else (union_by(masks, household), False)

    def weights(self, table: CellTable) -> FloatArray:
        """What the suppression of one value of each key costs.

        A list of importance adds to 1 less than 1 in all, so that the number of suppressions is
        least first, and less important keys go among equals.
        """
        keys = table.keys
        if isinstance(self.importance, Mapping):
            return np.array([float(self.importance.get(k, 1.0)) for k in keys])
        order: list[Any] = [k for k in self.importance if k in keys]
        others = sorted((k for k in keys if k not in order), key=lambda k: len(table.levels[k]))
        rank = {k: place for place, k in enumerate([*order, *others])}
        return np.array([1.0 + (len(keys) - rank[k]) / (len(keys) + 1) ** 2 for k in keys])


@dataclass(frozen=True)
class NoUnsafeCombination(Guarantee):
    """Every combination in these key sets has at least so many records, or a value of it is missing
    and enough records agree with the rest."""

    keys: tuple[str, ...]
    key_sets: tuple[tuple[str, ...], ...]
    tolerance: int
    missing: str

    def describe(self) -> str:
        many = f"{len(self.key_sets)} key sets" if len(self.key_sets) > 1 else " × ".join(self.key_sets[0])
        how = "matches anything" if self.missing == "matches_anything" else "is a category"
        return f"no combination of {many} has fewer than {self.tolerance} records (a missing value {how})"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        from sfumato.cells.suppression import unsafe_cells

        table = key_table(after, self.keys, self.missing)
        bad = unsafe_cells(table, self.tolerance, [table.positions(s) for s in self.key_sets])
        left = int(table.counts[bad].sum())
        return f"{left:,} records are still unsafe" if left else None


@dataclass(frozen=True)
class OnlySuppressed(Guarantee):
    """Values of these columns either stay or become missing."""

    columns: tuple[str, ...]

    def describe(self) -> str:
        return f"values of {', '.join(self.columns)} stay as they are or become missing"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        for column in self.columns:
            one, two = before.column(column), after.column(column)
            if one is two:
                continue
            if one.dtype != two.dtype:
                return f"{column} was {one.dtype} and became {two.dtype}"
            n = int((one.ne_missing(two) & two.is_not_null()).sum())
            if n:
                return f"{column} has another value in {counted(n, 'record')}"
        return None
