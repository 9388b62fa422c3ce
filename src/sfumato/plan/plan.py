"""A plan: the whole recipe in one TOML file. There is no second way to describe work.

>>> import sfumato as sf
>>> plan = sf.Plan.loads('''
... format = 1
... [roles]
... sensitive = ["INCOME"]
... [[step]]
... mask = "random_swap"
... columns = ["INCOME"]
... rate_percent = 20
... ''')
>>> plan.steps[0].rate_percent
20
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.contract.context import Context
from sfumato.contract.engine import Held
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Measure
from sfumato.contract.parameters import Declared
from sfumato.data.merge import merged, numbers_with_words
from sfumato.data.microdata import Microdata, as_microdata
from sfumato.data.schema import Schema
from sfumato.data.usable import odd_type
from sfumato.draws import Seed
from sfumato.errors import (
    InputError,
    ParameterError,
    PlanError,
    Problem,
    SchemaError,
    SfumatoError,
    as_path,
    did_you_mean,
    suggesting,
)
from sfumato.plan import source as plan_source
from sfumato.plan.audience import audience
from sfumato.plan.face import plan_face
from sfumato.plan.parts import FORMAT, Limit, ReleaseOptions, limits_of
from sfumato.plan.reader import read_parts

if TYPE_CHECKING:
    from sfumato.run.run import Run


@suggesting
@dataclass(frozen=True, repr=False)
class Plan:
    """Data, roles, steps, measures, limits and release options, as one value.

    Made in Python (``Plan(steps=[…])``) or read from TOML (:meth:`load`). Plans are compared and
    hashed by what they say, not by how they are written.
    """

    steps: tuple[Mask, ...] = ()
    measures: tuple[Measure, ...] = ()
    data_path: str | None = None
    read_options: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema | None = None
    limits: tuple[Limit, ...] = ()
    release: ReleaseOptions = field(default_factory=ReleaseOptions)
    title: str | None = None
    audience: str | None = None
    """Whom the release is for ("public", "research"): what the battery's intruder knows."""
    base: Path = field(default_factory=Path, compare=False)
    """The folder that ``data_path`` and the files of its steps are relative to."""
    source: str | None = field(default=None, compare=False, repr=False)
    """The text it was read from."""

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "steps", tuple(self.steps))
        set_(self, "measures", tuple(self.measures))
        for step in self.steps:
            if not isinstance(step, Mask):
                raise ParameterError(f"a step must be a mask, not {step!r}")
        # Whoever uses a step of this plan finds its files; no command can forget to say where they are.
        context = Context(base=self.base)
        set_(self, "steps", tuple(step.given(context) for step in self.steps))
        for one in self.measures:
            if not isinstance(one, Measure):
                raise ParameterError(f"a measure must be a measure, not {one!r}")
        set_(self, "measures", tuple(one.given(context) for one in self.measures))
        if isinstance(self.limits, Mapping):
            set_(self, "limits", tuple(limits_of(self.limits)))
        if isinstance(self.release, Mapping):
            set_(self, "release", ReleaseOptions(**self.release))
        if isinstance(self.schema, Mapping):
            set_(self, "schema", Schema.from_dict(self.schema))
        if self.audience is not None:
            audience(self.audience)

    def __repr__(self) -> str:
        parts = [f"data={self.data_path!r}"] if self.data_path else []
        parts.append(f"steps=[{', '.join(self.step_ids())}]")
        parts += [f"measures=[{', '.join(self.measure_ids())}]"] if self.measures else []
        parts += [f"limits=[{'; '.join(str(x) for x in self.limits)}]"] if self.limits else []
        return f"Plan({', '.join(parts)})"

    def _repr_html_(self) -> str:
        return plan_face(self.to_dict(), self.hash())

    # -- in and out -------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """The plan in a TOML file; a PlanError lists every mistake with its line."""
        path = Path(path)
        return cls.loads(plan_source.read_text(path), base=path.parent, name=str(path))

    @classmethod
    def loads(cls, text: str, *, base: str | Path = ".", name: str | None = None) -> Plan:
        """The plan in a text."""
        read = read_parts(text)
        errors = [p for p in read.problems if p.severity == "error"]
        if errors or read.content is None:
            raise PlanError(errors, path=name)
        return cls(**read.content, base=Path(base), source=text)

    def to_dict(self) -> dict[str, Any]:
        """What the plan says, as plain values in a plan's order; defaults are left out."""
        out: dict[str, Any] = {"format": FORMAT}
        if self.title:
            out["title"] = self.title
        if self.audience is not None:
            out["for"] = self.audience
        if self.data_path is not None:
            out["data"] = self.data_path
        if self.read_options:
            out["read"] = dict(self.read_options)
        if self.schema is not None:
            said = self.schema.to_dict()
            out.update({k: v for k, v in said.items() if v})
        if self.steps:
            out["step"] = [_table(s, "mask") for s in self.steps]
        if self.measures:
            out["measure"] = [_table(m, "measure") for m in self.measures]
        if self.limits:
            limits: dict[str, Any] = {}
            for limit in self.limits:
                bounds = {
                    k: v
                    for k, v in (("at_most", limit.at_most), ("at_least", limit.at_least))
                    if v is not None
                }
                limits.setdefault(limit.measure, {})[limit.figure] = bounds
            out["limits"] = limits
        options = self.release.to_dict()
        if options:
            out["release"] = options
        return out

    def to_toml(self) -> str:
        """The text it was read from, else a text of the same meaning."""
        return self.source if self.source is not None else plan_source.dump(self.to_dict())

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the plan's text; an existing file only when told to."""
        path = as_path(path)
        if path.exists() and not overwrite:
            raise InputError(f"{path} exists already", hint="choose another name, or pass overwrite=True")
        try:
            path.write_text(self.to_toml(), encoding="utf-8")
        except OSError as problem:
            raise InputError(f"the plan can't be written to {path}: {problem.strerror}") from None

    def hash(self) -> str:
        """A digest of what the plan says: comments, order of keys and defaults don't change it."""
        content = {k: v for k, v in self.to_dict().items() if k != "data"}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    # -- use --------------------------------------------------------------------------------------

    def step_ids(self) -> list[str]:
        """Each step's id: its own, else its mask's name (numbered from the second on)."""
        return _ids(self.steps)

    def measure_ids(self) -> list[str]:
        return _ids(self.measures)

    def data_file(self) -> Path:
        if self.data_path is None:
            raise InputError("the plan names no data", hint='add a line such as: data = "people.csv"')
        return self.base / self.data_path

    def data(self, *, lazy: bool = False) -> Microdata:
        """The plan's data, with the plan's schema over what the file itself says."""
        return self.with_schema_of(self.file_alone(lazy=lazy))

    def file_alone(self, *, lazy: bool = False) -> Microdata:
        """The plan's data with no more than what the file itself says of them."""
        from sfumato.io import read

        options = dict(self.read_options)
        if lazy:
            options["lazy"] = True
        return read(self.data_file(), **options)

    def with_schema_of(self, data: Microdata) -> Microdata:
        """These data with this plan's schema: roles replaced, details of variables added to theirs."""
        if self.schema is None:
            return data
        whole = merged(data.schema, self.schema)
        if isinstance(data, Held):  # what is held was read with a schema
            return data.with_schema(whole)
        return Microdata(numbers_with_words(data._source, whole), whole)

    def check(
        self, data: Microdata | None = None, *, lines: Mapping[plan_source.Path, int] | None = None
    ) -> list[Problem]:
        """Every mistake (and warning) that can be found without running."""
        if lines is None:
            lines = plan_source.lines_of(self.source) if self.source else {}
        if data is not None:
            return sorted(self._check_against(self.with_schema_of(as_microdata(data)), lines))
        if self.data_path is None:
            return []
        plan, problems = self, []
        try:
            found = self.file_alone(lazy=True)
            problems = self._misnamed(found.columns, lines)
            if problems and self.schema is not None:  # what is left of the schema can still be checked
                plan = replace(self, schema=self.schema.restricted_to(found.columns))
            problems += plan._check_against(plan.with_schema_of(found), lines)
        except SfumatoError as problem:
            # The file can't be read, or the schema doesn't fit it in another way.
            where = plan_source.line_of(lines, ("data",))
            if isinstance(problem, SchemaError):
                where = _schema_line(problem.parameter or "roles", lines)
            problems.append(Problem(where, problem.message, problem.hint))
        return sorted(problems)

    def _misnamed(self, columns: Sequence[str], lines: Mapping[plan_source.Path, int]) -> list[Problem]:
        """Every column that the schema names and the data don't have, each where it is named."""
        out = []
        for column, place in (self.schema or Schema()).named_columns().items():
            if column not in columns:
                message = f"{place} names the column {column!r}, which the data don't have"
                out.append(Problem(_schema_line(place, lines), message, did_you_mean(column, columns)))
        return out

    def _check_against(self, data: Microdata, lines: Mapping[plan_source.Path, int]) -> list[Problem]:
        out: list[Problem] = []
        types: dict[str, pl.DataType] = dict(data._types)
        # Nobody finds anything by what isn't released.
        shown = {
            role: tuple(c for c in getattr(data.schema, role) if c not in self.release.drop)
            for role in ("keys", "geography")
        }
        weight = None if data.schema.weight in self.release.drop else data.schema.weight
        released = data.schema.with_roles(**shown, weight=weight)
        for at, step in enumerate(self.steps):
            wrong = [p for p in step.check(data.schema, types) if p.severity == "error"]
            unwise = [p for p in step.check(released, types) if p.severity != "error"]
            out += [_at(p, lines, "step", at) for p in (*wrong, *unwise)]
            rules = step.check_rules(data.schema, types, self.release.drop)
            own = [
                *_breaks_a_role(step, data.schema),
                *step.check_units(),
                *step.check_files(),
                *rules,
                *_foreseen(step, data),
            ]
            if data.schema.household not in self.release.drop:
                own += step.check_household(data.schema)
            out += [_at(p, lines, "step", at) for p in own]
            types = step.types_after(types, data.schema)
        for at, one in enumerate(self.measures):
            own = [*one.check(data.schema, types), *one.check_units(), *one.check_files()]
            out += [_at(p, lines, "measure", at) for p in own]
        for column, dtype in types.items():
            word = odd_type(dtype) if dtype != pl.Null and column not in self.release.drop else None
            if word is not None:
                line = plan_source.line_of(lines, ("release",))
                message = f"{column} holds {word}, which can't be checked and aren't released"
                hint = "name it in `drop` under [release], or make plain columns of it before"
                out.append(Problem(line, message, hint))
        ordered = [
            label for label, step in zip(self.step_ids(), self.steps, strict=True) if step.needs_shuffle
        ]
        if ordered and not self.release.shuffle:
            line = plan_source.line_of(lines, ("release", "shuffle"))
            message = (
                f"step {ordered[0]} leaves rows at places of alike records, which `shuffle = false` shows"
            )
            out.append(Problem(line, message, "take `shuffle = false` out of [release]"))
        for option in ("drop", "identifiers"):
            for column in getattr(self.release, option):
                if column not in types:
                    line = plan_source.line_of(lines, ("release", option))
                    message = f"`{option}` names the column {column!r}, which the data don't have"
                    out.append(Problem(line, message, did_you_mean(column, types)))
        return out

    def run(self, data: Any = None, *, seed: Seed | int | None = None, **options: Any) -> Run:
        """Carry the plan out on data (its own by default) with a secret seed (a new one by default)."""
        from sfumato.run.run import carry_out

        given = self.data() if data is None else self.with_schema_of(as_microdata(data))
        return carry_out(self, given, seed, **options)


