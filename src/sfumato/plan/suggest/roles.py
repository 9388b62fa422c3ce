"""Suggest a schema from the data: roles, codes, sums. A person edits it afterwards.

>>> import sfumato as sf
>>> found = suggest(sf.decks.housing().with_schema(sf.Schema()))
>>> found.schema.id, found.schema.geography, found.schema.sensitive[:2]
('IDNUM', ('REGION',), ('INCOME', 'HOME_VAL'))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from sfumato.data.microdata import Microdata, as_microdata
from sfumato.data.schema import Schema
from sfumato.plan.suggest import words as names
from sfumato.plan.suggest.codes import codes_of, unit_of
from sfumato.plan.suggest.draft import plan_text
from sfumato.plan.suggest.sums import find_sums

__all__ = ["Suggestion", "plan_text", "suggest"]

_SAMPLE: Final = 200_000
_FEW: Final = 30
_MANY: Final = 30
_MOST_KEYS: Final = 8
_MOST_GEOGRAPHY_VALUES: Final = 2_000
_LARGEST_HOUSEHOLD: Final = 30
_LEAST: Final = 20


@dataclass(frozen=True)
class Suggestion:
    """A schema with, for each column, the reasons in words.

    ``drop`` are columns that a release should not have (ids, names, addresses); ``notes`` are
    remarks on the file as a whole.
    """

    schema: Schema
    reasons: dict[str, tuple[str, ...]]
    drop: tuple[str, ...]
    types: dict[str, pl.DataType]
    records: int
    distinct: dict[str, int]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for ``--json``."""
        return {
            "records": self.records,
            "columns": list(self.types),
            **self.schema.to_dict(),
            "drop": list(self.drop),
            "reasons": {c: list(r) for c, r in self.reasons.items()},
            "notes": list(self.notes),
        }


