"""Anybody's release: files made here as other tools make them; read, paired, attacked, judged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato import report
from sfumato.cli import main
from sfumato.draws import as_seed
from sfumato.errors import InputError, KeywordError, ParameterError
from sfumato.foreign.nearness import nearness
from sfumato.foreign.pairs import in_place
from sfumato.foreign.reading import in_classes, read_alike

N = 400


def people(seed: int = 0, n: int = N) -> pl.DataFrame:
    """Persons with correlated amounts: two keys, a code, two numbers, an id."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    pay = np.round(np.exp(8 + 0.01 * age + 0.6 * rng.normal(size=n)), 0)
    return pl.DataFrame(
        {
            "ID": [f"p{seed}-{i}" for i in range(n)],
            "AGE": age,
            "SEX": rng.choice(["f", "m"], n),
            "ZIP": [f"{z:05d}" for z in rng.integers(13000, 13040, n)],
            "PAY": pay.astype(np.int64),
            "RENT": np.round(pay * rng.uniform(0.1, 0.4, n), 2),
        }
    )


ROLES = sf.Schema(id="ID", keys=["AGE", "SEX", "ZIP"], sensitive=["PAY", "RENT"])
COLUMNS = ["AGE", "SEX", "ZIP", "PAY", "RENT"]


@pytest.fixture(scope="module")
def original() -> sf.Microdata:
    return sf.Microdata(people(), ROLES)


def shuffled(frame: pl.DataFrame, seed: int = 1) -> pl.DataFrame:
    return frame.sample(fraction=1.0, shuffle=True, seed=seed)


def resampled(frame: pl.DataFrame, seed: int = 5) -> pl.DataFrame:
    """Every column drawn by itself, with replacement: nobody's records."""
    return pl.DataFrame(
        {
            c: frame[c].sample(frame.height, with_replacement=True, seed=seed + i)
            for i, c in enumerate(frame.columns)
        }
    )


# -- reading ----------------------------------------------------------------------------------------


def test_a_file_written_by_another_tool_reads_as_the_original() -> None:
    """Columns reordered and renamed as R does, whole numbers as 1.0, codes as numbers, NA for nothing."""
    one = sf.Microdata(
        pl.DataFrame({"HOME VALUE": [10, 20, None], "CODE": ["01", "02", "10"], "OWN": [True, False, None]})
    )
    two = sf.Microdata(
        pl.DataFrame(
            {"code": [1.0, 10.0, 2.0], "OWN": ["TRUE", "NA", "FALSE"], "HOME.VALUE": ["10.0", "NA", "20"]}
        )
    )
    found = read_alike(one, two)
    assert found.released.frame.schema == one.frame.schema
    assert found.released.frame.rows() == [(10, "01", True), (None, "10", None), (20, "02", False)]


@pytest.mark.parametrize(
    ("labels", "inside"),
    [
        (["[20, 30[", "[30, 40["], [0, 0, 1]),  # ARX
        (["(19,29]", "(29,39]"], [0, 0, 1]),  # R's cut
        (["20-29", "30-39"], [0, 0, 1]),
        (["<30", ">=30"], [0, 0, 1]),
    ],
)
def test_an_own_list_goes_into_the_classes_of_the_release(labels: list[str], inside: list[int]) -> None:
    own = sf.Microdata(pl.DataFrame({"AGE": [21, 29, 30]}))
    released = sf.Microdata(pl.DataFrame({"AGE": labels}))
    assert in_classes(own, released, ["AGE"]).frame["AGE"].to_list() == [labels[i] for i in inside]


def test_redacted_codes_and_sets_are_classes_too() -> None:
    own = sf.Microdata(pl.DataFrame({"ZIP": ["13051", "14999"], "JOB": ["nurse", "smith"]}))
    released = sf.Microdata(pl.DataFrame({"ZIP": ["130**", "149**"], "JOB": ["{nurse, doctor}", "smith"]}))
    assert in_classes(own, released, ["ZIP", "JOB"]).frame.rows() == [
        ("130**", "{nurse, doctor}"),
        ("149**", "smith"),
    ]


def test_classes_that_overlap_are_read_as_the_mean_of_their_values() -> None:
    """Each record coarsened by itself: 25 stands beside [20, 30[."""
    one = sf.Microdata(pl.DataFrame({"AGE": [20, 22, 27, 50]}))
    found = read_alike(one, sf.Microdata(pl.DataFrame({"AGE": ["[20, 30[", "22", "*", "50"]})))
    assert found.released.frame["AGE"].to_list() == [23.0, 22.0, None, 50.0]  # (20 + 22 + 27) / 3 = 23
    assert any("overlap" in note for note in found.notes)


