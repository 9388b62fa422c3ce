"""The recodes that a file offers by itself, key by key, and the best choice among them.

A key's ladder starts with the value as it is; each rung is a step of a plan (a recode or a truncation) that
joins classes of the rung before: numbers by width with open ends, dates by period, codes by digits, areas
by the area they lie in, other categories with the rare ones joined; or the levels of the hierarchy that the
schema names.

>>> import polars as pl, sfumato as sf
>>> data = sf.Microdata(pl.DataFrame({"AGE": list(range(20, 80)) * 3}), sf.Schema(keys=["AGE"]))
>>> [mask.width for mask in ladder(data, "AGE")]
[5, 10, 20]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from sfumato import registry
from sfumato.cells.generalise import Chain, Generalisation, KAnonymous, Lattice, Model, generalise
from sfumato.contract.mask import Mask
from sfumato.data.codes import code_column
from sfumato.data.hierarchy import Hierarchy
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.errors import SchemaError, SfumatoError

TAIL: Final = 0.01
"""An open end holds at least this share of the records."""
RARE: Final = (0.01, 0.05, 0.15)
"""Categories rarer than this are joined, rung by rung."""
FEW: Final = 12
FEWEST: Final = 3
"""A category that fewer records hold leads to them by itself."""
_PERIODS: Final = ("month", "quarter", "year", "decade")


def ladder(data: Microdata, key: str) -> list[Mask]:
    """The rungs above a key's values as they are, each a step of a plan."""
    values = data.column(key).filter(pl.Series(~data.missing(key)))
    if not len(values):
        return []
    variable = data.schema[key]
    if variable.hierarchy is not None:
        height = Hierarchy.read(variable.hierarchy).height
        return [_recode(key, level=v) for v in range(1, height + 1)]
    dtype = values.dtype
    if dtype in (pl.Date, pl.Datetime):
        return [_recode(key, period=p) for p in _PERIODS]
    if dtype.is_numeric() and data.kind(key) != "categorical":
        return _by_width(key, values)
    nested = _by_area(data, key)
    if nested:
        return nested
    if dtype == pl.String:
        cut = _by_digits(key, values)
        if cut:
            return cut
    return _rare_joined(key, values)


def _recode(column: str, **parameters: Any) -> Mask:
    return registry.mask("recode").from_dict({"column": column, **parameters})


def _by_width(key: str, values: pl.Series) -> list[Mask]:
    x = values.cast(pl.Float64).drop_nans().to_numpy()
    distinct = np.unique(x)
    if len(distinct) < 3:
        return []
    low, high = np.quantile(x, [TAIL, 1 - TAIL])
    span = float(distinct[-1] - distinct[0])
    whole = bool((distinct == np.floor(distinct)).all())
    base = 10.0 ** math.floor(math.log10(span / 20)) if span > 200 else 1.0
    base = max(base, 1.0) if whole else (base if span > 200 else 10.0 ** math.floor(math.log10(span / 20)))
    if len(distinct) <= FEW and whole:
        return _top_joined(key, x, distinct)
    out: list[Mask] = []
    for times in (1, 5, 10, 20, 40):
        width = base * times
        if width > span / 2:
            break
        # Ends that are multiples of the width nest, as the widths do.
        lowest, highest = math.ceil(low / width) * width, math.floor(high / width) * width
        if lowest >= highest:
            break
        ends = {"lowest": lowest} if distinct[0] < lowest else {}
        ends |= {"highest": highest} if distinct[-1] >= highest + width else {}
        if ends or width > 1 or not whole:
            out.append(_recode(key, width=_plain(width), **{k: _plain(v) for k, v in ends.items()}))
    return out


def _top_joined(key: str, x: Any, distinct: Any) -> list[Mask]:
    """Small counts (rooms, persons): the largest are joined into one class, rung by rung."""
    out = []
    for share in RARE:
        tops = [v for v in distinct if (x >= v).mean() >= share]
        highest = tops[-1] if tops else distinct[-1]
        if highest > distinct[0]:
            out.append(_recode(key, width=1, highest=_plain(float(highest))))
    return [m for i, m in enumerate(out) if m not in out[:i]]


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else number


