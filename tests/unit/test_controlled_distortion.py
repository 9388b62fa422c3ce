"""Controlled distortion: exact moments, few helpers, sums, bounds, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.mask import Notes
from sfumato.draws import Seed
from sfumato.errors import MaskError, ParameterError
from sfumato.masks.noise.reflection import householder


def run(mask: Any, data: sf.Microdata) -> tuple[np.ndarray[Any, Any], Notes, sf.Microdata]:
    masked, notes, checks = mask.carry_out(data, Seed.from_int(1).draws(mask.name))
    assert all(c.ok for c in checks)
    return masked.frame.select(data.columns).to_numpy().astype(float), notes, masked


def errors(x: np.ndarray[Any, Any], z: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Means relative to their size; covariances relative to the two standard deviations."""
    s = x.std(axis=0)
    mean = np.abs(z.mean(axis=0) - x.mean(axis=0)) / np.abs(x.mean(axis=0))
    return float(mean.max()), float((np.abs(np.cov(z.T) - np.cov(x.T)) / np.outer(s, s)).max())


@pytest.fixture(scope="module")
def casc(reference_data: Path) -> sf.Microdata:
    return sf.Microdata(pl.read_csv(reference_data / "CASCrefmicrodata.csv"))


SHIFT = {"AGI": -2000.0, "PEARNVAL": -1000, "POTHVAL": -50, "PTOTVAL": -1050}


@pytest.mark.parametrize("how_many", [1, 10])
def test_thirteen_columns_keep_their_moments(casc: sf.Microdata, how_many: int) -> None:
    x = casc.frame.to_numpy().astype(float)
    records = np.argsort(-x[:, 1])[:how_many].tolist()
    z, notes, _ = run(sf.ControlledDistortion(records=records, shift=SHIFT, columns=casc.columns), casc)
    mean, covariance = errors(x, z)
    assert mean < 1e-13  # the acceptance figures of FORMULAS; the issue asks for 1e-9
    assert covariance < 1e-12
    for column, by in SHIFT.items():
        j = casc.columns.index(column)
        np.testing.assert_allclose(z[records, j] - x[records, j], by, atol=1e-8)
    np.testing.assert_allclose(z[:, 4], z[:, 9] + z[:, 7], atol=1e-7)  # PTOTVAL = PEARNVAL + POTHVAL
    unmoved = [j for j, c in enumerate(casc.columns) if c not in SHIFT]
    assert (z[:, unmoved] == x[:, unmoved]).all()
    assert notes.figures["records_distorted"] == how_many
    assert notes.log is not None
    assert set(notes.log["distorted"]) == set(records)


def test_to_given_values(casc: sf.Microdata) -> None:
    columns = ["AGI", "FEDTAX", "FICA"]
    mask = sf.ControlledDistortion(
        records=[3, 8], values={"AGI": [30_000, 41_000], "FICA": 2_500}, columns=columns
    )
    masked = mask.mask(casc).frame
    assert masked["AGI"].to_numpy()[[3, 8]] == pytest.approx([30_000, 41_000], abs=1e-8)
    assert masked["FICA"].to_numpy()[[3, 8]] == pytest.approx(2_500, abs=1e-9)
    listed = (
        sf.ControlledDistortion(records=[3], values=[30_000, 5_000, 2_500], columns=columns).mask(casc).frame
    )
    assert listed.row(3)[1] == pytest.approx(30_000)


def test_at_least_rank_plus_two_records_are_needed_and_enough_is_found() -> None:
    rng = np.random.default_rng(3)
    for m in (2, 6):
        x = rng.normal(size=(m + 2, m))
        inward = 0.5 * (x.mean(axis=0) - x[0])
        assert isinstance(householder(x, inward, np.ones(m + 2)), np.ndarray)
        assert isinstance(
            householder(x[: m + 1], 0.5 * (x[: m + 1].mean(axis=0) - x[0]), np.ones(m + 1)), str
        )


def test_the_leverage_condition_decides() -> None:
    # FORMULAS: a solution exists iff t'(B'B)⁺t ≤ 1 − 1/r, with t = x_0 + δ − c.
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(300):
        r, m = int(rng.integers(5, 12)), 3
        x, delta = rng.normal(size=(r, m)), rng.normal(size=m)
        b = x - x.mean(axis=0)
        t = x[0] + delta - x.mean(axis=0)
        feasible = t @ np.linalg.inv(b.T @ b) @ t <= 1 - 1 / r
        got = householder(x, delta, np.ones(r))
        assert isinstance(got, np.ndarray) == feasible
        seen.add(feasible)
        if feasible:
            assert isinstance(got, np.ndarray)
            z = x + got[:, None] * delta
            assert got[0] == pytest.approx(1)
            np.testing.assert_allclose(np.cov(z.T), np.cov(x.T), rtol=1e-8, atol=1e-10)
    assert seen == {True, False}


