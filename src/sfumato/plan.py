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
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sfumato import plan_source, registry
from sfumato.draws import Seed
from sfumato.errors import (
    InputError,
    ParameterError,
    PlanError,
    Problem,
    SchemaError,
    SfumatoError,
    did_you_mean,
)
from sfumato.masks.base import Mask
from sfumato.measures import Measure
from sfumato.microdata import Microdata, as_microdata
from sfumato.parameters import Declared
from sfumato.schema import ROLES, Schema, as_variable

if TYPE_CHECKING:
    import polars as pl

    from sfumato.run import Run

FORMAT: Final = 1
TOP_KEYS: Final = (
    "format",
    "title",
    "data",
    "read",
    "roles",
    "variables",
    "step",
    "measure",
    "limits",
    "release",
)
RELEASE_FORMATS: Final = ("parquet", "csv", "tsv", "arrow", "sav", "dta", "asc")


@dataclass(frozen=True)
class Limit:
    """A bound on a figure of a measure: ``linkage.rate = { at_most = 0.10 }``."""

    measure: str
    figure: str = "value"
    at_most: float | None = None
    at_least: float | None = None

    def __str__(self) -> str:
        bounds = []
        if self.at_most is not None:
            bounds.append(f"at most {self.at_most:g}")
        if self.at_least is not None:
            bounds.append(f"at least {self.at_least:g}")
        return f"{self.measure}.{self.figure} {' and '.join(bounds)}"

    def holds(self, value: float) -> bool:
        """Whether the value is within the bounds (an undefined value never is)."""
        if value != value:
            return False
        return (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )


@dataclass(frozen=True)
class ReleaseOptions:
    """How a release is written."""

    drop: tuple[str, ...] = ()
    shuffle: bool = True
    format: str = "parquet"
    name: str = "data"
    new_ids: bool = True
    secret_parameters: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.drop, str):
            object.__setattr__(self, "drop", (self.drop,))
        object.__setattr__(self, "drop", tuple(self.drop))

    def to_dict(self) -> dict[str, Any]:
        out = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if value != f.default:
                out[f.name] = list(value) if isinstance(value, tuple) else value
        return out


