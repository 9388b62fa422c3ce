"""What comes back from a finished release by the schema's rules, whatever the masks did."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.data.follow import follow, followers
from sfumato.data.microdata import Microdata
from sfumato.errors import GuaranteeError, MaskError, SfumatoError
from sfumato.run.derivable import derivable
from sfumato.run.predictable import predictable

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")


def people(n: int = 200, **variables: object) -> Microdata:
    rng = np.random.default_rng(5)
    a, b, c = (rng.integers(0, 1000, n) for _ in range(3))
    frame = pl.DataFrame({"A": a, "B": b, "C": c, "SUB": a + b, "ALL": a + b + c})
    rules = {"SUB": {"sum_of": ["A", "B"]}, "ALL": {"sum_of": ["SUB", "C"]}, **variables}
    return Microdata(frame, {"roles": {"sensitive": ["A"]}, "variables": rules})


def hidden(data: Microdata, column: str, rows: slice = slice(None)) -> Microdata:
    values = data.column(column).to_list()
    values[rows] = [None] * len(values[rows])
    return data.with_columns({column: pl.Series(values, dtype=data.dtype(column))})


def found(data: Microdata, masked: Microdata, released: list[str] | None = None) -> dict[str, int]:
    return {d.column: d.records for d in derivable(data, masked, released or data.columns) if d.certain}


# -- the check by itself --------------------------------------------------------------------------


def test_any_member_of_a_sum_comes_back_from_the_others() -> None:
    data = people()
    for column in ("A", "B", "SUB", "C", "ALL"):
        assert found(data, hidden(data, column, slice(0, 50))) == {column: 50}
    assert found(data, data) == {}


def test_two_hidden_members_of_one_rule_stay_hidden() -> None:
    data = people()
    both = hidden(hidden(data, "A"), "B")
    assert found(data, both) == {}
    # … unless another rule gives one of them: here SUB = ALL − C, so A and SUB both come back.
    assert found(data, hidden(hidden(data, "A"), "SUB")) == {"A": 200, "SUB": 200}


def test_a_chain_through_a_column_that_isnt_released() -> None:
    """ALL − C is SUB, though nobody sees it, and SUB − B is A."""
    data = people()
    assert found(data, hidden(data, "A"), ["A", "B", "C", "ALL"]) == {"A": 200}
    # A sensitive column that was left out counts as hidden; one that is nobody's secret doesn't.
    assert found(data, data, ["B", "C", "ALL"]) == {"A": 200}
    assert [d.column for d in derivable(data, data, ["A", "B", "C", "SUB"])] == ["ALL"]
    assert found(data, data, ["A", "B", "C", "SUB"]) == {}


def test_sums_that_only_together_give_a_value() -> None:
    """Pairwise sums of three unknowns: no rule lacks one member only, yet all three are fixed."""
    rng = np.random.default_rng(1)
    x, y, z = (rng.integers(0, 99, 40) for _ in range(3))
    frame = pl.DataFrame({"X": x, "Y": y, "Z": z, "XY": x + y, "XZ": x + z, "YZ": y + z})
    rules = {t: {"sum_of": list(t)} for t in ("XY", "XZ", "YZ")}
    data = Microdata(frame, {"variables": rules})
    masked = hidden(hidden(hidden(data, "X"), "Y"), "Z")
    assert found(data, masked) == {"X": 40, "Y": 40, "Z": 40}
    assert found(data, hidden(masked, "YZ")) == {}


def test_a_coarser_area_comes_back_from_a_finer_one() -> None:
    tract = np.arange(120) % 12
    frame = pl.DataFrame({"STATE": tract // 6, "COUNTY": tract // 2, "TRACT": tract})
    data = Microdata(frame, {"roles": {"geography": ["STATE", "COUNTY", "TRACT"]}})
    recoded = data.with_columns({"STATE": pl.Series(["all"] * 120)})
    assert found(data, recoded) == {"STATE": 120}
    assert found(data, recoded, ["STATE", "TRACT"]) == {"STATE": 120}
    both = recoded.with_columns({"COUNTY": pl.Series(["?"] * 120), "TRACT": pl.Series(["?"] * 120)})
    assert found(data, both) == {}
    # A finer area that is hidden within a released coarser one is what masks do every day.
    assert found(data, data.with_columns({"TRACT": pl.Series(["?"] * 120)})) == {}


def test_nothing_comes_back_where_the_rule_doesnt_hold_or_a_value_is_missing() -> None:
    data = people(ALL={"sum_of": ["SUB", "C"], "residual": True})
    gap = np.where(np.arange(200) < 30, 7, 0)
    data = data.with_columns({"ALL": data.column("ALL") + pl.Series(gap)})
    assert found(data, hidden(data, "C")) == {"C": 170}
    data = people()
    gone = hidden(data, "B", slice(0, 60))
    assert found(gone, hidden(gone, "A")) == {"A": 140}


# -- in a run -------------------------------------------------------------------------------------


def test_a_recoded_part_is_refused_until_another_column_goes_too(tmp_path) -> None:
    data = people()
    step = sf.Recode(column="A", width=100)
    run = sf.Plan(steps=[step]).run(data, seed=1)
    assert not run.ok
    assert not run.verdict.safe
    assert "SUB − B" in run.verdict.text
    assert any("A comes back in 200 of 200 hidden values: SUB − B" in w for w in run.warnings)
    with pytest.raises(GuaranteeError, match="SUB − B"):
        run.release(tmp_path / "r", despite_limits=True)
    assert not list(tmp_path.iterdir())
    # Dropping SUB isn't enough: ALL − C − B. Dropping B is.
    for drop, ok in ((["SUB"], False), (["SUB", "ALL"], True), (["B"], True), (["SUB", "C"], True)):
        one = sf.Plan(steps=[step], release={"drop": drop}).run(data, seed=1)
        assert one.ok == ok, drop
    one.release(tmp_path / "r")


def test_the_dictionary_forgets_a_rule_that_cant_be_added_up(tmp_path) -> None:
    plan = sf.Plan(steps=[sf.Recode(column="A", width=100)], release={"drop": ["B"]})
    text = (plan.run(people(), seed=1).release(tmp_path / "r").public / "dictionary.json").read_text()
    assert '"SUB",\n        "C"' in text
    assert text.count("sum_of") == 1


def test_a_total_masked_by_itself_is_refused_by_check_with_the_way_out() -> None:
    data = people()
    plan = sf.Plan(steps=[sf.RandomSwap(columns=["SUB"], rate_percent=50)])
    problems = [p for p in plan.check(data) if p.severity == "error"]
    assert len(problems) == 1
    assert "A + B gives it back" in problems[0].message
    assert "drop" in str(problems[0].hint)
    with pytest.raises(SfumatoError, match="gives it back"):
        plan.run(data)
    with pytest.raises(MaskError, match="gives it back"):
        plan.steps[0].mask(data, seed=1)
    # With a part that isn't released, the total may be masked by itself: ALL still is what it is.
    free = sf.Plan(steps=plan.steps, release={"drop": ["B", "ALL"]})
    assert free.run(data, seed=1).ok


def test_a_total_that_cant_both_be_kept_and_follow_is_refused() -> None:
    data = people()
    both = sf.RandomSwap(columns=["A", "SUB"], rate_percent=50)
    with pytest.raises(MaskError, match="leave SUB out"):
        both.mask(data, seed=1)
    assert sf.RandomSwap(columns=["A", "B", "SUB", "C", "ALL"], rate_percent=50, together=True).mask(data)


# -- the rule for every mask ----------------------------------------------------------------------


def test_totals_of_totals_follow() -> None:
    data = people()
    masked = sf.RandomSwap(columns=["A"], rate_percent=100).mask(data, seed=1).frame
    assert (masked["SUB"] == masked["A"] + masked["B"]).all()
    assert (masked["ALL"] == masked["A"] + masked["B"] + masked["C"]).all()
    assert masked["B"].equals(data.frame["B"])
    assert followers(data.schema, ["C"]) == ("ALL",)


def test_a_suppressed_part_takes_a_second_member_with_it_all_the_way_up() -> None:
    """By hand: A is blank in record 0. SUB − B would give it, so SUB goes; then ALL − C would give SUB."""
    data = people(5)
    masked, counts = follow(data, hidden(data, "A", slice(0, 1)), ["A"])
    assert masked.frame.row(0, named=True) == {
        **data.frame.row(0, named=True),
        "A": None,
        "SUB": None,
        "ALL": None,
    }
    assert masked.frame[1:].equals(data.frame[1:])
    assert counts == {"SUB": 1, "ALL": 1}
    assert derivable(data, masked, data.columns) == []


def test_a_suppressed_total_takes_a_part_with_it() -> None:
    data = people(5)
    masked, _ = follow(data, hidden(data, "ALL", slice(2, 3)), ["ALL"])
    assert masked.frame["C"].null_count() == 1
    assert derivable(data, masked, data.columns) == []


def test_local_suppression_suppresses_in_pairs() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 5, 300), rng.integers(0, 5, 300)
    frame = pl.DataFrame({"A": a, "B": b, "T": a + b, "G": rng.integers(0, 30, 300)})
    data = Microdata(frame, {"roles": {"keys": ["A", "G"]}, "variables": {"T": {"sum_of": ["A", "B"]}}})
    run = sf.Plan(steps=[sf.LocalSuppress(tolerance=3, importance=["G", "A"])]).run(data, seed=1)
    gone = run.masked.frame["A"].is_null()
    assert gone.sum() > 20
    assert run.masked.frame.filter(gone)["T"].null_count() == gone.sum()
    assert run.masked.frame.filter(~gone)["T"].null_count() == 0
    assert run.ok


def test_a_type_too_narrow_for_the_sum_is_named() -> None:
    frame = pl.DataFrame({"A": [100] + [1] * 9, "B": [1] * 9 + [100]}, schema={"A": pl.Int8, "B": pl.Int8})
    frame = frame.with_columns(T=(pl.col("A") + pl.col("B")).cast(pl.Int8))
    data = Microdata(frame, {"variables": {"T": {"sum_of": ["A", "B"]}}})
    swapped = data.with_columns({"A": data.column("A").reverse()})
    with pytest.raises(MaskError, match="T is Int8"):
        follow(data, swapped, ["A"])


@pytest.mark.parametrize("dtype", [pl.Int16, pl.UInt32, pl.Float32, pl.Float64, pl.Decimal(12, 2)])
def test_sums_of_every_type_follow(dtype: pl.DataType) -> None:
    data = people(50)
    data = Microdata(data.frame.cast(dtype), data.schema)
    masked = sf.RandomSwap(columns=["A"], rate_percent=100).mask(data, seed=1).frame
    assert masked.schema == data.frame.schema
    assert (masked["ALL"] == masked["A"] + masked["B"] + masked["C"]).all()


def test_a_ratio_follows_and_gives_nothing_back() -> None:
    """A ratio beside its numerator gives the denominator; a denominator that becomes zero leaves no ratio."""
    rng = np.random.default_rng(9)
    rent, income = rng.integers(1, 50, 300).astype(float), rng.integers(0, 20, 300) * 100.0
    share = [r / i if i else None for r, i in zip(rent, income, strict=True)]
    frame = pl.DataFrame({"RENT": rent, "INCOME": income, "SHARE": share})
    data = Microdata(frame, {"variables": {"SHARE": {"ratio_of": ["RENT", "INCOME"]}}})
    assert found(data, hidden(data, "INCOME")) == {"INCOME": int((income > 0).sum())}
    run = sf.Plan(steps=[sf.RandomSwap(columns=["INCOME"], rate_percent=100)]).run(data, seed=1)
    out = run.masked.frame
    assert run.ok
    zero = out["INCOME"] == 0
    assert out.filter(zero)["SHARE"].null_count() == zero.sum() > 0
    there = out.filter(~zero)
    assert there["SHARE"].null_count() == 0
    assert ((there["SHARE"] - there["RENT"] / there["INCOME"]).abs() < 1e-12).all()
    with pytest.raises(SfumatoError, match="RENT / INCOME gives it back"):
        sf.RandomSwap(columns=["SHARE"], rate_percent=50).mask(data, seed=1)


# -- what nobody declared -------------------------------------------------------------------------


def frame_of_secrets(n: int = 3000) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    income = np.rint(np.exp(rng.normal(10, 1, n)))
    age = rng.integers(18, 90, n)
    area = rng.integers(0, 6, n)
    born = np.datetime64("2024-06-01") - (age * 365.25 + rng.integers(0, 365, n)).astype("timedelta64[D]")
    spend, save = np.exp(rng.normal(8, 1, n)), np.exp(rng.normal(7, 1, n))
    return pl.DataFrame(
        {
            "INCOME": income,
            "PERCENTILE": np.argsort(np.argsort(income)) * 100 // n,
            "AGE": age,
            "BORN": pl.Series(born.astype("datetime64[D]")),
            "AREA": area,
            "WEIGHT": np.array([10.5, 20.25, 31.0, 44.5, 52.0, 61.0])[area],
            "SPENT": spend,
            "SAVED": save,
            "BUDGET": spend + save,
            "RATE": save / spend,
            "BENEFIT": np.where(rng.random(n) < 0.4, 0, rng.integers(1, 400, n)),
            "NOISE": rng.normal(size=n),
        }
    ).with_columns(HAS_BENEFIT=pl.col("BENEFIT") > 0)


@pytest.mark.parametrize(
    ("masked", "beside", "word"),
    [
        ("AGE", "BORN", "BORN"),
        ("INCOME", "PERCENTILE", "by rank"),
        ("AREA", "WEIGHT", "WEIGHT"),
        ("BENEFIT", "HAS_BENEFIT", "HAS_BENEFIT"),
        ("SPENT", "SAVED BUDGET", "together"),
        ("SPENT", "SAVED RATE", "in logs"),
    ],
)
def test_an_undeclared_rule_is_warned_of(masked: str, beside: str, word: str) -> None:
    frame = frame_of_secrets().select([masked, *beside.split(), "NOISE"])
    run = sf.Plan(steps=[sf.RandomSwap(columns=[masked], rate_percent=60)]).run(frame, seed=1)
    said = [w for w in run.warnings if w.startswith(f"{masked} is masked, but")]
    assert len(said) == 1
    assert word in said[0]
    assert "NOISE" not in said[0]
    # Once one of them isn't released, there is nothing to say.
    drop = [beside.split()[0]]
    again = sf.Plan(steps=run.plan.steps, release={"drop": drop}).run(frame, seed=1)
    assert not [w for w in again.warnings if "is masked, but" in w]


def test_a_households_total_beside_its_members_is_warned_of() -> None:
    rng = np.random.default_rng(4)
    home = np.repeat(np.arange(150), rng.integers(1, 5, 150))
    pay = rng.integers(100, 9000, len(home))
    total = np.bincount(home, weights=pay)[home]
    frame = pl.DataFrame({"HOME": home, "PAY": pay, "HOME_PAY": total})
    data = Microdata(frame, {"roles": {"household": "HOME"}})
    masked = data.with_columns({"PAY": data.column("PAY").shuffle(1)})
    assert predictable(data, masked, frame.columns) == [
        "PAY is masked, but HOME_PAY is released as it is, and is its sum over each household"
    ]


def test_ordinary_relations_are_no_alarm() -> None:
    """Correlated lognormal amounts with an outlier, age groups, zeros: nothing here gives a value away."""
    rng = np.random.default_rng(6)
    n = 3000
    skill = rng.normal(size=n)
    wage = np.exp(10 + skill + 0.3 * rng.normal(size=n))
    wealth = np.exp(9 + skill + 0.3 * rng.normal(size=n))
    wage[0], wealth[0] = 1e9, 2e9
    age = rng.integers(18, 90, n)
    frame = pl.DataFrame(
        {"WAGE": wage, "WEALTH": wealth, "AGE": age, "GROUP": age // 20, "RACE": rng.integers(0, 4, n)}
    )
    steps = [
        sf.RandomSwap(columns=["WAGE", "AGE"], rate_percent=50),
        sf.Pram(columns=["RACE"], keep_probability=0.6),
    ]
    run = sf.Plan(steps=steps).run(frame, seed=1)
    assert not [w for w in run.warnings if "is masked, but" in w]


def test_nothing_comes_back_from_nothing_by_nothing() -> None:
    frame = pl.DataFrame({"EXPORT": [0, 0, 30], "SALES": [50, 70, 60], "SHARE": [0.0, 0.0, 0.5]})
    schema = sf.Schema(variables={"SHARE": {"ratio_of": ["EXPORT", "SALES"]}})
    data = sf.Microdata(frame, schema)
    masked = data.with_columns({"SALES": pl.Series([51, 71, 61])})
    (found,) = derivable(data, masked, data.columns)
    assert (found.column, found.records, found.hidden) == ("SALES", 1, 3)
