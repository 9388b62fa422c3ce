"""What each column is: its role, its kind, its special codes, and which columns add up.

>>> schema = Schema(
...     keys=["REGION", "BEDROOMS"],
...     sensitive=["INCOME"],
...     variables={"INCOME": {"top": 100_000, "bottom": 0, "missing": [-9, {"from": -99, "to": -90}]}},
... )
>>> schema["INCOME"].top
100000
>>> schema.role_of("REGION")
'key'
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from sfumato.data.edits import parsed
from sfumato.data.missing_codes import Code as Code
from sfumato.data.missing_codes import Range as Range
from sfumato.data.missing_codes import missing_code
from sfumato.errors import SchemaError, did_you_mean, suggesting

Kind: TypeAlias = Literal["categorical", "ordinal", "continuous"]

KINDS: Final = ("categorical", "ordinal", "continuous")
LIST_ROLES: Final = ("keys", "sensitive", "geography", "strata")
SINGLE_ROLES: Final = ("id", "household", "weight")
ROLES: Final = ("id", "keys", "sensitive", "geography", "household", "weight", "strata")
_ROLE_WORD: Final = {"keys": "key"}


@suggesting
@dataclass(frozen=True)
class Variable:
    """All that the schema knows of one column.

    Parameters
    ----------
    kind
        "categorical", "ordinal" or "continuous"; None leaves it to the column's type.
    missing
        Codes that mean missing: values, and ranges as ``{"from": 90, "to": 99}``.
    top, bottom
        The codes at which the column is top- and bottom-coded: values at or beyond them are coded.
    sum_of
        The columns that this one is the sum of.
    residual
        Whether the total may hold a part that none of its components holds.
    ratio_of, times
        The two columns, numerator and denominator, that this one is the ratio of, and by what the
        ratio is multiplied (100 for percent); it is made anew after masking.
    unit
        The step that its values are given in (1 for whole dollars, 0.01 for cents).
    order
        The order of an ordinal column's categories, lowest first.
    hierarchy
        A file of coarser and coarser codes (see ``Recode``).
    lies_in
        The coarser columns of which each of its codes lies in one (an industry in its branch). They are one
        hierarchy: a shuffle moves them together. The areas of ``geography`` needn't be told.
    imputed
        The name of a column that flags imputed values (any non-zero value).
    label, labels
        The variable's label, and the labels of its codes.
    edits
        What must hold between it and other columns, or members of a household: ``"TAX <= INCOME"``,
        ``"WAGE == 0 if AGE < 16"``, ``"AGE[RELATION == 3] <= AGE[RELATION == 1] - 12"``.
    """

    kind: Kind | None = None
    missing: tuple[Code | Range, ...] = ()
    top: float | None = None
    bottom: float | None = None
    sum_of: tuple[str, ...] = ()
    residual: bool = False
    ratio_of: tuple[str, ...] = ()
    times: float | None = None
    unit: float | None = None
    order: tuple[Code, ...] = ()
    hierarchy: str | None = None
    lies_in: tuple[str, ...] = ()
    imputed: str | None = None
    label: str | None = None
    labels: Mapping[Code, str] = field(default_factory=dict)
    edits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "missing", tuple(missing_code(m) for m in _listed(self.missing)))
        set_(self, "sum_of", tuple(_listed(self.sum_of)))
        set_(self, "ratio_of", tuple(_listed(self.ratio_of)))
        set_(self, "order", tuple(_listed(self.order)))
        set_(self, "lies_in", tuple(_listed(self.lies_in)))
        set_(self, "edits", tuple(_listed(self.edits)))
        for text in self.edits:
            parsed(text)
        if not isinstance(self.labels, Mapping):
            raise SchemaError(f"`labels` must be a table of codes and texts, not {self.labels!r}")
        for code, text in self.labels.items():
            if isinstance(text, (Mapping, list, tuple)):
                raise SchemaError(f"the label of {code!r} must be text, not {text!r}", parameter="labels")
        set_(self, "labels", MappingProxyType(dict(self.labels)))
        for name in ("sum_of", "lies_in"):
            for part in getattr(self, name):
                if not isinstance(part, str):
                    raise SchemaError(f"`{name}` lists column names, not {part!r}", parameter=name)
        for code in self.order:
            if isinstance(code, (Mapping, list, tuple)):
                raise SchemaError(f"`order` lists codes, not {code!r}", parameter="order")
        if self.kind is not None and self.kind not in KINDS:
            raise SchemaError(
                f"a kind can't be {self.kind!r}", hint=did_you_mean(str(self.kind), KINDS), parameter="kind"
            )
        if self.ratio_of and (len(self.ratio_of) != 2 or not all(isinstance(c, str) for c in self.ratio_of)):
            raise SchemaError(
                "`ratio_of` names two columns: the numerator and the denominator", parameter="ratio_of"
            )
        if self.times is not None and not self.ratio_of:
            raise SchemaError("`times` belongs to a ratio: say `ratio_of` too", parameter="times")
        for name in ("top", "bottom", "unit", "times"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
                raise SchemaError(f"`{name}` must be a number, not {value!r}", parameter=name)
            if value is not None and not math.isfinite(value):
                raise SchemaError(f"`{name}` must be finite, not {value!r}", parameter=name)
        if self.times is not None and self.times <= 0:
            raise SchemaError(f"`times` must be above 0, not {self.times!r}", parameter="times")
        if self.unit is not None and self.unit <= 0:
            raise SchemaError(f"`unit` must be above 0, not {self.unit!r}", parameter="unit")
        if self.top is not None and self.bottom is not None and self.bottom >= self.top:
            raise SchemaError(
                f"`bottom` ({self.bottom}) must be below `top` ({self.top})", parameter="bottom"
            )
        if not isinstance(self.residual, bool):
            raise SchemaError(
                f"`residual` must be true or false, not {self.residual!r}", parameter="residual"
            )
        for name in ("hierarchy", "imputed", "label"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise SchemaError(f"`{name}` must be text, not {value!r}", parameter=name)

    def __getstate__(self) -> dict[str, Any]:
        return _plain_state(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        _set_state(self, state)

    def is_missing_code(self, value: Code) -> bool:
        """Whether one (non-null) value is a missing code."""
        for code in self.missing:
            if isinstance(code, Range):
                if isinstance(value, (int, float)) and value in code:
                    return True
            elif code == value:
                return True
        return False

    def said(self) -> dict[str, Any]:
        """The details that are set. Zero is one: a bottom code of 0 isn't none."""
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            name: value
            for name, value in held.items()
            if not (value is None or value is False or (isinstance(value, (tuple, Mapping)) and not value))
        }

    def to_dict(self) -> dict[str, Any]:
        """What is set, as plain values (the form a plan has)."""
        out: dict[str, Any] = {}
        for name, value in self.said().items():
            if name == "missing":
                value = [m.to_dict() if isinstance(m, Range) else m for m in value]
            elif isinstance(value, tuple):
                value = list(value)
            elif isinstance(value, Mapping):
                value = {str(code): text for code, text in value.items()}
            out[name] = value
        return out