def test_helpers_are_near_in_key_space_and_few() -> None:
    rng = np.random.default_rng(0)
    n = 2000
    frame = pl.DataFrame({"AREA": rng.integers(0, 4, n), "A": rng.normal(size=n), "B": rng.normal(size=n)})
    data = sf.Microdata(frame, sf.Schema(keys=["AREA"]))
    mask = sf.ControlledDistortion(records=[17], shift={"A": 0.5}, columns=["A", "B"])
    _, notes, _ = run(mask, data)
    assert notes.log is not None
    areas = frame["AREA"].gather(notes.log["record"])
    assert (areas == frame["AREA"][17]).all()
    assert 3 <= notes.figures["helpers"]["record 1"] <= 12


def test_within_keeps_the_moments_of_the_stratum() -> None:
    rng = np.random.default_rng(0)
    data = sf.Microdata(
        pl.DataFrame({"S": np.arange(400) % 4, "A": rng.normal(size=400), "B": rng.normal(size=400)})
    )
    z, _, _ = run(
        sf.ControlledDistortion(records=[5], shift={"A": 0.4}, columns=["A", "B"], within=["S"]), data
    )
    x = data.frame.to_numpy()
    mine = x[:, 0] == x[5, 0]
    np.testing.assert_allclose(np.cov(z[mine][:, 1:].T), np.cov(x[mine][:, 1:].T), rtol=1e-11)
    assert (z[~mine] == x[~mine]).all()


def test_given_helpers_are_the_only_ones_that_move(casc: sf.Microdata) -> None:
    helpers = list(range(100, 160))
    columns = ["AGI", "FEDTAX", "FICA"]
    z, _, _ = run(
        sf.ControlledDistortion(records=[0], shift={"AGI": 500}, columns=columns, helpers=helpers), casc
    )
    moved = np.flatnonzero((z != casc.frame.to_numpy()).any(axis=1))
    assert set(moved) <= {0, *helpers}


def test_weighted_moments() -> None:
    rng = np.random.default_rng(2)
    w = rng.uniform(1, 9, 300)
    data = sf.Microdata(pl.DataFrame({"A": rng.normal(size=300), "B": rng.normal(size=300), "W": w}))
    z, _, _ = run(
        sf.ControlledDistortion(records=[4], shift={"A": 1.0}, columns=["A", "B"], weight="W"), data
    )
    x = data.frame.to_numpy()
    np.testing.assert_allclose(w @ z[:, :2], w @ x[:, :2], rtol=1e-12)
    one, two = (np.cov(v[:, :2].T, aweights=w) for v in (x, z))
    np.testing.assert_allclose(two, one, rtol=1e-11)


def test_a_total_moves_with_its_parts() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.gamma(2, 1000, 200), rng.gamma(2, 500, 200)
    data = sf.Microdata(
        pl.DataFrame({"A": a, "B": b, "T": a + b}), sf.Schema(variables={"T": {"sum_of": ["A", "B"]}})
    )
    z, _, masked = run(sf.ControlledDistortion(records=[9], shift={"A": -300.0}, columns=["A", "B"]), data)
    assert masked.frame["T"][9] == pytest.approx(a[9] + b[9] - 300)
    np.testing.assert_allclose(z[:, 2], z[:, 0] + z[:, 1], rtol=1e-12)
    with pytest.raises(MaskError, match="sum rule would break"):
        sf.ControlledDistortion(records=[9], shift={"A": -300.0, "T": 5.0}, columns=["A", "B", "T"]).mask(
            data
        )


def test_bounds_are_kept_or_it_says_which_cannot_be() -> None:
    rng = np.random.default_rng(1)
    x = rng.gamma(1.0, 1000, (400, 2)) * (rng.random((400, 2)) < 0.7)
    data = sf.Microdata(pl.DataFrame(x, schema=["A", "B"]))
    record = int(np.argsort(-x[:, 0])[20])
    small = sf.ControlledDistortion(
        records=[record], shift={"A": -200.0}, columns=["A", "B"], non_negative=True
    )
    z, _, _ = run(small, data)
    assert z.min() >= -1e-6
    assert errors(x, z)[1] < 1e-10
    below = {"records": [record], "values": {"A": -5.0}, "columns": ["A", "B"], "non_negative": True}
    with pytest.raises(MaskError, match=r"beyond the bounds \(A\)"):
        sf.ControlledDistortion(**below).mask(data)
    _, notes, _ = run(sf.ControlledDistortion(**below, beyond_bounds=True), data)
    assert any("bounds of A couldn't be kept" in w for w in notes.warnings)


