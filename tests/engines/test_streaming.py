"""From disk to disk: every mask gives the records that it gives in memory, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from cases import deck_for, example

import sfumato as sf
from sfumato import registry
from sfumato.contract.engine import Held
from sfumato.contract.mask import Mask
from sfumato.data.microdata import Microdata
from sfumato.engines.streaming import Streaming
from sfumato.errors import GuaranteeError

MASKS = registry.masks()
every_mask = pytest.mark.parametrize("cls", MASKS.values(), ids=MASKS)
pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")


def on_disk(data: Microdata, folder: Path, rows: int = 50) -> Microdata:
    """The data as a lazy file of many row groups."""
    path = folder / "in.parquet"
    data.frame.write_parquet(path, row_group_size=rows)
    return Microdata(pl.scan_parquet(path), data.schema)


def both(plan: sf.Plan, data: Microdata, folder: Path, chunk: int = 37) -> tuple[Any, pl.DataFrame]:
    """The plan's run in memory, and the masked frame from disk."""
    small = plan.run(data, seed=5, measure=False)
    with Streaming(folder, chunk=chunk) as engine:
        run = plan.run(on_disk(data, folder), seed=5, measure=False, engine=engine)
        assert isinstance(run.masked, Held)
        assert run.masked.schema == small.masked.schema
        assert [s.checks for s in run.steps] == [s.checks for s in small.steps]
        assert [s.touched for s in run.steps] == [s.touched for s in small.steps]
        frame = run.masked.frame
    assert not list(folder.glob(".*"))
    return small, frame


@every_mask
def test_it_is_the_same_from_disk(cls: type[Mask], tmp_path: Path) -> None:
    data = deck_for(cls)
    plan = sf.Plan(steps=[example(cls, data)])
    small, frame = both(plan, data, tmp_path)
    assert frame.equals(small.masked.frame, null_equal=True)


@every_mask
def test_what_it_reads_is_all_it_needs(cls: type[Mask]) -> None:
    """The columns that are gathered for a step give what the whole file gives, log included."""
    data = deck_for(cls)
    mask = example(cls, data)
    draws = sf.Seed.from_int(3).draws("step")
    whole, notes, _ = mask.knowing(data).carry_out(data, draws)
    few = data.only(mask.reads(data))
    part, said, _ = mask.knowing(few).carry_out(few, draws)
    touched = [c for c in mask.touches(data) if c in whole.columns]
    assert part.frame.select(touched).equals(whole.frame.select(touched), null_equal=True)
    assert said.warnings == notes.warnings
    assert (said.log is None) == (notes.log is None)
    if said.log is not None and notes.log is not None:
        assert said.log.equals(notes.log, null_equal=True)


@every_mask
def test_its_parts_are_the_whole(cls: type[Mask]) -> None:
    data = deck_for(cls)
    mask = example(cls, data)
    draws = sf.Seed.from_int(3).draws("step")
    whole = mask.knowing(data).carry_out(data, draws)[0].frame
    for part in mask.apart(data):
        made = part.knowing(data).carry_out(data, draws)[0].frame
        for column in part.touches(data):
            assert made[column].equals(whole[column], null_equal=True)


# -- whole plans ----------------------------------------------------------------------------------