def _by_area(data: Microdata, key: str) -> list[Mask]:
    """A code becomes that of the area, or the coarser code, it lies in: the nearest first."""
    out: list[Mask] = []
    for wider in data.schema.wider(key):
        if wider not in data.columns:
            continue
        there = pl.Series(~(data.missing(key) | data.missing(wider)))
        pairs = data.frame.select(pl.col(key), pl.col(wider)).filter(there).drop_nulls().unique()
        if not pairs.height or pairs.height != pairs[key].n_unique():
            continue
        if (_is_text(data, key) or data.dtype(key).is_integer()) and pairs.height <= 2_000:
            texts = pairs.select(pl.all().cast(pl.String)).sort(key)
            mapping = {_quoted(name, pairs[key]): to for name, to in texts.iter_rows()}
            out.append(_recode(key, mapping=mapping))
    return out


def _is_text(data: Microdata, key: str) -> bool:
    return data.dtype(key) in (pl.String, pl.Categorical, pl.Enum)


def _by_digits(key: str, values: pl.Series) -> list[Mask]:
    """Codes of one length whose first digits are a class of their own (industry, occupation, postcode)."""
    codes = values.unique()
    lengths = codes.str.len_chars()
    longest = int(lengths.max() or 0)  # type: ignore[arg-type]
    digits = codes.str.contains(r"^\d+$").all()
    if not digits or longest < 3 or lengths.n_unique() > 1 or len(codes) <= 20:
        return []
    return [registry.mask("truncate").from_dict({"column": key, "digits": cut}) for cut in range(1, longest)]


def _rare_joined(key: str, values: pl.Series) -> list[Mask]:
    """First what fewer than three records hold, then what a larger and larger share doesn't."""
    counts = values.cast(pl.String).value_counts().sort(["count", values.name], descending=[False, True])
    names, often = counts[values.name].to_list(), counts["count"].to_list()
    other = next(w for w in ("other", "all other", "any other") if w not in names)
    out = []
    for least in (FEWEST, *(max(FEWEST, share * len(values)) for share in RARE)):
        many = sum(n < least for n in often)
        while many and many < len(names) - 1 and (many < 2 or sum(often[:many]) < FEWEST):
            many += 1  # one rare value alone, under another name, is as rare
        if 2 <= many <= 5_000:
            mapping = {_quoted(n, values): other for n in names[:many]}
            out.append(_recode(key, mapping=mapping, keep_others=True))
    return [m for i, m in enumerate(out) if m not in out[:i]]


def _quoted(name: str, values: pl.Series) -> str:
    """A negative number alone reads as an open range: write it as one."""
    return f"{name}-{name}" if values.dtype.is_numeric() and name.startswith("-") else name


