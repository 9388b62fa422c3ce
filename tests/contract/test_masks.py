"""The contract of every mask. New masks are found by themselves; ``cases.py`` says how."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from cases import MONEY, deck_for, example, no_strength

import sfumato as sf
from sfumato import registry
from sfumato.contract.disclosure import Fact
from sfumato.contract.mask import Mask, Notes, RowsMask, bound_to
from sfumato.data.differences import changed
from sfumato.data.follow import follow
from sfumato.data.microdata import Microdata
from sfumato.draws import Draws, Seed, Stream
from sfumato.errors import SfumatoError

MASKS = registry.masks()
every_mask = pytest.mark.parametrize("cls", MASKS.values(), ids=MASKS)


class Spy(Draws):
    """Draws that remember whether they were asked for."""

    asked = False

    def stream(self, column: str = "", stratum: str = "", purpose: str = "") -> Stream:
        object.__setattr__(self, "asked", True)
        return super().stream(column, stratum, purpose)


def carried_out(mask: Mask, data: Microdata, seed: int = 1) -> tuple[Microdata, bool]:
    """The masked data, and whether the mask drew."""
    spy = Spy(Seed.from_int(seed), mask.id or mask.name)
    return mask.carry_out(data, spy)[0], spy.asked


def tried(mask: Mask, data: Microdata) -> Microdata | None:
    """The masked data, or None where the mask refuses with an error of ours that tells no value."""
    try:
        masked = mask.mask(data, seed=1)
    except SfumatoError as problem:
        tells_nothing(str(problem), data)
        return None
    assert len(masked) == len(data)
    if getattr(mask, "keeps_types", True):
        assert {c: masked.dtype(c) for c in data.columns} == {c: data.dtype(c) for c in data.columns}
    return masked


def tells_nothing(message: str, data: Microdata) -> None:
    """No original value of a sensitive column is in the message (short ones could be anything)."""
    for column in MONEY:
        values = data.column(column).cast(pl.String, strict=False).drop_nulls().unique()
        told = [v for v in values if len(v) >= 5 and v[-1].isdigit() and v in message]
        assert not told, f"an original value of {column} is in the message"


def same(one: pl.DataFrame, two: pl.DataFrame) -> bool:
    return one.equals(two, null_equal=True)


# -- what it says of itself -----------------------------------------------------------------------


@every_mask
def test_it_documents_itself(cls: type[Mask]) -> None:
    first = cls.summary()
    assert first.endswith("."), "the docstring starts with one sentence on one line"
    assert "Reference" in (cls.__doc__ or "")
    assert ">>>" in (cls.__doc__ or "")
    assert cls.reference
    assert cls.name == cls.name.lower()
    for name, field in cls.parameters().items():
        assert field.metadata.get("doc"), f"{name} has no doc"


@every_mask
def test_it_is_a_frozen_value(cls: type[Mask]) -> None:
    mask = example(cls, deck_for(cls))
    with pytest.raises(dataclasses.FrozenInstanceError):
        mask.id = "other"
    assert mask == example(cls, deck_for(cls))
    assert mask != dataclasses.replace(mask, id="other")


@every_mask
def test_it_goes_through_a_plan(cls: type[Mask]) -> None:
    mask = example(cls, deck_for(cls))
    text = json.dumps(mask.to_dict())
    assert cls.from_dict(json.loads(text)) == mask
    plan = sf.Plan(steps=[mask], schema=deck_for(cls).schema)
    assert sf.Plan.loads(plan.to_toml()).steps == (mask,)


@every_mask
def test_an_unknown_column_is_a_clear_error(cls: type[Mask]) -> None:
    mask = example(cls, deck_for(cls))
    named = [c for c in mask.named_columns() if c in deck_for(cls).columns]
    if not named:
        return
    gone = Microdata(
        deck_for(cls).frame.drop(named[0]),
        deck_for(cls).schema.restricted_to(set(deck_for(cls).columns) - {named[0]}),
    )
    with pytest.raises(SfumatoError, match=named[0]):
        mask.mask(gone, seed=1)


# -- what it does to a file -----------------------------------------------------------------------


@every_mask
def test_it_knows_the_types_that_it_makes(cls: type[Mask]) -> None:
    """`check` follows the types from step to step, so that it refuses what `run` would refuse."""
    data = deck_for(cls)
    mask = example(cls, data)
    masked, _ = carried_out(mask, data)
    said = mask.types_after({c: data.dtype(c) for c in data.columns}, data.schema)
    assert said == {c: masked.dtype(c) for c in masked.columns}


@every_mask
def test_it_changes_what_it_says_and_nothing_else(cls: type[Mask]) -> None:
    data = deck_for(cls)
    mask = example(cls, data)
    masked, _ = carried_out(mask, data)
    touched = list(mask.touches(data))
    assert masked.columns[: len(data.columns)] == data.columns
    assert set(masked.columns) - set(data.columns) <= set(touched)
    rest = [c for c in data.columns if c not in touched]
    assert same(masked.frame.select(rest), data.frame.select(rest))
    assert any(changed(data.column(c), masked.column(c)) for c in touched if c in data.columns)
    if getattr(mask, "keeps_types", True):
        assert {c: masked.dtype(c) for c in data.columns} == {c: data.dtype(c) for c in data.columns}
    for role in ("id", "keys", "sensitive", "geography", "household", "weight", "strata"):
        assert getattr(masked.schema, role) == getattr(data.schema, role)
    for column in rest:
        assert masked.schema[column] == data.schema[column]


@every_mask
def test_it_leaves_the_original_alone(cls: type[Mask]) -> None:
    data = deck_for(cls)
    before = data.frame.clone()
    bytes_before = before.hash_rows(seed=1).to_list()
    example(cls, data).mask(data, seed=1)
    assert data.frame.hash_rows(seed=1).to_list() == bytes_before


@every_mask
def test_same_seed_same_bytes_other_seed_other_bytes(cls: type[Mask]) -> None:
    data = deck_for(cls)
    mask = example(cls, data)
    one, drew = carried_out(mask, data, 1)
    two, _ = carried_out(mask, data, 1)
    assert same(one.frame, two.frame)
    others = [carried_out(mask, data, seed)[0].frame for seed in (2, 3, 4)]
    assert not (drew and mask.draws_nothing)
    if drew:
        assert not all(same(one.frame, other) for other in others)
    else:
        assert all(same(one.frame, other) for other in others)


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
@every_mask
def test_another_step_leaves_its_draws_alone(cls: type[Mask]) -> None:
    data = deck_for(cls)
    mask = example(cls, data)
    if "SPARE" in mask.changes(data):
        return
    other = sf.RandomSwap(columns=["SPARE"], rate_percent=80, id="another")
    alone = sf.Plan(steps=[mask]).run(data, seed=5).masked
    together = sf.Plan(steps=[other, mask]).run(data, seed=5).masked
    rest = [c for c in alone.columns if c != "SPARE"]
    assert same(alone.frame.select(rest), together.frame.select(rest))


@every_mask
def test_threads_dont_matter(cls: type[Mask], monkeypatch: pytest.MonkeyPatch) -> None:
    mask = example(cls, deck_for(cls))
    monkeypatch.setenv("SFUMATO_THREADS", "1")
    one = mask.mask(deck_for(cls), seed=1).frame
    monkeypatch.setenv("SFUMATO_THREADS", "2")
    assert same(one, mask.mask(deck_for(cls), seed=1).frame)


ROWS = {name: cls for name, cls in MASKS.items() if issubclass(cls, RowsMask)}


@pytest.mark.parametrize("cls", ROWS.values(), ids=ROWS)
def test_chunks_dont_matter(cls: type[RowsMask], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both on the mask's own path and on the chunked path that an engine takes."""
    mask: RowsMask = example(cls, deck_for(cls))
    whole = mask.mask(deck_for(cls), seed=1).frame
    for size in (7, 100):
        monkeypatch.setattr(cls, "chunk_records", size)
        assert same(whole, mask.mask(deck_for(cls), seed=1).frame)
        data = deck_for(cls)
        draws = mask.draws(bound_to(Seed.from_int(1), data), mask.name)
        pieces = RowsMask._apply(mask, data, draws, Notes())
        assert same(whole, follow(data, pieces, mask.changes(data))[0].frame)


