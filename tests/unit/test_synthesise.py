"""Sequential synthesis: what it draws from, what it keeps, what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.mask import Mask, Notes
from sfumato.draws import Seed
from sfumato.errors import GuaranteeError, MaskError, ParameterError
from sfumato.masks.synthesise.guarantees import KnownValues, TotalsHold


def carried_out(mask: Mask, data: Any, seed: int = 1) -> tuple[pl.DataFrame, Notes]:
    data = data if isinstance(data, sf.Microdata) else sf.Microdata(data)
    masked, notes, _ = mask.carry_out(data, Seed.from_int(seed).draws(mask.name))
    return masked.frame, notes


@pytest.fixture(scope="module")
def people() -> sf.Microdata:
    """Wages that depend on sex and age, a bonus that many don't have, missing values of three kinds."""
    rng = np.random.default_rng(5)
    n = 3000
    sex = rng.choice(["f", "m"], n, p=[0.6, 0.4])
    age = rng.integers(18, 80, n)
    wage = np.rint(1000 * np.exp(0.02 * age + 0.4 * (sex == "m") + 0.3 * rng.normal(size=n))).astype(np.int64)
    bonus = np.where(rng.random(n) < 0.7, 0, np.rint(0.1 * wage * rng.random(n))).astype(np.int64)
    rent = np.rint(
        rng.gamma(2.0, 400.0, n),
    ).astype(np.float64)
    frame = pl.DataFrame({"SEX": sex, "AGE": age, "WAGE": wage, "BONUS": bonus, "RENT": rent})
    frame = frame.with_columns(
        TOTAL=pl.col("WAGE") + pl.col("BONUS"),
        RENT=pl.when(pl.col("AGE") > 70).then(None).when(pl.col("AGE") > 65).then(-9.0).otherwise("RENT"),
    )
    return sf.Microdata(
        frame, sf.Schema(variables={"TOTAL": {"sum_of": ["WAGE", "BONUS"]}, "RENT": {"missing": [-9]}})
    )


ALL = ("SEX", "AGE", "WAGE", "BONUS", "RENT", "TOTAL")


# -- the law of the draws -------------------------------------------------------------------------


def test_the_first_column_is_dealt_out_anew() -> None:
    """Balanced draws from one leaf of n donors for n rows: every record exactly once."""
    data = pl.DataFrame({"A": np.arange(500)})
    out, _ = carried_out(sf.Synthesise(columns=["A"], blur=0), data)
    assert sorted(out["A"]) == list(range(500))
    assert (out["A"] != data["A"]).sum() > 450


def test_each_row_gets_each_value_equally_often() -> None:
    """Over many seeds a row has each of the ten values with probability 1/10."""
    data = pl.DataFrame({"A": np.arange(40) % 10})
    mask = sf.Synthesise(columns=["A"], blur=0)
    drawn = np.array([carried_out(mask, data, s)[0]["A"].to_numpy() for s in range(400)])
    share = np.array([(drawn == v).mean(axis=0) for v in range(10)])
    error = np.sqrt(0.1 * 0.9 / 400)
    assert np.abs(share - 0.1).max() < 5 * error


def test_the_table_of_two_categories_is_kept_to_its_sampling_error() -> None:
    """Given the first column, the second is drawn from its own row of the table."""
    rng = np.random.default_rng(0)
    n = 6000
    a = rng.choice(list("abcd"), n, p=[0.4, 0.3, 0.2, 0.1])
    p = {"a": 0.1, "b": 0.9, "c": 0.2, "d": 0.5}
    b = np.where(rng.random(n) < np.array([p[v] for v in a]), "yes", "no")
    data = pl.DataFrame({"A": a, "B": b})
    out, _ = carried_out(sf.Synthesise(columns=["A", "B"], blur=0), data)
    for value in "abcd":
        before = (data.filter(pl.col("A") == value)["B"] == "yes").mean()
        after = out.filter(pl.col("A") == value)["B"]
        error = np.sqrt(before * (1 - before) / len(after))
        assert abs((after == "yes").mean() - before) < 4 * error