@dataclass(frozen=True)
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
    base: Path = field(default_factory=Path, compare=False)
    """The folder that ``data_path`` is relative to."""
    source: str | None = field(default=None, compare=False, repr=False)
    """The text it was read from."""

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "steps", tuple(self.steps))
        set_(self, "measures", tuple(self.measures))
        for step in self.steps:
            if not isinstance(step, Mask):
                raise ParameterError(f"a step must be a mask, not {step!r}")
        for one in self.measures:
            if not isinstance(one, Measure):
                raise ParameterError(f"a measure must be a measure, not {one!r}")
        if isinstance(self.limits, Mapping):
            set_(self, "limits", tuple(_limits(self.limits)))
        if isinstance(self.release, Mapping):
            set_(self, "release", ReleaseOptions(**self.release))
        if isinstance(self.schema, Mapping):
            set_(self, "schema", Schema.from_dict(self.schema))

    # -- in and out -------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """The plan in a TOML file; a PlanError lists every mistake with its line."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise InputError(f"{path} isn't UTF-8 text", hint="save the plan as UTF-8") from None
        except OSError as problem:
            raise InputError(
                f"the plan {path} can't be read: {problem.strerror}",
                hint="`sfumato init FILE` writes a first plan for a data file",
            ) from None
        return cls.loads(text, base=path.parent, name=str(path))

    @classmethod
    def loads(cls, text: str, *, base: str | Path = ".", name: str | None = None) -> Plan:
        """The plan in a text."""
        plan, problems = read_plan(text, base=Path(base))
        errors = [p for p in problems if p.severity == "error"]
        if errors or plan is None:
            raise PlanError(errors, path=name)
        return plan

    def to_dict(self) -> dict[str, Any]:
        """What the plan says, as plain values in a plan's order; defaults are left out."""
        out: dict[str, Any] = {"format": FORMAT}
        if self.title:
            out["title"] = self.title
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
        path = Path(path)
        if path.exists() and not overwrite:
            raise InputError(f"{path} exists already", hint="choose another name, or pass overwrite=True")
        path.write_text(self.to_toml(), encoding="utf-8")

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
        from sfumato.io import read

        options = dict(self.read_options)
        if lazy:
            options["lazy"] = True
        return self.with_schema_of(read(self.data_file(), **options))

    def with_schema_of(self, data: Microdata) -> Microdata:
        """These data with this plan's schema: roles replaced, details of variables added to theirs."""
        if self.schema is None:
            return data
        own = self.schema
        roles = {r: getattr(own, r) for r in ROLES if getattr(own, r)}
        schema = data.schema.with_roles(**roles)
        for name, variable in own.variables.items():
            details = {f.name: getattr(variable, f.name) for f in fields(variable)}
            said = {k: v for k, v in details.items() if v not in (None, (), False) and v != {}}
            schema = schema.with_variable(name, **said)
        return data.with_schema(schema)

    def check(self, data: Microdata | None = None) -> list[Problem]:
        """Every mistake (and warning) that can be found without running."""
        lines = plan_source.lines_of(self.source) if self.source else {}
        problems: list[Problem] = []
        if data is None and self.data_path is not None:
            try:
                data = self.data(lazy=True)
                data.columns  # noqa: B018  a lazy file shows its mistakes here
            except SfumatoError as problem:
                # The schema names a column that isn't there, or the file can't be read.
                where = plan_source.line_of(lines, ("data",))
                if isinstance(problem, SchemaError):
                    where = _schema_line(problem.message, lines)
                return [Problem(where, problem.message, problem.hint)]
        if data is not None:
            problems += self._check_against(self.with_schema_of(as_microdata(data)), lines)
        return sorted(problems)

    def _check_against(self, data: Microdata, lines: Mapping[plan_source.Path, int]) -> list[Problem]:
        out: list[Problem] = []
        types: dict[str, pl.DataType] = dict(data._types)
        for at, step in enumerate(self.steps):
            out += [_at(p, lines, "step", at) for p in step.check(data.schema, types)]
            out += [_at(p, lines, "step", at) for p in _breaks_a_role(step, data.schema)]
            types = step.types_after(types)
        for at, one in enumerate(self.measures):
            out += [_at(p, lines, "measure", at) for p in one.check(data.schema, types)]
        for column in self.release.drop:
            if column not in types:
                line = plan_source.line_of(lines, ("release", "drop"))
                hint = did_you_mean(column, types)
                out.append(
                    Problem(line, f"`drop` names the column {column!r}, which the data don't have", hint)
                )
        return out

    def run(self, data: Any = None, *, seed: Seed | int | None = None, **options: Any) -> Run:
        """Carry the plan out on data (its own by default) with a secret seed (a new one by default)."""
        from sfumato.run import carry_out

        given = self.data() if data is None else self.with_schema_of(as_microdata(data))
        return carry_out(self, given, seed, **options)


