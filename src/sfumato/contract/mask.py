"""What every mask is: declared parameters, guarantees, and one method that does the work.

To add a mask, write one file with one frozen dataclass::

    @dataclass(frozen=True, kw_only=True)
    class Shuffle(Mask):
        \"\"\"Shuffle the values of each column.\"\"\"

        name = "shuffle"
        columns: tuple[str, ...] = parameter(doc="The columns to shuffle.", columns=True)

        def changes(self, data):
            return self.columns

        def keeps(self, data):
            return [SameMultiset(self.columns)]

        def _apply(self, data, draws, notes):
            ...
            return data.with_columns(new)

The plan key, the command line, the docs page and the contract tests come from the class.
"""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Self

import polars as pl

from sfumato.contract.context import Context, Told
from sfumato.contract.disclosure import Fact, Kept
from sfumato.contract.guarantees import Check, Guarantee, NothingLost, RuleKept, SameRecords, Untouched
from sfumato.data.digest import records_digest
from sfumato.data.edit_check import broken, edits_of
from sfumato.data.follow import alone, follow, followers
from sfumato.data.microdata import Microdata, as_microdata, refuse_extremes
from sfumato.data.rules import judgeable, rules_of, strict
from sfumato.data.schema import Schema, Variable
from sfumato.data.usable import below_zero, computing, refuse_unusable
from sfumato.draws import Draws, Seed, as_seed
from sfumato.errors import GuaranteeError, MaskError, Problem, SfumatoError
from sfumato.parallel import in_threads


@dataclass
class Notes:
    """What a step has to say of its work.

    ``figures`` are numbers for the internal report (targets, achieved values, counts), by name;
    ``warnings`` are sentences; ``log`` is the confidential list of what was done to whom. None of
    them goes into the public bundle.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    log: pl.DataFrame | None = None

    def figure(self, name: str, value: Any, column: str | None = None) -> None:
        """Note a number; with ``column``, one of several columns' (``figures[name][column]``)."""
        if column is None:
            self.figures[name] = value
        else:
            self.figures.setdefault(name, {})[column] = value

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)

    def add_log(self, entries: pl.DataFrame) -> None:
        """Add rows to the confidential log."""
        self.log = entries if self.log is None else pl.concat([self.log, entries], how="diagonal_relaxed")