def test_relations_zeros_and_missing_values_are_kept(people: sf.Microdata) -> None:
    out, _ = carried_out(sf.Synthesise(columns=ALL), people)
    new = sf.Microdata(out, people.schema)
    n = len(people)
    for before, after in ((people, new),):
        assert abs((after.column("BONUS") == 0).mean() - (before.column("BONUS") == 0).mean()) < 0.03
        assert abs(after.missing("RENT").mean() - before.missing("RENT").mean()) < 4 * np.sqrt(0.2 / n)
    # Only the old have no rent: nulls above 70, the code from 66 to 70. Leaves of 20 may straddle a cut.
    young = out.filter(pl.col("AGE") < 60)
    assert young["RENT"].null_count() == 0
    assert (young["RENT"] == -9).sum() == 0
    assert out.filter(pl.col("AGE") > 75)["RENT"].null_count() == out.filter(pl.col("AGE") > 75).height

    def slope(f: pl.DataFrame) -> float:
        return float(np.corrcoef(f["AGE"].to_numpy(), np.log(f["WAGE"].to_numpy()))[0, 1])

    assert slope(out) == pytest.approx(slope(people.frame), abs=0.05)


def test_no_row_belongs_to_anybody(people: sf.Microdata) -> None:
    """A wage is no nearer to that of the record in its place than to any other's."""
    out, _ = carried_out(sf.Synthesise(columns=ALL), people)
    r = np.corrcoef(out["WAGE"].to_numpy(), people.frame["WAGE"].to_numpy())[0, 1]
    assert abs(r) < 4 / np.sqrt(len(people))


def test_columns_that_stay_are_looked_at(people: sf.Microdata) -> None:
    partly, _ = carried_out(sf.Synthesise(columns=["WAGE", "BONUS"]), people)
    assert partly["AGE"].equals(people.frame["AGE"])
    r = np.corrcoef(partly["WAGE"].to_numpy(), people.frame["AGE"].to_numpy())[0, 1]
    blind, _ = carried_out(sf.Synthesise(columns=["WAGE", "BONUS"], predictors=[]), people)
    none = np.corrcoef(blind["WAGE"].to_numpy(), people.frame["AGE"].to_numpy())[0, 1]
    assert r > 0.5
    assert abs(none) < 4 / np.sqrt(len(people))


# -- sums, blur, copies ---------------------------------------------------------------------------


def test_a_total_is_added_up_again_whether_it_is_named_or_not(people: sf.Microdata) -> None:
    for columns in (ALL, ("WAGE", "SEX"), ("BONUS",)):
        mask = sf.Synthesise(columns=columns)
        assert "TOTAL" in mask.changes(people)
        out, _ = carried_out(mask, people)
        assert (out["TOTAL"] == out["WAGE"] + out["BONUS"]).all()


def test_a_total_alone_is_refused(people: sf.Microdata) -> None:
    with pytest.raises(MaskError, match="would tell it"):
        carried_out(sf.Synthesise(columns=["TOTAL"]), people)


def test_what_a_total_holds_beyond_its_parts_is_drawn_too(people: sf.Microdata) -> None:
    rng = np.random.default_rng(1)
    extra = np.where(rng.random(len(people)) < 0.3, 1000 + rng.integers(0, 50, len(people)), 0)
    data = people.with_columns({"TOTAL": people.column("TOTAL") + pl.Series(extra)})
    out, _ = carried_out(sf.Synthesise(columns=ALL), data)
    rest = (out["TOTAL"] - out["WAGE"] - out["BONUS"]).to_numpy()
    assert abs((rest == 0).mean() - (extra == 0).mean()) < 0.04
    assert (rest[rest != 0] >= 1000).all()
    assert rest.max() <= extra.max()


def test_a_total_with_missing_parts() -> None:
    """Complete records add up; an incomplete one has a total or none, as incomplete ones had."""
    rng = np.random.default_rng(2)
    n = 600
    a, b = rng.integers(1, 100, n).astype(float), rng.integers(1, 100, n).astype(float)
    gone = rng.random(n) < 0.2
    total = np.where(gone & (rng.random(n) < 0.5), np.nan, a + b)
    frame = pl.DataFrame({"A": np.where(gone, np.nan, a), "B": b, "T": total}).fill_nan(None)
    data = sf.Microdata(frame, sf.Schema(variables={"T": {"sum_of": ["A", "B"]}}))
    out, _ = carried_out(sf.Synthesise(columns=["A", "B", "T"]), data)
    complete = out.filter(pl.col("A").is_not_null())
    assert (complete["T"] == complete["A"] + complete["B"]).all()
    missing = out.filter(pl.col("A").is_null())["T"].null_count() / out["A"].null_count()
    assert abs(missing - 0.5) < 4 * np.sqrt(0.25 / out["A"].null_count())


def test_no_rare_number_is_released(people: sf.Microdata) -> None:
    """With blur 3, whatever amount stands in the release is not one of fewer than three records."""
    before = people.frame["WAGE"].value_counts().filter(pl.col("count") < 3)["WAGE"]
    for blur, told in ((0, True), (3, False)):
        out, _ = carried_out(sf.Synthesise(columns=ALL, blur=blur), people)
        share = out["WAGE"].is_in(before.implode()).mean()
        assert (share > 0.8) == told
        # A rounded mean may fall on somebody's value by chance; the largest is nobody's.
        assert (out["WAGE"].max() == people.frame["WAGE"].max()) == told


