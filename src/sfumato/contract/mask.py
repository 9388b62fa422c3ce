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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import polars as pl

from sfumato.contract.context import Context, Told
from sfumato.contract.disclosure import Fact, Kept
from sfumato.contract.engine import Locality, bytes_per_record
from sfumato.contract.guarantees import Check, Guarantee, NothingLost, RuleKept, SameRecords, Untouched
from sfumato.contract.notes import Notes as Notes
from sfumato.contract.refusals import blame, default, ends, refuse
from sfumato.contract.verify import Verified, broken_edits, verified
from sfumato.data.digest import records_digest
from sfumato.data.edit_check import edits_of
from sfumato.data.follow import alone, follow, followed_schema, followers
from sfumato.data.microdata import Microdata, as_microdata, refuse_extremes
from sfumato.data.rules import judgeable, rules_of, strict
from sfumato.data.schema import Schema, Variable
from sfumato.data.usable import computing, refuse_unusable
from sfumato.draws import Draws, Seed, as_seed
from sfumato.errors import GuaranteeError, MaskError, Problem, SfumatoError
from sfumato.parallel import in_threads


@dataclass(frozen=True, kw_only=True)
class Mask(Told):
    """The base of every mask."""

    reference: ClassVar[str] = ""
    """Where the method comes from."""
    reads_original: ClassVar[bool] = False
    """Whether it also looks at the file as it was before the first step."""
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

    # -- where it can be done ---------------------------------------------------------------------

    @property
    def locality(self) -> Locality:
        """What must be at one place for its work to be done; see :mod:`sfumato.contract.engine`."""
        return "file"

    def reads(self, data: Microdata) -> list[str]:
        """Every column that carrying it out looks at: what it needs, what it may change, what rules tie to
        these, and, where records are put together, whose they are."""
        schema = data.schema
        used = dict.fromkeys([*self.needs(data), *self.touches(data)])
        if self.locality in ("keys", "file"):
            used |= dict.fromkeys(c for c in (schema.id, schema.household) if c is not None)
        size = 0
        while size != len(used):
            size = len(used)
            for rule in rules_of(schema):
                if set(rule.members) & set(used):
                    used |= dict.fromkeys(rule.members)
        for edit in edits_of(schema):
            if edit.columns & set(self.touches(data)):
                used |= dict.fromkeys([*edit.columns, *([schema.household] if schema.household else [])])
        used |= dict.fromkeys(data.with_flags(list(used)))
        return [c for c in data.columns if c in used]

    def apart(self, data: Microdata) -> Sequence[Mask]:
        """This step as steps that can be done one after the other (or beside each other) with its draws,
        to the same effect: where one column at a time is enough."""
        return (self,)

    def by_column(self, data: Microdata) -> Sequence[Mask]:
        """A step for each of ``columns``, where no rule ties one of them to another column."""
        columns: tuple[str, ...] = getattr(self, "columns", ())
        tied = {m for rule in rules_of(data.schema) for m in rule.members}
        if len(columns) < 2 or tied & set(columns):
            return (self,)
        out = []
        for column in columns:
            said: dict[str, Any] = {"columns": (column,)}
            for name, declared in self.parameters().items():
                value = getattr(self, name)
                if isinstance(value, Mapping) and value and set(value) <= set(columns):
                    own = {c: v for c, v in value.items() if c == column}
                    said[name] = own or default(declared)
            out.append(replace(self, **said).given(self.context))
        return out

    def gathers(self, data: Microdata) -> int:
        """About how many bytes it needs at one place, beyond those it works with."""
        if self.locality == "rows":
            return 0
        width = max(
            bytes_per_record({c: data.dtype(c) for c in part.reads(data)}) for part in self.apart(data)
        )
        return width * len(data) * (2 if self.reads_original else 1)

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
        refuse([p for p in self.check_rules(data.schema, data._types) if p.severity == "error"], self.name)
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
        notes = Notes()
        self.admit(data)
        if not len(data):
            return data, notes, []
        own = tuple(self.changes(data))
        with computing(data, self.needs(data), MaskError, self.name):
            after = self._apply(data, draws, notes)
            masked, followed = follow(data, after, own, blanks=not self.moves_missing)
            for column, records in followed.items():
                notes.figure("records_that_followed", records, column)
        return masked, notes, self.verify(data, masked, notes, both=[c for c in followed if c in own])

    def admit(self, data: Microdata) -> None:
        """Refuse data that this step can't be carried out on, before it is."""
        refuse([p for p in self.check(data.schema, data._types) if p.severity == "error"], self.name)
        refuse_unusable(data, self.needs(data), MaskError, self.name)
        declared = self.parameters()
        named = [c for c, p in self.named_columns().items() if declared[p].metadata.get("numeric")]
        floats = [c for c in named if data.dtype(c).is_float()]
        if floats and len(data):
            seen = data.aggregate(lambda block, _: {c: ends(block.column(c)) for c in floats}, floats)
            for column in floats:
                refuse_extremes(pl.Series(column, [e for part in seen for e in part[column]]))

    def verify(
        self, data: Microdata, masked: Microdata, notes: Notes, *, both: Sequence[str] = ()
    ) -> list[Check]:
        """Judge every promise on the two files; an error where one is broken. ``both`` are columns that
        the step masks and that followed their parts."""
        touched = self.touches(data)
        with computing(data, self.needs(data), MaskError, self.name):
            promised = self.guarantees(data)
            if notes.log is not None:
                promised += self.logged(data, notes.log)
            seen: Verified = verified(data, masked, promised, touched)
            edits = broken_edits(data, masked, touched)
        for word in (*edits, *seen.below_zero):
            notes.warn(word)
        notes.touched |= seen.touched
        failed = [c for c in seen.checks if not c.ok]
        if failed and both:
            raise MaskError(
                f"{self.name} masks {' and '.join(both)} and columns that add up to it, and can't keep both: "
                + "; ".join(f"{c.guarantee}: {c.detail}" for c in failed),
                hint=f"leave {' and '.join(both)} out of the step: it follows its parts by itself",
            )
        if failed:
            raise GuaranteeError(
                "\n".join(f"{self.name} broke its guarantee: {c.guarantee}: {c.detail}" for c in failed),
                hint=f"nothing was released; {blame(data, touched)}",
            )
        return seen.checks