@pytest.mark.parametrize("layout", ["chunked", "sliced", "lazy"])
@every_mask
def test_the_layout_in_memory_doesnt_matter(cls: type[Mask], layout: str) -> None:
    data = deck_for(cls)
    mask = example(cls, data)
    frame: Any = data.frame
    if layout == "chunked":
        frame = pl.concat([frame[:50], frame[50:51], frame[51:]], rechunk=False)
        assert frame.n_chunks() == 3
    elif layout == "sliced":
        frame = pl.concat([frame[:37], frame], rechunk=True).slice(37)
    else:
        frame = frame.lazy()
    assert same(mask.mask(Microdata(frame, data.schema), seed=1).frame, mask.mask(data, seed=1).frame)


@every_mask
def test_pandas_comes_in(cls: type[Mask]) -> None:
    data = deck_for(cls, complete=True)
    mask = example(cls, data)
    from_pandas = mask.mask(Microdata(data.frame.to_pandas(), data.schema), seed=1)
    want = mask.mask(data, seed=1).frame
    assert from_pandas.frame.select(pl.all().cast(pl.String)).equals(want.select(pl.all().cast(pl.String)))


@every_mask
def test_missing_values_stay(cls: type[Mask]) -> None:
    data = deck_for(cls)
    mask = example(cls, data)
    masked = mask.mask(data, seed=1)
    for column in mask.touches(data):
        if column not in data.columns:
            continue
        gone = pl.Series(data.missing(column))
        if mask.moves_missing:  # they are values like others: about as many as before
            assert abs(masked.missing(column).sum() - gone.sum()) <= 4 * gone.sum() ** 0.5
            continue
        assert masked.missing(column)[gone.to_numpy()].all()
        if masked.dtype(column) == data.dtype(column):
            before, after = (f.column(column).filter(gone) for f in (data, masked))
            assert changed(before, after) == 0
            assert before.null_count() == after.null_count()


