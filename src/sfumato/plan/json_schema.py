"""The JSON Schema of plans, for editors that complete and check as one types.

Everything in it comes from the declarations of masks, measures, schema and release options.

>>> schema = plan_schema()
>>> schema["properties"]["format"]
{'const': 1}
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from sfumato import registry
from sfumato.contract.parameters import Declared
from sfumato.data.schema import KINDS, LIST_ROLES, SINGLE_ROLES
from sfumato.plan.audience import AUDIENCES
from sfumato.plan.parts import FORMAT, OFF, RELEASE_FORMATS, ReleaseOptions

_NAMES: dict[str, Any] = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "uniqueItems": True}]
}
_NUMBER = {"type": "number"}


def plan_schema() -> dict[str, Any]:
    """The JSON Schema of a plan of this version, with every mask and measure there is."""
    roles: dict[str, Any] = {r: {"type": "string"} for r in SINGLE_ROLES} | {r: _NAMES for r in LIST_ROLES}
    bound = {
        "type": "object",
        "properties": {"at_most": _NUMBER, "at_least": _NUMBER},
        "additionalProperties": False,
        "minProperties": 1,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A sfumato plan",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "format": {"const": FORMAT},
            "title": {"type": "string"},
            "for": {"enum": list(AUDIENCES), "description": "For whom the release is."},
            "data": {"type": "string", "description": "The data file, relative to the plan."},
            "read": {"type": "object", "description": "Options of the reader (delimiter, encoding …)."},
            "roles": {"type": "object", "additionalProperties": False, "properties": roles},
            "variables": {"type": "object", "additionalProperties": _variable()},
            "step": {"type": "array", "items": _one_of(registry.masks(), "mask")},
            "measure": {"type": "array", "items": _one_of(registry.measures(), "measure")},
            "limits": {
                "type": "object",
                "additionalProperties": {
                    "anyOf": [bound, {"type": "object", "additionalProperties": bound, "minProperties": 1}]
                },
            },
            "release": _release(),
        },
    }


def _variable() -> dict[str, Any]:
    missing_range = {
        "type": "object",
        "properties": {"from": _NUMBER, "to": _NUMBER},
        "additionalProperties": False,
        "minProperties": 1,
    }
    code = {"type": ["number", "string"]}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "kind": {"enum": list(KINDS)},
            "missing": {"type": "array", "items": {"anyOf": [code, missing_range]}},
            "top": _NUMBER,
            "bottom": _NUMBER,
            "sum_of": _NAMES,
            "edits": _NAMES,
            "residual": {"type": "boolean"},
            "ratio_of": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
            "times": {"type": "number", "exclusiveMinimum": 0},
            "unit": {"type": "number", "exclusiveMinimum": 0},
            "order": {"type": "array", "items": code},
            "hierarchy": {"type": "string"},
            "lies_in": _NAMES,
            "imputed": {"type": "string"},
            "label": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }


def _release() -> dict[str, Any]:
    out: dict[str, Any] = {}
    for f in dataclasses.fields(ReleaseOptions):
        if f.name == "format":
            out[f.name] = {"enum": list(RELEASE_FORMATS)}
        elif f.name in ("drop", "identifiers"):
            out[f.name] = _NAMES
        else:
            out[f.name] = {"type": "boolean" if isinstance(f.default, bool) else "string"}
    return {"type": "object", "additionalProperties": False, "properties": out}


def _one_of(there: Mapping[str, type[Declared]], word: str) -> dict[str, Any]:
    """One branch a mask; ``if`` rather than ``oneOf``, so that messages name the right branch."""
    return {
        "type": "object",
        "required": [word],
        "properties": {word: {"enum": list(there)}},
        "allOf": [
            {"if": {"properties": {word: {"const": name}}}, "then": declared_schema(cls, word)}
            for name, cls in there.items()
        ],
    }


def declared_schema(cls: type[Declared], word: str) -> dict[str, Any]:
    """The schema of one mask's or measure's table, from its declared parameters."""
    properties: dict[str, Any] = {word: {"const": cls.name}}
    required = []
    for name, f in cls.parameters().items():
        properties[name] = {
            **_of_type(cls.parameter_types()[name], f.metadata),
            "description": f.metadata["doc"],
        }
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            required.append(name)
    if word == "mask":
        properties[OFF] = {"type": "boolean", "description": "Kept in the plan, but not carried out."}
    return {
        "description": cls.summary(),
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _of_type(hint: Any, limits: Mapping[str, Any]) -> dict[str, Any]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        options = [_of_type(o, limits) for o in inner if o is not type(None)]
        return options[0] if len(options) == 1 else {"anyOf": options}
    if origin is tuple:
        item = _of_type(inner[0], limits)
        return {"anyOf": [item, {"type": "array", "items": item}]}
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of_type(inner[1], limits)}
    if hint is bool:
        return {"type": "boolean"}
    if hint in (int, float):
        out: dict[str, Any] = {"type": "integer" if hint is int else "number"}
        words = {
            "at_least": "minimum",
            "at_most": "maximum",
            "above": "exclusiveMinimum",
            "below": "exclusiveMaximum",
        }
        return out | {words[k]: limits[k] for k in words if limits.get(k) is not None}
    if hint is str:
        choices = limits.get("choices")
        return {"enum": list(choices)} if choices else {"type": "string"}
    return {}
