"""Cluster shuffle: what it must meet, one requirement after another."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.contract.mask import Notes
from sfumato.data.microdata import Microdata
from sfumato.draws import Seed
from sfumato.errors import GuaranteeError, MaskError, ParameterError, SchemaError, SfumatoError
from sfumato.masks.cluster_shuffle.audit import too_many
from sfumato.masks.cluster_shuffle.promises import promises
from sfumato.masks.cluster_shuffle.register import overlap, people
from sfumato.stats.levels import blurred, features, levels_of

CASC = Path(__file__).parents[3] / "shared" / "data" / "CASCrefmicrodata.csv"


def mixed(n: int = 400, seed: int = 0, **roles: Any) -> Microdata:
    """Categories, an ordered one, whole numbers, decimals, dates, zeros, missing values of three kinds."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n)
    sex = rng.choice(["f", "m"], n)
    wage = np.where(rng.random(n) < 0.2, 0, np.exp(10 + 0.6 * size + 0.3 * rng.normal(size=n)).round())
    rent = np.where(rng.random(n) < 0.5, 0, np.exp(8 + 0.5 * size + 0.4 * rng.normal(size=n)).round())
    age = (45 + 15 * rng.normal(size=n)).round().clip(18, 90)
    born = [dt.date(1990, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 3000, n)]
    wealth = np.exp(11 + size + rng.normal(size=n))
    wealth[rng.random(n) < 0.05] = np.nan
    frame = pl.DataFrame(
        {
            "SEX": sex,
            "SCHOOL": rng.choice(["low", "middle", "high"], n),
            "AGE": pl.Series(age.astype(np.int64)).set(pl.Series(rng.random(n) < 0.05), -9),
            "BORN": born,
            "WAGE": wage.astype(np.int64),
            "RENT": rent.astype(np.int64),
            "TOTAL": (wage + rent).astype(np.int64),
            "WEALTH": wealth,
            "DEBT": pl.Series(rng.integers(0, 40, n)).set(pl.Series(rng.random(n) < 0.1), None),
        }
    )
    return Microdata(
        frame,
        {
            "roles": roles,
            "variables": {
                "SCHOOL": {"kind": "ordinal", "order": ["low", "middle", "high"]},
                "AGE": {"missing": [-9]},
                "TOTAL": {"sum_of": ["WAGE", "RENT"]},
            },
        },
    )


COLUMNS = ("SEX", "SCHOOL", "AGE", "BORN", "WAGE", "RENT", "WEALTH", "DEBT")


def applied(mask: sf.ClusterShuffle, data: Microdata, seed: int = 1) -> tuple[Microdata, Notes]:
    masked, notes, _ = mask.carry_out(data, Seed.from_int(seed).draws(mask.name))
    return masked, notes


def labels(mask: sf.ClusterShuffle, data: Microdata) -> np.ndarray:
    log = applied(mask, data)[1].log
    assert log is not None
    return log["cluster"].to_numpy()


def permuted_inside(label: np.ndarray, seed: int) -> np.ndarray:
    """An order of the records in which each stands at a place of its own cluster."""
    rng = np.random.default_rng(seed)
    order = np.arange(len(label))
    for g in np.unique(label):
        own = np.flatnonzero(label == g)
        order[own] = rng.permutation(own)
    return order


# -- 1 symmetry -----------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", ["moments", "pairs", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_permuting_records_inside_clusters_leaves_the_release_bitwise_as_it_was(keep: Any, seed: int) -> None:
    data = mixed(600, seed=seed, sensitive=["WEALTH"])
    mask = sf.ClusterShuffle(columns=COLUMNS, smallest=10, keep=keep)
    masked, notes = applied(mask, data)
    assert notes.figures["kept"] == keep or keep == "pairs"
    order = permuted_inside(labels(mask, data), seed)
    again, _ = applied(mask, data.with_frame(data.frame[order]))
    assert again.frame.equals(masked.frame, null_equal=True)


