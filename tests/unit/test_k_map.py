"""k-map and δ-presence: by hand, with a population file, with weights, after a plan's recodes."""

from __future__ import annotations

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import MeasureError, SfumatoError


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    pl.DataFrame({"AGE": [31, 32, 33, 41, 42, 55], "SEX": list("fmffmm")}).write_csv(path)
    return str(path)


SAMPLE = sf.Microdata(pl.DataFrame({"AGE": [31, 41, 42], "SEX": list("ffm")})).with_roles(keys=["AGE", "SEX"])


def test_k_map_counts_in_the_population(people):
    sex = sf.measure(SAMPLE, sf.KMap(k=3, keys=["SEX"], population=people))[0]
    assert sex.confidential["population_frequencies"].tolist() == [3, 3, 3]
    assert (sex.value, sex.achieved, sex.counted) == (0, 3, True)
    both = sf.measure(SAMPLE, sf.KMap(k=2, population=people))[0]
    assert (both.value, both.population_uniques) == (3, 3)


def test_a_plan_s_recodes_reach_the_population(people, tmp_path):
    data = tmp_path / "sample.csv"
    SAMPLE.frame.write_csv(data)
    (tmp_path / "plan.toml").write_text(
        'format = 1\ndata = "sample.csv"\n[roles]\nkeys = ["AGE", "SEX"]\n'
        '[[step]]\nmask = "recode"\ncolumn = "AGE"\nwidth = 10\n'
        '[[measure]]\nmeasure = "k_map"\nk = 2\npopulation = "people.csv"\n'
        '[[measure]]\nmeasure = "delta_presence"\nhighest = 0.5\npopulation = "people.csv"\n'
    )
    run = sf.Plan.load(tmp_path / "plan.toml").run(seed=1)
    # 30-39 f: two people; 40-49 f and m: one each.
    assert run.results["k_map"].confidential["population_frequencies"].tolist() == [2, 1, 1]
    assert run.results["k_map"].value == 2
    assert run.results["delta_presence"].confidential["presence"].tolist() == [0.5, 1.0, 1.0]


def test_another_population_is_the_unsafe_side_and_told(people):
    strange = SAMPLE.with_columns({"AGE": pl.Series([31, 99, 98])})
    found = sf.measure(strange, sf.KMap(k=2, population=people))[0]
    assert found.value == 3
    assert found.achieved == 0
    assert "isn't the population" in found.notes[0]


def test_weights_stand_for_people():
    data = SAMPLE.with_columns({"W": pl.Series([5.0, 2.0, 1.0])}).with_roles(weight="W")
    found = sf.measure(data, sf.KMap(k=3, keys=["SEX"]))[0]
    assert found.confidential["population_frequencies"].tolist() == [7, 7, 1]
    assert (found.value, found.achieved) == (1, 1)
    presence = sf.measure(data, sf.DeltaPresence(keys=["SEX"], highest=0.3))[0]
    assert presence.confidential["presence"].tolist() == pytest.approx([2 / 7, 2 / 7, 1])
    assert presence.value == 1


def test_presence_over_the_population(people):
    found = sf.measure(SAMPLE, sf.DeltaPresence(keys=["SEX"], lowest=0.4, highest=0.6, population=people))[0]
    # Three women, two of them in the file; three men, one of them.
    assert found.confidential["presence"].tolist() == pytest.approx([2 / 3, 2 / 3, 1 / 3])
    assert (found.value, found.people_outside, found.people) == (3, 6, 6)
    assert (found.maximum, found.minimum) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    wide = sf.measure(SAMPLE, sf.DeltaPresence(lowest=0.1, highest=1.0, population=people))[0]
    # Nobody of the file is outside, but the ages that it lacks have probability 0.
    assert (wide.value, wide.people_outside, wide.minimum) == (0, 3, 0.0)


def test_what_is_refused(people, tmp_path):
    with pytest.raises(MeasureError, match="know the population"):
        sf.measure(SAMPLE, sf.KMap())
    with pytest.raises(MeasureError, match="know the population"):
        sf.measure(SAMPLE, sf.DeltaPresence())
    weighted = SAMPLE.with_columns({"W": pl.Series([5.0, 2.0, 1.0])}).with_roles(weight="W")
    with pytest.raises(MeasureError, match="aren't in the file"):
        sf.measure(weighted, sf.DeltaPresence(lowest=0.1))
    with pytest.raises(MeasureError, match="below"):
        sf.measure(SAMPLE, sf.DeltaPresence(lowest=0.6, highest=0.5, population=people))
    with pytest.raises(SfumatoError, match="nowhere"):
        sf.measure(SAMPLE, sf.KMap(population=str(tmp_path / "nowhere.csv")))
    other = SAMPLE.with_columns({"AREA": pl.Series([1, 2, 3])})
    with pytest.raises(SfumatoError, match="AREA"):
        sf.measure(other, sf.KMap(keys=["AREA"], population=people))