@dataclass(frozen=True, kw_only=True)
class Mask(Told):
    """The base of every mask."""

    reference: ClassVar[str] = ""
    """Where the method comes from."""
    needs_shuffle: ClassVar[bool] = False
    """Whether its protection ends where records are released in their original order."""
    moves_missing: ClassVar[bool] = False
    """Whether missing values change places like others; else they stay where they are."""
    draws_nothing: ClassVar[bool] = False
    """Whether it does the same whatever the seed is."""
    blanks: ClassVar[bool] = False
    """Whether values may become missing; of any other mask, a run refuses that."""
    by_value: ClassVar[bool] = False
    """Whether equal values are always treated alike (a recode), so that members can't come apart."""

    # -- what a mask says of itself ---------------------------------------------------------------

    @abstractmethod
    def changes(self, data: Microdata) -> Sequence[str]:
        """The columns that the mask may change on these data (added columns too)."""

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        """What the mask promises on these data, beyond leaving all other columns alone."""
        return ()

    def logged(self, data: Microdata, log: pl.DataFrame) -> Sequence[Guarantee]:
        """What the mask promises of what its confidential log says (who was put together with whom)."""
        return ()

    def clashes(self, log: pl.DataFrame, earlier: pl.DataFrame) -> str | None:
        """Why this step's release must not stand beside an earlier one, by the two confidential logs."""
        return None

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        """What is wrong (or unwise: ``severity="warning"``) with this step, from the schema and the
        column types alone, before anything is run. Line 0; the plan knows the line."""
        return self.check_columns(types)

    def by_household(self, schema: Schema) -> bool:
        """Whether it treats a household's members together; by default where it was told of households."""
        return getattr(self, "household", None) is not None

    def check_household(self, schema: Schema) -> list[Problem]:
        """A caution where the schema names a household and this step masks persons one by one."""
        if schema.household is None or self.by_value or self.by_household(schema):
            return []
        message = (
            f"{self.name} masks persons one by one, and the schema names households ({schema.household}): a "
            "household is found by its members together, whatever holds for one of them"
        )
        hint = (
            f'`household = "{schema.household}"` for what members share, cluster_shuffle with `unit = '
            f'"{schema.household}"` for all, or drop {schema.household} and what members share'
        )
        return [Problem(0, message, hint, "warning")]

    def foresees(self, data: Microdata) -> list[Problem]:
        """What this step will do to these data that a careful person wants to know before; warnings."""
        return []

    def check_rules(
        self, schema: Schema, types: dict[str, pl.DataType], dropped: Sequence[str] = ()
    ) -> list[Problem]:
        """A result that this step would mask by itself, while its parts are released and give it back."""
        if self.blanks or not rules_of(schema):
            return []  # a suppressed result takes one of its parts with it
        empty = Microdata(pl.DataFrame(schema=types), schema.restricted_to(types))
        try:
            columns, after = self.changes(empty), self.types_after(types, schema)
        except SfumatoError:  # something else is wrong with the step, and said by `check`
            return []
        # What becomes text can't be added up any more; other steps may do the same to the parts.
        return [
            Problem(
                0,
                f"{self.name} masks {rule.result}, but {rule.by(rule.result)} gives it back",
                f"mask the parts ({rule.result} follows by itself), or drop one of these columns",
            )
            for rule in alone(empty.schema, columns, dropped)
            if rule.result in after and after[rule.result].is_numeric()
        ]

    def types_after(self, types: dict[str, pl.DataType], schema: Schema) -> dict[str, pl.DataType]:
        """The column types once this step is done; override where a step changes or adds one."""
        return types

    def needs(self, data: Microdata) -> Sequence[str]:
        """The columns that the mask reads; by default those that its parameters name."""
        return tuple(dict.fromkeys([*self.named_columns(), *self.changes(data)]))

    # -- what an intruder makes of it -------------------------------------------------------------

    def makes_safe(self, data: Microdata, keys: Sequence[str], tolerance: int) -> bool:
        """Whether this step promises so many records to every combination of these keys: what a count of
        the cells before it can't show."""
        return False

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        """What somebody who knows the method and its parameters, but not the seed, can use on data like
        these (see ``contract.disclosure``). By default only that each value may have been changed."""
        touched = tuple(c for c in self.changes(data) if c in data.columns)
        return (Kept(columns=touched),) if touched else ()

    def own_list(self, data: Microdata) -> Microdata:
        """Somebody's own list, made comparable with what this step releases: recoded as it recodes, with
        the columns that it adds. Override where the step treats each value by itself, without draws."""
        return data

    # -- what it does -----------------------------------------------------------------------------

    def knowing(self, original: Any) -> Self:
        """This step with the original file in mind, row by row that of the data it will be given."""
        return self.given(replace(self.context, original=as_microdata(original)))

    def prepared(self, data: Microdata) -> Mask:
        """This mask with what these data alone give kept, for many runs on the same data."""
        return self

    def released_variable(self, column: str, variable: Variable, masked: Microdata) -> Variable:
        """What the dictionary of a release may say of a column; override where the schema of the masked
        file tells more than its records do."""
        return variable

    @abstractmethod
    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        """The method itself. ``data`` has been checked; rows must stay in their order."""

    def touches(self, data: Microdata) -> tuple[str, ...]:
        """The columns that may change: those that the mask changes, and those that follow by a rule."""
        own = tuple(self.changes(data))
        return (*own, *followers(data.schema, own, blanks=self.blanks))

    def guarantees(self, data: Microdata) -> list[Guarantee]:
        """Everything promised on these data, the general promises included."""
        own, touched = self.changes(data), self.touches(data)
        added = tuple(c for c in own if c not in data.columns)
        promised: list[Guarantee] = [SameRecords(added), Untouched(touched)]
        if not self.blanks:
            # A ratio whose denominator became zero has no value.
            whole = tuple(c for c in touched if c not in data.schema.ratios)
            promised.append(NothingLost(whole, self.moves_missing))
        promised += self.keeps(data)
        said = {g.describe() for g in promised}
        for rule in rules_of(data.schema):
            tied = set(rule.parts) & set(touched) and judgeable(data, rule)
            kept = RuleKept(rule, self.moves_missing)
            # A total that holds more than its parts: its step has its own way with it.
            if tied and kept.describe() not in said and (rule.result not in own or strict(data, rule)):
                promised.append(kept)
        return promised

    def draws(self, seed: Seed, step: str) -> Draws:
        """This step's draws from a seed, bound to its parameters: another strength has other draws.

        Columns are left out: each has a stream of its own, whatever stands beside it and in which order.
        """
        declared = self.parameters()
        said = {
            name: value
            for name, value in self.to_dict().items()
            if name != "id" and not declared[name].metadata.get("columns")
        }
        return seed.draws(step, json.dumps(said, sort_keys=True, default=str))

    def mask(
        self, data: Any, *, seed: Seed | int | None = None, common_random_numbers: bool = False
    ) -> Microdata:
        """The masked data; refuses, with a GuaranteeError, where a guarantee fails.

        The draws are those of a plan whose step has this mask's id (its name by default): bound to the
        file's records and to the step's parameters, so that one seed never gives the same noise or pairs
        twice. ``common_random_numbers=True`` binds them to the seed and the step's name alone, for
        comparisons in which two masks or files shall differ by nothing else; never for a release. What a
        careful person would want to know goes to the log ``sfumato``, which Python shows on the
        terminal unless told otherwise; a plan's run keeps it in ``run.warnings``.
        """
        data = as_microdata(data)
        _refuse([p for p in self.check_rules(data.schema, data._types) if p.severity == "error"], self.name)
        secret, step = as_seed(seed), self.id or self.name
        draws = secret.draws(step) if common_random_numbers else self.draws(bound_to(secret, data), step)
        masked, notes, _ = self.carry_out(data, draws)
        said = [
            *self.check(data.schema, data._types),
            *self.check_household(data.schema),
            *self.foresees(data),
        ]
        unwise = [p.message for p in said if p.severity == "warning"]
        for sentence in dict.fromkeys([*unwise, *notes.warnings]):
            logging.getLogger("sfumato").warning("%s: %s", self.id or self.name, sentence)
        return masked

    def carry_out(
        self, data: Microdata, draws: Draws, context: Context | None = None
    ) -> tuple[Microdata, Notes, list[Check]]:
        """Check, apply, verify: the masked data, the notes and the outcome of every guarantee."""
        if context is not None:
            return self.given(context).carry_out(data, draws)
        _refuse([p for p in self.check(data.schema, data._types) if p.severity == "error"], self.name)
        notes = Notes()
        if not len(data):
            return data, notes, []
        own, used = tuple(self.changes(data)), self.needs(data)
        refuse_unusable(data, used, MaskError, self.name)
        for column, parameter in self.named_columns().items():
            if self.parameters()[parameter].metadata.get("numeric") and data.dtype(column).is_float():
                refuse_extremes(data.column(column))
        with computing(data, used, MaskError, self.name):
            after = self._apply(data, draws, notes)
            masked, followed = follow(data, after, own, blanks=not self.moves_missing)
            for column, records in followed.items():
                notes.figure("records_that_followed", records, column)
            promised = self.guarantees(data)
            if notes.log is not None:
                promised += self.logged(data, notes.log)
            checks = [g.check(data, masked) for g in promised]
            for sentence in _broken_edits(data, masked, self.touches(data)):
                notes.warn(sentence)
            for column in (c for c in self.touches(data) if c in data.columns):
                word = below_zero(data, masked, column)
                if word is not None:
                    notes.warn(word)
        failed = [c for c in checks if not c.ok]
        both = [c for c in followed if c in own]
        if failed and both:
            raise MaskError(
                f"{self.name} masks {' and '.join(both)} and columns that add up to it, and can't keep both: "
                + "; ".join(f"{c.guarantee}: {c.detail}" for c in failed),
                hint=f"leave {' and '.join(both)} out of the step: it follows its parts by itself",
            )
        if failed:
            raise GuaranteeError(
                "\n".join(f"{self.name} broke its guarantee: {c.guarantee}: {c.detail}" for c in failed),
                hint=f"nothing was released; {_blame(data, self.touches(data))}",
            )
        return masked, notes, checks