def test_hardly_a_row_is_one_record(people: sf.Microdata) -> None:
    """All five values from one donor: at most leaf^−4 of the rows, and none of 3,000."""
    _, notes = carried_out(sf.Synthesise(columns=ALL), people)
    assert notes.figures["records_with_all_values_of_one_donor"] == 0
    _, notes = carried_out(sf.Synthesise(columns=["AGE", "WAGE"], leaf=2, blur=0, predictors=[]), people)
    assert notes.figures["records_with_all_values_of_one_donor"] <= 3000 / 2 + 4 * np.sqrt(3000) / 2


def test_shares_are_kept_whatever_is_blurred(people: sf.Microdata) -> None:
    """A column that depends on nothing has its shares again, to the rows' scatter over leaves."""
    zero = (people.frame["BONUS"] == 0).mean()
    for columns in (("AGE", "BONUS"), ("SEX", "AGE", "WAGE", "BONUS")):
        out, _ = carried_out(sf.Synthesise(columns=columns, predictors=[]), people)
        assert (out["BONUS"] == 0).mean() == pytest.approx(zero, abs=0.01)


# -- strata, risky records, households, flags -----------------------------------------------------


def test_nothing_crosses_strata() -> None:
    data = pl.DataFrame({"S": ["n"] * 100 + ["s"] * 100, "A": [*range(100), *range(1000, 1100)]})
    out, _ = carried_out(sf.Synthesise(columns=["A"], within=["S"], predictors=[], blur=0), data)
    assert (out["A"][:100] < 200).all()
    assert (out["A"][100:] >= 1000).all()
    with pytest.raises(MaskError, match=r"2 strata have fewer than leaf = 20 records \(the smallest has 1"):
        carried_out(sf.Synthesise(columns=["A"], within=["S"]), pl.concat([data[0:30], data[100:110],
                    pl.DataFrame({"S": ["w"], "A": [5]})]))  # fmt: skip


def test_only_risky_records_are_synthesised(people: sf.Microdata) -> None:
    keys = ("SEX", "AGE")
    count = people.frame.select(pl.len().over(keys)).to_series()
    mask = sf.Synthesise(columns=["WAGE", "BONUS", "RENT"], keys=keys, tolerance=20)
    out, _ = carried_out(mask, people)
    risky = count < 20
    assert 0 < risky.sum() < len(people) / 2
    assert out.filter(~risky).equals(people.frame.filter(~risky))
    assert (out.filter(risky)["WAGE"] != people.frame.filter(risky)["WAGE"]).mean() > 0.9


def test_households_share_what_they_shared_and_keep_their_relations() -> None:
    """Region is the household's, the second member's age follows the first's, and no pair stays whole."""
    rng = np.random.default_rng(4)
    homes = 1500
    size = rng.choice([1, 2, 3], homes, p=[0.3, 0.5, 0.2])
    home = np.repeat(np.arange(homes), size)
    place = np.concatenate([np.arange(s) for s in size])
    head = rng.integers(25, 75, homes)[home]
    age = np.where(place == 0, head, np.where(place == 1, head + rng.integers(-3, 4, len(home)), head - 20))
    region = rng.choice(["e", "w"], homes)[home]
    frame = pl.DataFrame({"HH": home, "REGION": region, "AGE": age})
    data = sf.Microdata(frame, sf.Schema(household="HH"))
    out, _ = carried_out(sf.Synthesise(columns=["REGION", "AGE"]), data)
    assert out.group_by("HH").agg(pl.col("REGION").n_unique())["REGION"].max() == 1

    def ages(f: pl.DataFrame, member: int) -> np.ndarray:
        of = f.with_columns(place=pl.int_range(pl.len()).over("HH"), n=pl.len().over("HH"))
        return of.filter((pl.col("n") == 3) & (pl.col("place") == member))["AGE"].to_numpy()

    for other in (1, 2):
        assert np.corrcoef(ages(frame, 0), ages(frame, other))[0, 1] > 0.98
        assert np.corrcoef(ages(out, 0), ages(out, other))[0, 1] > 0.9
    assert (ages(out, 0) > ages(out, 2)).mean() > 0.98
    # The household in a household's place has nothing of it.
    assert abs(np.corrcoef(ages(frame, 0), ages(out, 0))[0, 1]) < 4 / np.sqrt(len(ages(out, 0)))
    person_wise = data.with_roles(household=None)
    torn, _ = carried_out(sf.Synthesise(columns=["REGION", "AGE"], predictors=[]), person_wise)
    assert torn.group_by("HH").agg(pl.col("REGION").n_unique())["REGION"].max() == 2