def test_rounding_is_offered_and_its_cost_is_told(casc: sf.Microdata) -> None:
    columns = ["AGI", "FEDTAX", "FICA"]
    mask = sf.ControlledDistortion(records=[0], shift={"AGI": -900}, columns=columns, round_to_unit=True)
    _, notes, masked = run(mask, casc)
    assert masked.frame["AGI"].dtype == pl.Int64
    assert 0 < notes.figures["covariance_error_of_rounding"] < 1e-3
    exact = sf.ControlledDistortion(records=[0], shift={"AGI": -900}, columns=columns)
    assert exact.mask(casc).frame["AGI"].dtype == pl.Float64
    assert [p.severity for p in exact.check(casc.schema, casc._types)] == ["warning"]


def test_records_by_id() -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"ID": [f"p{i}" for i in range(100)], "A": rng.normal(size=100)})
    data = sf.Microdata(frame, sf.Schema(id="ID"))
    masked = sf.ControlledDistortion(records=["p7"], by="id", values={"A": 0.25}, columns=["A"]).mask(data)
    assert masked.frame["A"][7] == 0.25
    with pytest.raises(MaskError, match="aren't in the file"):
        sf.ControlledDistortion(records=["p777"], by="id", values={"A": 0.25}, columns=["A"]).mask(data)


def test_missing_values_elsewhere_do_no_harm() -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=(100, 2))
    a[50:60, 0] = np.nan
    data = sf.Microdata(pl.DataFrame(a, schema=["A", "B"]))
    masked = (
        sf.ControlledDistortion(records=[3], shift={"A": 0.5}, columns=["A", "B"]).mask(data).frame.to_numpy()
    )
    assert np.isnan(masked[50:60, 0]).all()
    with pytest.raises(MaskError, match="missing values"):
        sf.ControlledDistortion(records=[55], shift={"B": 0.5}, columns=["A", "B"]).mask(data)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"records": []}, "at least one record"),
        ({"records": [1, 1]}, "twice"),
        ({"shift": None}, "either `values` or `shift`"),
        ({"values": {"A": 1}}, "either `values` or `shift`"),
        ({"shift": {"C": 1}}, "isn't in `columns`"),
        ({"shift": {"A": [1, 2, 3]}}, "one for each of the 1 records"),
        ({"shift": [1, 2, 3]}, "for each of `columns`"),
        ({"shift": {"A": float("nan")}}, "finite"),
        ({"shift": {"A": "x"}}, "finite"),
        ({"helpers": [1]}, "can't be a helper"),
    ],
)
def test_bad_parameters(more: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        sf.ControlledDistortion(**{"records": [1], "shift": {"A": 1.0}, "columns": ["A", "B"], **more})


def test_bad_requests(casc: sf.Microdata) -> None:
    with pytest.raises(MaskError, match=r"linear relation.*PTOTVAL, POTHVAL, PEARNVAL"):
        sf.ControlledDistortion(records=[5], shift={"PTOTVAL": -1050}, columns=casc.columns).mask(casc)
    with pytest.raises(MaskError, match="too far out"):
        sf.ControlledDistortion(records=[5], shift={"AGI": 1e9}, columns=["AGI", "FICA"]).mask(casc)
    with pytest.raises(MaskError, match="aren't in the file"):
        sf.ControlledDistortion(records=[5000], shift={"AGI": 1}, columns=["AGI"]).mask(casc)
    with pytest.raises(MaskError, match="3 helpers are needed"):
        sf.ControlledDistortion(records=[5], shift={"AGI": 1}, columns=["AGI", "FICA"], helpers=[1, 2]).mask(
            casc
        )
    with pytest.raises(MaskError, match="wouldn't move"):
        sf.ControlledDistortion(records=[5], shift={"AGI": 0}, columns=["AGI"]).mask(casc)


def test_top_coded_and_imputed_values_help_nobody() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(50, 20, 400)
    frame = pl.DataFrame({"X": x, "Y": 2 * x + rng.normal(size=400), "FLAG": np.arange(400) % 5 == 0})
    schema = {"variables": {"X": {"top": 70}, "Y": {"imputed": "FLAG"}}}
    data = sf.Microdata(frame, schema)
    place = int(np.abs(np.where(frame["FLAG"], 0.0, x) - 69).argmin())
    mask = sf.ControlledDistortion(records=[place], shift={"X": 3.0}, columns=["X", "Y"])
    moved = np.flatnonzero(mask.mask(data).frame["X"].to_numpy() != x)
    assert place in moved
    assert (data.eligible("X") & data.eligible("Y"))[moved].all()