def test_a_star_that_the_original_has_is_a_value() -> None:
    one = sf.Microdata(pl.DataFrame({"GRADE": ["*", "a", "b"]}))
    assert read_alike(one, one).released.frame["GRADE"].to_list() == ["*", "a", "b"]


def test_files_without_a_common_column_are_refused() -> None:
    with pytest.raises(InputError, match="no column in common"):
        read_alike(sf.Microdata(pl.DataFrame({"A": [1]})), sf.Microdata(pl.DataFrame({"B": [1]})))


# -- whose record is whose --------------------------------------------------------------------------


def test_the_place_tells_only_where_the_values_bear_it_out(original: sf.Microdata) -> None:
    rng = np.random.default_rng(2)
    noisy = original.frame.with_columns((pl.col("PAY") * rng.lognormal(0, 0.2, N)).alias("PAY"))
    assert in_place(original, sf.Microdata(noisy), COLUMNS)[0] is not None
    assert in_place(original, sf.Microdata(shuffled(noisy)), COLUMNS)[0] is None
    assert in_place(original, sf.Microdata(resampled(noisy)), COLUMNS)[0] is None


def test_files_sorted_alike_are_not_taken_for_pairs() -> None:
    """Two samples of strangers, both sorted: neighbours have as much in common as places."""
    one, two = (sf.Microdata(people(s).sort("AGE", "PAY")) for s in (11, 12))
    assert in_place(one, two, COLUMNS)[0] is None


