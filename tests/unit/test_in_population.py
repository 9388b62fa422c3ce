"""A sample's combinations counted in a population, against comparing all pairs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells import CellTable
from sfumato.cells.population import check_population, in_population, population_counts
from sfumato.errors import MeasureError

ROW = st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from([1, 2, None]))
ROWS = st.lists(ROW, min_size=1, max_size=12)


def table(rows, missing):
    frame = pl.DataFrame(rows, schema={"x": pl.String, "y": pl.Int64}, orient="row")
    return CellTable.of(sf.Microdata(frame), ["x", "y"], missing=missing)


def agree(one, two, missing):
    if missing == "category":
        return one == two
    return all(a is None or b is None or a == b for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("missing", ["matches_anything", "category"])
@given(ROWS, ROWS)
@settings(max_examples=60, deadline=None)
def test_both_sides_count_the_other(missing, sample, population):
    few, many = table(sample, missing), table(population, missing)
    found = in_population(few, many)
    want = [sum(agree(r, p, missing) for p in population) for r in sample]
    assert few.at_records(found.matches).tolist() == want
    present = [sum(agree(r, p, missing) for r in sample) for p in population]
    assert many.at_records(found.presence).tolist() == present
    sizes = [sum(agree(q, p, missing) for q in population) for p in population]
    assert many.at_records(found.sizes).tolist() == sizes


def test_codes_of_other_types_meet_by_value():
    few = sf.Microdata(pl.DataFrame({"x": pl.Series([1, 2], dtype=pl.Int8)})).cells(["x"])
    people = sf.Microdata(pl.DataFrame({"x": pl.Series([1, 1, 3], dtype=pl.Int64)}))
    assert population_counts(few, people).tolist() == [2, 0]
    words = sf.Microdata(pl.DataFrame({"x": ["1", "1", "2"]}))
    assert population_counts(few, words).tolist() == [2, 1]


def test_a_population_that_lacks_sample_records_is_told():
    few = sf.Microdata(pl.DataFrame({"x": [1, 1, 2]})).cells(["x"])
    people = sf.Microdata(pl.DataFrame({"x": [1, 2]}))
    matches = population_counts(few, people)
    assert "2 records" in check_population(few, matches)[0]
    assert check_population(few, np.array([2, 1])) == ()
    with pytest.raises(MeasureError, match="other keys"):
        in_population(few, sf.Microdata(pl.DataFrame({"y": [1]})).cells(["y"]))