@suggesting
@dataclass(frozen=True)
class Schema:
    """The roles of a file's columns and the details of each.

    ``geography`` runs from coarse to fine. ``variables`` maps a column to a :class:`Variable` or to
    a plain dict of its fields.
    """

    id: str | None = None
    keys: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    geography: tuple[str, ...] = ()
    household: str | None = None
    weight: str | None = None
    strata: tuple[str, ...] = ()
    variables: Mapping[str, Variable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        for role in LIST_ROLES:
            names = tuple(_listed(getattr(self, role)))
            for name in names:
                if not isinstance(name, str):
                    raise SchemaError(f"`{role}` lists column names, not {name!r}")
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise SchemaError(f"`{role}` names {', '.join(twice)} twice")
            set_(self, role, names)
        for role in SINGLE_ROLES:
            value = getattr(self, role)
            if value is not None and not isinstance(value, str):
                raise SchemaError(f"`{role}` must name one column, not {value!r}")
        set_(self, "variables", MappingProxyType({n: as_variable(n, v) for n, v in self.variables.items()}))
        for total, variable in self.variables.items():
            for text in variable.edits:
                if self.household is None and parsed(text).members > 1:
                    raise SchemaError(
                        f"the edit {text!r} speaks of members of a household, and the schema names none",
                        hint="name the column of households in the role `household`",
                        parameter=f"variables.{total}.edits",
                    )
            if total in variable.sum_of:
                raise SchemaError(f"{total} can't be a component of itself")
            if total in variable.ratio_of:
                raise SchemaError(f"{total} can't be a ratio of itself")
            if total in self.wider(total):
                raise SchemaError(f"{total} can't lie in itself", parameter=f"variables.{total}.lies_in")

    def __getstate__(self) -> dict[str, Any]:
        return _plain_state(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        _set_state(self, state)

    def __getitem__(self, column: str) -> Variable:
        """The details of a column; an empty :class:`Variable` where nothing was said."""
        return self.variables.get(column) or _NOTHING_SAID

    @property
    def sums(self) -> dict[str, tuple[str, ...]]:
        """Every sum rule: total → components."""
        return {name: v.sum_of for name, v in self.variables.items() if v.sum_of}

    @property
    def ratios(self) -> dict[str, tuple[str, str]]:
        """Every ratio rule: column → numerator and denominator."""
        return {n: (v.ratio_of[0], v.ratio_of[1]) for n, v in self.variables.items() if v.ratio_of}

    def wider(self, column: str) -> tuple[str, ...]:
        """The coarser columns that a column's codes lie in, by ``lies_in`` and by the geography, the nearest
        first.

        >>> town = {"TOWN": {"lies_in": "COUNTY"}}
        >>> Schema(geography=["STATE", "COUNTY"], variables=town).wider("TOWN")
        ('COUNTY', 'STATE')
        """
        found: dict[str, None] = {}
        line = [column]
        while line:
            one = line.pop(0)
            at = self.geography.index(one) if one in self.geography else 0
            more = [*self[one].lies_in, *self.geography[:at][::-1]]
            line += [c for c in more if c not in found]
            found |= dict.fromkeys(more)
        return tuple(found)

    def named_columns(self) -> dict[str, str]:
        """Every column that the schema names → where it names it first."""
        out: dict[str, str] = {}
        for role in ROLES:
            value = getattr(self, role)
            for name in (value,) if isinstance(value, str) else value or ():
                out.setdefault(name, f"roles.{role}")
        for name, variable in self.variables.items():
            out.setdefault(name, f"variables.{name}")
            for part in variable.sum_of:
                out.setdefault(part, f"variables.{name}.sum_of")
            for part in variable.ratio_of:
                out.setdefault(part, f"variables.{name}.ratio_of")
            for part in variable.lies_in:
                out.setdefault(part, f"variables.{name}.lies_in")
            if variable.imputed:
                out.setdefault(variable.imputed, f"variables.{name}.imputed")
            for text in variable.edits:
                for part in sorted(parsed(text).columns):
                    out.setdefault(part, f"variables.{name}.edits")
        return out

    def role_of(self, column: str) -> str | None:
        """The first role of a column ("id", "key", "sensitive" …), or None."""
        for role in ROLES:
            value = getattr(self, role)
            if value == column or (isinstance(value, tuple) and column in value):
                return _ROLE_WORD.get(role, role)
        return None

    def with_roles(self, **roles: Any) -> Schema:
        """A copy with some roles replaced."""
        for role in roles:
            if role not in ROLES:
                raise SchemaError(f"there is no role {role!r}", hint=did_you_mean(role, ROLES))
        return replace(self, **roles)

    def with_variable(self, column: str, **details: Any) -> Schema:
        """A copy with some details of one column replaced."""
        known = {f.name for f in fields(Variable)}
        for name in details:
            if name not in known:
                raise SchemaError(f"a variable has no {name!r}", hint=did_you_mean(name, known))
        changed = replace(self[column], **details)
        return replace(self, variables={**self.variables, column: changed})

    def restricted_to(self, columns: Iterable[str]) -> Schema:
        """The schema of a file that has only these columns."""
        kept = set(columns)
        roles: dict[str, Any] = {}
        for role in ROLES:
            value = getattr(self, role)
            roles[role] = (
                tuple(n for n in value if n in kept)
                if isinstance(value, tuple)
                else (value if value in kept else None)
            )
        variables = {}
        for name, variable in self.variables.items():
            if name not in kept:
                continue
            if not set(variable.sum_of) <= kept:
                variable = replace(variable, sum_of=())
            if not set(variable.ratio_of) <= kept:
                variable = replace(variable, ratio_of=(), times=None)
            if not set(variable.lies_in) <= kept:
                variable = replace(variable, lies_in=tuple(c for c in variable.lies_in if c in kept))
            if variable.imputed not in kept:
                variable = replace(variable, imputed=None)
            there = tuple(t for t in variable.edits if _judged(t, kept, roles["household"]))
            if there != variable.edits:
                variable = replace(variable, edits=there)
            variables[name] = variable
        return Schema(**roles, variables=variables)

    def to_dict(self) -> dict[str, Any]:
        """``{"roles": …, "variables": …}``, as a plan has it."""
        roles: dict[str, Any] = {}
        for role in ROLES:
            value = getattr(self, role)
            if value:
                roles[role] = list(value) if isinstance(value, tuple) else value
        variables = {n: v.to_dict() for n, v in self.variables.items() if v.to_dict()}
        return {"roles": roles, "variables": variables}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Schema:
        """The schema of a plan's ``roles`` and ``variables`` tables."""
        roles = dict(content.get("roles", {}))
        for role in roles:
            if role not in ROLES:
                raise SchemaError(f"there is no role {role!r}", hint=did_you_mean(role, ROLES))
        return cls(**roles, variables=dict(content.get("variables", {})))


def as_variable(name: str, value: Variable | Mapping[str, Any]) -> Variable:
    """A :class:`Variable` from itself or from a dict of its fields, errors naming the column."""
    if isinstance(value, Variable):
        return value
    if not isinstance(value, Mapping):
        raise SchemaError(f"variables.{name} must be a table of details, not {value!r}")
    known = {f.name for f in fields(Variable)}
    for key in value:
        if key not in known:
            raise SchemaError(
                f"variables.{name} has no {key!r}", hint=did_you_mean(str(key), known), parameter=str(key)
            )
    try:
        return Variable(**value)
    except SchemaError as problem:
        raise SchemaError(
            f"variables.{name}: {problem.message}", hint=problem.hint, parameter=problem.parameter
        ) from None
    except TypeError as problem:
        raise SchemaError(f"variables.{name}: {problem}") from None


def _judged(text: str, columns: set[str], household: str | None) -> bool:
    """Whether a file of these columns has what an edit speaks of."""
    edit = parsed(text)
    return edit.columns <= columns and (edit.members == 1 or household is not None)


def _listed(value: Any) -> Sequence[Any]:
    """One thing or several, as a list."""
    if value is None:
        return ()
    if isinstance(value, (str, int, float, Range, Mapping)):
        return (value,)
    return tuple(value)


def _plain_state(one: Any) -> dict[str, Any]:
    """For pickle, which knows no read-only mappings: schemas travel to the processes of an experiment."""
    return {k: dict(v) if isinstance(v, MappingProxyType) else v for k, v in vars(one).items()}


def _set_state(one: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        object.__setattr__(one, name, MappingProxyType(value) if isinstance(value, dict) else value)


_NOTHING_SAID: Final = Variable()