def test_one_row_left_out_in_the_middle_breaks_the_place(original: sf.Microdata) -> None:
    """And one added at the end: as many records, half of them shifted by one."""
    frame = original.frame
    moved = pl.concat([frame[: N // 2], frame[N // 2 + 1 :], frame[:1]])
    links, why = in_place(original, sf.Microdata(moved), COLUMNS)
    assert links is None
    assert "a part of the file" in why


# -- nearness ---------------------------------------------------------------------------------------


def test_nearness_is_all_of_a_copy_and_nothing_of_strangers(original: sf.Microdata) -> None:
    draws = as_seed(9).draws("test")
    holdout = sf.Microdata(people(21), ROLES)
    for others in (None, holdout):
        copy = nearness(original, original, COLUMNS, draws, others)
        assert copy.share > 0.95
        fresh = nearness(original, sf.Microdata(people(22), ROLES), COLUMNS, draws, others)
        # The threshold is learnt on other persons, so that the expectation is 0: three standard errors.
        assert fresh.share <= 3 * np.sqrt(0.5 / N)


# -- the verdict ------------------------------------------------------------------------------------


def test_a_shuffled_copy_is_found_by_its_id(original: sf.Microdata) -> None:
    found = sf.evaluate(original, shuffled(original.frame), id="ID")
    battery = found["battery"]
    # All five columns are unchanged: everybody alone with them is found.
    alone = original.frame.select(COLUMNS).n_unique() / N
    assert battery.rate == pytest.approx(alone, abs=0.02)
    assert battery.gain > 0.9
    assert not found.verdict.safe
    assert isinstance(found, sf.Results)
    assert found["closest_record"].value > 0.95
    assert found["analyst_loss"].value == pytest.approx(0.0, abs=1e-9)
    # The roles name the column even if nobody does; but then it is in the file that goes out.
    unnamed = sf.evaluate(original, shuffled(original.frame))
    assert unnamed.run.paired
    assert "ID stands in the released file" in unnamed.verdict.text
    assert "ID stands" not in found.verdict.text


def test_ids_that_were_numbered_anew_are_not_believed(original: sf.Microdata) -> None:
    """Shuffled and given the same ids in order: by the id everybody would be somebody else."""
    anew = shuffled(original.frame).with_columns(original.frame["ID"])
    rng = np.random.default_rng(8)
    noisy = anew.with_columns((pl.col("PAY") * rng.lognormal(0, 0.3, N)).round(0))
    for released in (anew, noisy):
        found = sf.evaluate(original, released, id="ID")
        assert not found.run.paired
        assert any("numbered anew" in note for note in found.notes)
        assert not found.verdict.safe


def test_households_left_as_they_were_are_told() -> None:
    frame = people().with_columns(pl.Series("HH", np.arange(N) // 3 + 1000))
    roles = sf.Schema(id="ID", household="HH", keys=["AGE", "SEX"], sensitive=["PAY", "RENT"])
    lax = {"battery.rate": {"at_most": 1.0}}
    released = shuffled(frame)
    found = sf.evaluate(sf.Microdata(frame, roles), released, id="ID", limits=lax)
    assert not found.verdict.safe
    assert "HH stands in the released file" in found.verdict.text
    anew = released.with_columns(pl.col("HH") + 100_000)
    assert sf.evaluate(sf.Microdata(frame, roles), anew, id="ID", limits=lax).verdict.safe


def test_a_shuffled_copy_without_an_id_is_never_safe(original: sf.Microdata) -> None:
    found = sf.evaluate(original, shuffled(original.frame).drop("ID"))
    assert not found.run.paired
    # Nobody can count what changed where it isn't known whose record is whose.
    assert found.run.summary()["steps"][0]["touched"] == {}
    assert not found.verdict.safe
    assert found["battery"].rate > 0.95  # by nearness alone
    assert any("whose record is whose" in text for text in found.verdict.do)


def test_strong_masking_without_an_id_is_not_known_rather_than_safe(original: sf.Microdata) -> None:
    """No truth and no holdout: nothing near, but nobody can count, so it isn't called safe."""
    found = sf.evaluate(original, resampled(original.frame.drop("ID")))
    assert not found.verdict.safe
    assert np.isnan(found["battery"].rate)
    assert "couldn't be measured" in found.verdict.text


def test_a_synthetic_file_is_judged_against_a_holdout() -> None:
    n = 2_000  # of fewer persons a share of 5 percent can't be told from nothing
    original = sf.Microdata(people(30, n), ROLES)
    holdout = people(31, n)
    made = resampled(original.frame.drop("ID"))
    good = sf.evaluate(original, made, synthetic=True, holdout=holdout)
    assert good.verdict.safe, good.verdict.text
    assert "group" not in good["battery"].figures
    # A bootstrap of whole records is no synthesis: 1 − 1/e of the persons are in it.
    copied = original.frame.drop("ID").sample(n, with_replacement=True, seed=7)
    bad = sf.evaluate(original, copied, synthetic=True, holdout=holdout)
    assert not bad.verdict.safe
    there = copied.unique().join(original.frame, on=COLUMNS).height / n
    assert bad["battery"].rate == pytest.approx(there, abs=0.05)
    assert bad["battery"].gain > 0.3
    # Without a holdout the gain isn't known, and what isn't measured doesn't hold.
    alone = sf.evaluate(original, made, synthetic=True)
    assert not alone.verdict.safe
    assert any("holdout" in text for text in alone.verdict.do)


@pytest.mark.parametrize("size", [150, 900])
def test_a_file_of_another_length_has_its_report(original: sf.Microdata, size: int) -> None:
    """Nothing in the report may lay row i beside row i: neither displacements nor groups nor changes."""
    made = resampled(original.frame.drop("ID")).sample(size, with_replacement=True, seed=3)
    found = sf.evaluate(original, made, synthetic=True, holdout=people(35))
    summary = found.summary()
    assert "Approval" in report.html(summary)
    assert "VERDICT" in report.brief(summary)
    assert report.text(summary)
    assert summary["board"]["groups"] == []
    assert not any("displacement" in c for c in summary["pictures"]["columns"])
    assert found.plot("columns").charts
    assert found.plot("correlations").charts


def test_calling_a_slightly_noisy_file_synthetic_does_not_help(original: sf.Microdata) -> None:
    rng = np.random.default_rng(4)
    noisy = shuffled(
        original.frame.drop("ID").with_columns(
            (pl.col("PAY") * rng.lognormal(0, 0.02, N)).round(0).cast(pl.Int64), pl.col("RENT") * 1.01
        )
    )
    found = sf.evaluate(original, noisy, synthetic=True, holdout=people(33))
    assert not found.verdict.safe
    assert found["battery"].rate > 0.3


def test_a_holdout_that_holds_the_persons_is_refused(original: sf.Microdata) -> None:
    with pytest.raises(InputError, match="holdout"):
        sf.evaluate(original, original, synthetic=True, holdout=original.frame)


def test_fewer_and_more_records_by_id(original: sf.Microdata) -> None:
    """A sample of the persons with strangers among them: those with an id of the original are compared."""
    released = shuffled(pl.concat([original.frame.head(250), people(41).head(80)]))
    found = sf.evaluate(original, released, id="ID")
    assert len(found.run.masked) == 250
    assert any("150 persons" in note for note in found.notes)
    assert any("80 released records" in note for note in found.notes)
    assert not found.verdict.safe


def test_recoded_and_suppressed_as_by_arx(original: sf.Microdata) -> None:
    """Ages in classes, zip codes cut to three digits, one key hidden: the attacks see through the classes."""
    low = (pl.col("AGE") // 20) * 20
    text = pl.concat_str(pl.lit("["), low, pl.lit(", "), low + 20, pl.lit("["))
    arx = original.frame.with_columns(
        text.alias("AGE"), (pl.col("ZIP").str.slice(0, 3) + "**").alias("ZIP"), pl.lit("*").alias("SEX")
    )
    found = sf.evaluate(original, shuffled(arx), id="ID")
    # PAY and RENT stand as they were: nearly everybody is found by them, whatever was done to the keys.
    assert found["battery"].rate > 0.9
    assert not found.verdict.safe
    # The least group is that of the classes: counted here by hand.
    least = arx.group_by("AGE", "ZIP").len()["len"].min()
    assert found["battery"].group == least
    keys_only = sf.evaluate(original, shuffled(arx), id="ID", known=["AGE", "ZIP", "SEX"], block_on=[])
    groups = arx.group_by("AGE", "ZIP", "SEX").len().height
    # Whoever knows the keys alone finds one of each class at best, whatever he does.
    assert keys_only["battery"].breakdown.filter(pl.col("finds") == "records")["rate"].max() <= (
        groups / N + 3 * np.sqrt(groups) / N
    )


def test_noise_in_place_without_an_id(original: sf.Microdata) -> None:
    rng = np.random.default_rng(6)
    noisy = original.frame.drop("ID").with_columns(
        (pl.col("PAY") + rng.normal(0, 0.3 * float(original.frame["PAY"].std()), N)).alias("PAY")  # type: ignore[arg-type]
    )
    found = sf.evaluate(original, noisy)
    assert found.run.paired
    assert any("original order" in note for note in found.notes)
    assert "information_loss" in found
    assert not found.verdict.safe


def test_limits_and_roles_of_ones_own(original: sf.Microdata) -> None:
    made = resampled(original.frame.drop("ID"))
    lax = {"battery.rate": {"at_most": 1.0}}
    assert sf.evaluate(original, shuffled(original.frame), id="ID", limits=lax).verdict.safe
    strict = {"battery.rate": {"at_most": -0.001}}
    assert not sf.evaluate(original, made, synthetic=True, limits=strict).verdict.safe


def test_bad_input_is_told_in_words(original: sf.Microdata) -> None:
    with pytest.raises(ParameterError, match="INCOM"):
        sf.evaluate(original, original, known=["INCOM"])
    with pytest.raises(KeywordError, match="did you mean 'synthetic'"):
        sf.evaluate(original, original, synthetc=True)
    with pytest.raises(InputError, match="no column 'KEY'"):
        sf.evaluate(original, original, id="KEY")
    with pytest.raises(InputError, match="no records"):
        sf.evaluate(original, original.frame.head(0))


# -- the command ------------------------------------------------------------------------------------


def test_the_command_has_one_report_and_exit_codes(
    tmp_path: Path, original: sf.Microdata, capsys: pytest.CaptureFixture[str]
) -> None:
    original.frame.write_csv(tmp_path / "people.csv")
    released = shuffled(original.frame).with_columns(pl.col("SEX").replace({"f": "<script>"}))
    released.write_csv(tmp_path / "masked.csv")
    people(32).write_csv(tmp_path / "made.csv")
    people(31).write_csv(tmp_path / "others.csv")
    files = ["--original", str(tmp_path / "people.csv")]
    out = tmp_path / "report.html"
    code = main(
        ["attack", *files, "--released", str(tmp_path / "masked.csv"), "--id", "ID", "--out", str(out)]
    )
    text = capsys.readouterr().out
    assert code == 1
    assert text.startswith("VERDICT: NOT SAFE")
    page = out.read_text()
    assert "A release made elsewhere" in page
    assert "<script" not in page
    assert "Approval" in page
    made = [
        "--released",
        str(tmp_path / "made.csv"),
        "--synthetic",
        "--holdout",
        str(tmp_path / "others.csv"),
    ]
    assert main(["attack", *files, *made, "--json", "--max-risk", "0.2"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is True
    assert {r["name"] for r in said["results"]} >= {"battery", "closest_record", "analyst_loss", "propensity"}
    assert main(["attack", *files, "--released", str(tmp_path / "none.csv")]) == 2
    assert main(["attack", "--released", str(tmp_path / "made.csv")]) == 2
    assert main(["attack", *files]) == 2
    assert main(["attack", *files, *made, "--out", str(tmp_path / "people.csv"), "--overwrite"]) == 2


@pytest.mark.parametrize(("made", "safe"), [("AGED", False), ("NUMBER", True), ("WAVE", True)])
def test_a_column_that_nobody_looked_at_is_never_safe(original: sf.Microdata, made: str, safe: bool) -> None:
    """An age under another name is still an age; a running number and a constant tell nothing."""
    frame, n = original.frame, len(original)
    column = {"AGED": frame["AGE"], "NUMBER": pl.Series(range(n, 0, -1)), "WAVE": pl.Series([7] * n)}[made]
    released = frame.drop("ID", "AGE").with_columns(column.alias(made))
    lax = {"battery.rate": {"at_most": 1.0}}
    found = sf.evaluate(original, released, limits=lax)
    assert found.verdict.safe is safe
    if not safe:
        assert f"nobody has looked at {made}" in found.verdict.reasons[0]
        assert found.verdict.do[0] == f"call {made} as the original file does, or drop it"