def test_a_flag_of_imputed_values_travels_with_them() -> None:
    data = sf.Microdata(
        pl.DataFrame({"A": np.repeat([1, 2], 200), "FLAG": np.repeat([0, 1], 200)}),
        sf.Schema(variables={"A": {"imputed": "FLAG"}}),
    )
    out, _ = carried_out(sf.Synthesise(columns=["A"]), data)
    assert (out["FLAG"] == (out["A"] == 2).cast(pl.Int64)).all()


# -- refusals and promises ------------------------------------------------------------------------


def test_bad_parameters_and_files_are_refused(people: sf.Microdata) -> None:
    with pytest.raises(ParameterError, match="within itself"):
        sf.Synthesise(columns=["A"], within=["A"])
    with pytest.raises(ParameterError, match="`blur` can't be 1"):
        sf.Synthesise(columns=["A"], blur=1)
    with pytest.raises(MaskError, match="3 records can't fill a leaf of 20"):
        carried_out(sf.Synthesise(columns=ALL), people.slice(0, 3))
    endless = pl.DataFrame({"A": [1.0, np.inf] * 30})
    with pytest.raises(MaskError, match="A has infinite values"):
        carried_out(sf.Synthesise(columns=["A"]), endless)
    nested = pl.DataFrame({"A": [[1]] * 30})
    with pytest.raises(MaskError, match="no tree can look at"):
        carried_out(sf.Synthesise(columns=["A"]), nested)


def test_guarantees_catch_what_breaks_them(people: sf.Microdata) -> None:
    out = sf.Synthesise(columns=ALL).mask(people, seed=1)
    drawn = ("SEX", "AGE", "WAGE", "BONUS", "RENT")
    strange = out.with_columns({"WAGE": out.column("WAGE") + 1_000_000})
    assert KnownValues(drawn, (), 3).failure(people, out) is None
    assert "no original record has" in str(KnownValues(drawn, (), 3).failure(people, strange))
    assert "no original record has" in str(KnownValues(drawn, (), 3).failure(people, people))
    assert "broken in 3,000 records" in str(TotalsHold("TOTAL", ("WAGE", "BONUS")).failure(people, strange))


def test_a_broken_mask_releases_nothing(people: sf.Microdata, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sf.Synthesise, "_apply", lambda self, data, draws, notes: data)
    with pytest.raises(GuaranteeError, match="broke its guarantee"):
        sf.Synthesise(columns=ALL).mask(people, seed=1)


# -- the measure ----------------------------------------------------------------------------------


def sample(seed: int, n: int = 1500) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    f = rng.normal(size=n)
    return pl.DataFrame(
        {"A": np.exp(f + rng.normal(size=n)), "B": f + rng.normal(size=n),
         "C": np.where(f + rng.normal(size=n) > 0, "x", "y"), "D": rng.normal(size=n)}
    )  # fmt: skip


def test_a_fresh_sample_is_as_near_as_the_people_are_to_each_other() -> None:
    result = sf.ClosestRecord().measure(sample(1), sample(2))
    assert abs(result.value - 0.5) < 4 * np.sqrt(0.25 / 1500) * 1.5
    assert result.copies == 0


def test_copies_and_near_copies_are_found() -> None:
    people = sample(1)
    near = people.with_columns(pl.col("A", "B", "D") + 1e-4)
    assert sf.ClosestRecord().measure(people, near).value > 0.95
    half = pl.concat([people[:750], sample(2)[750:]])
    assert sf.ClosestRecord().measure(people, half).copies == 750


def test_the_holdout_shows_what_is_remembered(tmp_path: Path) -> None:
    """Leaves of 2 remember; leaves of 50 hardly do; a copy does wholly. The holdout is never masked."""
    people, others = sample(1), sample(3)
    others.write_parquet(tmp_path / "others.parquet")
    measure = sf.ClosestRecord(holdout=str(tmp_path / "others.parquet"))
    shares = {}
    for leaf in (2, 50):
        out = sf.Synthesise(columns=people.columns, leaf=leaf, blur=0).mask(people, seed=1)
        shares[leaf] = measure.measure(people, out).value
    error = np.sqrt(0.25 / 1500)
    assert shares[2] > 0.5 + 6 * error
    assert shares[2] > shares[50] + 3 * error
    assert measure.measure(people, people).value == 1.0
    assert abs(measure.measure(people, sample(4)).value - 0.5) < 4 * error