def read_plan(text: str, *, base: Path = Path()) -> tuple[Plan | None, list[Problem]]:
    """A plan from its text, and everything that is wrong with the text (no data are read)."""
    try:
        content = plan_source.parse(text)
    except PlanError as problem:
        return None, list(problem.problems)
    lines = plan_source.lines_of(text)
    problems: list[Problem] = []

    def wrong(path: plan_source.Path, message: str, hint: str | None = None, severity: str = "error") -> None:
        problems.append(Problem(plan_source.line_of(lines, path), message, hint, severity))

    for key in content:
        if key not in TOP_KEYS:
            wrong((key,), f"a plan has no {key!r}", did_you_mean(key, TOP_KEYS))
    if content.get("format", FORMAT) != FORMAT:
        wrong(("format",), f"this sfumato reads plans of format {FORMAT}, not {content['format']!r}")
    for key, kind, word in (
        ("title", str, "text"),
        ("data", str, "a file's name"),
        ("read", dict, "a table"),
        ("roles", dict, "a table"),
        ("variables", dict, "a table"),
        ("step", list, "[[step]] tables"),
        ("measure", list, "[[measure]] tables"),
        ("limits", dict, "a table"),
        ("release", dict, "a table"),
    ):
        if key in content and not isinstance(content[key], kind):
            wrong((key,), f"`{key}` must be {word}, not {content[key]!r}")
            del content[key]

    schema = _read_schema(content, wrong)
    steps = _read_declared(content.get("step", []), "step", "mask", registry.masks(), wrong)
    measures = _read_declared(content.get("measure", []), "measure", "measure", registry.measures(), wrong)
    limits = _read_limits(content.get("limits", {}), measures, wrong)
    release = _read_release(content.get("release", {}), wrong)
    if any(p.severity == "error" for p in problems):
        return None, sorted(problems)
    plan = Plan(
        steps=tuple(s for s in steps if isinstance(s, Mask)),
        measures=tuple(m for m in measures if isinstance(m, Measure)),
        data_path=content.get("data"),
        read_options=content.get("read", {}),
        schema=schema,
        limits=tuple(limits),
        release=release,
        title=content.get("title"),
        base=base,
        source=text,
    )
    return plan, sorted(problems)


def _read_schema(content: Mapping[str, Any], wrong: Any) -> Schema | None:
    roles, variables = content.get("roles", {}), content.get("variables", {})
    good: dict[str, Any] = {}
    for role, value in roles.items():
        if role not in ROLES:
            wrong(("roles", role), f"there is no role {role!r}", did_you_mean(role, ROLES))
            continue
        try:
            Schema(**{role: value})
        except (SchemaError, TypeError) as problem:
            wrong(("roles", role), getattr(problem, "message", f"`{role}` names columns, not {value!r}"))
        else:
            good[role] = value
    described = {}
    for name, details in variables.items():
        try:
            described[name] = as_variable(name, details)
        except SchemaError as problem:
            detail = (
                next((d for d in details if f"{d!r}" in problem.message or f"`{d}`" in problem.message), "")
                if isinstance(details, Mapping)
                else ""
            )
            wrong(("variables", name, detail), problem.message, problem.hint)
    try:
        return Schema(**good, variables=described)
    except SchemaError as problem:
        wrong(("variables",), problem.message, problem.hint)
        return None


def _read_declared(
    tables: Sequence[Any], kind: str, word: str, there: Mapping[str, type[Declared]], wrong: Any
) -> list[Declared]:
    out: list[Declared] = []
    ids: dict[str, int] = {}
    for at, table in enumerate(tables):
        if not isinstance(table, Mapping):
            wrong((kind, at), f"each [[{kind}]] must be a table")
            continue
        name = table.get(word)
        if not isinstance(name, str):
            wrong((kind, at), f"this [[{kind}]] doesn't say which {word}", f'add: {word} = "…"')
            continue
        if name not in there:
            hint = did_you_mean(name, there, show=40)
            wrong((kind, at, word), f"there is no {word} {name!r}", hint)
            continue
        cls = there[name]
        content = {k: v for k, v in table.items() if k != word}
        known = cls.parameters()
        unknown = [k for k in content if k not in known]
        for key in unknown:
            wrong((kind, at, key), f"{name} has no parameter {key!r}", _parameter_hint(key, known))
            del content[key]
        if unknown and any(_required(f) and n not in content for n, f in known.items()):
            continue  # the misspelt parameter is the missing one: one mistake, not two
        try:
            one = cls.from_dict(content)
        except ParameterError as problem:
            said = [k for k in content if f"`{k}`" in problem.message]
            wrong((kind, at, *said[:1]), problem.message, problem.hint)
            continue
        except (SfumatoError, TypeError, ValueError) as problem:
            wrong((kind, at), f"{name}: {getattr(problem, 'message', problem)}")
            continue
        label = one.id or one.name
        if label in ids:
            severity = "error" if one.id else "warning"
            message = f"two {kind}s have the id {label!r}"
            wrong((kind, at), message, 'give each an id of its own: id = "…"', severity)
        ids[label] = at
        out.append(one)
    return out


