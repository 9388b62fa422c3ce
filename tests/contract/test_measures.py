"""The contract of every measure. New measures are found by themselves; ``cases.py`` says how."""

from __future__ import annotations

import dataclasses
import json
import math
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from cases import KEYS, MONEY, deck, example, trade_offs

import sfumato as sf
from sfumato import registry
from sfumato.contract.measure import Measure
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata
from sfumato.draws import Draws, Seed, Stream
from sfumato.errors import MaskError, MeasureError, SchemaError, SfumatoError

MEASURES = registry.measures()
BOTH = {n: c for n, c in MEASURES.items() if c.files == "both"}
UTILITY = {n: c for n, c in BOTH.items() if c.side == "utility" and n not in trade_offs()}
RISK = {n: c for n, c in BOTH.items() if c.side == "risk"}
ONE = {n: c for n, c in MEASURES.items() if c.files == "one"}
every_measure = pytest.mark.parametrize("cls", MEASURES.values(), ids=MEASURES)
STRENGTHS = (0.05, 0.3, 1.0)


ORIGINAL = deck(240, complete=True)
_seen: dict[tuple[str, int, int], Result] = {}


def measured(measure: Measure, masked: Microdata, seed: int = 0, *, again: bool = False) -> Result:
    """The result, kept for the other tests: a case is measured once (``again``: once more)."""
    key = (measure.name, id(masked), seed)
    if key not in _seen or again:
        _seen[key] = measure.measure(ORIGINAL, masked, seed=seed)
    return _seen[key]


@cache
def noisy(strength: float, seed: int) -> Microdata:
    """The complete deck with noise of ``strength`` standard deviations on its amounts, and a share
    ``strength`` / 2 of each key's values drawn anew. Made here, by no mask of ours."""
    data = ORIGINAL
    rng = np.random.default_rng(seed)
    new: dict[str, pl.Series] = {}
    for column in (*MONEY, "AGE"):
        values = data.numbers(column)
        out = values + strength * values.std() * rng.normal(0, 1, len(values))
        new[column] = pl.Series(np.rint(out) if data.dtype(column).is_integer() else out).cast(
            data.dtype(column)
        )
    new["TOTAL"] = new["WAGE"] + new["RENT"]
    for column in KEYS:
        values = data.column(column)
        drawn = values.gather(rng.integers(0, len(values), len(values)))
        new[column] = values.zip_with(pl.Series(rng.random(len(values)) >= strength / 2), drawn)
    return data.with_columns(new)


def worse(cls: type[Measure], value: float) -> float:
    """The value, turned so that more is worse for those who use the measure."""
    return value if cls.direction == "lower" else -value


@every_measure
def test_it_documents_itself(cls: type[Measure]) -> None:
    assert cls.summary().endswith("."), "the docstring starts with one sentence on one line"
    assert "Reference" in (cls.__doc__ or "")
    assert cls.reference
    low, high = cls.bounds
    assert low < high
    for name, field in cls.parameters().items():
        assert field.metadata.get("doc"), f"{name} has no doc"


@every_measure
def test_it_is_a_frozen_value_and_goes_through_a_plan(cls: type[Measure]) -> None:
    measure = example(cls, ORIGINAL)
    with pytest.raises(dataclasses.FrozenInstanceError):
        measure.id = "other"
    assert measure == example(cls, ORIGINAL)
    assert cls.from_dict(json.loads(json.dumps(measure.to_dict()))) == measure
    plan = sf.Plan(measures=[measure], schema=deck().schema)
    assert sf.Plan.loads(plan.to_toml()).measures == (measure,)


@every_measure
def test_its_result_is_plain_and_within_bounds(cls: type[Measure]) -> None:
    measure = example(cls, ORIGINAL)
    for masked in (ORIGINAL, noisy(0.3, 1), noisy(1.0, 1)):
        result = measured(measure, masked)
        assert math.isfinite(result.value)
        assert cls.bounds[0] <= result.value <= cls.bounds[1]
        if result.interval is not None:
            assert result.interval[0] <= result.interval[1]
        assert result.unit
        content = json.loads(json.dumps(result.to_dict()))
        assert content["value"] == pytest.approx(result.value)
        assert (content["measure"], content["direction"]) == (cls.name, cls.direction)


@pytest.mark.parametrize("cls", UTILITY.values(), ids=UTILITY)
def test_the_original_itself_scores_best(cls: type[Measure]) -> None:
    measure = example(cls, ORIGINAL)
    best = measured(measure, ORIGINAL).value
    bound = cls.bounds[0] if cls.direction == "lower" else cls.bounds[1]
    if math.isfinite(bound):
        assert best == pytest.approx(bound, abs=1e-9)
    for strength in STRENGTHS:
        assert worse(cls, measured(measure, noisy(strength, 1)).value) >= worse(cls, best) - 1e-12


@pytest.mark.parametrize("cls", RISK.values(), ids=RISK)
def test_the_original_itself_is_the_riskiest(cls: type[Measure]) -> None:
    measure = example(cls, ORIGINAL)
    risk = measured(measure, ORIGINAL).value
    for strength in STRENGTHS:
        assert worse(cls, measured(measure, noisy(strength, 1)).value) <= worse(cls, risk) + 1e-12