def people(n: int = 411, *, household: bool = True) -> Microdata:
    """Ties, nulls, missing codes, top codes, flags, strata of one record, a sum and a ratio."""
    rng = np.random.default_rng(11)
    wage = np.rint(rng.lognormal(8, 1, n))
    rent = np.rint(rng.lognormal(6, 1, n) / 50) * 50  # many ties
    frame = pl.DataFrame(
        {
            "ID": [f"P{k:05d}" for k in range(n)],
            "HH": pl.Series(rng.integers(0, n // 3, n)).cast(pl.Int32),
            "AREA": rng.choice(["n", "s", "e", "w"], n, p=[0.5, 0.3, 0.19, 0.01]),
            "AGE": rng.integers(0, 99, n).astype(np.int16),
            "ZIP": [f"{z:05d}" for z in rng.integers(10_000, 10_900, n)],
            "WAGE": wage,
            "RENT": rent,
            "TOTAL": wage + rent,
            "WEALTH": rng.normal(0, 1e5, n),
            "KIND": pl.Series(rng.choice(["a", "b", "c"], n)).cast(pl.Categorical),
            "FLAG": rng.random(n) < 0.1,
            "SPARE": rng.integers(0, 5, n),
        }
    ).with_columns(
        pl.when(pl.Series(rng.random(n) < 0.1)).then(None).otherwise(pl.col("WEALTH")).alias("WEALTH"),
        pl.when(pl.Series(rng.random(n) < 0.05)).then(None).otherwise(pl.col("AREA")).alias("AREA"),
        pl.when(pl.Series(rng.random(n) < 0.2)).then(None).otherwise(pl.col("HH")).alias("HH"),
        pl.when(pl.Series(rng.random(n) < 0.2)).then(-9).otherwise(pl.col("SPARE")).alias("SPARE"),
    )
    schema = sf.Schema(
        id="ID",
        household="HH" if household else None,
        keys=["AREA", "AGE"],
        sensitive=["WAGE", "RENT", "WEALTH"],
        variables={
            "TOTAL": {"sum_of": ["WAGE", "RENT"]},
            "WEALTH": {"imputed": "FLAG", "top": 250_000.0},
            "SPARE": {"missing": [-9]},
        },
    )
    return Microdata(frame, schema)


STEPS: dict[str, list[Mask]] = {
    "rows": [
        sf.TopBottomCode(columns=["WAGE"], top=20_000),
        sf.Truncate(column="ZIP", digits=2),
        sf.Recode(column="AGE", width=10),
        sf.AdditiveNoise(columns=["WAGE", "RENT"], variance_ratio=0.2, within=["AREA"]),
        sf.Pram(columns=["AREA", "KIND"], keep_probability=0.8, id="randomise"),
        sf.Pram(columns=["SPARE"], keep_probability=0.7, within=["AREA"]),
    ],
    "exact noise": [
        sf.AdditiveNoise(columns=["WAGE", "RENT", "WEALTH"], variance_ratio=0.1, exact=True, rescale=True)
    ],
    "mixture": [sf.MixtureNoise(columns=["WEALTH"], variance_ratio=0.1, component_variance=0.7)],
    "bounded noise": [sf.AdditiveNoise(columns=["WAGE", "RENT"], variance_ratio=0.3, non_negative=True)],
    "columns": [
        sf.TopBottomCode(columns=["WAGE", "WEALTH"], top_percent=5, replace="mean"),
        sf.RankSwap(columns=["WAGE", "RENT"], correlation=0.95, far_values="group"),
        sf.RankSwap(columns=["WEALTH", "SPARE"], window_percent=10, within=["AREA"], id="wealth"),
        sf.RandomSwap(columns=["AGE", "SPARE"], rate_percent=30),
    ],
    "targets": [
        sf.RankSwap(columns=["WAGE", "WEALTH"], correlation={"WAGE": 0.9, "WEALTH": 0.8}, far_values="code")
    ],
    "suppression": [sf.LocalSuppress(keys=["AREA", "AGE"], tolerance=3)],
    "files": [
        sf.Microaggregate(columns=["WEALTH", "SPARE"], k=3),
        sf.ClusterShuffle(columns=["AGE", "WAGE", "RENT"], smallest=5),
    ],
}


@pytest.mark.parametrize("chunk", [61, 1_000])
@pytest.mark.parametrize("name", STEPS)
def test_plans_are_the_same_from_disk(name: str, chunk: int, tmp_path: Path) -> None:
    small, frame = both(sf.Plan(steps=STEPS[name]), people(), tmp_path, chunk)
    assert frame.equals(small.masked.frame, null_equal=True)


@pytest.mark.parametrize("release", [{}, {"drop": ["HH"]}, {"shuffle": False}, {"new_ids": False}])
def test_releases_are_the_same_bytes(
    release: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public bundle and order, through a sort of many small files on disk."""
    monkeypatch.setattr("sfumato.release.external._PER_FILE", 40)
    for module in ("order", "write"):
        monkeypatch.setattr(f"sfumato.release.{module}.CHUNK", 128)
    data = people()
    plan = sf.Plan(steps=STEPS["rows"], schema=data.schema, release={"identifiers": ["ZIP"], **release})
    plan.run(data, seed=5).release(tmp_path / "small")
    with Streaming(tmp_path, chunk=70) as engine:
        run = plan.run(on_disk(data, tmp_path), seed=5, engine=engine)
        run.release(tmp_path / "large")
    for path in sorted((tmp_path / "small" / "public").iterdir()):
        assert path.read_bytes() == (tmp_path / "large" / "public" / path.name).read_bytes(), path.name
    orders = [pl.read_parquet(tmp_path / d / "internal" / "order.parquet") for d in ("small", "large")]
    assert orders[0].equals(orders[1])
    assert not list(tmp_path.glob(".*"))


def test_a_large_file_is_measured_on_a_stated_sample_of_whole_households(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = people()
    monkeypatch.setattr("sfumato.run.looked_at.looked_at.__defaults__", (200,))
    with Streaming(tmp_path) as engine:
        run = sf.Plan(steps=STEPS["targets"]).run(on_disk(data, tmp_path), seed=5, engine=engine)
        original, masked = run.looked_at
        assert 120 < len(original) < 280
        assert any("sample" in w for w in run.warnings)
        whole, here = data.frame["HH"].drop_nulls(), original.frame["HH"].drop_nulls()
        assert whole.is_in(here.implode()).sum() == len(here)  # no household is cut
        places = {i: k for k, i in enumerate(data.frame["ID"])}
        rows = [places[i] for i in original.frame["ID"]]
        assert masked.frame.equals(run.masked.frame[rows], null_equal=True)


# -- what is left behind --------------------------------------------------------------------------


def test_a_run_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    def stop(what: str, done: float, parts: int) -> None:
        if what.startswith("step") and done % 1:
            raise KeyboardInterrupt

    data, plan = on_disk(people(), tmp_path), sf.Plan(steps=STEPS["rows"])
    with pytest.raises(KeyboardInterrupt), Streaming(tmp_path, chunk=50) as engine:
        plan.run(data, seed=5, engine=engine, progress=stop)
    assert [p.name for p in tmp_path.iterdir()] == ["in.parquet"]


def test_progress_only_grows(tmp_path: Path) -> None:
    told: list[float] = []
    with Streaming(tmp_path, chunk=50) as engine:
        data = on_disk(people(), tmp_path)
        tell = lambda what, done, parts: told.append(done)  # noqa: E731
        sf.Plan(steps=STEPS["rows"]).run(data, seed=5, engine=engine, progress=tell)
    assert told == sorted(told)
    assert any(0 < t % 1 < 1 for t in told)


def test_a_release_says_how_far_it_is_and_can_be_stopped_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.release import order, write

    monkeypatch.setattr(order, "CHUNK", 40)
    monkeypatch.setattr(write, "CHUNK", 40)
    told: list[tuple[str, float]] = []
    stop_at: list[str] = []

    def tell(what: str, done: float, parts: int) -> None:
        assert 0 <= done <= parts == 3
        told.append((what, done))
        if what in stop_at:
            raise KeyboardInterrupt

    with Streaming(tmp_path) as engine:
        data = on_disk(people(), tmp_path)
        run = sf.Plan(steps=STEPS["rows"]).run(data, seed=5, engine=engine, measure=False)
        run.release(tmp_path / "whole", progress=tell)
        done = [d for _, d in told]
        assert done == sorted(done)
        parts = list(dict.fromkeys(what for what, _ in told))
        assert parts == ["putting the records in order", "writing the release", "reading it back"]
        assert sum(what == parts[1] for what, _ in told) > 2
        for part in parts:
            stop_at[:] = [part]
            with pytest.raises(KeyboardInterrupt):
                run.release(tmp_path / "stopped", progress=tell)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.parquet", "whole"]


def test_what_a_killed_run_left_is_swept(tmp_path: Path) -> None:
    from sfumato.io.atomic import _tag

    left = tmp_path / f".sfumato-scratch.partial-{_tag()}-999999-0123abcd"
    (left / "0000").mkdir(parents=True)
    with Streaming(tmp_path) as one, Streaming(tmp_path) as two:  # neither sweeps the other
        assert not left.exists()
        assert one._scratch.folder.exists()
        assert two._scratch.folder.exists()
        assert one._scratch.folder.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())


def test_a_broken_promise_stops_a_run_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are judged as they were written: a mask that codes too little is found out."""
    monkeypatch.setattr(
        "sfumato.masks.coding.top_bottom_code._coded", lambda missing, column, codes: pl.col(column)
    )
    data, plan = on_disk(people(), tmp_path), sf.Plan(steps=[sf.TopBottomCode(columns=["WAGE"], top=1_000)])
    with pytest.raises(GuaranteeError, match="beyond its top code"), Streaming(tmp_path) as engine:
        plan.run(data, seed=5, engine=engine)
    assert [p.name for p in tmp_path.iterdir()] == ["in.parquet"]
