"""RankSwap: targets and their notes, sums, categories, blocks, bad input."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from datetime import date

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.guarantees import SameMultiset
from sfumato.draws import Seed
from sfumato.masks.rank_swap.law import Spread
from sfumato.masks.rank_swap.ranks import window_ranks
from sfumato.masks.rank_swap.targets import Target, search, theorem_percent
from sfumato.stats.rank_law import MEAN_POOL, MEAN_SHIFT, MEAN_SQUARE_SHIFT


def carried_out(mask, data, seed: int = 1):
    return mask.carry_out(
        data if isinstance(data, sf.Microdata) else sf.Microdata(data), Seed.from_int(seed).draws("t")
    )


def incomes(n: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    return pl.DataFrame(
        {
            "AREA": rng.integers(0, 3, n),
            "WAGE": rng.lognormal(9, 1, n).astype(int),
            "RENT": np.where(rng.random(n) < 0.7, 0, rng.lognormal(7, 1, n)).astype(int),
        }
    )


# -- the papers' examples -------------------------------------------------------------------------


def test_reiss_example_is_one_of_the_swaps_that_random_swapping_makes():
    # Moore (1996), section III: incomes of records 1 and 6, 2 and 3, 4 and 5 change places, then the
    # ages of 1 and 2, 3 and 4, 5 and 6. Records 2 and 3 had the same income and look unchanged.
    frame = pl.DataFrame({"AGE": [21, 24, 35, 36, 45, 50], "INCOME": [20, 30, 30, 25, 55, 15]})
    income, age = [15, 30, 30, 55, 25, 20], [24, 21, 36, 35, 50, 45]
    published = sf.Microdata(frame.with_columns(AGE=pl.Series(age), INCOME=pl.Series(income)))
    assert SameMultiset(("AGE", "INCOME")).check(sf.Microdata(frame), published).ok
    seen = Counter(
        tuple(sf.RandomSwap(columns=["AGE"], rate_percent=100).mask(frame, seed=s).frame["AGE"])
        for s in range(300)
    )
    assert len(seen) == 15  # every way to pair six records
    assert seen[tuple(age)] > 0


def test_moores_relation_of_r0_and_k0():
    # Section VIII prints 0.995 and 0.131 for mean 1000 and standard deviation 1500; both are misprints.
    spread = Spread(10_000, 1000.0, 1500.0**2, 0.0, 20_000.0, 10_000)
    by_change = theorem_percent(Target("mean_change", 0.10), spread, None, None)
    assert theorem_percent(
        Target("correlation", 1 - 4 / 3 * 0.01 / 2.25), spread, None, None
    ) == pytest.approx(by_change)
    assert pytest.approx(0.99407, abs=5e-6) == 1 - 4 / 3 * 0.01 / 2.25
    k0 = math.sqrt(0.75 * 0.01) * 1.5
    assert k0 == pytest.approx(0.1299, abs=5e-5)
    by_correlation = theorem_percent(Target("correlation", 0.99), spread, None, None)
    assert theorem_percent(Target("mean_change", k0), spread, None, None) == pytest.approx(by_correlation)


# Table 1 (mean, standard deviation, top code) and the intervals that Theorems 3 and 4 give; HOME_VAL's
# are printed as MORTGAGE's (FORMULAS).
TABLE_1 = [
    (11_369, 13_986, 100_000, [3.13, 4.42, 6.25, 1.86]),
    (97_698, 67_184, 350_000, [4.29, 6.07, 8.58, 4.56]),
    (571, 821, 9_000, [2.04, 2.88, 4.08, 1.04]),
    (19.83, 12.83, 62, [4.63, 6.54, 9.25, 5.22]),
]


@pytest.mark.parametrize(("mean", "deviation", "top", "percents"), TABLE_1)
def test_theorems_3_and_4_on_table_1(mean, deviation, top, percents):
    spread = Spread(1, mean, deviation**2, 1.0, top - 1.0, 1)
    targets = [Target("correlation", r) for r in (0.975, 0.95, 0.90)] + [Target("mean_change", 0.10)]
    got = [theorem_percent(target, spread, top, 0.0) for target in targets]
    assert got == pytest.approx(percents, abs=0.006)


def test_constants_of_the_law():
    assert pytest.approx(0.72135, abs=5e-6) == MEAN_POOL
    assert pytest.approx(0.55730, abs=5e-6) == MEAN_SHIFT
    assert pytest.approx(0.39196, abs=5e-6) == MEAN_SQUARE_SHIFT


def test_window_in_ranks():
    sizes = np.array([100, 99, 3, 0])
    assert window_ranks(7, sizes).tolist() == [7, 6, 1, 1]
    assert window_ranks(0, sizes).tolist() == [0, 0, 0, 0]
    assert window_ranks(100, sizes).tolist() == [100, 99, 3, 1]


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_the_search_needs_few_looks(power):
    looks = []

    def loss(w: float) -> float:
        looks.append(w)
        return 1e-6 * w**power * (1 + w / 5000)

    found, reached_loss, reached = search(loss, loss(4321.0), 100_000, 10, 2.0, 5e-4, True)
    assert reached
    assert reached_loss == loss(found)
    assert loss(found) == pytest.approx(loss(4321.0), rel=1e-3)
    assert len(looks) < 30
    assert search(loss, 1e99, 100, 10, 2.0, 5e-4, True) == (100.0, loss(100.0), False)
    assert search(loss, 1e-99, 100, 10, 2.0, 5e-4, True) == (1.0, loss(1.0), False)


# -- what is told ---------------------------------------------------------------------------------


def test_target_predicted_and_achieved_are_told_for_each_column():
    mask = sf.RankSwap(
        columns=["WAGE", "RENT"], correlation={"WAGE": 0.9}, window_percent={"RENT": 5}, far_values="group"
    )
    masked, notes, checks = carried_out(mask, incomes())
    figures = notes.figures
    before, after = incomes()["WAGE"].to_numpy(), masked.frame["WAGE"].to_numpy()
    assert figures["target"]["WAGE"] == pytest.approx(math.sqrt(0.9))
    assert figures["correlation_with_far"]["WAGE"] == pytest.approx(np.corrcoef(before, after)[0, 1])
    assert figures["achieved"]["WAGE"] == pytest.approx(math.sqrt(0.9), abs=0.001)
    assert figures["mean_change"]["WAGE"] == pytest.approx(np.mean(np.abs(after - before) / before))
    assert "RENT" not in figures["target"]
    assert figures["window_ranks"]["RENT"] == 20
    assert figures["records_swapped"] == {"WAGE": 400, "RENT": 400}
    pair = figures["pair_correlations"][0]
    assert pair["columns"] == ["WAGE", "RENT"]
    assert pair["original"] == pytest.approx(np.corrcoef(before, incomes()["RENT"])[0, 1])
    assert pair["achieved"] == pytest.approx(np.corrcoef(after, masked.frame["RENT"])[0, 1])
    assert any("moves further" in c.guarantee for c in checks)


def test_the_left_over_record_is_reported_and_logged():
    frame = pl.DataFrame({"X": list(range(11))})
    masked, notes, _ = carried_out(sf.RankSwap(columns=["X"], window_percent=20), frame)
    stayed = (masked.frame["X"] == frame["X"]).arg_true().to_list()
    assert len(stayed) == 1
    assert notes.figures["left_over"] == {"X": 1}
    assert notes.log.rows() == [("X", stayed[0], stayed[0])]
    cycled, notes, _ = carried_out(sf.RankSwap(columns=["X"], window_percent=20, leftover="cycle"), frame)
    assert notes.figures["left_over"] == {"X": 0}
    assert (cycled.frame["X"] != frame["X"]).all()


def test_the_log_of_pairs_says_where_each_value_came_from():
    frame = incomes(30)
    masked, notes, _ = carried_out(sf.RankSwap(columns=["WAGE"], window_percent=10, log_pairs=True), frame)
    log = notes.log.sort("record")
    assert log["record"].to_list() == list(range(30))
    assert masked.frame["WAGE"].to_list() == frame["WAGE"].gather(log["value_from"]).to_list()


def test_columns_are_drawn_apart_from_each_other():
    data = incomes()
    both = sf.RankSwap(columns=["RENT", "WAGE"], window_percent=5).mask(data, seed=4)
    alone = sf.RankSwap(columns=["WAGE"], window_percent=5).mask(data, seed=4)
    assert both.frame["WAGE"].equals(alone.frame["WAGE"])


def test_threads_make_no_difference(monkeypatch):
    mask = sf.RankSwap(columns=["RENT", "WAGE"], correlation=0.9, far_values="code")
    monkeypatch.setenv("SFUMATO_THREADS", "1")
    one = mask.mask(incomes(), seed=4)
    monkeypatch.setenv("SFUMATO_THREADS", "2")
    assert mask.mask(incomes(), seed=4).frame.equals(one.frame)


def test_zeros_stay_if_asked():
    frame = incomes()
    masked, notes, _ = carried_out(sf.RankSwap(columns=["RENT"], window_percent=20, keep_zeros=True), frame)
    assert ((masked.frame["RENT"] == 0) == (frame["RENT"] == 0)).all()
    assert notes.figures["eligible"]["RENT"] == (frame["RENT"] != 0).sum()
    assert notes.figures["zeros_kept"]["RENT"] == (frame["RENT"] == 0).sum()
    assert (masked.frame["RENT"] != frame["RENT"]).sum() > 80


def test_imputed_coded_and_missing_values_stay():
    frame = incomes().with_columns(
        FLAG=pl.int_range(pl.len()) % 5 == 0, WAGE=pl.when(pl.col("AREA") > 0).then("WAGE")
    )
    data = sf.Microdata(
        frame, sf.Schema(variables={"WAGE": {"top": 20_000, "bottom": 2_000, "imputed": "FLAG"}})
    )
    masked, notes, _ = carried_out(sf.RankSwap(columns=["WAGE"], window_percent=10), data)
    stay = ~data.eligible("WAGE")
    assert 0 < stay.sum() < 400
    assert masked.frame["WAGE"].filter(stay).equals(frame["WAGE"].filter(stay), null_equal=True)
    assert notes.figures["eligible"]["WAGE"] == (~stay).sum()


# -- sums -----------------------------------------------------------------------------------------


def accounts(residual: bool = False, dtype: type[pl.DataType] = pl.Int64) -> sf.Microdata:
    rng = np.random.default_rng(9)
    n = 301
    frame = pl.DataFrame(
        {"WAGE": rng.lognormal(9, 1, n).astype(int), "RENT": rng.integers(0, 900, n) * (rng.random(n) < 0.5)}
    ).cast(dtype)
    other = pl.Series(np.where(np.arange(n) % 4 == 0, rng.integers(1, 500, n), 0)) if residual else 0
    frame = frame.with_columns(TOTAL=(pl.col("WAGE") + pl.col("RENT") + other).cast(dtype))
    return sf.Microdata(frame, sf.Schema(variables={"TOTAL": {"sum_of": ["WAGE", "RENT"]}}))


@pytest.mark.parametrize("columns", [["WAGE"], ["TOTAL"], ["WAGE", "RENT"], ["TOTAL", "WAGE"]])
@pytest.mark.parametrize("way", ["rebuild", "scale"])
@pytest.mark.parametrize("dtype", [pl.Int64, pl.Float64], ids=str)
def test_the_sum_holds_after_either_way(columns, way, dtype):
    data = accounts(dtype=dtype)
    mask = sf.RankSwap(columns=columns, window_percent=10, sum_rule=way)
    masked, _, checks = carried_out(mask, data)
    f = masked.frame
    assert f.dtypes == data.frame.dtypes
    assert (f["WAGE"] + f["RENT"] - f["TOTAL"]).abs().max() < 1e-6
    assert any(c.guarantee.startswith("TOTAL = WAGE + RENT") for c in checks)
    if way == "scale":
        assert sorted(f["TOTAL"]) == sorted(data.frame["TOTAL"])
        assert ((f["RENT"] == 0) >= (data.frame["RENT"] == 0)).all()  # nothing stays nothing
    else:
        assert sorted(f["WAGE"]) == sorted(data.frame["WAGE"])
    assert (f["TOTAL"] != data.frame["TOTAL"]).sum() > 200


def test_scaled_components_keep_their_shares():
    data = accounts()
    f = sf.RankSwap(columns=["TOTAL"], window_percent=10, sum_rule="scale").mask(data, seed=2).frame
    factor = f["TOTAL"] / data.frame["TOTAL"]
    assert (f["WAGE"] - factor * data.frame["WAGE"]).abs().max() <= 1.0
    assert (f["RENT"] - factor * data.frame["RENT"]).abs().max() <= 1.0


def test_a_residual_is_swapped_as_one_more_component():
    data = accounts(residual=True)
    masked, notes, _ = carried_out(sf.RankSwap(columns=["TOTAL"], window_percent=10), data)

    def rest(d: sf.Microdata) -> list[int]:
        return (d.frame["TOTAL"] - d.frame["WAGE"] - d.frame["RENT"]).to_list()

    old, new = rest(data), rest(masked)
    assert sorted(old) == sorted(new)
    assert all((a == 0) == (b == 0) for a, b in zip(old, new, strict=True))
    moved = [a != b for a, b in zip(old, new, strict=True) if a]
    assert np.mean(moved) > 0.9  # never released as it was
    assert notes.figures["records_swapped"]["TOTAL (residual)"] == 76
    assert "TOTAL isn't the sum of its components in 76 records" in notes.warnings[0]
    expected = data.with_variable("TOTAL", residual=True)
    assert carried_out(sf.RankSwap(columns=["TOTAL"], window_percent=10), expected)[1].warnings == []


def test_nested_sums_are_mended_from_the_bottom_or_the_top():
    frame = accounts().frame.with_columns(TIPS=pl.col("WAGE") // 7)
    frame = frame.with_columns(WAGE=pl.col("WAGE") + pl.col("TIPS"), BASE=pl.col("WAGE"))
    frame = frame.with_columns(TOTAL=pl.col("WAGE") + pl.col("RENT"))
    rules = {"TOTAL": {"sum_of": ["WAGE", "RENT"]}, "WAGE": {"sum_of": ["BASE", "TIPS"]}}
    data = sf.Microdata(frame, sf.Schema(variables=rules))
    for way in ("rebuild", "scale"):
        for columns in (["TOTAL"], ["TIPS"], ["WAGE"]):
            mask = sf.RankSwap(columns=columns, window_percent=10, sum_rule=way)
            f = carried_out(mask, data)[0].frame
            assert (f["WAGE"] + f["RENT"] == f["TOTAL"]).all()
            assert (f["BASE"] + f["TIPS"] == f["WAGE"]).all()
            changed = {c for c in frame.columns if not f[c].equals(frame[c])}
            assert changed <= set(mask.changes(data))
    # Whole rules that travel together need no mending.
    mask = sf.RankSwap(columns=["TOTAL", "WAGE", "RENT", "BASE", "TIPS"], window_percent=10, together=True)
    f = carried_out(mask, data)[0].frame
    assert sorted(f["TOTAL"]) == sorted(frame["TOTAL"])
    assert (f["BASE"] + f["TIPS"] + f["RENT"] == f["TOTAL"]).all()


def test_components_of_a_top_coded_total_stay_with_it():
    frame = accounts().frame
    top = int(frame["TOTAL"].quantile(0.9))
    rules = {"TOTAL": {"sum_of": ["WAGE", "RENT"], "top": top}}
    data = sf.Microdata(frame, sf.Schema(variables=rules))
    masked = sf.RankSwap(columns=["WAGE", "RENT"], window_percent=10).mask(data, seed=1)
    coded = frame["TOTAL"] >= top
    assert masked.frame.filter(coded).equals(frame.filter(coded))
    assert (masked.frame["TOTAL"] != frame["TOTAL"]).sum() > 150


def test_a_shared_component_cant_be_scaled_with_two_totals():
    frame = accounts().frame.with_columns(GAIN=pl.col("WAGE") * 2)
    rules = {"TOTAL": {"sum_of": ["WAGE", "RENT"]}, "GAIN": {"sum_of": ["WAGE"]}}
    data = sf.Microdata(frame, sf.Schema(variables=rules))
    with pytest.raises(sf.errors.MaskError, match="component of TOTAL and of GAIN"):
        sf.RankSwap(columns=["WAGE"], window_percent=5, sum_rule="scale").mask(data, seed=1)


def test_a_mended_column_is_announced_by_check():
    data = accounts()
    problems = sf.RankSwap(columns=["WAGE"], window_percent=5).check(data.schema, data._types)
    assert [p.severity for p in problems] == ["warning"]
    assert "TOTAL changes too" in problems[0].message


# -- categories and blocks ------------------------------------------------------------------------

GRADES = ["low", "middle", "high", "top"]


def graded() -> sf.Microdata:
    rng = np.random.default_rng(3)
    grade = rng.integers(0, 4, 400)
    frame = pl.DataFrame({"GRADE": [GRADES[g] for g in grade], "PAY": 100.0 * grade + rng.normal(0, 5, 400)})
    return sf.Microdata(frame, sf.Schema(variables={"GRADE": {"order": GRADES}}))


def steps(before: pl.Series, after: pl.Series) -> set[int]:
    pairs = zip(before, after, strict=True)
    return {abs(GRADES.index(a) - GRADES.index(b)) for a, b in pairs}


@pytest.mark.parametrize("how", ["schema", "mean", "enum"])
def test_categories_move_to_neighbours_in_their_order(how):
    data = graded()
    options = {}
    if how == "mean":
        data, options = sf.Microdata(data.frame), {"order_by": {"GRADE": "PAY"}}
    if how == "enum":
        data = sf.Microdata(data.frame.cast({"GRADE": pl.Enum(GRADES)}))
    masked, notes, _ = carried_out(sf.RankSwap(columns=["GRADE"], window_percent=10, **options), data)
    assert Counter(masked.frame["GRADE"]) == Counter(data.frame["GRADE"])
    assert steps(data.frame["GRADE"].cast(str), masked.frame["GRADE"].cast(str)) == {0, 1}
    assert notes.figures["achieved"]["GRADE"] == pytest.approx(notes.figures["correlation"]["GRADE"])


def test_categories_meet_a_correlation_target():
    masked = sf.RankSwap(columns=["GRADE"], correlation=0.8).mask(graded(), seed=1)
    codes = [[GRADES.index(g) for g in d.frame["GRADE"]] for d in (graded(), masked)]
    assert np.corrcoef(*codes)[0, 1] == pytest.approx(math.sqrt(0.8), abs=0.005)


def test_categories_without_an_order_are_refused():
    data = sf.Microdata(graded().frame)
    with pytest.raises(sf.errors.MaskError, match="GRADE holds categories without an order") as problem:
        sf.RankSwap(columns=["GRADE"], window_percent=5).mask(data, seed=1)
    assert "order_by" in problem.value.hint
    with pytest.raises(sf.errors.MaskError, match="true zero"):
        sf.RankSwap(columns=["GRADE"], mean_change=0.1).mask(graded(), seed=1)
    unknown = graded().with_variable("GRADE", order=GRADES[:3])
    with pytest.raises(sf.errors.MaskError, match="values of GRADE aren't in its order"):
        sf.RankSwap(columns=["GRADE"], window_percent=5).mask(unknown, seed=1)


@pytest.mark.parametrize("rank_by", ["first", "principal"])
def test_columns_that_travel_together_keep_their_correlation(rank_by):
    rng = np.random.default_rng(8)
    x = rng.normal(0, 1, 500)
    data = sf.Microdata(pl.DataFrame({"A": x, "B": x + rng.normal(0, 0.3, 500), "C": rng.normal(0, 1, 500)}))
    mask = sf.RankSwap(
        columns=["A", "B"], correlation=0.9, together=True, rank_by=rank_by, far_values="group"
    )
    masked, notes, checks = carried_out(mask, data)
    assert set(masked.frame.select("A", "B").rows()) == set(data.frame.select("A", "B").rows())
    assert notes.figures["achieved"]["A+B"] == pytest.approx(math.sqrt(0.9), abs=0.002)
    for name in ("A", "B"):
        own = np.corrcoef(data.frame[name], masked.frame[name])[0, 1]
        assert notes.figures["correlation"][name] == pytest.approx(own)
    assert all(c.ok for c in checks)
    assert any("every string of the original is in the release" in w for w in notes.warnings)
    swap = sf.RandomSwap(columns=["A", "B"], rate_percent=50, together=True)
    assert any("every string of the original" in w for w in carried_out(swap, data)[1].warnings)
    swap = sf.RandomSwap(columns=["A", "B"], rate_percent=50)
    assert carried_out(swap, data)[1].warnings == []


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"columns": []}, "at least one column"),
        ({"columns": ["A"]}, "A has no target"),
        ({"columns": ["A"], "correlation": 0}, "above 0"),
        ({"columns": ["A"], "correlation": 1}, "below 1"),
        ({"columns": ["A"], "correlation": -0.5}, "above 0"),
        ({"columns": ["A"], "correlation": {"A": 1.2}}, "below 1"),
        ({"columns": ["A"], "mean_change": 0}, "above 0"),
        ({"columns": ["A"], "window_percent": 101}, "at most 100"),
        ({"columns": ["A"], "window_percent": -1}, "at least 0"),
        ({"columns": ["A"], "window_percent": 5, "correlation": 0.9}, "can't both"),
        ({"columns": ["A", "B"], "window_percent": {"A": 5}}, "B has no target"),
        ({"columns": ["A"], "window_percent": {"A": 5}, "correlation": {"A": 0.9}}, "A has 2 targets"),
        ({"columns": ["A"], "window_percent": {"A": 5, "C": 5}}, "names C"),
        ({"columns": ["A"], "window_percent": 5, "within": ["A"]}, "within itself"),
        ({"columns": ["A"], "window_percent": 5, "interval": "exact"}, "interval"),
        ({"columns": ["A", "A"], "window_percent": 5}, "A twice"),
        ({"columns": ["A"], "window_percent": 5, "order_by": {"B": "C"}}, "`order_by` names B"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    with pytest.raises(sf.errors.ParameterError, match=message):
        sf.RankSwap(**parameters)


TARGETS = [{"window_percent": 20}, {"correlation": 0.9}, {"mean_change": 0.1}]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_constant_column_is_left_and_said(target):
    frame = pl.DataFrame({"X": [3.0] * 9})
    masked, notes, _ = carried_out(sf.RankSwap(columns=["X"], **target), frame)
    assert masked.frame.equals(frame)
    assert "X is constant" in notes.warnings[0]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_two_records_change_places(target):
    masked, notes, _ = carried_out(sf.RankSwap(columns=["X"], **target), pl.DataFrame({"X": [1.0, 2.0]}))
    assert masked.frame["X"].to_list() == [2.0, 1.0]
    said = "".join(notes.warnings)
    assert ("every window changes it more" in said) == ("mean_change" in target)
    assert ("was to have R(a,a′) of 0.9487 and has -1.0000" in said) == ("correlation" in target)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(
    "values", [[None, None], [99, 99], [5, 7, 9]], ids=["null", "missing code", "top-coded"]
)
def test_nothing_to_move_is_said(values, target):
    schema = sf.Schema(variables={"X": {"missing": [99], "top": 5}})
    data = sf.Microdata(pl.DataFrame({"X": pl.Series(values, dtype=pl.Int64)}), schema)
    masked, notes, _ = carried_out(sf.RankSwap(columns=["X"], **target), data)
    assert masked.frame.equals(data.frame, null_equal=True)
    assert notes.warnings == ["X has no value that may move"]


def test_one_record_stays():
    masked, notes, _ = carried_out(
        sf.RankSwap(columns=["X"], correlation=0.9), pl.DataFrame({"X": [4, None]})
    )
    assert masked.frame["X"].to_list() == [4, None]
    assert "only one value" in notes.warnings[0]


def test_infinite_values_are_refused_unless_coded():
    data = sf.Microdata(pl.DataFrame({"X": [1.0, 2.0, math.inf, 3.0, math.nan]}))
    with pytest.raises(sf.errors.MaskError, match="1 infinite value") as problem:
        sf.RankSwap(columns=["X"], window_percent=50).mask(data, seed=1)
    assert "top" in problem.value.hint
    masked = sf.RankSwap(columns=["X"], window_percent=50).mask(data.with_variable("X", top=1e9), seed=1)
    assert masked.frame["X"][2] == math.inf
    assert math.isnan(masked.frame["X"][4])


def test_values_too_large_for_a_variance_can_still_be_swapped_by_rank():
    data = pl.DataFrame({"X": [1e300, -1e300, 5e299, 1.0]})
    with pytest.raises(sf.errors.MaskError, match="too large to have a variance"):
        sf.RankSwap(columns=["X"], correlation=0.9).mask(data, seed=1)
    masked = sf.RankSwap(columns=["X"], window_percent=25).mask(data, seed=1)
    assert masked.frame["X"].to_list() == [5e299, 1.0, 1e300, -1e300]


def test_an_engine_is_told_every_column_that_is_read():
    data = accounts().with_variable("RENT", imputed="WAGE")
    needs = sf.RankSwap(columns=["WAGE"], window_percent=5).needs(data)
    assert set(needs) == {"WAGE", "RENT", "TOTAL"}
    ordered = sf.RankSwap(columns=["GRADE"], window_percent=5, order_by={"GRADE": "PAY"})
    assert set(ordered.needs(graded())) == {"GRADE", "PAY"}


@pytest.mark.parametrize("interval", ["calibrated", "theorem"])
def test_k0_says_what_it_means_where_values_arent_positive(interval):
    mask = sf.RankSwap(columns=["X"], mean_change=0.1, interval=interval)
    with pytest.raises(sf.errors.MaskError, match="over positive values, and X has no positive value"):
        mask.mask(pl.DataFrame({"X": [-1.0, -2.0, -3.0, 0.0]}), seed=1)
    mixed = pl.DataFrame({"X": [*range(-300, 100)]})
    if interval == "theorem":
        with pytest.raises(sf.errors.MaskError, match="a mean that isn't positive"):
            mask.mask(mixed, seed=1)
    else:
        masked, notes, _ = carried_out(mask, mixed)
        a, b = mixed["X"].to_numpy(), masked.frame["X"].to_numpy()
        assert np.mean(np.abs(b - a)[a > 0] / a[a > 0]) == pytest.approx(0.1, abs=0.02)
        assert "over its 99 positive values; 301 others" in notes.warnings[0]


def test_no_window_is_identity_and_the_whole_file_a_shuffle():
    frame = incomes()
    assert sf.RankSwap(columns=["WAGE"], window_percent=0).mask(frame, seed=1).frame.equals(frame)
    wide = [
        sf.RankSwap(columns=["WAGE"], window_percent=100).mask(frame, seed=s).frame["WAGE"] for s in range(30)
    ]
    r = [np.corrcoef(frame["WAGE"], w)[0, 1] for w in wide]
    assert abs(np.mean(r)) < 4 * np.std(r) / math.sqrt(30)


def test_a_target_below_what_a_full_shuffle_gives_is_said():
    # Within these strata no swap can change much: the strata carry nearly all of the variance.
    frame = pl.DataFrame({"X": [1.0, 2.0, 101.0, 102.0] * 25, "S": [0, 0, 1, 1] * 25})
    _, notes, _ = carried_out(
        sf.RankSwap(columns=["X"], correlation=0.5, within=["S"], interval="ranks"), frame
    )
    assert "even a full shuffle changes it less" in notes.warnings[0]


def test_dates_and_whole_numbers_keep_their_type():
    days = [date(2020, 1, d) for d in range(1, 31)]
    frame = pl.DataFrame({"DAY": days, "N": pl.Series(range(30), dtype=pl.Int8)})
    masked = sf.RankSwap(columns=["DAY", "N"], correlation=0.9).mask(frame, seed=1).frame
    assert masked.schema == frame.schema
    assert sorted(masked["DAY"]) == days
    with pytest.raises(sf.errors.MaskError, match="true zero"):
        sf.RankSwap(columns=["DAY"], mean_change=0.1).mask(frame, seed=1)


def test_a_broken_swap_is_caught_by_its_guarantees():
    data = sf.Microdata(pl.DataFrame({"X": list(range(100))}))
    mask = sf.RankSwap(columns=["X"], window_percent=5)
    far = data.with_columns({"X": data.frame["X"].reverse()})
    outcome = {type(g).__name__: g.check(data, far) for g in mask.keeps(data)}
    assert outcome["SameValues"].ok
    assert not outcome["RankDisplacement"].ok
    assert "94 values of X moved further" in outcome["RankDisplacement"].detail
    coded = data.with_variable("X", top=50)
    near = coded.with_columns({"X": pl.Series([*range(98), 99, 98])})
    stays = next(g for g in mask.keeps(coded) if type(g).__name__ == "StaysPut")
    assert "2 values of X moved that should stay" in stays.check(coded, near).detail


def test_plans_can_write_and_read_it():
    mask = sf.RankSwap(
        columns=["A", "B"], correlation={"A": 0.9, "B": 0.95}, within=["S"], partner="geometric"
    )
    assert sf.RankSwap.from_dict(mask.to_dict()) == mask
    for a, b in itertools.pairwise([mask, sf.RankSwap(columns=["A"], window_percent=5)]):
        assert a != b