@dataclass
class _Look:
    """The data, a sample of them, and what has been decided so far."""

    data: Microdata
    sample: pl.DataFrame
    distinct: dict[str, int]
    """Distinct values (nulls aside) in the sample."""
    reasons: dict[str, list[str]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def say(self, column: str, reason: str, *, take: bool = False) -> None:
        self.reasons.setdefault(column, []).append(reason)
        if take:
            self.taken.add(column)

    def free(self) -> list[str]:
        return [c for c in self.data.columns if c not in self.taken]

    def is_code(self, column: str) -> bool:
        """Whether a column holds text, whole numbers or true/false (something that can be a code)."""
        dtype = self.data.dtype(column)
        if dtype.is_float():
            known = self.sample[column].drop_nulls()
            return bool(len(known)) and bool((known.is_finite() & (known == known.floor())).all())
        return dtype.is_integer() or dtype in (pl.String, pl.Boolean, pl.Categorical, pl.Enum)


def suggest(data: Any) -> Suggestion:
    """Look at the data and suggest what each column is.

    Names and values decide together. Most is judged on a sample of at most 200,000 records spread
    over the file; what must not be claimed wrongly (uniqueness, nesting areas, exact sums, units)
    is checked on all records. What the file's own metadata say is kept.
    """
    microdata = as_microdata(data)
    frame = microdata.frame
    step = max(1, frame.height // _SAMPLE)
    sample = frame.gather_every(step) if step > 1 else frame
    counts = sample.select(pl.all().drop_nulls().n_unique()).row(0, named=True) if frame.columns else {}
    look = _Look(microdata, sample, dict(counts))
    own = microdata.schema
    for role in ("id", "household", "weight"):
        if getattr(own, role):
            look.say(getattr(own, role), f"the file's own metadata say that it is the {role}", take=True)
    identity = own.id or _id(look)
    drop = _direct(look, identity)
    household = own.household or _household(look)
    weight = own.weight or _weight(look)
    geography = own.geography or _geography(look)
    for column in look.free():
        if names.has(column, names.DESIGN) and microdata.dtype(column).is_integer():
            look.say(column, "a number of the design or of a person within it; no role", take=True)
    keys = own.keys or _keys(look, geography)
    for key in own.keys:
        look.say(key, "the file's own metadata say that it identifies people", take=True)
    sensitive = own.sensitive or _sensitive(look)
    schema = Schema(
        id=identity, keys=keys, sensitive=sensitive, geography=geography, household=household, weight=weight,
        strata=own.strata, variables=own.variables,
    )  # fmt: skip
    schema = _with_codes(look, schema)
    schema = _with_sums(look, schema)
    drop = (*drop, *_left_over(look, schema, drop))
    return Suggestion(
        schema=schema,
        reasons={c: tuple(look.reasons[c]) for c in microdata.columns if c in look.reasons},
        drop=drop,
        types=dict(microdata._types),
        records=len(microdata),
        distinct=look.distinct,
        notes=tuple(look.notes),
    )


# -- roles ----------------------------------------------------------------------------------------


def _unique(look: _Look, column: str) -> bool:
    """Whether no two records share a value, on all records."""
    if look.distinct[column] < look.sample.height:
        return False
    series = look.data.column(column)
    return not series.null_count() and series.n_unique() == len(series)


def _id(look: _Look) -> str | None:
    found: list[tuple[int, str, str]] = []
    if len(look.data) < 2:
        return None
    for column in look.free():
        if not look.is_code(column) or look.data.dtype(column).is_float() or not _unique(look, column):
            continue
        series = look.data.column(column)
        named = names.has(column, names.ID)
        running = series.dtype.is_integer() and _span(series) == len(series) - 1
        if named or running or (series.dtype == pl.String and len(series) >= 20):
            why = "its values run from first to last without a gap" if running else "no two records share it"
            found.append((0 if named else 1, column, f"an id: {why}"))
    if not found:
        return None
    _, column, reason = min(found, key=lambda f: f[0])
    look.say(column, reason, take=True)
    return column


def _span(series: pl.Series) -> int:
    low, high = series.min(), series.max()
    return int(high) - int(low) if isinstance(low, int) and isinstance(high, int) else -1


def _direct(look: _Look, identity: str | None) -> tuple[str, ...]:
    """What must not be released: the id, other ids, names and addresses."""
    drop = [identity] if identity is not None else []
    for column in look.free():
        dtype = look.data.dtype(column)
        unique = look.is_code(column) and not dtype.is_float() and _unique(look, column)
        if unique and names.has(column, names.ID):
            look.say(column, "another id: no two records share it", take=True)
            drop.append(column)
        elif dtype == pl.String and names.has(column, names.DIRECT) and look.distinct[column] > _MANY:
            look.say(column, "its name says that it identifies a person directly", take=True)
            drop.append(column)
    return tuple(drop)


def _household(look: _Look) -> str | None:
    for column in look.free():
        if not names.has(column, names.HOUSEHOLD) or not look.is_code(column):
            continue
        series = look.data.column(column)
        groups = series.n_unique()
        if series.null_count() or not 1 < len(series) / max(groups, 1) <= _LARGEST_HOUSEHOLD:
            continue
        if names.has(column, frozenset({"size", "hsize", "weight", "weights"})) or groups < 3:
            continue
        size = len(series) / groups
        look.say(column, f"a household: {groups:,} values, {size:.2g} records each on average", take=True)
        return column
    return None


def _weight(look: _Look) -> str | None:
    found = []
    for column in look.free():
        dtype, label = look.data.dtype(column), look.data.schema[column].label or ""
        if not dtype.is_numeric() or not names.is_weight(column):
            continue
        if set(names.words(label)) & names.NOT_A_WEIGHT or look.data.schema[column].labels:
            continue
        series = look.data.column(column)
        low = series.min()
        if series.null_count() or look.data.missing(column).any() or low is None or float(low) < 0:  # type: ignore[arg-type]
            continue
        found.append(column)
    for column in found:
        look.say(column, "a sampling weight, by its name; no value is missing or negative", take=True)
    # Where there are several, the one that varies tells more than a constant.
    return max(found, key=lambda c: look.distinct[c] > 1, default=None)


def _geography(look: _Look) -> tuple[str, ...]:
    """Areas from coarse to fine: the longest chain in which every area lies in one coarser area."""
    there = []
    for column in look.free():
        few = 2 <= look.distinct[column] <= min(_MOST_GEOGRAPHY_VALUES, max(2, look.sample.height // 3))
        if names.has(column, names.GEOGRAPHY) and look.is_code(column) and few and not names.is_money(column):
            there.append(column)
    there.sort(key=lambda c: look.distinct[c])
    chains: dict[str, tuple[str, ...]] = {}
    for fine in there:
        before = [chains[c] for c in chains if _nests(look, c, fine)]
        chains[fine] = (*max(before, key=len, default=()), fine)
    # Of equally long chains, the one whose last areas are the most: a sub-code repeats its few values.
    best = max(chains.values(), key=lambda c: (len(c), look.distinct[c[-1]]), default=())
    for place, column in enumerate(best):
        where = f"; each lies in one {best[place - 1]}" if place else ""
        look.say(column, f"an area, by its name: {look.distinct[column]:,} values{where}")
    for column in there:
        if column not in best:
            look.say(column, "an area, by its name, but its codes don't nest in the other areas")
    return best


def _nests(look: _Look, coarse: str, fine: str) -> bool:
    pairs = look.data.select([coarse, fine]).drop_nulls().unique()
    return bool(pairs.height) and pairs[fine].n_unique() == pairs.height


def _keys(look: _Look, geography: Sequence[str]) -> tuple[str, ...]:
    keys = []
    for column in look.free():
        n = look.distinct[column]
        known = names.has(column, names.KEY) and look.data.dtype(column).is_numeric()
        if n < 2 or not (look.is_code(column) or known) or n > look.sample.height / 2:
            continue
        if names.is_money(column):
            continue
        if column in geography or (names.has(column, names.GEOGRAPHY) and n <= 500):
            keys.append(column)
        elif names.has(column, names.KEY) and n <= 200:
            look.say(column, f"known from outside, by its name; {n} values")
            keys.append(column)
    others = [
        c for c in look.free()
        if c not in keys and 2 <= look.distinct[c] <= _FEW and look.is_code(c) and not names.is_private(c)
        and look.distinct[c] <= look.sample.height / 4
    ]  # fmt: skip
    if len(keys) < 3:
        for column in others[: 4 - len(keys)]:
            look.say(column, f"it has few values ({look.distinct[column]}), so that it may be known")
            keys.append(column)
    if len(keys) > _MOST_KEYS:
        left = keys[_MOST_KEYS:]
        look.notes.append(f"may be known from outside too: {', '.join(left)}")
        keys = keys[:_MOST_KEYS]
    look.taken.update(keys)
    return tuple(keys)


def _sensitive(look: _Look) -> tuple[str, ...]:
    out = []
    for column in look.free():
        dtype, n = look.data.dtype(column), look.distinct[column]
        labelled = bool(look.data.schema[column].labels)
        if not names.is_money(column) and (names.has(column, names.GEOGRAPHY) or names.is_code(column)):
            continue
        if dtype.is_numeric() and not labelled and names.is_money(column) and n >= 5:
            look.say(column, f"an amount, by its name; {n:,} values", take=True)
            out.append(column)
        elif dtype.is_numeric() and not labelled and n > (200 if names.has(column, names.KEY) else _MANY):
            look.say(column, f"a continuous number: {n:,} values", take=True)
            out.append(column)
        elif not dtype.is_numeric() and look.is_code(column) and names.is_private(column) and 2 <= n <= 200:
            look.say(column, "private, by its name", take=True)
            out.append(column)
    return tuple(out)


def _left_over(look: _Look, schema: Schema, drop: Sequence[str]) -> list[str]:
    """Text and dates of no role in which nearly every record differs: dropped until a person decides.

    Other columns without a role are named, because they would be released as they are.
    """
    single = {schema.id, schema.household, schema.weight, *drop}
    out, plain = [], []
    for column in look.data.columns:
        if column in single or schema.role_of(column) is not None:
            continue
        dtype, known = look.data.dtype(column), look.sample[column].drop_nulls()
        words = dtype in (pl.String, pl.Categorical, pl.Enum, pl.Date) or isinstance(dtype, pl.Datetime)
        if words and len(known) >= _LEAST and 2 * look.distinct[column] > len(known):
            look.say(column, "no role, and nearly every record has its own value: dropped until you decide")
            out.append(column)
        else:
            plain.append(column)
    if plain:
        listed = ", ".join(plain)
        look.notes.append(f"no role was found for {listed}: they are released as they are")
    return out


# -- codes and sums -------------------------------------------------------------------------------


def _with_codes(look: _Look, schema: Schema) -> Schema:
    skip = {schema.id, schema.household, schema.weight}
    for column in look.data.columns:
        if column in skip:
            continue
        own, dtype = schema[column], look.data.dtype(column)
        details: dict[str, Any] = {}
        if column in schema.keys and own.kind is None and dtype.is_numeric():
            ordered = names.has(column, names.ORDERED) and not own.labels
            details["kind"] = "ordinal" if ordered else "categorical"
        if dtype.is_numeric() and (not own.missing or not own.top or not own.bottom):
            codes = codes_of(look.sample[column], dict(own.labels))
            if codes.missing and not own.missing and _some_left(look, column, [c for c, _ in codes.missing]):
                details["missing"] = tuple(c for c, _ in codes.missing)
                for _, reason in codes.missing:
                    look.say(column, f"looks missing: {reason}")
            for end in ("top", "bottom"):
                found = getattr(codes, end)
                measured = column in schema.sensitive or names.has(column, names.AGE)
                if found is not None and getattr(own, end) is None and not own.labels and measured:
                    details[end] = int(found[0]) if float(found[0]).is_integer() else found[0]
                    look.say(column, f"{end} code: {found[1]}")
        elif dtype == pl.String and not own.missing and look.distinct[column] <= 1000:
            texts = look.sample[column].drop_nulls().unique().sort().to_list()
            gone = [t for t in texts if t.strip().casefold() in names.MISSING_TEXT]
            if gone and len(gone) < len(texts):
                details["missing"] = tuple(gone)
                look.say(column, f"looks missing: {', '.join(repr(t) for t in gone)}")
        if details:
            schema = schema.with_variable(column, **details)
    coded = look.data.with_schema(schema)
    for column in schema.sensitive:
        unit = unit_of(coded, column) if schema[column].unit is None else None
        if unit is not None:
            plain = int(unit) if unit.is_integer() else unit
            schema = schema.with_variable(column, unit=plain)
            look.say(column, f"all values are multiples of {plain:g}")
    return schema


def _some_left(look: _Look, column: str, codes: Sequence[Any]) -> bool:
    left = look.sample[column].drop_nulls()
    return bool((~left.is_in(list(codes))).any()) if len(left) else False


def _with_sums(look: _Look, schema: Schema) -> Schema:
    data = look.data.with_schema(schema)
    skip = {schema.id, schema.household, schema.weight, *schema.geography}
    numeric = [c for c in data.columns if data.is_numeric(c) and c not in skip and not schema[c].labels]
    for total, parts in find_sums(data, numeric).items():
        if not schema[total].sum_of:
            schema = schema.with_variable(total, sum_of=parts)
            look.say(total, f"the exact sum of {', '.join(parts)} in every record that has them all")
    return schema