@dataclass(frozen=True, kw_only=True)
class RowsMask(Mask):
    """A mask that treats any chunk of records on its own, once it has looked at the whole file.

    ``_fit`` looks at the file in blocks (a covariance, a cut point: :meth:`Microdata.aggregate`); ``_rows``
    masks records start … of the file. The result must not depend on where the chunks end; a contract test
    proves it.
    """

    chunk_records: ClassVar[int] = 1 << 20

    @property
    def locality(self) -> Locality:
        return "rows"

    def _fit(self, data: Microdata, draws: Draws, notes: Notes) -> Any:
        return None

    @abstractmethod
    def _rows(self, chunk: Microdata, start: int, state: Any, draws: Draws) -> Microdata:
        """Mask a chunk whose first record is record ``start`` of the file."""

    def _schema(self, data: Microdata, state: Any) -> Schema:
        """The schema afterwards, where the step changes what there is to say of a column."""
        return data.schema

    def _note_result(self, data: Microdata, masked: Microdata, state: Any, notes: Notes) -> None:
        """What there is to tell of the outcome, from both files in blocks."""

    def fit(self, data: Microdata, draws: Draws, notes: Notes) -> Fitted:
        """What is needed to mask any records of the file."""
        state = self._fit(data, draws, notes)
        used, own = set(self.needs(data)), tuple(self.changes(data))
        types = self.types_after(data._types, data.schema)
        schema = self._schema(data, state)
        shape = Microdata(pl.DataFrame(schema=types), schema)
        return Fitted(
            self, state, draws, [c for c in data.columns if c in used], own, followed_schema(data, shape)
        )

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        fitted = self.fit(data, draws, notes)
        narrow = data.only(fitted.used)
        starts = range(0, len(data), self.chunk_records)
        parts = in_threads(lambda start: fitted.rows(narrow.slice(start, self.chunk_records), start), starts)
        new = pl.concat(parts, rechunk=len(parts) > 1)
        masked = data.with_columns(new.get_columns()).with_schema(self._schema(data, fitted.state))
        self._note_result(data, masked, fitted.state, notes)
        return masked


@dataclass(frozen=True)
class Fitted:
    """A rows mask that has looked at its file: it can mask any of its records, wherever they are."""

    mask: RowsMask
    state: Any
    draws: Draws
    used: list[str]
    """The columns that it reads."""
    own: tuple[str, ...]
    """The columns that it makes."""
    schema: Schema
    """What is said of the file afterwards."""

    def rows(self, chunk: Microdata, start: int) -> pl.DataFrame:
        """The new columns of some records, the first of which is record ``start`` of the file."""
        new = self.mask._rows(chunk, start, self.state, self.draws)
        return new.select([c for c in self.own if c in new.columns])


def bound_to(seed: Seed, data: Microdata) -> Seed:
    """The seed for these data: of other records, or of one more, it is another."""
    return seed.bound(records_digest(data, seed.key("records")))