@given(order=st.permutations(range(60)), seed=st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_the_order_of_the_file_decides_nothing(order: list[int], seed: int) -> None:
    """Ties everywhere: clusters and dealt rows depend on the values alone."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {"A": rng.integers(0, 4, 60), "B": rng.integers(0, 3, 60), "C": rng.integers(0, 9, 60)}
    )
    mask = sf.ClusterShuffle(columns=["A", "B", "C"], smallest=5, blind=["C"], keep="none")
    one, two = Microdata(frame), Microdata(frame[order])
    assert labels(mask, two).tolist() == labels(mask, one)[order].tolist()
    first, second = (applied(mask, d)[0].frame.with_columns(g=pl.Series(labels(mask, d))) for d in (one, two))
    assert first.sort(first.columns).equals(second.sort(second.columns))


def test_clusters_of_a_large_file_dont_depend_on_its_order() -> None:
    """Above the size where axes are found from a part of the records and regions are many."""
    rng = np.random.default_rng(1)
    n = 40_000
    frame = pl.DataFrame(
        {"A": rng.normal(size=n), "B": rng.integers(0, 50, n), "C": rng.exponential(size=n).round(1)}
    )
    mask = sf.ClusterShuffle(columns=["A", "B", "C"], smallest=20, keep="none")
    order = rng.permutation(n)
    one, two = labels(mask, Microdata(frame)), labels(mask, Microdata(frame[order]))
    assert (two == one[order]).all()
    assert np.bincount(one).min() >= 20


@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_dont_matter_in_a_file_of_several_regions(
    threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40_000, 3)).cumsum(axis=1)
    data = Microdata(pl.DataFrame({c: x[:, j] for j, c in enumerate("ABC")}))
    mask = sf.ClusterShuffle(columns=["A", "B", "C"])
    monkeypatch.setenv("SFUMATO_THREADS", "1")
    want = applied(mask, data)
    monkeypatch.setenv("SFUMATO_THREADS", threads)
    got = applied(mask, data)
    assert got[0].frame.equals(want[0].frame)
    assert got[1].figures["regions"] > 1


@pytest.mark.statistical
def test_a_persons_row_is_any_of_his_clusters() -> None:
    """The most an intruder can do is guess: over many seeds a record's own place is 1/|cluster|.

    Values are unique (blur 0) and ``keep="moments"``: a record's row is where its value of A went if it were
    linked by A. Each of the k places must come up equally often.
    """
    rng = np.random.default_rng(3)
    data = Microdata(pl.DataFrame({"A": rng.normal(size=40), "B": rng.normal(size=40)}))
    mask = sf.ClusterShuffle(columns=["A", "B"], smallest=20, blur=0)
    own = np.array([(applied(mask, data, s)[0].frame["A"] == data.frame["A"]).sum() for s in range(120)])
    # each run has 40 records, each at home with probability 1/20
    error = np.sqrt(40 * 0.05 * 0.95 / len(own))
    assert own.mean() == pytest.approx(2.0, abs=4 * error)


# -- 2 blind columns ------------------------------------------------------------------------------


def test_sensitive_columns_are_blind_unless_told_otherwise() -> None:
    data = mixed(500, sensitive=["WEALTH", "WAGE"])
    mask = sf.ClusterShuffle(columns=COLUMNS, smallest=20, keep="none")
    masked, _ = applied(mask, data)
    label = labels(mask, data)
    for column in ("WEALTH", "WAGE"):
        moved = data.with_columns({column: data.column(column)[permuted_inside(label, 4)]})
        # the total follows its parts
        moved = moved.with_columns({"TOTAL": moved.frame["WAGE"] + moved.frame["RENT"]})
        assert (labels(mask, moved) == label).all()
        assert applied(mask, moved)[0].frame.equals(masked.frame, null_equal=True)
    seen = sf.ClusterShuffle(columns=COLUMNS, smallest=20, keep="none", blind=[])
    moved = data.with_columns({"WEALTH": data.column("WEALTH")[permuted_inside(labels(seen, data), 4)]})
    assert (labels(seen, moved) != labels(seen, data)).any()


def test_where_every_column_is_blind_a_stratum_is_one_cluster_and_it_is_said() -> None:
    data = mixed(200, sensitive=["WAGE", "RENT"])
    mask = sf.ClusterShuffle(columns=["WAGE", "RENT"], within=["SEX"])
    assert any("look at no column" in p.message for p in mask.check(data.schema, data._types))
    label = labels(mask, data)
    assert len(np.unique(label)) == 2


# -- 3 kept numbers, whole records ----------------------------------------------------------------


def test_ten_records_of_six_columns_are_never_put_together_again() -> None:
    """The adversary's case: "pairs" would rebuild every record."""
    rng = np.random.default_rng(0)
    data = Microdata(pl.DataFrame({f"X{j}": rng.normal(size=20) for j in range(6)}))
    _, notes = applied(sf.ClusterShuffle(columns=data.columns, smallest=10, keep="pairs", blur=0), data)
    assert notes.figures["kept_numbers_a_cell"] <= 0.1
    assert notes.figures["kept"] == "none"
    assert any("numbers a cell" in w for w in notes.warnings)


@pytest.mark.skipif(not CASC.exists(), reason="the reference data aren't here")
def test_small_strata_are_joined_into_one_region() -> None:
    data = sf.read(CASC)
    strata = pl.Series("S", np.arange(1080) // 60)
    data = Microdata(data.frame.with_columns(strata), data.schema)
    columns = [c for c in data.columns if c != "S"]
    masked, notes = applied(sf.ClusterShuffle(columns=columns, within=["S"], keep="pairs"), data)
    assert notes.figures["kept_numbers_a_cell"] <= 0.1

    def rows(one: Microdata) -> set[tuple[Any, ...]]:
        return set(one.frame.select(columns).iter_rows())

    assert not rows(data) & rows(masked)


def test_the_count_of_whole_records_is_judged_by_its_error() -> None:
    chance = np.array([100.0, 110.0, 90.0, 105.0, 95.0] * 4)  # sd 7.25
    assert not too_many(120, chance)
    assert too_many(150, chance)
    none = np.zeros(20)
    assert not too_many(1, none)
    assert too_many(5, none)


# -- 4 order and labels ---------------------------------------------------------------------------


def test_the_release_is_in_another_order_and_labels_stay_inside(tmp_path: Path) -> None:
    data = mixed(300)
    plan = sf.Plan(steps=[sf.ClusterShuffle(columns=COLUMNS, smallest=20)], schema=data.schema)
    run = plan.run(data, seed=1)
    release = run.release(tmp_path / "out")
    public = " ".join(
        p.read_text(errors="ignore") for p in release.public.rglob("*") if p.suffix != ".parquet"
    )
    assert "cluster_shuffle" in public
    assert "moment_error" not in public
    log = pl.read_parquet(next((release.internal / "log").glob("*.parquet")))
    assert {"record", "cluster", "region"} <= set(log.columns)
    assert pl.read_parquet(release.data).columns == data.columns


# -- 5 constant cells and spread ------------------------------------------------------------------


def test_cells_that_are_all_alike_are_told() -> None:
    frame = pl.DataFrame({"G": ["a"] * 40 + ["b"] * 40, "X": [1] * 40 + [2, 3] * 20})
    _, notes = applied(sf.ClusterShuffle(columns=["G", "X"], smallest=40, keep="none"), Microdata(frame))
    assert notes.figures["clusters"] == 2
    assert notes.figures["constant_cells"] == {"G": 1.0, "X": 0.5}
    # X: 1 is the most frequent, and nobody else is in a constant cell; G: all 40 at the second level are.
    assert notes.figures["certain_minority"] == {"G": 1.0, "X": 0.0}


def test_an_exposed_sensitive_column_is_refused_and_spread_or_blind_mends_it() -> None:
    frame = pl.DataFrame({"X": list(range(80)), "ILL": ["no"] * 60 + ["yes"] * 20})
    data = Microdata(frame, {"roles": {"sensitive": ["ILL"]}})
    with pytest.raises(MaskError, match=r"ILL \(100%\)"):
        applied(sf.ClusterShuffle(columns=["X", "ILL"], smallest=20, blind=[]), data)
    mask = sf.ClusterShuffle(columns=["X", "ILL"], smallest=20, blind=[], spread=2)
    masked, notes = applied(mask, data)
    label = labels(mask, data)
    for g in np.unique(label):
        assert data.frame["ILL"].filter(pl.Series(label == g)).n_unique() == 2
    assert notes.figures["constant_cells"]["ILL"] == 0.0
    assert masked.frame["ILL"].to_list() != data.frame["ILL"].to_list()


# -- 6 blur ---------------------------------------------------------------------------------------


def test_blur_by_hand() -> None:
    """Rare are 1, 2, 3 (one record each), 7 (two), 50 (one): 1, 2, 3 → 2; 7, 7, 50 → 64/3 → 21."""
    data = Microdata(pl.DataFrame({"X": [1, 2, 3, 5, 5, 5, 7, 7, 50]}))
    out = blurred(levels_of(data, "X"), 3)
    assert out.values["X"][out.codes.tolist()].to_list() == [2, 2, 2, 5, 5, 5, 21, 21, 21]


@given(st.lists(st.integers(-20, 20), min_size=6, max_size=60), st.integers(2, 4))
@settings(max_examples=80, deadline=None)
def test_no_number_of_too_few_records_stays_and_equal_ones_stay_equal(values: list[int], least: int) -> None:
    data = Microdata(pl.DataFrame({"X": values}))
    out = blurred(levels_of(data, "X"), least)
    after = np.array(out.values["X"][out.codes.tolist()].to_list())
    held = {v: int((after == v).sum()) for v in after.tolist()}
    if len(values) >= least:
        assert min(held.values()) >= least
    before = np.array(values)
    for v in set(values):
        assert len(set(after[before == v].tolist())) == 1
        if (before == v).sum() >= least:
            assert (after[before == v] == v).all()
    assert (np.diff(after[np.argsort(before, kind="stable")]) >= 0).all() or (before == after).mean() < 1
    assert len(np.unique(out.codes)) == len(out) == len(np.unique(after))


def test_blur_keeps_types_decimals_and_missing_codes() -> None:
    frame = pl.DataFrame(
        {
            "D": [dt.date(2020, 1, d) for d in (1, 2, 4, 9, 9, 9)],
            "F": [0.25, 0.5, 1.0, 2.0, 2.0, 2.0],
            "M": [-9, 1, 2, 3, 3, 3],
        }
    )
    data = Microdata(frame, {"variables": {"M": {"missing": [-9]}}})

    def value(column: str) -> list[Any]:
        out = blurred(levels_of(data, column), 3)
        return out.values[column][out.codes.tolist()].to_list()

    assert value("D") == [dt.date(2020, 1, 2)] * 3 + [dt.date(2020, 1, 9)] * 3
    assert value("F") == pytest.approx([0.58] * 3 + [2.0] * 3)
    assert value("M") == [-9, 3, 3, 3, 3, 3]


def test_a_lone_maximum_doesnt_stay() -> None:
    data = Microdata(pl.DataFrame({"X": [1] * 10 + [2] * 10 + [99]}))
    out = blurred(levels_of(data, "X"), 3)
    assert out.values["X"].to_list() == [1, 2]


# -- 8 units --------------------------------------------------------------------------------------


def test_no_unit_has_more_than_one_kth_of_its_cluster() -> None:
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(120), rng.integers(1, 6, 120))
    n = len(unit)
    frame = pl.DataFrame({"FIRM": unit, "X": rng.normal(size=n) + unit, "Y": rng.normal(size=n)})
    mask = sf.ClusterShuffle(columns=["X", "Y"], smallest=5, unit="FIRM")
    label = labels(mask, Microdata(frame))
    for g in np.unique(label):
        held = np.bincount(unit[label == g])
        assert held.max() * 5 <= held.sum()
    for u in range(120):
        assert len(set(label[unit == u])) == 1


def test_what_a_units_records_share_is_warned_of() -> None:
    rng = np.random.default_rng(0)
    home = np.repeat(np.arange(100), 2)
    frame = pl.DataFrame(
        {"HOME": home, "RENT": rng.integers(0, 50, 100)[home], "AGE": rng.integers(0, 80, 200)}
    )
    _, notes = applied(sf.ClusterShuffle(columns=["RENT", "AGE"], smallest=10, unit="HOME"), Microdata(frame))
    assert [w for w in notes.warnings if w.startswith("RENT is the same for all records of a unit (HOME)")]


def test_a_unit_that_is_too_large_is_refused() -> None:
    unit = [0] * 100 + list(range(1, 201))
    data = Microdata(pl.DataFrame({"U": unit, "X": np.arange(300.0)}))
    with pytest.raises(MaskError, match="a unit with more than 1/10 of the records"):
        sf.ClusterShuffle(columns=["X"], smallest=10, unit="U").mask(data, seed=1)


def test_a_unit_across_strata_is_refused() -> None:
    data = Microdata(pl.DataFrame({"U": np.arange(100) // 2, "S": np.arange(100) % 2, "X": np.arange(100.0)}))
    with pytest.raises(MaskError, match="more than one stratum"):
        sf.ClusterShuffle(columns=["X"], smallest=5, unit="U", within=["S"]).mask(data, seed=1)


# -- 9 bad input ----------------------------------------------------------------------------------


def test_clear_errors() -> None:
    data = mixed(60)
    with pytest.raises(ParameterError, match="at least 2"):
        sf.ClusterShuffle(columns=["WAGE"], smallest=1)
    with pytest.raises(MaskError, match="at least 62 records"):
        sf.ClusterShuffle(columns=["WAGE"], smallest=31).mask(data, seed=1)
    with pytest.raises(MaskError, match="fewer than k = 10 records"):
        sf.ClusterShuffle(columns=["WAGE"], smallest=10, within=["AGE"]).mask(data, seed=1)
    with pytest.raises(ParameterError, match="within itself"):
        sf.ClusterShuffle(columns=["WAGE"], within=["WAGE"])
    endless = data.with_columns({"WEALTH": data.column("WEALTH").set(pl.Series(np.arange(60) == 3), np.inf)})
    with pytest.raises(MaskError, match="WEALTH has infinite values"):
        sf.ClusterShuffle(columns=["WEALTH"], smallest=10).mask(endless, seed=1)
    alike = Microdata(pl.DataFrame({"A": [1] * 50, "B": ["x"] * 50}))
    masked = sf.ClusterShuffle(columns=["A", "B"]).mask(alike, seed=1)
    assert masked.frame.equals(alike.frame)
    one = Microdata(pl.DataFrame({"A": np.arange(100)}))
    got = sf.ClusterShuffle(columns=["A"], blur=0).mask(one, seed=1)
    assert sorted(got.frame["A"]) == list(range(100))


# -- 10 guarantees --------------------------------------------------------------------------------


def test_guarantees_find_what_is_broken() -> None:
    data = mixed(400)
    mask = sf.ClusterShuffle(columns=COLUMNS, smallest=20)
    masked, notes = applied(mask, data)
    assert notes.log is not None

    def failing(after: Microdata, log: pl.DataFrame) -> list[str]:
        return [p.describe() for p in promises(mask, data, log) if p.failure(data, after) is not None]

    assert failing(masked, notes.log) == []
    label = notes.log["cluster"].to_numpy()
    a, b = int(np.flatnonzero(label == 0)[0]), int(np.flatnonzero(label == 1)[0])
    swapped = masked.frame["BORN"].to_list()
    b = next(int(i) for i in np.flatnonzero(label == 1) if swapped[i] != swapped[a])
    swapped[a], swapped[b] = swapped[b], swapped[a]
    assert any(
        "keeps its values" in t for t in failing(masked.with_columns({"BORN": pl.Series(swapped)}), notes.log)
    )
    wrong = masked.with_columns(
        {"TOTAL": masked.frame["TOTAL"] + pl.Series(np.eye(1, 400)[0].astype(np.int64))}
    )
    assert any("TOTAL" in t for t in failing(wrong, notes.log))
    fewer = notes.log.with_columns(cluster=pl.Series(np.where(np.arange(400) == a, 1, label)).cast(pl.UInt32))
    assert any("at least 20" in t for t in failing(masked, fewer))
    stricter = notes.log.with_columns(moment_error=pl.lit(0.0))
    assert any("cross moment" in t for t in failing(masked, stricter))
    gone = notes.log.filter(pl.col("record") != 7)
    assert any("at least 20" in t for t in failing(masked, gone))


def test_a_mask_that_breaks_its_promise_releases_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from sfumato.masks.cluster_shuffle import shuffle

    real = shuffle._places

    def crossed(partition: Any, draws: Any) -> Any:
        out = real(partition, draws)
        out[[0, -1]] = out[[-1, 0]]
        return out

    monkeypatch.setattr(shuffle, "_places", crossed)
    with pytest.raises(GuaranteeError, match="other values in 2 clusters"):
        applied(sf.ClusterShuffle(columns=["AGE", "WAGE"], smallest=20), mixed(400))


# -- what it deals --------------------------------------------------------------------------------


def test_margins_totals_missing_values_and_types() -> None:
    data = mixed(500)
    masked, _ = applied(sf.ClusterShuffle(columns=COLUMNS, smallest=20, blur=0), data)
    for column in COLUMNS:
        assert masked.frame[column].sort().equals(data.frame[column].sort(), null_equal=True)
    assert masked.frame["TOTAL"].equals(masked.frame["WAGE"] + masked.frame["RENT"], check_names=False)
    assert masked.frame.schema == data.frame.schema
    assert (masked.frame["AGE"] != data.frame["AGE"]).mean() > 0.5


def test_a_named_total_stands_for_its_parts() -> None:
    data = mixed(300)
    mask = sf.ClusterShuffle(columns=["AGE", "TOTAL"], smallest=20)
    assert set(mask.changes(data)) == {"AGE", "WAGE", "RENT", "TOTAL"}
    masked, _ = applied(mask, data)
    assert masked.frame["TOTAL"].equals(masked.frame["WAGE"] + masked.frame["RENT"], check_names=False)


def test_a_total_with_a_residual_keeps_it_as_often() -> None:
    """TOTAL has 100 more in a tenth of the records: as many have it afterwards, in each cluster."""
    data = mixed(400)
    more = pl.Series(np.where(np.arange(400) % 10 == 0, 100, 0))
    data = data.with_columns({"TOTAL": data.frame["TOTAL"] + more})
    mask = sf.ClusterShuffle(columns=[*COLUMNS, "TOTAL"], smallest=20)
    masked, _ = applied(mask, data)
    rest = masked.frame["TOTAL"] - masked.frame["WAGE"] - masked.frame["RENT"]
    label = labels(mask, data)
    assert sorted(set(rest)) == [0, 100]
    for g in np.unique(label):
        assert rest.filter(pl.Series(label == g)).sum() == more.filter(pl.Series(label == g)).sum()


def test_a_missing_part_leaves_its_total_missing_or_counts_as_nothing_as_in_the_file() -> None:
    n = 100
    rng = np.random.default_rng(0)
    a = [None if i % 10 == 0 else int(x) for i, x in enumerate(rng.integers(0, 20, n))]
    b = rng.integers(0, 20, n).tolist()
    schema = {"variables": {"T": {"sum_of": ["A", "B"]}}}
    for total in (
        [None if x is None else x + y for x, y in zip(a, b, strict=True)],
        [(x or 0) + y for x, y in zip(a, b, strict=True)],
    ):
        data = Microdata(pl.DataFrame({"A": a, "B": b, "T": total}), schema)
        masked, _ = applied(sf.ClusterShuffle(columns=["A", "B"], smallest=10), data)
        skip = total[0] is not None
        for x, y, t in masked.frame.iter_rows():
            assert t == ((x or 0) + y if skip or x is not None else None)


def test_a_flag_of_imputed_values_travels_with_its_value() -> None:
    rng = np.random.default_rng(0)
    wage = rng.integers(1, 40, 300)
    data = Microdata(
        pl.DataFrame(
            {"AGE": rng.integers(18, 60, 300), "WAGE": wage, "FLAG": (wage % 3 == 0).astype(np.int8)}
        ),
        {"variables": {"WAGE": {"imputed": "FLAG"}}},
    )
    mask = sf.ClusterShuffle(columns=["AGE", "WAGE"], smallest=20, blur=0)
    assert set(mask.changes(data)) == {"AGE", "WAGE", "FLAG"}
    masked, _ = applied(mask, data)
    assert (masked.frame["FLAG"] == (masked.frame["WAGE"] % 3 == 0).cast(pl.Int8)).all()
    assert (masked.frame["FLAG"] != data.frame["FLAG"]).any()


def test_nothing_crosses_strata() -> None:
    data = mixed(400)
    masked, _ = applied(sf.ClusterShuffle(columns=["WAGE", "AGE"], smallest=20, within=["SEX"], blur=0), data)
    for sex in ("f", "m"):
        own = data.frame["SEX"] == sex
        assert masked.frame["WAGE"].filter(own).sort().equals(data.frame["WAGE"].filter(own).sort())


def test_features_are_standardised_and_of_levels() -> None:
    data = mixed(300)
    for column in COLUMNS:
        levels = levels_of(data, column)
        assert levels.counts.sum() == 300
        for f in features(levels, cuts=(0.1, 0.35, 0.65, 0.9)):
            x = f[levels.codes]
            assert x.mean() == pytest.approx(0, abs=1e-9)
            assert x.std() == pytest.approx(1)


def test_keys_that_stay_households_and_weights_are_warned_of() -> None:
    data = mixed(300, keys=["SEX", "SCHOOL"], household="DEBT", weight="WEALTH")
    said = [
        p.message
        for p in sf.ClusterShuffle(columns=["AGE", "WAGE"], within=["SCHOOL"]).check(data.schema, data._types)
    ]
    assert any("SEX stays" in m for m in said)
    assert any("weight WEALTH stays" in m for m in said)
    step = sf.ClusterShuffle(columns=["AGE", "WAGE"], within=["SCHOOL"])
    assert any("masks persons one by one" in p.message for p in step.check_household(data.schema))


# -- what it keeps --------------------------------------------------------------------------------


@pytest.mark.skipif(not CASC.exists(), reason="the reference data aren't here")
def test_correlations_of_casc_move_by_less_than_a_fifth_of_a_rank_swaps() -> None:
    data = sf.read(CASC)
    data = data.with_variable("PTOTVAL", sum_of=["PEARNVAL", "POTHVAL"])

    def corr(one: Microdata) -> np.ndarray:
        return np.corrcoef(one.matrix(data.columns).T)

    ours = sf.ClusterShuffle(columns=data.columns).mask(data, seed=1)
    theirs = sf.RankSwap(columns=[c for c in data.columns if c != "PTOTVAL"], window_percent=15).mask(
        data, seed=1
    )
    moved = [np.abs(corr(d) - corr(data)).mean() for d in (ours, theirs)]
    assert moved[0] < moved[1] / 5


@pytest.mark.parametrize("keep", ["moments", "none"])
def test_moments_come_back(keep: Any) -> None:
    """Blind columns keep their correlations through the repair, and lose them without it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 4)) @ np.linalg.cholesky(0.4 + 0.6 * np.eye(4)).T
    data = Microdata(pl.DataFrame({c: x[:, j] for j, c in enumerate("ABCD")}))
    masked = sf.ClusterShuffle(columns=list("ABCD"), blind=["C", "D"], keep=keep).mask(data, seed=1)
    change = np.abs(np.corrcoef(masked.matrix(list("ABCD")).T) - np.corrcoef(x.T)).max()
    assert change < 0.005 if keep == "moments" else change > 0.05


def test_the_minimality_attack_finds_nothing_in_a_blind_column() -> None:
    """A partition that sees both columns admits one arrangement of 36; where B is blind, it admits all."""
    blind, seen = [19, 25, 19, 29, 17, 9], [17, 20, 16, 8, 11, 9]
    frame = pl.DataFrame({"A": seen, "B": blind})
    mask = sf.ClusterShuffle(columns=["A", "B"], smallest=3, blind=["B"], keep="none", blur=0)
    label = labels(mask, Microdata(frame))
    assert np.bincount(label).tolist() == [3, 3]
    groups = [np.flatnonzero(label == g) for g in (0, 1)]
    consistent = 0
    for one, two in itertools.product(itertools.permutations(groups[0]), itertools.permutations(groups[1])):
        b = np.array(blind)
        b[groups[0]], b[groups[1]] = np.array(blind)[list(one)], np.array(blind)[list(two)]
        consistent += bool((labels(mask, Microdata(pl.DataFrame({"A": seen, "B": b}))) == label).all())
    assert consistent == 36


def test_errors_tell_no_value() -> None:
    data = mixed(100)
    with pytest.raises(SfumatoError) as caught:
        sf.ClusterShuffle(columns=["WAGE"], smallest=10, within=["BORN"]).mask(data, seed=1)
    assert not any(str(v) in str(caught.value) for v in data.frame["BORN"])


def test_the_original_order_is_never_released() -> None:
    data = mixed(300)
    plan = sf.Plan(steps=[sf.ClusterShuffle(columns=COLUMNS)], schema=data.schema)
    plan = sf.Plan.loads(plan.to_toml() + "\n[release]\nshuffle = false\n")
    with pytest.raises(SchemaError, match="shuffle = false"):
        plan.run(data, seed=1)


@pytest.mark.skipif(not hasattr(sf.Schema(), "ratios"), reason="the schema knows no ratios yet")
def test_a_ratio_is_computed_again() -> None:
    data = mixed(300)
    frame = data.frame.with_columns(
        SHARE=(pl.col("RENT") / pl.col("WAGE")).fill_nan(None).replace(np.inf, None)
    )
    data = Microdata(frame, data.schema.with_variable("SHARE", ratio_of=["RENT", "WAGE"]))
    mask = sf.ClusterShuffle(columns=[*COLUMNS, "SHARE"], smallest=20)
    assert "SHARE" in mask.changes(data)
    masked, _ = applied(mask, data)
    rent, wage = masked.frame["RENT"].to_numpy(), masked.frame["WAGE"].to_numpy()
    for share, above, below in zip(masked.frame["SHARE"], rent, wage, strict=True):
        assert share == (above / below if below else None)


# -- 7 one release a file -------------------------------------------------------------------------


def test_two_logs_compared_by_hand() -> None:
    now = pl.DataFrame({"person": [1, 2, 3, 4, 5, 6], "cluster": [0, 0, 0, 1, 1, 1]})
    then = pl.DataFrame({"person": [1, 2, 3, 4, 7], "cluster": [9, 9, 8, 8, 8]})
    found = overlap(now, then)
    # together: {1, 2}, {3}, {4}: three groups of four people; 5 and 6 are new, both in cluster 1
    assert (found.both, found.smallest, found.mean_bound) == (4, 1, 0.75)
    assert (found.newcomers, found.newcomer_smallest) == (2, 2)
    assert not found.same
    assert found.harms(2)
    assert not overlap(now, now.with_columns(cluster=5 - pl.col("cluster"))).harms(20)


def test_a_second_release_of_the_same_people_is_refused_unless_asked_for(tmp_path: Path) -> None:
    data = mixed(300)
    plan = lambda **more: sf.Plan(steps=[sf.ClusterShuffle(columns=COLUMNS, **more)], schema=data.schema)  # noqa: E731
    plan().run(data, seed=1).release(tmp_path / "one")
    # the same clusters, another seed: nothing new
    plan().run(data, seed=2).release(tmp_path / "two")
    with pytest.raises(sf.SfumatoError, match="300 people are in an earlier release too"):
        plan(smallest=30).run(data, seed=3).release(tmp_path / "three")
    fewer = Microdata(data.frame[20:], data.schema)
    with pytest.raises(sf.SfumatoError, match="280 people"):
        plan().run(fewer, seed=3).release(tmp_path / "three")
    told = {"smallest": 30, "earlier": [str(tmp_path / "one")]}
    with pytest.raises(MaskError, match="300 people"):
        plan(**told).run(data, seed=3)
    run = plan(**told, again=True).run(data, seed=3)
    figures = next(iter(run.steps[0].notes.figures["with_earlier"].values()))
    assert figures["both"] == 300
    assert figures["smallest"] < 30
    run.release(tmp_path / "three")


def test_a_newcomer_is_told_of(tmp_path: Path) -> None:
    """One record more: margins are exact, so the newcomer's values are what the second release has more."""
    data = mixed(300)
    mask = sf.ClusterShuffle(columns=COLUMNS)
    log = applied(mask, Microdata(data.frame[:299], data.schema))[1].log
    assert log is not None
    log.write_parquet(tmp_path / "log.parquet")
    with pytest.raises(MaskError, match="1 newcomers hide among 1 at least"):
        applied(sf.ClusterShuffle(columns=COLUMNS, earlier=[str(tmp_path / "log.parquet")]), data)


def test_people_are_known_again_by_id_or_by_their_record() -> None:
    frame = pl.DataFrame({"ID": ["a", "b", "c"], "X": [1, 2, 3], "Y": ["u", "v", None]})
    one, two = Microdata(frame), Microdata(frame[[2, 0, 1]].with_columns(pl.col("X").cast(pl.Float64)))
    assert people(two).tolist() == people(one)[[2, 0, 1]].tolist()
    assert len(set(people(one).tolist())) == 3
    marked = Microdata(frame.with_columns(X=pl.lit(9)), {"roles": {"id": "ID"}})
    assert people(marked).tolist() == people(Microdata(frame, {"roles": {"id": "ID"}})).tolist()


# -- relations ------------------------------------------------------------------------------------


def related(n: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    wage = rng.integers(100, 900, n)
    return pl.DataFrame(
        {
            "AGE": rng.integers(18, 80, n),
            "WAGE": wage,
            "PAY": np.where(rng.random(n) < 0.8, wage, wage + 7),
            "NET": (wage * rng.uniform(0.4, 1.0, n)).astype(np.int64),
            "HEIGHT": rng.integers(1500, 2000, n),
        }
    )


def test_undeclared_equalities_and_orders_are_found_and_offered() -> None:
    _, notes = applied(sf.ClusterShuffle(columns=related().columns), Microdata(related()))
    said = notes.figures["undeclared_relations"]
    assert [s for s in said if s.startswith("WAGE = PAY in 8") or s.startswith("PAY = WAGE in 8")]
    assert "NET ≤ WAGE in all records" in said
    # AGE ≤ HEIGHT is true of any two people: nothing to keep
    assert not [s for s in said if "HEIGHT" in s]
    assert any("erodes" in w for w in notes.warnings)


def test_a_declared_equality_is_kept_as_often_and_a_declared_order_always() -> None:
    data = Microdata(
        related(),
        {
            "variables": {
                "PAY": {"sum_of": ["WAGE"], "residual": True},
                "WAGE": {"sum_of": ["NET"], "residual": True},
            }
        },
    )
    masked, notes = applied(sf.ClusterShuffle(columns=data.columns), data)
    assert "undeclared_relations" not in notes.figures or not any(
        "PAY = WAGE" in s or "NET ≤ WAGE" in s for s in notes.figures["undeclared_relations"]
    )
    frame = masked.frame
    assert (frame["PAY"] == frame["WAGE"]).sum() == (data.frame["PAY"] == data.frame["WAGE"]).sum()
    assert (frame["NET"] <= frame["WAGE"]).all()
    assert (frame["WAGE"] != data.frame["WAGE"]).mean() > 0.5


# -- span, sums, offers ---------------------------------------------------------------------------


def test_span_joins_clusters_until_their_values_span_enough() -> None:
    rng = np.random.default_rng(4)
    x = np.sort(rng.normal(size=400))
    frame = pl.DataFrame({"X": x, "PAY": np.round(x * 100 + rng.normal(size=400)).astype(int)})
    data = Microdata(frame, sf.Schema(sensitive=["PAY"]))
    told = {"columns": ["X", "PAY"], "smallest": 10, "blind": [], "blur": 0}
    rank = pl.Series(frame["PAY"]).rank("average").to_numpy() / 400
    for percent, fewest in ((0.0, 20), (30.0, 1)):
        label = labels(sf.ClusterShuffle(**told, span_percent=percent), data)  # type: ignore[arg-type]
        spans = [np.ptp(rank[label == g]) for g in np.unique(label)]
        assert min(spans) >= percent / 100 - 1 / 400
        assert len(spans) >= fewest
    assert min(spans) >= 0.3 - 1 / 400


def test_a_total_can_be_the_sum_of_its_parts_alone() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 1000, 200), rng.integers(0, 1000, 200)
    more = np.where(np.arange(200) % 4 == 0, 7, 0)
    frame = pl.DataFrame({"A": a, "B": b, "T": a + b + more})
    schema = sf.Schema(variables={"T": {"sum_of": ["A", "B"], "residual": True}})
    data = Microdata(frame, schema)
    kept = sf.ClusterShuffle(columns=["A", "B"], smallest=10, blur=0).mask(data, seed=1).frame
    assert ((kept["T"] - kept["A"] - kept["B"]) == 7).sum() == 50
    step = sf.ClusterShuffle(columns=["A", "B"], smallest=10, blur=0, sum_rule="rebuild")
    plain = step.mask(data, seed=1).frame
    assert (plain["T"] == plain["A"] + plain["B"]).all()


def test_what_nobody_declared_is_offered_before() -> None:
    rng = np.random.default_rng(6)
    pay = rng.integers(100, 1000, 500)
    frame = pl.DataFrame({"PAY": pay, "TAX": (pay * rng.uniform(0, 1, 500)).astype(int)})
    mask = sf.ClusterShuffle(columns=["PAY", "TAX"], blind=[])
    said = mask.foresees(Microdata(frame))
    assert [p.hint for p in said] == ['`edits = ["TAX <= PAY"]` under variables.TAX keeps it']
    declared = Microdata(frame, sf.Schema(variables={"TAX": {"edits": ["TAX <= PAY"]}}))
    assert not mask.foresees(declared)
    off = frame.with_columns(pl.when(pl.int_range(500) == 3).then(2000).otherwise("TAX").alias("TAX"))
    assert "99.80% of the records" in mask.foresees(Microdata(off))[0].message
