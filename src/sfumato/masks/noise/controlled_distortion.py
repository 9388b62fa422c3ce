"""Controlled distortion (Kim and Winkler 1995, section 4.4): move a record, keep every moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sfumato.contract.guarantees import Guarantee, SameMoments, SumRule
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.parameters import Fault, parameter
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.data.sums import circular, touched_rules
from sfumato.draws import Draws
from sfumato.errors import MaskError, Problem
from sfumato.masks.noise.fit import refuse_huge, unit_of
from sfumato.masks.noise.reflection import (
    InfeasibleError,
    WeightedMoments,
    nearest_first,
    reflect,
    restore,
    whole_file_rank,
)


@dataclass(frozen=True, kw_only=True)
class ControlledDistortion(Mask):
    """Move given records anywhere and a few helpers a little, so that means and covariances stay exact.

    A record moves by δ, to the ``values`` or by the ``shift`` that is asked for. A set of r records
    (the record and its helpers) with centred values B is then reflected: x_i* = x_i + α_i·δ with α_0
    = 1, Σ α_i = 0 and Σ α_i (x_i − c) = −½ Σ α_i²·δ, a Householder reflection that keeps mean and
    covariance of the set and thereby of the file. It exists if and only if t = x_0 + δ − c lies in
    the row space of B and t′(B′B)⁺t ≤ 1 − 1/r, so at least rank + 2 records are needed. Helpers are
    taken nearest first: as many equal keys as possible, then the smallest standardised distance; and
    as few as will do. All records move along δ alone, so columns with no shift stay and sums that δ
    keeps are kept in every record; a total that the schema declares is shifted with its parts.

    Whole numbers become floats, since rounding would break the exactness; ``round_to_unit`` rounds
    and says by how much the moments are then off.

    Reference: Kim, J. J. and Winkler, W. E. (1995). Masking microdata files. ASA Proc. Survey
    Research Methods, 114-119, section 4.4; the construction is ours.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> rng = np.random.default_rng(1)
    >>> data = sf.Microdata(pl.DataFrame(rng.normal(50, 9, (40, 2)), schema=["WAGE", "RENT"]))
    >>> move = sf.ControlledDistortion(records=[7], shift={"WAGE": -12}, columns=["WAGE", "RENT"])
    >>> masked = move.mask(data)
    >>> round(masked.frame["WAGE"][7] - data.frame["WAGE"][7], 9)
    -12.0
    >>> bool(np.allclose(np.cov(masked.frame.to_numpy().T), np.cov(data.frame.to_numpy().T), rtol=1e-12))
    True
    """

    name: ClassVar[str] = "controlled_distortion"
    draws_nothing: ClassVar[bool] = True
    reference: ClassVar[str] = "Kim and Winkler (1995), section 4.4"
    keeps_types: ClassVar[bool] = False

    records: tuple[int | str, ...] = parameter(
        doc="The records to distort, by place in the file (from 0) or id."
    )
    values: Any = parameter(  # noqa: RUF009
        None,
        doc="Where they go: a table column → value (or a value a record), or a list in order of `columns`.",
    )
    shift: Any = parameter(  # noqa: RUF009
        None, doc="By how much they move, in the same forms as `values`."
    )
    columns: tuple[str, ...] = parameter(
        doc="The columns whose means and covariances stay exact.",
        columns="sensitive",
        numeric=True,
        public=True,
    )
    helpers: tuple[int | str, ...] = parameter(
        (), doc="The records that may move too; by default the nearest."
    )
    by: str = parameter(
        "position",
        doc="How records are named: by place or by the id column.",
        choices=("position", "id"),
        public=True,
    )
    near: tuple[str, ...] | None = parameter(
        None,
        doc="The key columns in which helpers should agree; the schema's keys by default.",
        columns=True,
        public=True,
    )
    within: tuple[str, ...] = parameter(
        (),
        doc="Helpers come from the record's stratum, so that its moments stay too.",
        columns=True,
        public=True,
    )
    weight: str | None = parameter(
        None, doc="Keep weighted moments, with the weights of this column.", columns=True, public=True
    )
    max_helpers: int | None = parameter(
        None, doc="At most so many helpers a record.", at_least=1, public=True
    )
    lower: Mapping[str, float] = parameter({}, doc="Lower bounds by column.", columns=True, public=True)
    upper: Mapping[str, float] = parameter({}, doc="Upper bounds by column.", columns=True, public=True)
    non_negative: bool = parameter(
        False, doc="Keep columns without negative values at 0 or above.", public=True
    )
    beyond_bounds: bool = parameter(
        False,
        doc="Where the bounds can't be kept: go beyond them and say where, rather than refuse.",
        public=True,
    )
    round_to_unit: bool = parameter(
        False, doc="Round to the column's unit; the moments are then only nearly kept.", public=True
    )

    # -- what it says of itself ---------------------------------------------------------------------

    def __post_init__(self) -> None:
        for name in ("values", "shift"):
            object.__setattr__(self, name, _frozen(getattr(self, name)))
        super().__post_init__()

    def _check(self) -> Sequence[Fault]:
        out: list[Fault] = []
        if not self.records:
            out.append(("`records` must name at least one record", None, "records"))
        if len(set(self.records)) < len(self.records):
            out.append(("`records` names a record twice", None, "records"))
        if not self.columns:
            out.append(("`columns` must name at least one column", None, "columns"))
        if (self.values is None) == (self.shift is None):
            out.append(("give either `values` or `shift`", None, "values"))
        else:
            out += self._check_form()
        if set(self.records) & set(self.helpers):
            out.append(("a distorted record can't be a helper too", None))
        return out

    def _check_form(self) -> list[Fault]:
        word, given = ("values", self.values) if self.shift is None else ("shift", self.shift)
        if isinstance(given, Mapping):
            stray = [str(c) for c in given if c not in self.columns]
            if stray:
                return [(f"`{word}` names {', '.join(stray)}, which isn't in `columns`", None)]
            rows: list[Any] = list(given.values())
            wrong = [r for r in rows if isinstance(r, (list, tuple)) and len(r) != len(self.records)]
            if wrong:
                return [
                    (f"`{word}` needs one number, or one for each of the {len(self.records)} records", None)
                ]
        else:
            array = given if isinstance(given, (list, tuple)) else [given]
            nested = bool(array) and isinstance(array[0], (list, tuple))
            rows = list(array) if nested else [array]
            if any(not isinstance(r, (list, tuple)) or len(r) != len(self.columns) for r in rows) or (
                nested and len(rows) != len(self.records)
            ):
                return [
                    (f"`{word}` must have a number for each of `columns` (and a list for each record)", None)
                ]
        try:
            finite = all(np.isfinite(np.asarray(r, dtype=np.float64)).all() for r in rows)
        except (TypeError, ValueError):
            finite = False
        return [] if finite else [(f"`{word}` must hold finite numbers", None)]

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        if circular(schema.sums):
            return [*out, Problem(0, f"{circular(schema.sums)} is, by way of other sums, a part of itself")]
        if self.by == "id" and schema.id is None:
            out.append(Problem(0, '`by = "id"` needs an id column', "name it in roles.id"))
        if self.by == "position":
            bad = [r for r in (*self.records, *self.helpers) if isinstance(r, str) or r < 0]
            if bad:
                out.append(
                    Problem(0, f"records are named by place, so {bad[0]!r} isn't one", 'or set by = "id"')
                )
        for column in [*self.lower, *self.upper]:
            if column not in self.columns:
                out.append(Problem(0, f"{column} has a bound, but isn't in `columns`", parameter="columns"))
        for column in self.columns:
            if types.get(column) in (pl.Date, pl.Time):
                what = f"{column} holds {'dates' if types[column] == pl.Date else 'times of day'}"
                message = f"{what}, which can't take the fractions that exact moments need"
                out.append(Problem(0, message, "make it a number first"))
        whole = [c for c in self.columns if c in types and (types[c].is_integer() or types[c].is_decimal())]
        if whole and not self.round_to_unit:
            message = f"{', '.join(whole)} become floats, since whole numbers can't keep the moments exactly"
            out.append(Problem(0, message, "set round_to_unit = true to keep them whole", severity="warning"))
        return out

    def _all_columns(self, schema: Schema) -> tuple[str, ...]:
        totals = [t for t, _ in touched_rules(schema.sums, self.columns)]
        return tuple(dict.fromkeys([*self.columns, *totals]))

    def types_after(self, types: dict[str, pl.DataType], schema: Schema) -> dict[str, pl.DataType]:
        whole = [c for c in self._all_columns(schema) if c in types and not types[c].is_float()]
        floats = [c for c in whole if types[c].is_integer() or types[c].is_decimal()]
        return types if self.round_to_unit else {**types, **dict.fromkeys(floats, pl.Float64())}

    def changes(self, data: Microdata) -> Sequence[str]:
        return self._all_columns(data.schema)

    def needs(self, data: Microdata) -> Sequence[str]:
        used = [*self._all_columns(data.schema), *self._near(data.schema), *self.within]
        used += [c for parts in data.schema.sums.values() for c in parts]
        used += [c for c in (self.weight, data.schema.id if self.by == "id" else None) if c]
        used += [f for c in self._all_columns(data.schema) if (f := data.schema[c].imputed) is not None]
        return tuple(dict.fromkeys(used))

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        columns = self._all_columns(data.schema)
        out: list[Guarantee] = [SumRule(t, p) for t, p in touched_rules(data.schema.sums, columns)]
        if self.round_to_unit and any(unit_of(data.schema, c, data.dtype(c), True) for c in columns):
            return []  # rounding breaks sums and moments by up to a unit; the notes say by how much
        if self.weight:
            out.append(WeightedMoments(columns, self.weight))
        else:
            out.append(SameMoments(columns, tolerance=1e-9, within=self.within))
        return out

    def _near(self, schema: Schema) -> tuple[str, ...]:
        return schema.keys if self.near is None else self.near

    # -- what it does -------------------------------------------------------------------------------

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        columns = self._all_columns(data.schema)
        for column in columns:
            refuse_huge(data.column(column), "can't become floats")
        x = data.matrix(columns).copy(order="C")
        usable: BoolArray = np.asarray(np.isfinite(x).all(axis=1))
        distorted = self._places(data, self.records, usable)
        low, high = self._bounds(columns, x, usable)
        weight = self._weights(data)
        strata = data.codes(self.within)[0]
        keys = [data.codes(c)[0] for c in self._near(data.schema)]
        # A coded or imputed value may be moved where it is asked for, but isn't there to help others.
        free = usable & (weight > 0) & np.logical_and.reduce([data.eligible(c) for c in columns])
        free[distorted] = False
        if self.helpers:
            only = np.zeros(len(data), dtype=np.bool_)
            only[self._places(data, self.helpers, usable)] = True
            free &= only
        before = x.copy()
        log = []
        for at, place in enumerate(distorted):
            delta = self._delta(data.schema, columns, x[place], at)
            pool = np.flatnonzero(free & (strata == strata[place]))
            order = nearest_first(x, place, pool, keys, given=bool(self.helpers))
            log.append(self._distort(x, place, delta, order, weight, (low, high), columns, notes, at))
        if log:
            notes.add_log(pl.concat(log))
        notes.figure("records_distorted", len(distorted))
        notes.figure("records_moved", int(_moved(x, before).sum()))
        return self._write(data, columns, x, before, notes)

    def _distort(
        self,
        x: FloatArray,
        place: int,
        delta: FloatArray,
        order: IntArray,
        weight: FloatArray,
        bounds: tuple[FloatArray, FloatArray],
        columns: Sequence[str],
        notes: Notes,
        at: int,
    ) -> pl.DataFrame:
        rank = whole_file_rank(x[np.append(order, place)])
        try:
            found = reflect(x, place, delta, order, weight, bounds, rank, beyond=self.beyond_bounds)
            most = self.max_helpers
            if most is not None and len(found.members) - 1 > most:
                raise InfeasibleError(
                    f"it needs {len(found.members) - 1} helpers, more than {most}", "raise max_helpers"
                )
        except InfeasibleError as problem:
            raise MaskError(
                f"record {at + 1} of `records` can't be distorted so: {problem}"
                + (f" ({', '.join(columns[j] for j in problem.columns)})" if problem.columns else ""),
                hint=problem.hint,
            ) from None
        if found.outside:
            where = ", ".join(columns[j] for j in found.outside)
            notes.warn(
                f"the bounds of {where} couldn't be kept in every record for record {at + 1} of `records`"
            )
        x[found.members] = found.moved
        notes.figure("helpers", len(found.members) - 1, f"record {at + 1}")
        notes.figure("largest_helper_move", found.largest, f"record {at + 1}")
        return pl.DataFrame(
            {
                "distorted": np.full(len(found.members), place),
                "record": found.members,
                "share_of_shift": found.alpha,
            }
        )

    def _places(self, data: Microdata, named: Sequence[int | str], usable: BoolArray) -> IntArray:
        if self.by == "id":
            assert data.schema.id is not None
            ids = data.column(data.schema.id)
            at = {str(v): i for i, v in enumerate(ids.to_list())}
            missing = [n for n in named if str(n) not in at]
            places = [at[str(n)] for n in named if str(n) in at]
        else:
            missing = [n for n in named if not isinstance(n, int) or n >= len(data)]
            places = [int(n) for n in named if n not in missing]
        if missing:
            raise MaskError(
                f"{len(missing)} of the named records aren't in the file",
                hint=f"the file has records 0 to {len(data) - 1}" if self.by == "position" else None,
            )
        gone = int((~usable[places]).sum())
        if gone:
            raise MaskError(
                f"{gone} of the named records have missing values in `columns`", hint="name complete records"
            )
        return np.array(places, dtype=np.int64)

    def _weights(self, data: Microdata) -> FloatArray:
        if self.weight is None:
            return np.ones(len(data))
        weight = np.nan_to_num(data.numbers(self.weight), nan=0.0)
        if (weight < 0).any():
            raise MaskError(f"{self.weight} has negative weights", hint="correct them")
        return weight

    def _delta(self, schema: Schema, columns: Sequence[str], now: FloatArray, at: int) -> FloatArray:
        """δ of the at-th record; totals move with their parts."""
        given = self.values if self.shift is None else self.shift
        delta = np.zeros(len(columns))
        asked: dict[str, float] = {}
        if isinstance(given, Mapping):
            for column, value in given.items():
                asked[column] = float(value[at] if isinstance(value, (list, tuple)) else value)
        else:
            rows = given if isinstance(given, (list, tuple)) else [given]
            row = rows[at] if rows and isinstance(rows[0], (list, tuple)) else rows
            asked = {c: float(v) for c, v in zip(self.columns, row, strict=True)}
        place = {c: j for j, c in enumerate(columns)}
        for column, value in asked.items():
            delta[place[column]] = value - now[place[column]] if self.shift is None else value
        for total, parts in touched_rules(schema.sums, columns):
            moved = sum(delta[place[p]] for p in parts if p in place)
            if total in asked and not np.isclose(delta[place[total]], moved, rtol=1e-9, atol=1e-9):
                raise MaskError(
                    f"the move of {total} isn't the sum of the moves of {', '.join(parts)}, so the sum rule "
                    "would break",
                    hint=f"say how the parts move and leave {total} out: it moves with them",
                )
            delta[place[total]] = moved
        for total, parts in schema.sums.items():
            if total in asked and asked[total] and not any(p in place for p in parts):
                raise MaskError(
                    f"{total} can't move without its parts {', '.join(parts)}", hint="add them to `columns`"
                )
        if not delta.any():
            raise MaskError(
                f"record {at + 1} of `records` wouldn't move at all", hint="ask for another value"
            )
        return delta

    def _bounds(
        self, columns: Sequence[str], x: FloatArray, usable: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        low = np.array([self.lower.get(c, -np.inf) for c in columns])
        high = np.array([self.upper.get(c, np.inf) for c in columns])
        if self.non_negative and usable.any():
            positive = (x[usable] >= 0).all(axis=0)
            low = np.where(positive, np.maximum(low, 0.0), low)
        return low, high

    def _write(
        self, data: Microdata, columns: Sequence[str], x: FloatArray, before: FloatArray, notes: Notes
    ) -> Microdata:
        new: dict[str, pl.Series] = {}
        rows = np.flatnonzero(_moved(x, before))
        for j, column in enumerate(columns):
            unit = unit_of(data.schema, column, data.dtype(column), True) if self.round_to_unit else None
            if unit:
                x[rows, j] = np.rint(x[rows, j] / unit) * unit
            if (x[:, j] == before[:, j])[rows].all() and (unit or data.dtype(column).is_float()):
                continue
            new[column] = restore(data.column(column), x[:, j], rows, whole=bool(unit))
        if self.round_to_unit:
            complete = np.isfinite(before).all(axis=1)
            one, two = before[complete], x[complete]
            scale = np.where(one.std(axis=0) > 0, one.std(axis=0), 1.0)
            error = np.abs(np.cov((two / scale).T) - np.cov((one / scale).T)).max()
            notes.figure("mean_error_of_rounding", float(np.abs((two - one).mean(axis=0) / scale).max()))
            notes.figure("covariance_error_of_rounding", float(error))
            notes.warn(f"rounding moved the covariances by up to {error:.2g} (relative)")
        return data.with_columns(new)


def _moved(x: FloatArray, before: FloatArray) -> BoolArray:
    return np.asarray(((x != before) & np.isfinite(before)).any(axis=1))


def _frozen(value: Any) -> Any:
    """Lists as tuples, so that a value from a plan equals one from Python."""
    if isinstance(value, Mapping):
        return {k: _frozen(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(_frozen(v) for v in value) if isinstance(value, (list, tuple)) else value
