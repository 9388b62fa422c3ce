"""Re-identify, then swap (Kim and Winkler 1995, section 2.3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Fact, Kept, Travelled
from sfumato.contract.guarantees import Guarantee, SumRule
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.measure import Attack, measure_from
from sfumato.contract.parameters import Fault, parameter
from sfumato.data.microdata import BoolArray, IntArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws, Stream
from sfumato.errors import MaskError, Problem
from sfumato.masks._cells import SameStrings, collapse

_CELL = "__cell"


@dataclass(frozen=True, kw_only=True)
class LinkageSwap(Mask):
    """Attack the masked file as an intruder would, and swap the records that he finds.

    1. ``attack`` links the original file to the masked one; since we know the truth, we know which
    links are right. 2. Cells (``cells``, say age × race × sex) that hold fewer than ``min_candidates``
    records are collapsed: the last of ``cells`` is dropped for them, then the one before, and so on.
    3. ``rate_percent`` of the re-identified records exchange their string of ``columns`` with another
    record of their cell, drawn at random; pairs are disjoint. 4. The attack is run again, and steps
    1 to 3 are repeated until at most ``limit_percent`` of the records are found, or ``max_rounds``.

    Strings of values never leave their cell, so means, covariances and every other statistic of the
    swapped columns are kept exactly in each cell and in unions of cells; elsewhere they aren't.

    Two risks are reported. *Slot*: the intruder links person i to record i of the release, and learns
    its other attributes. *String*: he links person i to the record that now carries i's values.
    Swapping lowers the first. It doesn't hide a string from an intruder who ignores the other
    attributes and blocks on the cell alone: the string is still in the cell.

    The step must know the original file: ``swap.knowing(original).mask(masked)``. A run of a plan
    passes it in. Without it, the file itself is taken as the original.

    Reference: Kim, J. J. and Winkler, W. E. (1995). Masking microdata files. ASA Proc. Survey
    Research Methods, 114-119.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> rng = np.random.default_rng(1)
    >>> data = sf.Microdata(pl.DataFrame({"SEX": rng.integers(0, 2, 200), "PAY": rng.gamma(2, 900, 200)}))
    >>> noisy = sf.AdditiveNoise(columns=["PAY"], variance_ratio=0.001).mask(data, seed=1)
    >>> intruder = sf.DistanceLinkage(known=["PAY"], block_on=["SEX"])
    >>> swap = sf.LinkageSwap(attack=intruder, columns=["PAY"], cells=["SEX"])
    >>> swapped = swap.knowing(data).mask(noisy, seed=1)
    >>> intruder.measure(data, swapped).value < 0.2 < intruder.measure(data, noisy).value
    True
    """

    name: ClassVar[str] = "linkage_swap"
    reference: ClassVar[str] = "Kim and Winkler (1995), section 2.3"

    attack: Any = parameter(doc='The intruder: an attack, or a table { measure = "linkage", … }.')  # noqa: RUF009
    columns: tuple[str, ...] = parameter(
        doc="The columns that travel together, as one string of values.", columns="sensitive", public=True
    )
    cells: tuple[str, ...] = parameter(
        doc="Strings stay within cells of these columns, the most important first.",
        columns="keys",
        public=True,
    )
    rate_percent: float = parameter(
        100.0,
        doc="How many percent of the re-identified records are swapped.",
        at_least=0,
        at_most=100,
        public=True,
    )
    min_candidates: int = parameter(
        10,
        doc="Cells with fewer records are collapsed, the last column of `cells` first.",
        at_least=2,
        public=True,
    )
    class_width: Mapping[str, float] = parameter(
        {},
        doc="Classes of this width are made of a numeric cell column (AGE = 10).",
        columns=True,
        above=0,
        public=True,
    )
    limit_percent: float | None = parameter(
        None,
        doc="Repeat until at most so many percent of the records are re-identified.",
        at_least=0,
        at_most=100,
        public=True,
    )
    max_rounds: int = parameter(
        5, doc="At most so many rounds, where there is a limit.", at_least=1, public=True
    )
    string_risk: bool = parameter(
        True,
        doc="Also attack with the cells as the only blocks, which finds strings wherever they went.",
        public=True,
    )

    def __post_init__(self) -> None:
        if isinstance(self.attack, Mapping):
            object.__setattr__(self, "attack", measure_from(self.attack, "attack"))
        super().__post_init__()

    def _check(self) -> Sequence[Fault]:
        out: list[Fault] = []
        if not isinstance(self.attack, Attack):
            out.append(("`attack` must be an attack, e.g. Linkage(known=…)", None, "attack"))
        if not self.columns:
            out.append(("`columns` must name at least one column", None, "columns"))
        both = [c for c in self.columns if c in self.cells]
        if both:
            out.append((f"{both[0]} can't be swapped within cells of itself", "take it out of `cells`"))
        stray = [c for c in self.class_width if c not in self.cells]
        if stray:
            out.append((f"`class_width` names {stray[0]}, which isn't in `cells`", None, "class_width"))
        return out

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        out += [
            dataclasses.replace(p, message=f"attack: {p.message}") for p in self.attack.check(schema, types)
        ]
        for column in self.class_width:
            if column in types and not types[column].is_numeric():
                out.append(
                    Problem(
                        0,
                        f"`class_width` needs numbers, but {column!r} holds {types[column]}",
                        parameter="class_width",
                    )
                )
        lost = [c for c in self._string(schema) if c in self.cells]
        if lost:
            out.append(
                Problem(
                    0,
                    f"{lost[0]} is part of a sum with `columns`, so it can't form cells",
                    parameter="columns",
                )
            )
        return out

    def _string(self, schema: Schema) -> tuple[str, ...]:
        """The columns that travel: those named, and all that add up with them."""
        out = list(self.columns)
        while True:
            more = [
                c
                for total, parts in schema.sums.items()
                if {total, *parts} & set(out)
                for c in (total, *parts)
                if c not in out
            ]
            if not more:
                return tuple(dict.fromkeys(out))
            out += dict.fromkeys(more)

    def changes(self, data: Microdata) -> Sequence[str]:
        return self._string(data.schema)

    def needs(self, data: Microdata) -> Sequence[str]:
        known = [c for c in self.attack.named_columns() if c in data.columns]
        return tuple(dict.fromkeys([*self.cells, *self._string(data.schema), *known, *data.schema.sensitive]))

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        string = self._string(data.schema)
        return [Kept(columns=string), Travelled(columns=string)]

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        string = self._string(data.schema)
        sums = data.schema.sums.items()
        rules = [SumRule(t, p) for t, p in sums if t in string and not data.schema[t].residual]
        return [SameStrings(string, self.cells, self.class_width, self.min_candidates), *rules]

    # -- what it does -------------------------------------------------------------------------------

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        original = data if self.context.original is None else self.context.original
        if len(original) != len(data):
            raise MaskError(
                f"the original has {len(original):,} records and the masked file {len(data):,}",
                hint="row i of one must be row i of the other",
            )
        string = self._string(data.schema)
        cells, collapsed = collapse(data, self.cells, self.class_width, self.min_candidates)
        for level, records in collapsed.items():
            notes.figure("records_in_cells_of", records, level)
        movable = ~np.logical_or.reduce([data.missing(c) for c in string])
        source = np.arange(len(data))
        current = data
        found = self._found(original, current)
        notes.figure("slot_rate_before", len(found) / len(data))
        rounds = without = 0
        while len(found) and rounds < (self.max_rounds if self.limit_percent is not None else 1):
            if self.limit_percent is not None and 100 * len(found) <= self.limit_percent * len(data):
                break
            rounds += 1
            name = "+".join(sorted(self.columns))
            chosen = self._share(found, draws.stream(name, purpose=f"share of round {rounds}"))
            partners = draws.stream(name, purpose=f"round {rounds}")
            swap, without = exchange(chosen, cells, movable, partners)
            source = source[swap]
            current = self._moved(data, string, source)
            found = self._found(original, current)
            if (swap == np.arange(len(swap))).all():
                break
        self._report(original, data, current, source, cells, found, notes)
        notes.figure("rounds", rounds)
        if without:
            notes.figure("records_without_partner", without)
            notes.warn(f"{without:,} re-identified records found no free partner in their cell and stayed")
        if self.limit_percent is not None and 100 * len(found) > self.limit_percent * len(data):
            notes.warn(
                f"the limit of {self.limit_percent:g}% wasn't met: {100 * len(found) / len(data):.3g}% of "
                f"the records are still re-identified after {rounds} rounds"
            )
        moved = np.flatnonzero(source != np.arange(len(source)))
        notes.add_log(pl.DataFrame({"record": moved, "string_of": source[moved]}))
        return current

    def _moved(self, data: Microdata, string: Sequence[str], source: IntArray) -> Microdata:
        take = pl.Series(source.astype(np.uint32))
        return data.with_columns({c: data.column(c).gather(take) for c in string})

    def _found(self, original: Microdata, masked: Microdata) -> IntArray:
        """The records that the attack links to themselves."""
        links = self.attack.measure(original, masked).confidential["links"]
        first, second = links["original"].to_numpy(), links["masked"].to_numpy()
        return np.unique(first[first == second]).astype(np.int64)

    def _share(self, found: IntArray, stream: Stream) -> IntArray:
        count = int(np.rint(len(found) * self.rate_percent / 100))
        order = np.argsort(stream.uniform(0, int(found.max()) + 1)[found])
        return found[order[:count]]

    def _report(
        self,
        original: Microdata,
        before: Microdata,
        after: Microdata,
        source: IntArray,
        cells: IntArray,
        found: IntArray,
        notes: Notes,
    ) -> None:
        n = len(source)
        notes.figure("records_swapped", int((source != np.arange(n)).sum()))
        notes.figure("slot_rate", len(found) / n)
        notes.figure("string_rate", _string_rate(self.attack, original, after, source))
        if not self.string_risk or not hasattr(self.attack, "block_on"):
            return
        label = pl.Series(_CELL, cells)
        attack = dataclasses.replace(self.attack, block_on=(_CELL,))
        held, start, end = (d.with_columns([label]) for d in (original, before, after))
        first = _string_rate(attack, held, start, np.arange(n))
        last = _string_rate(attack, held, end, source)
        notes.figure("string_rate_cells_only_before", first)
        notes.figure("string_rate_cells_only", last)
        notes.warn(
            f"who blocks on the cells alone finds {last:.3g} of all strings ({first:.3g} before): "
            "swapping whole strings doesn't hide a string, only whose other attributes belong to it"
        )


def exchange(chosen: IntArray, cells: IntArray, movable: BoolArray, stream: Stream) -> tuple[IntArray, int]:
    """Pair each chosen record with a random free record of its cell: source of each slot, and how many
    found no partner. Chosen records come first as given; a partner may itself be chosen."""
    n = len(cells)
    source = np.arange(n)
    free = movable.copy()
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], np.arange(int(cells.max(initial=0)) + 2))
    generator = stream.generator()
    without = 0
    for i in chosen.tolist():
        if not free[i]:
            without += not movable[i]
            continue
        members = order[starts[cells[i]] : starts[cells[i] + 1]]
        candidates = members[free[members]]
        candidates = candidates[candidates != i]
        if not len(candidates):
            without += 1
            continue
        j = int(candidates[generator.integers(len(candidates))])
        source[i], source[j] = j, i
        free[i] = free[j] = False
    return source, without


def _string_rate(attack: Attack, original: Microdata, masked: Microdata, source: IntArray) -> float:
    """The share of persons whose values the attack finds, wherever they now are."""
    links = attack.measure(original, masked).confidential["links"]
    first, second = links["original"].to_numpy(), links["masked"].to_numpy()
    return float((source[second] == first).sum() / len(source))
