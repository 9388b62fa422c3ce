"""How the contract suite makes an example of every mask and measure.

**The convention.** ``test_masks.py`` and ``test_measures.py`` look up every registered class and test
an example of it on :func:`deck`, a small file with every role. The example is found so:

1. from ``CASES[name]`` of this file or of any file ``tests/contract/cases_<topic>.py`` (found by
   glob). Each such file defines::

       CASES: dict[str, Callable[[Microdata], Mask | Measure]] = {
           "group_swap": lambda data: sf.GroupSwap(strata=["SEX"], n_swap=20, covariates=["WAGE"]),
       }

2. else from the class's declared parameters: what has no default gets a value by its role or its
   name (``VALUES``), and if that isn't enough, one optional parameter of ``VALUES`` too.

A file ``cases_<topic>.py`` may also define

- ``ZERO: dict[str, Callable[[Microdata], Mask | None]]``: the mask at no strength, which must leave
  the file as it is; None where the method has no such setting. Found by itself where a parameter such
  as ``rate_percent`` or ``variance_ratio`` may be 0.

- ``DECKS: dict[str, Callable[[Microdata], Microdata]]``: what the file must be like for this class, made
  from :func:`deck` (one record per household, say).
- ``TRADE_OFF: set[str]``: measures that weigh risk against loss, so that the original isn't their best.

A mask whose very purpose is another type (a recode that makes classes of numbers) says so with a class
variable ``keeps_types = False``. A class that fails the contract is mended, never excused: there is no
list of exceptions.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Measure
from sfumato.contract.parameters import Declared
from sfumato.data.microdata import Microdata
from sfumato.errors import ParameterError, SfumatoError

MONEY = ("INCOME", "WAGE", "RENT", "WEALTH")
KEYS = ("SEX", "RACE", "AGEGRP")
GEOGRAPHY = ("STATE", "COUNTY", "TRACT")

ROLES: dict[str, Any] = {
    "keys": KEYS,
    "sensitive": MONEY,
    "geography": GEOGRAPHY,
    "strata": ("SEX",),
    "household": "HH",
    "weight": "WEIGHT",
    "id": "ID",
}

# What a parameter of this name gets, where nothing better is known.
VALUES: dict[str, Any] = {
    "columns": MONEY,
    "column": "AGE",
    "keys": KEYS,
    "known": ("INCOME", "WAGE", "RENT"),
    "block_on": ("SEX",),
    "table": ("SEX", "RACE"),
    "of": "WAGE",
    "classes": ("SEX", "RACE"),
    "cells": ("SEX",),
    "strata": ("SEX",),
    "covariates": ("WAGE", "RACE"),
    "match_on": ("HSIZE",),
    "swap": ("COUNTY", "TRACT"),
    "similar": ("HSIZE",),
    "hierarchy": GEOGRAPHY,
    "household": "HH",
    "rate_percent": 20,
    "window_percent": 10,
    "correlation": 0.9,
    "variance_ratio": 0.1,
    "tolerance": 3,
    "k": 3,
    "keep_probability": 0.7,
    "n_swap": 20,
    "width": 10,
    "digits": 1,
    "percent": 10,
    "within_percent": 10,
    "top_percent": 10,
    "share_known": 0.3,
    "formula": "WAGE ~ AGE + RENT",
    "where": "SEX = 'f'",
    "skeptical_of": ("RACE",),
}
# Parameters whose value 0 (or 1) means that nothing is done.
NO_STRENGTH = {
    "rate_percent": 0,
    "small_area_rate_percent": 0,
    "sample_percent": 0,
    "n_swap": 0,
    "variance_ratio": 0,
    "window_percent": 0,
    "top_percent": 0,
    "bottom_percent": 0,
    "keep_probability": 1,
    "digits": 0,
}

CASES: dict[str, Callable[[Microdata], Mask | Measure]] = {
    "top_bottom_code": lambda data: sf.TopBottomCode(
        columns=MONEY, top_percent=10, bottom_percent=5, replace="mean"
    ),
    "confidentiality_edit_1990": lambda data: sf.ConfidentialityEdit1990(
        match_on=("HSIZE",), swap=("COUNTY", "TRACT"), within=("STATE",), rate_percent=20
    ),
    "record_swap": lambda data: sf.RecordSwap(
        hierarchy=GEOGRAPHY, similar=("HSIZE",), rate_percent=30, on_conflict="rate"
    ),
    "propensity": lambda data: sf.Propensity(columns=("SEX", "WAGE", "RENT"), permutations=2),
}
ZERO: dict[str, Callable[[Microdata], Mask | None]] = {
    "record_swap": lambda data: sf.RecordSwap(
        hierarchy=GEOGRAPHY, similar=("HSIZE",), rate_percent=0, on_conflict="rate"
    ),
}
DECKS: dict[str, Callable[[Microdata], Microdata]] = {
    # It swaps single records, and refuses to tear households apart.
    "confidentiality_edit_2000": lambda data: data.with_roles(household=None),
}
TRADE_OFF: set[str] = {"score"}


@cache
def deck(n: int = 320, *, complete: bool = False) -> Microdata:
    """A small file about persons in households, with every role and every kind of missing value.

    ``complete=True`` has no missing values and no codes.
    """
    rng = np.random.default_rng(20_240_229)
    # Households of 1 to 4, nested in 2 states × 3 counties × 3 tracts.
    household = np.repeat(np.arange(n), rng.integers(1, 5, n))[:n]
    size = np.bincount(household, minlength=n)[household]
    place = rng.integers(0, 18, n)[household]
    sex = rng.choice(["f", "m"], n)
    race = rng.choice(4, n, p=[0.6, 0.2, 0.15, 0.05]) + 1
    age = np.clip(rng.normal(45, 18, n), 0, 95).astype(np.int64)
    skill = rng.normal(0, 1, n) + 0.02 * (age - 45)
    wage = np.rint(np.exp(10 + 0.6 * skill + 0.4 * rng.normal(0, 1, n))).astype(np.int64)
    rent = np.rint(np.exp(6.5 + 0.3 * skill + 0.5 * rng.normal(0, 1, n))).astype(np.int64)
    rent[rng.random(n) < 0.15] = 0
    income = np.rint(wage * np.exp(0.2 * rng.normal(0, 1, n)) + 1).astype(np.int64)
    wealth = np.exp(11 + 0.7 * skill + 0.8 * rng.normal(0, 1, n))
    columns: dict[str, Any] = {
        "ID": [f"p{i:05d}" for i in range(n)],
        "HH": household,
        "HSIZE": size.astype(np.int8),
        "STATE": (place // 9 + 1).astype(np.int8),
        "COUNTY": (place // 3 + 11).astype(np.int16),
        "TRACT": (place + 1101).astype(np.int32),
        "SEX": sex,
        "RACE": race.astype(np.int8),
        "AGE": age,
        "AGEGRP": (age // 20).astype(np.int8),
        "INCOME": income,
        "WAGE": wage,
        "RENT": rent,
        "TOTAL": wage + rent,
        "WEALTH": wealth,
        "WEIGHT": rng.uniform(50, 150, n),
        "SPARE": rng.integers(0, 1000, n),
    }
    frame = pl.DataFrame(columns)
    variables: dict[str, Any] = {
        "RACE": {"kind": "categorical"},
        "AGEGRP": {"kind": "ordinal"},
        "STATE": {"kind": "categorical"},
        "COUNTY": {"kind": "categorical"},
        "TRACT": {"kind": "categorical"},
        "TOTAL": {"sum_of": ["WAGE", "RENT"]},
    }
    if not complete:
        u = rng.random((n, 3))
        income = np.where(u[:, 0] < 0.05, -9, np.minimum(income, 60_000))
        frame = frame.with_columns(
            INCOME=pl.Series(income).zip_with(
                pl.Series(u[:, 1] > 0.05), pl.Series([None] * n, dtype=pl.Int64)
            ),
            WEALTH=pl.Series(np.where(u[:, 2] < 0.04, np.nan, wealth)).zip_with(
                pl.Series(u[:, 1] < 0.95), pl.Series([None] * n, dtype=pl.Float64)
            ),
        )
        variables["INCOME"] = {"missing": [-9], "top": 60_000}
    return Microdata(
        frame,
        {
            "roles": {r: list(v) if isinstance(v, tuple) else v for r, v in ROLES.items()},
            "variables": variables,
        },
    )


@cache
def _case_files() -> dict[str, Any]:
    """The tables of this file and of every ``cases_<topic>.py`` beside it."""
    tables: dict[str, Any] = {"CASES": CASES, "ZERO": ZERO, "DECKS": DECKS, "TRADE_OFF": TRADE_OFF}
    found = {table: entries.copy() for table, entries in tables.items()}
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        spec = importlib.util.spec_from_file_location(f"contract_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        for table, entries in found.items():
            entries.update(getattr(module, table, {}))
    return found


def deck_for(cls: type[Declared], n: int = 320, *, complete: bool = False) -> Microdata:
    """The deck as this class needs it."""
    edit = _case_files()["DECKS"].get(cls.name)
    data = deck(n, complete=complete)
    return edit(data) if edit is not None else data


def trade_offs() -> set[str]:
    """The measures that weigh risk against loss."""
    return set(_case_files()["TRADE_OFF"])


def example(cls: type[Declared], data: Microdata) -> Any:
    """An instance of the class that fits these data."""
    made = _case_files()["CASES"].get(cls.name)
    if made is not None:
        return made(data)
    required = {n: _value(f) for n, f in cls.parameters().items() if _needed(f)}
    unknown = [n for n, v in required.items() if v is None]
    problems: list[str] = [f"no value is known for {unknown}"] if unknown else []
    if not unknown:
        optional = [n for n in VALUES if n in cls.parameters() and n not in required]
        for extra in [None, *optional]:
            parameters = dict(required)
            if extra is not None:
                parameters[extra] = VALUES[extra]
            try:
                one: Any = cls(**parameters)
            except ParameterError as problem:
                problems.append(problem.message)
                continue
            errors = [p for p in one.check(data.schema, data._types) if p.severity == "error"]
            if not errors:
                return one
            problems += [p.message for p in errors]
    raise AssertionError(
        f"no example of {cls.__name__} could be made ({'; '.join(dict.fromkeys(problems))}): add one to "
        "CASES in tests/contract/cases_<topic>.py"
    )


def no_strength(cls: type[Mask], data: Microdata) -> Mask | None:
    """The example at no strength, or None where the method has no such setting."""
    zero = _case_files()["ZERO"]
    if cls.name in zero:
        made: Mask | None = zero[cls.name](data)
        return made
    try:
        one: Mask = example(cls, data)
    except AssertionError:
        return None
    given = {n: NO_STRENGTH[n] for n in cls.parameters() if n in NO_STRENGTH and getattr(one, n) is not None}
    if not given:
        return None
    try:
        return dataclasses.replace(one, **given)
    except SfumatoError:
        return None


def _needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _value(field: dataclasses.Field[Any]) -> Any:
    role = field.metadata.get("columns")
    if isinstance(role, str) and role in ROLES:
        return ROLES[role]
    if field.name in VALUES:
        return VALUES[field.name]
    if role:
        return MONEY if field.metadata.get("numeric") else KEYS
    choices = field.metadata.get("choices")
    return choices[0] if choices else None
