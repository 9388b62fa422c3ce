"""Additive and mixture noise: parameters, sums, strata, missing values, bounds, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.guarantees import SameMoments, SumRule
from sfumato.contract.mask import Notes
from sfumato.data.sums import circular, touched_rules
from sfumato.draws import Seed
from sfumato.errors import MaskError, ParameterError


def incomes(n: int = 400, seed: int = 0, *, other: bool = False) -> sf.Microdata:
    """WAGE, RENT (with negatives), TOTAL; with ``other``, TOTAL has a part that no column shows."""
    rng = np.random.default_rng(seed)
    wage = np.rint(np.exp(rng.normal(9.5, 0.8, n)) * (rng.random(n) < 0.8)).astype(np.int64)
    rent = np.rint(rng.normal(500, 900, n) * (rng.random(n) < 0.5)).astype(np.int64)
    extra = np.rint(np.exp(rng.normal(7, 1, n)) * (rng.random(n) < 0.4)).astype(np.int64) if other else 0
    frame = pl.DataFrame(
        {
            "AREA": rng.integers(0, 4, n),
            "WAGE": wage,
            "RENT": rent,
            "TOTAL": wage + rent + extra,
        }
    )
    return sf.Microdata(
        frame,
        sf.Schema(
            keys=["AREA"], sensitive=["WAGE", "RENT"], variables={"TOTAL": {"sum_of": ["WAGE", "RENT"]}}
        ),
    )


def run(mask: Any, data: sf.Microdata, seed: int = 1) -> tuple[sf.Microdata, Notes, list[Any]]:
    out: tuple[sf.Microdata, Notes, list[Any]] = mask.carry_out(data, Seed.from_int(seed).draws(mask.name))
    return out


def noise(**more: Any) -> sf.AdditiveNoise:
    return sf.AdditiveNoise(**{"columns": ["WAGE", "RENT"], "variance_ratio": 0.1, **more})


# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [0, -0.1, float("nan"), float("inf")])
def test_variance_ratio_must_be_above_zero(d: float) -> None:
    with pytest.raises(ParameterError, match="variance_ratio"):
        noise(variance_ratio=d)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"columns": []}, "at least one"),
        ({"columns": ["WAGE", "WAGE"]}, "twice"),
        ({"within": ["WAGE"]}, "within itself"),
        ({"exact": True, "non_negative": True}, "can't both be kept"),
        ({"exact": True, "independent": True}, "own covariance"),
        ({"exact": True, "keep_zero_residuals": True}, "can't both be kept"),
        ({"residual": "kept"}, "did you mean|can't be"),
        ({"lower": {"WAGE": 5}, "upper": {"WAGE": 1}}, "wrong way round"),
    ],
)
def test_parameters_that_contradict(more: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        noise(**more)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"weights": [0.5, 0.6]}, "add up to 1"),
        ({"weights": [0.2, 0.3, 0.5]}, "psi"),
        ({"psi": [0.0]}, "all 0"),
        ({"component_variance": 0}, "above 0"),
        ({"component_variance": 1}, "below 1"),
        ({"root": "square"}, "root"),
    ],
)
def test_mixture_parameters(more: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        sf.MixtureNoise(columns=["A"], variance_ratio=0.1, **more)


def test_mixture_defaults_are_those_of_the_paper() -> None:
    mask = sf.MixtureNoise(columns=["A"], variance_ratio=0.1)
    assert (mask.component_variance, mask.root) == (0.025, "principal")
    np.testing.assert_allclose(mask.component_means(), [np.sqrt(0.975), -np.sqrt(0.975)])


def test_k_components_have_mean_0_and_variance_1() -> None:
    mask = sf.MixtureNoise(
        columns=["A"], variance_ratio=0.1, component_variance=0.3, weights=[0.2, 0.5, 0.3], psi=[2.0, -0.5]
    )
    weight, theta = np.array(mask.weights), mask.component_means()
    assert weight @ theta == pytest.approx(0)
    assert weight @ theta**2 + 0.3 == pytest.approx(1)
    # By hand: psi_3 = -(0.2·2 − 0.5·0.5)/0.3 = −0.5; S = 0.2·4 + 0.5·0.25 + 0.3·0.25 = 1.
    np.testing.assert_allclose(theta, np.sqrt(0.7) * np.array([2, -0.5, -0.5]))


# -- sums -----------------------------------------------------------------------------------------


def test_touched_rules_come_in_order_and_circles_are_found() -> None:
    sums = {"ALL": ["SUB", "C"], "SUB": ["A", "B"], "OTHER": ["D"]}
    assert [t for t, _ in touched_rules(sums, ["B"])] == ["SUB", "ALL"]
    assert touched_rules(sums, ["X"]) == []
    assert circular(sums) is None
    assert circular({"A": ["B"], "B": ["C"], "C": ["A"]}) in {"A", "B", "C"}


@pytest.mark.parametrize("mask", [sf.AdditiveNoise, sf.MixtureNoise])
@pytest.mark.parametrize(
    "columns", [["WAGE", "RENT"], ["WAGE", "RENT", "TOTAL"], ["WAGE"], ["TOTAL", "RENT"]]
)
@pytest.mark.parametrize("rescale", [False, True])
def test_a_sum_that_holds_is_kept_to_the_unit(mask: Any, columns: list[str], rescale: bool) -> None:
    data = incomes()
    masked, _, checks = run(mask(columns=columns, variance_ratio=0.2, rescale=rescale), data)
    z = masked.frame
    assert (z["TOTAL"] == z["WAGE"] + z["RENT"]).all()
    assert (z["TOTAL"] != data.frame["TOTAL"]).mean() > 0.9
    assert any("TOTAL" in c.guarantee and "=" in c.guarantee for c in checks)
    assert z["WAGE"].dtype == pl.Int64


def test_nested_totals_are_rebuilt_in_order() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(0, 1000, 300) for _ in range(3))
    data = sf.Microdata(
        pl.DataFrame({"ALL": a + b + c, "SUB": a + b, "A": a, "B": b, "C": c}),
        sf.Schema(variables={"ALL": {"sum_of": ["SUB", "C"]}, "SUB": {"sum_of": ["A", "B"]}}),
    )
    z = sf.AdditiveNoise(columns=["A", "B"], variance_ratio=0.3).mask(data, seed=1).frame
    assert (z["SUB"] == z["A"] + z["B"]).all()
    assert (z["ALL"] == z["SUB"] + z["C"]).all()
    assert (z["C"] == data.frame["C"]).all()


def test_cents_add_up_to_the_cent() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 10**6, 500) / 100 for _ in range(2))
    data = sf.Microdata(
        pl.DataFrame({"A": a, "B": b, "T": np.round(a + b, 2)}),
        sf.Schema(
            variables={"A": {"unit": 0.01}, "B": {"unit": 0.01}, "T": {"unit": 0.01, "sum_of": ["A", "B"]}}
        ),
    )
    z = sf.AdditiveNoise(columns=["A", "B"], variance_ratio=0.1).mask(data, seed=1).frame
    cents = {c: (z[c] * 100).to_numpy() for c in "ABT"}
    for value in cents.values():
        np.testing.assert_allclose(value, np.rint(value), atol=1e-6)
    assert (np.rint(cents["T"]) == np.rint(cents["A"]) + np.rint(cents["B"])).all()


def test_an_undeclared_sum_survives_rounding() -> None:
    data = incomes()
    bare = sf.Microdata(data.frame)
    z = sf.AdditiveNoise(columns=["TOTAL", "RENT", "WAGE"], variance_ratio=0.2).mask(bare, seed=3).frame
    assert (z["TOTAL"] == z["WAGE"] + z["RENT"]).all()


def test_an_undeclared_sum_within_a_declared_one() -> None:
    rng = np.random.default_rng(0)
    a, b, d = (rng.integers(0, 10**5, 400) for _ in range(3))
    frame = pl.DataFrame({"A": a, "B": b, "C": a + b, "D": d, "T": a + b + d})
    data = sf.Microdata(frame, sf.Schema(variables={"T": {"sum_of": ["C", "D"]}}))
    z = sf.AdditiveNoise(columns=["A", "B", "C", "D"], variance_ratio=0.2).mask(data, seed=3).frame
    assert (z["C"] == z["A"] + z["B"]).all()
    assert (z["T"] == z["C"] + z["D"]).all()


def test_an_undeclared_sum_of_floats_stays_to_rounding_error() -> None:
    data = sf.Microdata(incomes().frame.cast(pl.Float64))
    z = sf.AdditiveNoise(columns=["TOTAL", "RENT", "WAGE"], variance_ratio=0.2).mask(data, seed=3).frame
    gap = (z["TOTAL"] - z["WAGE"] - z["RENT"]).abs().max()
    assert isinstance(gap, float)
    assert gap < 1e-9 * float(data.frame["TOTAL"].max() or 1)  # type: ignore[arg-type]


def test_a_broken_sum_is_masked_as_one_more_component() -> None:
    data = incomes(5000, other=True)
    masked, notes, _ = run(noise(variance_ratio=0.1), data)
    x, z = data.frame, masked.frame
    before, after = (f["TOTAL"] - f["WAGE"] - f["RENT"] for f in (x, z))
    assert (before == after).mean() < 0.02
    ratio = float(after.var()) / float(before.var())  # type: ignore[arg-type]
    assert ratio == pytest.approx(1.1, abs=4 * 1.1 * np.sqrt(12 / 5000))
    assert any("isn't the sum of WAGE, RENT in" in w for w in notes.warnings)
    assert notes.figures["records_off_their_sum"]["TOTAL"] == int((before != 0).sum())


def test_zero_residuals_can_stay_zero() -> None:
    data = incomes(1000, other=True)
    masked, notes, checks = run(noise(keep_zero_residuals=True), data)
    before, after = (f["TOTAL"] - f["WAGE"] - f["RENT"] for f in (data.frame, masked.frame))
    assert ((before == 0) <= (after == 0)).all()
    assert (before.filter(before != 0) == after.filter(before != 0)).mean() < 0.05
    assert any("can be seen" in w for w in notes.warnings)
    assert len(checks) == 4


def test_the_published_rule_keeps_the_difference_and_says_what_it_leaks() -> None:
    data = incomes(1000, other=True)
    masked, notes, checks = run(noise(residual="keep", flag_zeros=True), data)
    before, after = (f["TOTAL"] - f["WAGE"] - f["RENT"] for f in (data.frame, masked.frame))
    assert (before == after).all()
    counts = before.value_counts()
    unique = int((counts["count"] == 1).sum())
    assert notes.figures["unique_residuals"] == unique
    assert any(f"{unique:,} of 1,000 records are unique" in w for w in notes.warnings)
    assert notes.figures["unique_residuals_with_zero_flags"] >= unique
    assert any("keep" in p.message for p in noise(residual="keep").check(data.schema, data._types))
    assert len(checks) == 4


def test_a_total_without_its_parts_is_refused() -> None:
    data = incomes()
    with pytest.raises(MaskError, match="gives it back"):
        sf.AdditiveNoise(columns=["TOTAL"], variance_ratio=0.1).mask(data, seed=1)


# -- moments --------------------------------------------------------------------------------------


def test_exact_and_rescaled_moments_are_guaranteed() -> None:
    data = sf.Microdata(incomes().frame.cast(pl.Float64))
    columns = ["WAGE", "RENT", "TOTAL"]
    for mask in (
        sf.AdditiveNoise(columns=columns, variance_ratio=0.5, exact=True, rescale=True),
        sf.MixtureNoise(columns=columns, variance_ratio=0.5, exact=True, rescale=True),
    ):
        masked, _, checks = run(mask, data)
        x, z = data.frame.select(columns).to_numpy(), masked.frame.select(columns).to_numpy()
        np.testing.assert_allclose(z.mean(axis=0), x.mean(axis=0), rtol=1e-11)
        np.testing.assert_allclose(np.cov(z.T), np.cov(x.T), rtol=1e-9)
        assert any(isinstance(g, SameMoments) and g.tolerance == 1e-9 for g in mask.keeps(data))
        assert all(c.ok for c in checks)


def test_exact_without_rescaling_inflates_by_exactly_one_plus_d() -> None:
    data = sf.Microdata(incomes().frame.cast(pl.Float64))
    z = noise(variance_ratio=0.25, exact=True).mask(data, seed=2).frame.select("WAGE", "RENT").to_numpy()
    x = data.frame.select("WAGE", "RENT").to_numpy()
    np.testing.assert_allclose(z.mean(axis=0), x.mean(axis=0), rtol=1e-11)
    np.testing.assert_allclose(np.cov(z.T), 1.25 * np.cov(x.T), rtol=1e-9)


def test_exact_within_strata_with_missing_values() -> None:
    rng = np.random.default_rng(4)
    frame = (
        incomes(1200)
        .frame.cast(pl.Float64)
        .with_columns(
            pl.when(pl.Series(rng.random(1200) < 0.1)).then(None).otherwise(pl.col("RENT")).alias("RENT")
        )
    )
    data = sf.Microdata(frame)
    masked, _, _ = run(noise(exact=True, rescale=True, within=["AREA"]), data)
    both = pl.concat(
        [frame.select("AREA", x="WAGE", y="RENT"), masked.frame.select(u="WAGE", v="RENT")], how="horizontal"
    )
    for _, part in both.drop_nulls().group_by("AREA"):
        m = part.to_numpy()[:, 1:]
        np.testing.assert_allclose(m[:, 2:].mean(axis=0), m[:, :2].mean(axis=0), rtol=1e-9)
        np.testing.assert_allclose(np.cov(m[:, 2:].T), np.cov(m[:, :2].T), rtol=1e-8)


def test_exact_on_whole_numbers_promises_only_what_rounding_leaves() -> None:
    data = incomes()
    mask = noise(exact=True, rescale=True)
    problems = mask.check(data.schema, data._types)
    assert [p.severity for p in problems] == ["warning"]
    promise = next(g for g in mask.keeps(data) if isinstance(g, SameMoments))
    assert 1e-9 < promise.tolerance < 0.01
    mask.mask(data, seed=1)


def test_independent_noise_has_no_correlation() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20000, 1)) + 0.1 * rng.normal(size=(20000, 2))
    data = sf.Microdata(pl.DataFrame(x, schema=["A", "B"]))
    z = (
        sf.AdditiveNoise(columns=["A", "B"], variance_ratio=1.0, independent=True)
        .mask(data, seed=1)
        .frame.to_numpy()
    )
    assert abs(np.corrcoef((z - x).T)[0, 1]) < 4 / np.sqrt(20000)


def test_the_order_of_columns_does_not_matter() -> None:
    data = incomes()
    for cls in (sf.AdditiveNoise, sf.MixtureNoise):
        one = cls(columns=["WAGE", "RENT"], variance_ratio=0.1).mask(data, seed=5).frame
        two = cls(columns=["RENT", "WAGE"], variance_ratio=0.1).mask(data, seed=5).frame
        assert one.equals(two)


def test_two_strengths_do_not_share_their_noise() -> None:
    x = np.random.default_rng(0).normal(size=5000)
    data = sf.Microdata(pl.DataFrame({"A": x}))
    for cls in (sf.AdditiveNoise, sf.MixtureNoise):
        one, two = (
            cls(columns=["A"], variance_ratio=d).mask(data, seed=5).frame["A"].to_numpy() - x
            for d in (0.1, 0.2)
        )
        assert abs(np.corrcoef(one, two)[0, 1]) < 4 / np.sqrt(5000)


def test_a_constant_column_stays() -> None:
    data = sf.Microdata(incomes().frame.with_columns(FEE=pl.lit(25.0)))
    for mask in (
        noise(columns=["WAGE", "FEE"]),
        noise(columns=["FEE"]),
        noise(columns=["FEE"], rescale=True),
    ):
        assert (mask.mask(data, seed=1).frame["FEE"] == 25.0).all()


def test_columns_of_very_different_size_keep_their_variances() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20000, 2)) * [1e-4, 1e9]
    data = sf.Microdata(pl.DataFrame(x, schema=["SMALL", "LARGE"]))
    for root in ("principal", "cholesky", "symmetric"):
        mask = sf.MixtureNoise(columns=["SMALL", "LARGE"], variance_ratio=1.0, root=root)
        z = mask.mask(data, seed=1).frame.to_numpy()
        np.testing.assert_allclose(z.var(axis=0) / x.var(axis=0), 2, rtol=0.06)


# -- missing, coded, strata, bounds, types ----------------------------------------------------------


def test_missing_and_coded_values_stay() -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "A": np.where(rng.random(500) < 0.1, -9.0, rng.normal(50, 10, 500)),
            "B": np.where(rng.random(500) < 0.1, np.nan, rng.normal(50, 10, 500)),
            "C": pl.Series(rng.normal(50, 10, 500).round().clip(0, 65).astype(int)).scatter(
                [3, 7], [None, None]
            ),  # type: ignore[list-item]
        }
    )
    data = sf.Microdata(frame, sf.Schema(variables={"A": {"missing": [-9]}, "C": {"top": 65}}))
    for mask in (
        sf.AdditiveNoise(columns=["A", "B", "C"], variance_ratio=0.1),
        sf.AdditiveNoise(columns=["A", "B", "C"], variance_ratio=0.1, exact=True, rescale=True),
    ):
        masked, notes, _ = run(mask, data)
        for c in "ABC":
            alone = ~data.eligible(c)
            old, new = frame[c].filter(pl.Series(alone)), masked.frame[c].filter(pl.Series(alone))
            assert old.equals(new, null_equal=True)
            assert notes.figures["values_left_alone"][c] == int(alone.sum())
            moved = frame[c].filter(pl.Series(~alone)) != masked.frame[c].filter(pl.Series(~alone))
            assert moved.mean() > 0.75


def test_covariances_use_the_pairs_that_are_there() -> None:
    rng = np.random.default_rng(1)
    n = 40_000
    x = rng.normal(size=n)
    y = x + rng.normal(size=n)
    y[x > 0] = np.nan  # y is known for low x only; the variance of x must still be that of all x
    data = sf.Microdata(pl.DataFrame({"X": x, "Y": y}))
    z = sf.AdditiveNoise(columns=["X", "Y"], variance_ratio=1.0).mask(data, seed=1).frame["X"].to_numpy()
    assert np.var(z - x) == pytest.approx(np.var(x), rel=4 * np.sqrt(2 / n))


def test_strata_have_their_own_covariance_and_small_ones_are_pooled() -> None:
    rng = np.random.default_rng(0)
    n = 30_000
    area = np.where(np.arange(n) < 12, np.arange(n), np.where(np.arange(n) % 2 == 0, 100, 200))
    x = rng.normal(size=n) * np.where(area == 100, 1.0, 50.0)
    data = sf.Microdata(pl.DataFrame({"AREA": area, "X": x}))
    masked, notes, _ = run(sf.AdditiveNoise(columns=["X"], variance_ratio=0.5, within=["AREA"]), data)
    e = masked.frame["X"].to_numpy() - x
    for a in (100, 200):
        assert np.var(e[area == a]) == pytest.approx(0.5 * np.var(x[area == a]), rel=0.05)
    assert notes.figures["strata_pooled"] == 12
    assert notes.figures["records_in_pooled_strata"] == 12
    assert notes.figures["covariances"] == 3
    assert any("12 of 14 strata" in w for w in notes.warnings)
    assert (e[:12] != 0).all()


def test_a_stratum_without_variation_is_reported() -> None:
    data = sf.Microdata(
        pl.DataFrame(
            {"S": [0] * 40 + [1] * 40, "X": np.r_[np.zeros(40), np.arange(40.0)], "Y": np.arange(80.0)}
        )
    )
    _, notes, _ = run(sf.AdditiveNoise(columns=["X", "Y"], variance_ratio=0.1, within=["S"]), data)
    assert notes.figures["strata_without_variation"] == {"X": 1}
    assert any("X doesn't vary in 1 of 2 strata" in w for w in notes.warnings)


def test_a_stratum_of_one_is_pooled() -> None:
    data = sf.Microdata(pl.DataFrame({"AREA": ["a"] * 30 + ["b"], "X": np.arange(31.0)}))
    masked, notes, _ = run(sf.AdditiveNoise(columns=["X"], variance_ratio=0.1, within=["AREA"]), data)
    assert notes.figures["strata_pooled"] == 1
    assert masked.frame["X"][30] != 30


def test_null_strata_are_a_stratum() -> None:
    data = sf.Microdata(pl.DataFrame({"AREA": ["a"] * 30 + [None] * 30, "X": np.arange(60.0)}))
    z = sf.AdditiveNoise(columns=["X"], variance_ratio=0.1, within=["AREA"]).mask(data, seed=1).frame["X"]
    assert (z != data.frame["X"]).all()


def test_bounds_are_kept_and_their_cost_is_told() -> None:
    data = incomes(2000)
    masked, notes, checks = run(noise(non_negative=True), data)
    z = masked.frame
    assert int(z["WAGE"].min()) == 0  # type: ignore[arg-type]
    assert int(z["RENT"].min()) < 0  # type: ignore[arg-type]
    assert (z["TOTAL"] == z["WAGE"] + z["RENT"]).all()
    put = ((z["WAGE"] == 0) & (data.frame["WAGE"] != 0)).sum()
    assert notes.figures["values_put_on_a_bound"]["WAGE"] == put
    assert notes.figures["mean_change_in_deviations"]["WAGE"] > 0
    assert any("WAGE is kept within its bounds" in w for w in notes.warnings)
    assert any("WAGE stays at least 0" in c.guarantee for c in checks)


def test_a_bound_that_the_data_break_is_refused() -> None:
    with pytest.raises(MaskError, match="beyond it already"):
        noise(lower={"RENT": 0}).mask(incomes(), seed=1)
    with pytest.raises(MaskError, match="isn't in `columns`"):
        noise(columns=["WAGE"], lower={"RENT": 0}).mask(incomes(), seed=1)


def test_bounds_between_units_hold() -> None:
    data = sf.Microdata(pl.DataFrame({"X": np.arange(200) % 10 + 1}))
    z = sf.AdditiveNoise(columns=["X"], variance_ratio=2.0, lower={"X": 0.5}, upper={"X": 10.5}).mask(
        data, seed=1
    )
    assert (int(z.frame["X"].min()), int(z.frame["X"].max())) == (1, 10)  # type: ignore[arg-type]


def test_types_stay() -> None:
    rng = np.random.default_rng(0)

    def base() -> pl.Series:
        return pl.Series(rng.integers(20, 100, 300))

    frame = pl.DataFrame(
        {
            "U8": base().cast(pl.UInt8),
            "I16": base().cast(pl.Int16),
            "F32": base().cast(pl.Float32),
            "DAY": base().cast(pl.Int32).cast(pl.Date),
            "CENTS": base().cast(pl.Decimal(10, 2)),
        }
    )
    masked = (
        sf.AdditiveNoise(columns=frame.columns, variance_ratio=4.0).mask(sf.Microdata(frame), seed=1).frame
    )
    assert masked.schema == frame.schema
    assert int(masked["U8"].min()) == 0  # type: ignore[arg-type]
    for c in frame.columns:
        assert (masked[c] != frame[c]).mean() > 0.8


def test_a_rebuilt_total_that_does_not_fit_its_type() -> None:
    a = np.arange(100, dtype=np.uint8)
    data = sf.Microdata(
        pl.DataFrame({"A": a, "B": a.astype(np.float64), "T": (2 * a).astype(np.uint8)}),
        sf.Schema(variables={"T": {"sum_of": ["A", "B"]}}),
    )
    with pytest.raises(MaskError, match="doesn't fit UInt8"):
        sf.AdditiveNoise(columns=["A", "B"], variance_ratio=1.0).mask(data, seed=1)


def test_zero_flags_tell_who_had_nothing_and_what_that_costs() -> None:
    data = incomes(1000)
    masked, notes, _ = run(noise(flag_zeros=True), data)
    for c in ("WAGE", "RENT"):
        assert masked.frame[f"{c}_zero"].to_list() == (data.frame[c] == 0).to_list()
    assert notes.figures["zero_patterns"] == 4
    assert notes.figures["unique_on_keys_with_zero_flags"] >= notes.figures["unique_on_keys"]
    assert any("exact key" in w for w in notes.warnings)
    again = sf.Microdata(masked.frame, data.schema)
    with pytest.raises(MaskError, match="WAGE_zero"):
        noise(flag_zeros=True).mask(again, seed=1)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    data = incomes(1000, other=True)
    masks = [
        noise(rescale=True, within=["AREA"]),
        noise(exact=True),
        sf.MixtureNoise(columns=["WAGE"], variance_ratio=0.1),
    ]
    whole = [m.mask(data, seed=1).frame for m in masks]
    monkeypatch.setattr(sf.AdditiveNoise, "chunk_records", 77)
    for mask, before in zip(masks, whole, strict=True):
        assert mask.mask(data, seed=1).frame.equals(before)


# -- bad input ------------------------------------------------------------------------------------


def test_fewer_records_than_columns() -> None:
    data = sf.Microdata(pl.DataFrame({c: [1.0, 2.0, 4.0] for c in "ABCD"}))
    with pytest.raises(MaskError, match="more records than columns"):
        sf.AdditiveNoise(columns=list("ABCD"), variance_ratio=0.1).mask(data, seed=1)


def test_exact_needs_enough_records() -> None:
    data = sf.Microdata(pl.DataFrame(np.random.default_rng(0).normal(size=(6, 3)), schema=list("ABC")))
    with pytest.raises(MaskError, match="complete records"):
        sf.AdditiveNoise(columns=list("ABC"), variance_ratio=0.1, exact=True).mask(data, seed=1)


def test_a_column_of_text() -> None:
    data = sf.Microdata(pl.DataFrame({"A": ["x", "y", "z"]}))
    with pytest.raises(MaskError, match="needs numbers"):
        sf.AdditiveNoise(columns=["A"], variance_ratio=0.1).mask(data, seed=1)


def test_infinite_values() -> None:
    data = sf.Microdata(pl.DataFrame({"A": [1.0, 2.0, float("inf"), 3.0]}))
    with pytest.raises(MaskError, match="infinite"):
        sf.AdditiveNoise(columns=["A"], variance_ratio=0.1).mask(data, seed=1)


def test_a_column_without_values_stays() -> None:
    data = sf.Microdata(pl.DataFrame({"A": [None] * 9 + [5.0], "B": np.arange(10.0)}))
    masked, notes, _ = run(sf.AdditiveNoise(columns=["A", "B"], variance_ratio=0.1), data)
    assert masked.frame["A"].equals(data.frame["A"], null_equal=True)
    assert any("fewer than two values" in w for w in notes.warnings)


def test_a_circular_sum() -> None:
    data = sf.Microdata(
        pl.DataFrame({"A": [1.0, 2, 3], "B": [1.0, 2, 3]}),
        sf.Schema(variables={"A": {"sum_of": ["B"]}, "B": {"sum_of": ["A"]}}),
    )
    with pytest.raises(MaskError, match="part of itself"):
        sf.AdditiveNoise(columns=["A", "B"], variance_ratio=0.1).mask(data, seed=1)


def test_mixture_warns_of_the_intruder_who_knows_the_form() -> None:
    data = incomes()
    weak = sf.MixtureNoise(columns=["WAGE", "RENT"], variance_ratio=0.1).check(data.schema, data._types)
    assert [p.severity for p in weak] == ["warning"]
    assert "knows its form" in weak[0].message
    assert "%" not in weak[0].message  # no figure of another file
    safe = sf.MixtureNoise(columns=["WAGE", "RENT"], variance_ratio=0.1, component_variance=0.9)
    assert safe.check(data.schema, data._types) == []


def test_sum_rule_is_among_the_promises() -> None:
    assert any(isinstance(g, SumRule) for g in noise().keeps(incomes()))


def test_an_unmasked_part_of_a_total_is_given_away() -> None:
    data = incomes()
    mask = noise(columns=["WAGE"])
    masked, notes, _ = run(mask, data)
    z = masked.frame
    assert (z["TOTAL"] - z["WAGE"] == data.frame["RENT"]).all()
    unique = int((data.frame["RENT"].value_counts()["count"] == 1).sum())
    assert notes.figures["unique_on_unmasked_parts"]["TOTAL"] == unique
    assert any("give their exact values away" in p.message for p in mask.check(data.schema, data._types))


@pytest.mark.parametrize(("kind", "told"), [(pl.UInt8, True), (pl.Int16, False)])
def test_values_cut_off_at_the_ends_of_a_type_are_told(kind: pl.DataType, told: bool) -> None:
    values = np.random.default_rng(2).integers(0, 256, 2000)
    data = sf.Microdata(pl.DataFrame({"U": pl.Series(values).cast(kind)}))
    draws = Seed.from_int(1).draws("s")
    masked, notes, _ = sf.AdditiveNoise(columns=["U"], variance_ratio=0.3).carry_out(data, draws)
    after = masked.frame["U"].to_numpy()
    cut = int((np.isin(after, [0, 255]) & (after != values)).sum())
    assert cut > 100 or not told
    assert notes.figures.get("values_cut_off", {}).get("U") == (cut if told else None)
    assert any("UInt8 holds" in w for w in notes.warnings) is told


@pytest.mark.parametrize(
    ("kind", "value"), [(pl.UInt64, 2**64 - 1), (pl.Int64, 2**63 - 1), (pl.Int64, -(2**63))]
)
def test_numbers_that_a_float_cannot_hold_are_refused(kind: pl.DataType, value: int) -> None:
    data = sf.Microdata(pl.DataFrame({"X": pl.Series([*range(50), value], dtype=kind)}))
    with pytest.raises(MaskError, match="beyond 2"):
        sf.AdditiveNoise(columns=["X"], variance_ratio=0.1).mask(data, seed=1)


@pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")
@pytest.mark.parametrize("kind", [sf.AdditiveNoise, sf.MixtureNoise])
@pytest.mark.parametrize("rescale", [False, True])
def test_a_sign_that_wont_be_kept_is_said_before_and_after(kind, rescale: bool) -> None:
    """The share foretold is that of the run, to its standard error."""
    n = 20_000
    revenue = np.random.default_rng(3).lognormal(0, 1.5, n)
    data = sf.Microdata(pl.DataFrame({"REVENUE": revenue}))
    mask = kind(columns=["REVENUE"], variance_ratio=0.5, rescale=rescale)
    plan = sf.Plan(steps=[mask])
    foretold = [p for p in plan.check(data) if "has no negative value" in p.message]
    assert [p.severity for p in foretold] == ["warning"]
    share = float(foretold[0].message.split("about ")[1].split("%")[0]) / 100
    run = plan.run(data, seed=1)
    negative = int((run.masked.frame["REVENUE"] < 0).sum())
    # Four standard errors and the rounding to two digits; a mixture isn't normal, its share as large.
    chance = 4 * np.sqrt(share * (1 - share) / n) + 0.005
    assert abs(negative / n - share) < (chance if kind is sf.AdditiveNoise else share / 2)
    assert any(f"REVENUE is negative in {negative:,} records" in w for w in run.warnings)
    # Told to keep the sign, it keeps it, and says nothing.
    kept = sf.Plan(steps=[kind(columns=["REVENUE"], variance_ratio=0.5, rescale=rescale, non_negative=True)])
    assert not [p for p in kept.check(data) if "negative" in p.message]
    again = kept.run(data, seed=1)
    assert (again.masked.frame["REVENUE"] >= 0).all()
    assert not [w for w in again.warnings if "is negative" in w]


def test_a_range_that_wont_be_kept_is_said_before() -> None:
    percent = np.random.default_rng(4).uniform(-100, 100, 2000)
    data = sf.Microdata(pl.DataFrame({"BALANCE": percent}))
    wide = sf.AdditiveNoise(columns=["BALANCE"], variance_ratio=0.3)
    assert any("out of the range" in p.message for p in sf.Plan(steps=[wide]).check(data))
    kept = sf.AdditiveNoise(
        columns=["BALANCE"], variance_ratio=0.3, lower={"BALANCE": -100}, upper={"BALANCE": 100}
    )
    assert not [p for p in sf.Plan(steps=[kept]).check(data) if "range" in p.message]


def test_a_promise_that_says_nothing_isnt_made() -> None:
    """Whole numbers that spread over less than a unit: rounding may move a variance by more than itself."""
    x = np.random.default_rng(5).integers(0, 2, 500)
    data = sf.Microdata(pl.DataFrame({"FLAG": x, "PAY": 1000.0 * x + np.arange(500)}))
    coarse = sf.AdditiveNoise(columns=["FLAG", "PAY"], variance_ratio=0.1, exact=True)
    assert any("aren't promised" in p.message for p in sf.Plan(steps=[coarse]).check(data))
    assert not [c for c in run(coarse, data)[2] if "means" in c.guarantee]
    fine = sf.AdditiveNoise(columns=["PAY"], variance_ratio=0.1, exact=True)
    assert not [p for p in sf.Plan(steps=[fine]).check(data) if "promised" in p.message]
    assert [c for c in run(fine, data)[2] if "means" in c.guarantee]