@pytest.mark.parametrize("cls", [*UTILITY.values(), *RISK.values()], ids=[*UTILITY, *RISK])
def test_more_noise_moves_it_the_right_way(cls: type[Measure]) -> None:
    """On average over seeds, more noise costs utility and lowers risk (Spearman's correlation)."""
    measure = example(cls, ORIGINAL)
    strengths, values = [], []
    for strength in STRENGTHS:
        for seed in (1, 2):
            strengths.append(strength)
            values.append(worse(cls, measured(measure, noisy(strength, seed)).value))
    if len(set(values)) == 1:
        # The least noise may have done all that noise can do; else only those that look at none of the
        # amounts may be left alone by noise on them.
        moved = values[0] - worse(cls, measured(measure, ORIGINAL).value)
        assert (moved if cls.side == "utility" else -moved) >= 0
        assert moved or not set(measure.named_columns()) & set(MONEY), "noise on its columns doesn't move it"
        return
    ranks = [pl.Series(x).rank().to_numpy() for x in (strengths, values)]
    rho = float(np.corrcoef(*ranks)[0, 1])
    assert (rho if cls.side == "utility" else -rho) > 0


class Spy(Draws):
    """Draws that remember whether they were asked for."""

    def stream(self, column: str = "", stratum: str = "", purpose: str = "") -> Stream:
        object.__setattr__(self, "asked", True)
        return super().stream(column, stratum, purpose)


@every_measure
def test_the_order_of_records_doesnt_matter(cls: type[Measure]) -> None:
    measure = example(cls, ORIGINAL)
    original, masked = ORIGINAL, noisy(0.3, 1)
    order = pl.Series(np.random.default_rng(5).permutation(len(original)))
    pair = [Microdata(d.frame.select(pl.all().gather(order)), d.schema) for d in (original, masked)]
    spy = Spy(Seed.from_int(0), "measure")
    first, second = (pair[1], pair[1]) if cls.files == "one" else pair
    value = measure._measure(first, second, spy).value
    if not getattr(spy, "asked", False):
        assert value == pytest.approx(measured(measure, masked).value, rel=1e-7, abs=1e-9)
        return
    # A measure that draws is compared over seeds.
    seeds = range(4)
    here = np.array([measured(measure, masked, s).value for s in seeds])
    there = np.array([measure.measure(*pair, seed=s).value for s in seeds])
    error = math.sqrt((here.var(ddof=1) + there.var(ddof=1)) / len(seeds))
    assert abs(here.mean() - there.mean()) <= 4 * error + 1e-9


@every_measure
def test_same_seed_same_result(cls: type[Measure]) -> None:
    measure = example(cls, ORIGINAL)
    one = measured(measure, noisy(0.3, 1)).to_dict()
    two = measured(measure, noisy(0.3, 1), again=True).to_dict()
    assert json.dumps(one) == json.dumps(two)


@pytest.mark.parametrize("cls", ONE.values(), ids=ONE)
def test_one_file_is_enough(cls: type[Measure]) -> None:
    measure = example(cls, ORIGINAL)
    masked = noisy(0.3, 1)
    alone = sf.measure(masked, measure)
    assert alone[0].value == alone[cls.name].value == measured(measure, masked).value


@pytest.mark.parametrize("cls", BOTH.values(), ids=BOTH)
def test_two_files_are_asked_for(cls: type[Measure]) -> None:
    measure = example(cls, ORIGINAL)
    with pytest.raises(MeasureError, match="compares two files"):
        measure.measure(ORIGINAL)


@every_measure
def test_an_unknown_column_is_a_clear_error(cls: type[Measure]) -> None:
    data = ORIGINAL
    measure = example(cls, data)
    named = [c for c in measure.named_columns() if c in data.columns]
    if not named:
        return
    gone = Microdata(data.frame.drop(named[0]), data.schema.restricted_to(set(data.columns) - {named[0]}))
    with pytest.raises(SfumatoError, match=named[0]):
        measure.measure(gone, gone)


def edges() -> dict[str, Microdata]:
    data = ORIGINAL
    alike = data.frame.select(pl.all().gather(pl.Series([0] * 30)))
    constant = data.with_columns({c: pl.Series([7] * len(data), dtype=data.dtype(c)) for c in MONEY})
    return {
        "missing": deck(240),
        "none": data.slice(0, 0),
        "one": data.slice(0, 1),
        "two": data.slice(0, 2),
        "alike": Microdata(alike, data.schema),
        "constant": constant,
    }


@pytest.mark.parametrize("edge", edges())
@every_measure
def test_files_at_the_edge(cls: type[Measure], edge: str) -> None:
    """A finite value within bounds, or an error of ours that says why there is none."""
    data: Any = edges()[edge]
    measure = example(cls, ORIGINAL)
    said = ""
    try:
        result = measure.measure(data, data)
    except (MeasureError, SchemaError, MaskError) as problem:
        said = problem.message
    if said:
        assert len(said) > 20, "it says why there is none"
        assert "sfumato." not in said
        return
    assert cls.bounds[0] <= result.value <= cls.bounds[1]