def _breaks_a_role(step: Mask, schema: Schema) -> list[Problem]:
    """A step that changes a column which something else relies on."""
    out = []
    named = {c for c, p in step.named_columns().items() if p in ("columns", "column")}
    for column in sorted(named):
        if column == schema.id:
            out.append(
                Problem(
                    0,
                    f"{step.name} would mask {column}, which is the id",
                    "a release gives new ids by itself; take it out of the step",
                )
            )
        elif column == schema.weight:
            message = f"{step.name} changes the weight {column}: weighted totals will change"
            out.append(Problem(0, message, None, "warning"))
    return out


def _foreseen(step: Mask, data: Microdata) -> list[Problem]:
    """What a step will do to the file as it is, where it has what the step needs."""
    try:
        return data.at_once(step.foresees) if set(step.named_columns()) <= set(data.columns) else []
    except SfumatoError:  # what is wrong with the data or the step is said elsewhere
        return []


def _ids(things: Sequence[Declared]) -> list[str]:
    out: list[str] = []
    for one in things:
        label = one.id or one.name
        number = 2
        while label in out:
            label = f"{one.id or one.name}_{number}"
            number += 1
        out.append(label)
    return out


def _table(one: Declared, word: str) -> dict[str, Any]:
    said = one.to_dict()
    head = {"id": said.pop("id")} if "id" in said else {}
    return {**head, word: one.name, **said}


def _at(problem: Problem, lines: Mapping[plan_source.Path, int], kind: str, index: int) -> Problem:
    if problem.line:
        return problem
    path: plan_source.Path = (kind, index, *([problem.parameter] if problem.parameter else []))
    return replace(problem, line=plan_source.line_of(lines, path))


def _schema_line(place: str, lines: Mapping[plan_source.Path, int]) -> int:
    """The line of a dotted place (``roles.keys``), or of what stands around it."""
    known = {".".join(str(p) for p in path): line for path, line in lines.items()}
    while place and place not in known:
        place = place.rpartition(".")[0]
    return known.get(place, plan_source.line_of(lines, ("roles",)))