def _broken_edits(before: Microdata, after: Microdata, touched: Sequence[str]) -> list[str]:
    """A sentence on every declared edit that more records break than before."""
    out = []
    for edit in edits_of(before.schema):
        if edit.columns & set(touched) and edit.columns <= set(after.columns):
            was, now = (int(broken(edit, d).sum()) for d in (before, after))
            if now > was:
                out.append(f"the edit {edit} is broken in {now:,} records, before in {was:,}")
    return out


_NARROW: Final = (pl.Int8, pl.Int16, pl.UInt8, pl.UInt16, pl.Float32)


def _blame(data: Microdata, columns: Sequence[str]) -> str:
    """What may be behind a broken promise: a type too narrow for what the mask makes, or a defect."""
    narrow = [c for c in columns if c in data.columns and data.dtype(c) in _NARROW]
    if not narrow:
        return "this is a defect of the mask or of its parameters"
    named = ", ".join(f"{c} is {data.dtype(c)}" for c in narrow[:5]) + (" …" if narrow[5:] else "")
    return f"{named}, which may be too narrow for it: read it as Int64 or Float64"


def _refuse(problems: Sequence[Problem], name: str) -> None:
    if problems:
        raise MaskError(
            "; ".join(f"{name}: {p.message}" for p in problems),
            hint="; ".join(dict.fromkeys(p.hint for p in problems if p.hint)) or None,
        )


@dataclass(frozen=True, kw_only=True)
class RowsMask(Mask):
    """A mask that treats any chunk of records on its own, once it has looked at the whole file.

    ``_fit`` looks (a covariance, a cut point); ``_rows`` masks records start … of the file. The
    result must not depend on where the chunks end; a contract test proves it.
    """

    chunk_records: ClassVar[int] = 1 << 20

    def _fit(self, data: Microdata, draws: Draws, notes: Notes) -> Any:
        return None

    @abstractmethod
    def _rows(self, chunk: Microdata, start: int, state: Any, draws: Draws) -> Microdata:
        """Mask a chunk whose first record is record ``start`` of the file."""

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        state = self._fit(data, draws, notes)
        needed = set(self.needs(data))
        used = [c for c in data.columns if c in needed]
        narrow = data.with_frame(data.select(used))
        starts = range(0, len(data), self.chunk_records)
        parts = in_threads(
            lambda start: self._rows(narrow.slice(start, self.chunk_records), start, state, draws), starts
        )
        touched = [c for c in self.changes(data) if c in parts[0].columns]
        new = pl.concat([p.frame.select(touched) for p in parts], rechunk=len(parts) > 1)
        return data.with_columns(new.get_columns())


def bound_to(seed: Seed, data: Microdata) -> Seed:
    """The seed for these data: of other records, or of one more, it is another."""
    return seed.bound(records_digest(data, seed.key("records")))