def _required(parameter: Field[Any]) -> bool:
    return parameter.default is MISSING and parameter.default_factory is MISSING


def _parameter_hint(key: str, known: Mapping[str, Any]) -> str:
    """Units are the commonest slip: `rate` for `rate_percent`."""
    for name in known:
        if name.startswith(f"{key}_") or key.startswith(f"{name}_"):
            return f"did you mean {name!r}?"
    return did_you_mean(key, known)


def _limits(content: Mapping[str, Any]) -> list[Limit]:
    """``{"linkage.rate": {…}}`` or ``{"linkage": {"rate": {…}}}`` → limits."""
    out = []
    for name, value in content.items():
        if not isinstance(value, Mapping):
            raise ParameterError(f"the limit {name!r} needs `at_most` or `at_least`")
        if value and set(value) <= {"at_most", "at_least"}:
            measure, _, figure = name.partition(".")
            out.append(Limit(measure, figure or "value", **value))
        else:
            for figure, bounds in value.items():
                if (
                    not isinstance(bounds, Mapping)
                    or not set(bounds) <= {"at_most", "at_least"}
                    or not bounds
                ):
                    raise ParameterError(f"the limit {name}.{figure} needs `at_most` or `at_least`")
                out.append(Limit(name, figure, **bounds))
    return out


def _read_limits(content: Mapping[str, Any], measures: Sequence[Declared], wrong: Any) -> list[Limit]:
    out: list[Limit] = []
    names = {m.id or m.name for m in measures} | {m.name for m in measures}
    for name, value in content.items():
        try:
            limits = _limits({name: value})
        except (ParameterError, TypeError) as problem:
            wrong(("limits", name), getattr(problem, "message", str(problem)))
            continue
        for limit in limits:
            place = ("limits", name, limit.figure)
            bounds = [b for b in (limit.at_most, limit.at_least) if b is not None]
            if any(isinstance(b, bool) or not isinstance(b, (int, float)) for b in bounds):
                wrong(place, f"the bounds of {limit.measure}.{limit.figure} must be numbers")
            elif limit.measure not in names:
                hint = "add a [[measure]]" if not names else did_you_mean(limit.measure, sorted(names))
                wrong(place, f"there is a limit on {limit.measure!r}, but no such measure in the plan", hint)
            else:
                out.append(limit)
    return out


def _read_release(content: Mapping[str, Any], wrong: Any) -> ReleaseOptions:
    known = {f.name: f for f in fields(ReleaseOptions)}
    good: dict[str, Any] = {}
    for key, value in content.items():
        if key not in known:
            wrong(("release", key), f"`release` has no {key!r}", did_you_mean(key, known))
            continue
        default = known[key].default
        if isinstance(default, bool) and not isinstance(value, bool):
            wrong(("release", key), f"`{key}` must be true or false, not {value!r}")
        elif isinstance(default, str) and not isinstance(value, str):
            wrong(("release", key), f"`{key}` must be text, not {value!r}")
        elif key == "drop" and not (
            isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value))
        ):
            wrong(("release", key), "`drop` lists column names")
        elif key == "format" and value not in RELEASE_FORMATS:
            wrong(("release", key), f"a release can't be {value!r}", did_you_mean(value, RELEASE_FORMATS))
        elif key == "name" and (not value or any(c in value for c in "/\\\0") or value.startswith(".")):
            wrong(("release", key), "`name` must be a plain file name, without a folder or a leading dot")
        else:
            good[key] = value
    return ReleaseOptions(**good)


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
    said = [p[2] for p in lines if p[:2] == (kind, index) and len(p) == 3 and f"`{p[2]}`" in problem.message]
    path: plan_source.Path = (kind, index, *said[:1])
    return Problem(plan_source.line_of(lines, path), problem.message, problem.hint, problem.severity)


def _schema_line(message: str, lines: Mapping[plan_source.Path, int]) -> int:
    for path, line in lines.items():
        dotted = ".".join(str(p) for p in path)
        if path and path[0] in ("roles", "variables") and len(path) > 1 and message.startswith(dotted):
            return line
    return plan_source.line_of(lines, ("roles",))