@dataclass(frozen=True)
class KeyLadders:
    """The ladders of a file's keys, with the chain of classes of each for the search."""

    keys: tuple[str, ...]
    rungs: Mapping[str, tuple[Mask, ...]]
    chains: Mapping[str, Chain]
    codes: Mapping[str, Any]
    categories: tuple[str, ...]

    @classmethod
    def of(cls, data: Microdata, keys: Sequence[str], like: KeyLadders | None = None) -> KeyLadders:
        """Rungs that don't fit a key (a class that clashes with a missing code, say) are left out.

        ``like`` gives the rungs of another file with the same keys.
        """
        rungs, chains, codes = {}, {}, {}
        for key in keys:
            coded, levels = code_column(data, key)
            held: list[Mask] = []
            classes: list[list[Any]] = []
            for mask in ladder(data, key) if like is None else like.rungs[key]:
                try:
                    named = mask.class_of(levels, data.schema[key]).to_list()  # type: ignore[attr-defined]
                    Chain.of(key, [*classes, named], [""] * (len(classes) + 1), size=len(levels))
                except SfumatoError:
                    continue
                held.append(mask)
                classes.append(named)
            said = [_said(m) for m in held]
            chains[key] = Chain.of(key, classes, said, size=len(levels))
            rungs[key], codes[key] = tuple(held), coded
        numbers = [k for k in keys if data.dtype(k).is_numeric() and data.kind(k) != "categorical"]
        return cls(tuple(keys), rungs, chains, codes, tuple(k for k in keys if k not in numbers))

    def steps(self, levels: Mapping[str, int]) -> tuple[list[Mask], list[str]]:
        """The plan's steps for a level of each key, and the keys that are dropped."""
        steps, dropped = [], []
        for key in self.keys:
            place = self.chains[key].of_level[levels.get(key, 0)]
            if place >= 0:
                steps.append(self.rungs[key][place])
            elif place == -2:
                dropped.append(key)
        return steps, dropped

    def named(self, levels: Mapping[str, int]) -> list[str]:
        """What is done to each key that doesn't stay as it is."""
        return [f"{k} {self.chains[k].names[v]}" for k, v in levels.items() if v]

    def best(self, k: int, *, rows: IntArray | None = None, suppress_at_most: float = 0.05) -> Generalisation:
        """The levels of least loss at which every combination has k records, but for a share to be
        suppressed."""
        return self.search(KAnonymous(k), rows=rows, suppress_at_most=suppress_at_most)

    def search(
        self,
        model: Model,
        *,
        rows: IntArray | None = None,
        suppress_at_most: float = 0.05,
        counts: IntArray | None = None,
        **more: Any,
    ) -> Generalisation:
        """The levels of least loss that meet a condition; ``more`` as in :class:`Lattice`."""
        if not self.keys:
            raise SchemaError("there is no key to recode")
        columns = [self.codes[k] if rows is None else self.codes[k][rows] for k in self.keys]
        lattice = Lattice([self.chains[k] for k in self.keys], columns, counts, **more)
        return generalise(lattice, model, suppress_at_most=suppress_at_most, most_nodes=5_000)

    def peopled(self, key: str, people: FloatArray, least: float) -> int:
        """The lowest level of an area at which every class stands for as many people; the last drops it."""
        for level, to in enumerate(self.chains[key].maps):
            sizes = np.bincount(to[self.codes[key]], people)
            if sizes[sizes > 0].min(initial=np.inf) >= least:
                return level
        return len(self.chains[key].maps) - 1

    def common(self, k: int, *, numbers: bool = True) -> dict[str, int]:
        """The lowest level of each key at which every class has k records: nobody stands out by one key.

        Without ``numbers`` those that are numbers stay as they are.
        """
        out = dict.fromkeys(self.keys, 0)
        for key in self.keys if numbers else self.categories:
            for level, to in enumerate(self.chains[key].maps):
                sizes = np.bincount(to[self.codes[key]])
                if sizes[sizes > 0].min(initial=k) >= k:
                    out[key] = level
                    break
        return out


def _said(mask: Mask) -> str:
    """A rung in words."""
    told = {k: v for k, v in mask.to_dict().items() if k != "column"}
    if "width" in told:
        ends = [f"{told[e]:g} and {w}" for e, w in (("highest", "more"),) if e in told]
        ends += [f"below {told['lowest']:g}" for e in ("lowest",) if e in told]
        joined = f"{', '.join(ends)} joined" if ends else ""
        if told["width"] == 1 and joined:
            return joined
        return f"in classes of {told['width']:g}" + (f" ({joined})" if joined else "")
    if "period" in told:
        return f"by {told['period']}"
    if "digits" in told:
        return f"less {told['digits']} digits"
    if "level" in told:
        return f"at level {told['level']} of its hierarchy"
    if not told.get("keep_others"):
        return f"by what it lies in ({len(set(told.get('mapping', {}).values()))} values)"
    return f"with {len(told.get('mapping', ()))} rare values joined"