ZERO = {name: cls for name, cls in MASKS.items() if no_strength(cls, deck_for(cls)) is not None}


@pytest.mark.parametrize("cls", ZERO.values(), ids=ZERO)
def test_no_strength_is_the_identity(cls: type[Mask]) -> None:
    mask = no_strength(cls, deck_for(cls))
    assert mask is not None
    masked = mask.mask(deck_for(cls), seed=1)
    assert same(masked.frame.select(deck_for(cls).columns), deck_for(cls).frame)


# -- files at the edge ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@every_mask
def test_tiny_files(cls: type[Mask], n: int) -> None:
    mask = example(cls, deck_for(cls))
    tried(mask, deck_for(cls).slice(0, n))


@every_mask
def test_all_records_alike(cls: type[Mask]) -> None:
    data = deck_for(cls, complete=True)
    mask = example(cls, data)
    index = pl.Series([0] * 40)
    frame = data.frame.select(pl.all().gather(index)).with_columns(
        ID=pl.Series([f"p{i}" for i in range(40)]), HH=pl.Series(np.arange(40) // 2)
    )
    tried(mask, Microdata(frame, data.schema))


def edited(data: Microdata, mask: Mask, make: Any) -> list[Microdata]:
    """The data with one touched column edited, for each of the first three touched columns."""
    columns = [c for c in mask.changes(data) if c in data.columns][:3]
    return [data.with_columns({c: make(data.column(c))}) for c in columns]


@every_mask
def test_a_constant_column(cls: type[Mask]) -> None:
    data = deck_for(cls)
    mask = example(cls, data)
    for one in edited(data, mask, lambda s: pl.Series([s.drop_nulls()[3]] * len(s), dtype=s.dtype)):
        tried(mask, one)


@every_mask
def test_an_all_missing_column(cls: type[Mask]) -> None:
    data = deck_for(cls)
    mask = example(cls, data)
    for column in [c for c in mask.changes(data) if c in data.columns][:3]:
        one = data.with_columns({column: pl.Series([None] * len(data), dtype=data.dtype(column))})
        masked = tried(mask, one)
        if masked is not None:
            assert masked.column(column).null_count() == len(data)


DTYPES = [
    pl.Int8,
    pl.UInt16,
    pl.Int64,
    pl.Float32,
    pl.Float64,
    pl.Date,
    pl.Boolean,
    pl.Categorical,
    pl.String,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@every_mask
def test_columns_of_any_type(cls: type[Mask], dtype: Any) -> None:
    """It works and keeps the type, or it says that it can't."""
    data = deck_for(cls)
    mask = example(cls, data)

    def cast(series: pl.Series) -> pl.Series:
        small = (series.rank("dense").cast(pl.Int64) % 100).alias(series.name)
        if dtype == pl.Boolean:
            return small > 50
        if dtype == pl.Categorical:
            return small.cast(pl.String).cast(pl.Categorical)
        return small.cast(pl.Int32).cast(dtype) if dtype == pl.Date else small.cast(dtype)

    for one in edited(data, mask, cast):
        tried(mask, one)


@every_mask
def test_infinite_values(cls: type[Mask]) -> None:
    data = deck_for(cls, complete=True)
    mask = example(cls, data)
    floats = [c for c in mask.changes(data) if c in data.columns and data.dtype(c).is_float()]
    for column in floats:
        one = data.with_columns({column: data.column(column).scatter([3, 5], [np.inf, -np.inf])})
        tried(mask, one)


@every_mask
def test_what_it_discloses_speaks_of_columns_alone(cls: type[Mask]) -> None:
    """Facts for the attacks: columns of the file, no record; and its own list keeps its records."""
    data = deck_for(cls)
    mask = example(cls, data)
    for fact in mask.discloses(data):
        assert isinstance(fact, Fact)
        assert fact.columns
        assert set(fact.columns) | set(fact.within) <= set(data.columns)
        for value in vars(fact).values():
            assert not isinstance(value, np.ndarray | pl.Series | pl.DataFrame)
    assert len(mask.own_list(data)) == len(data)
