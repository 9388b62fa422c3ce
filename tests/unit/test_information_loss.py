"""Information loss: small denominators, missing values, bad input."""

from __future__ import annotations

import math

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import MeasureError, ParameterError


def test_a_loss_by_hand() -> None:
    x = pl.DataFrame({"A": [0.0, 2.0, 4.0], "B": [1.0, 1.0, 4.0]})
    z = pl.DataFrame({"A": [0.0, 4.0, 2.0], "B": [1.0, 1.0, 4.0]})
    found = sf.InformationLoss().measure(x, z)
    # |x−z| = 0, 2, 2 in A; sd(A) = 2; Cov(A, B) 3 → 0; sd(B) = √3.
    assert found.il1 == pytest.approx((2 / 3 + 2 / 3) / 6)
    assert found.il1s == pytest.approx((2 + 2) / (math.sqrt(2) * 2) / 6)
    assert found.il2 == 0
    assert found.il4 == 0
    assert found.il3 == pytest.approx((1.0) / 3)
    assert found.il5 == pytest.approx(3 / (2 * math.sqrt(3)))
    assert found.zero_cells == 1
    assert found.il3_largest[0] == {
        "columns": "B × A",
        "term": pytest.approx(1.0),
        "share": pytest.approx(1.0),
    }


def test_zero_denominators_are_left_out_and_named() -> None:
    x = pl.DataFrame(
        {"MEAN0": [-1.0, 0.0, 1.0, 0.0], "CONST": [5.0, 5.0, 5.0, 5.0], "V": [1.0, 3.0, 2.0, 9.0]}
    )
    z = pl.DataFrame(
        {"MEAN0": [-1.0, 0.0, 2.0, 0.0], "CONST": [5.0, 5.0, 6.0, 5.0], "V": [1.0, 3.0, 2.0, 9.0]}
    )
    found = sf.InformationLoss().measure(x, z)
    assert found.left_out["il2"] == 1
    assert found.left_out["il4"] == 1
    assert found.left_out["il1s"] == 1
    assert found.left_out["il3"] == 3  # CONST with itself and with the two others
    assert all(math.isfinite(getattr(found, n)) for n in ("il1", "il1s", "il2", "il3", "il4", "il5", "s0"))
    assert any("il2 leaves out MEAN0" in note for note in found.notes)
    assert any("il4 leaves out CONST" in note for note in found.notes)


def test_a_constant_column_that_stays_counts_zero() -> None:
    x = pl.DataFrame({"CONST": [5.0, 5.0, 5.0], "V": [1.0, 3.0, 2.0]})
    z = pl.DataFrame({"CONST": [5.0, 5.0, 5.0], "V": [3.0, 1.0, 2.0]})
    found = sf.InformationLoss().measure(x, z)
    assert found.left_out == {"il1s": 0, "il2": 0, "il3": 0, "il4": 0, "il5": 0}


def test_nothing_defined_is_nan_and_said() -> None:
    x, z = pl.DataFrame({"C": [5.0, 5.0, 5.0]}), pl.DataFrame({"C": [5.0, 6.0, 5.0]})
    found = sf.InformationLoss().measure(x, z)
    assert math.isnan(found.il4)
    assert math.isnan(found.s0)
    assert any("can't be computed" in note for note in found.notes)


def test_columns_that_add_up_are_no_problem() -> None:
    x = pl.DataFrame({"A": [1.0, 5.0, 2.0, 8.0], "B": [4.0, 1.0, 7.0, 2.0]}).with_columns(
        T=pl.col("A") + pl.col("B")
    )
    z = x.with_columns(A=pl.col("A") + 1, T=pl.col("T") + 1)
    found = sf.InformationLoss().measure(x, z)
    assert found.il4 == pytest.approx(0, abs=1e-12)
    assert found.il2 == pytest.approx((1 / 4 + 1 / 7.5) / 3)


def test_missing_values_and_codes_are_left_out_of_both() -> None:
    schema = {"variables": {"A": {"missing": [-9]}}}
    x = sf.Microdata(pl.DataFrame({"A": [1, -9, 3, 5], "B": [1.0, 2.0, None, 4.0]}), schema)
    z = sf.Microdata(pl.DataFrame({"A": [1, 4, 3, None], "B": [1.0, 2.0, None, 4.0]}), schema)
    found = sf.InformationLoss().measure(x, z)
    assert found.cells == 2 + 3
    assert found.suppressed == 1
    assert found.il1 == 0
    assert any("only in the original" in note for note in found.notes)
    assert any("only in the masked" in note for note in found.notes)


def test_default_columns_are_the_sensitive_numbers() -> None:
    frame = pl.DataFrame({"ID": [1, 2, 3], "AGE": [3, 4, 5], "PAY": [1.0, 2.0, 4.0], "T": ["a", "b", "c"]})
    with_roles = sf.Microdata(frame, {"roles": {"id": "ID", "sensitive": ["PAY", "T"]}})
    assert sf.InformationLoss().measure(with_roles, with_roles).breakdown["column"].to_list() == ["PAY"]
    without = sf.Microdata(frame, {"roles": {"id": "ID"}})
    assert sf.InformationLoss().measure(without, without).breakdown["column"].to_list() == ["AGE", "PAY"]


def test_a_large_mean_costs_no_digits() -> None:
    values = [1e9 + v for v in (1.0, 2.0, 4.0, 8.0)]
    x, z = pl.DataFrame({"V": values}), pl.DataFrame({"V": values[::-1]})
    found = sf.InformationLoss().measure(x, z)
    assert found.il4 == pytest.approx(0, abs=1e-12)
    assert found.left_out["il4"] == 0


@pytest.mark.parametrize(
    ("one", "two", "message"),
    [
        ({"A": [1.0, 2.0]}, {"A": [1.0]}, "2 records and the masked file 1"),
        ({"A": [1.0, math.inf]}, {"A": [1.0, 2.0]}, "infinite"),
        ({"A": [1.0, None]}, {"A": [1.0, 2.0]}, "fewer than 2 records"),
        ({"A": ["x", "y"]}, {"A": ["x", "y"]}, "no numeric column"),
        ({"A": []}, {"A": []}, "no numeric column|no records"),
    ],
)
def test_bad_files_are_refused(one: dict, two: dict, message: str) -> None:
    with pytest.raises(MeasureError, match=message):
        sf.InformationLoss().measure(pl.DataFrame(one), pl.DataFrame(two))


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="names A twice"):
        sf.InformationLoss(columns=["A", "A"])
    with pytest.raises(MeasureError, match="which the data don't have"):
        sf.InformationLoss(columns=["INCME"]).measure(
            pl.DataFrame({"INCOME": [1]}), pl.DataFrame({"INCOME": [1]})
        )
    frame = pl.DataFrame({"A": [1.0, 2.0], "G": [1, 2]})
    with pytest.raises(MeasureError, match="no stratum"):
        sf.InformationLoss(columns=["A"], within=["G"]).measure(frame, frame)


def test_the_number_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    from sfumato.stats import pairing as _paired

    monkeypatch.setattr(_paired, "BLOCK_RECORDS", 64)
    values = [math.exp(math.sin(k * k)) for k in range(6000)]
    original = pl.DataFrame({"A": values})
    masked = pl.DataFrame({"A": [v * (1 + 0.1 * math.sin(k)) for k, v in enumerate(values)]})
    found = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("SFUMATO_THREADS", threads)
        loss = sf.InformationLoss(columns=["A"]).measure(original, masked)
        found.append((loss.il1, loss.il1s, loss.il2, loss.il4))
    assert found[0] == found[1] == found[2]
