"""What a cluster shuffle keeps of files that are hard to keep: by measures of an analyst, not its own."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.mask import Notes
from sfumato.data.microdata import Microdata
from sfumato.draws import Seed


def applied(mask: sf.ClusterShuffle, data: Microdata, seed: int = 1) -> tuple[Microdata, Notes]:
    masked, notes, _ = mask.carry_out(data, Seed.from_int(seed).draws(mask.name))
    return masked, notes


def correlations(data: Microdata) -> np.ndarray:
    """Of all pairs of columns, each among the records that have both."""
    x = data.matrix(data.columns)
    p = x.shape[1]
    out = []
    for i in range(p):
        for j in range(i):
            ok = np.isfinite(x[:, i]) & np.isfinite(x[:, j])
            out.append(np.corrcoef(x[ok, i], x[ok, j])[0, 1])
    return np.array(out)


def moved(data: Microdata, masked: Microdata) -> float:
    return float(np.abs(correlations(masked) - correlations(data)).mean())


def swapped(data: Microdata) -> Microdata:
    return sf.RankSwap(columns=data.columns, window_percent=15).mask(data, seed=1)


def skewed(n: int) -> Microdata:
    """Lognormal amounts, zeros among them: a few records decide the correlations."""
    rng = np.random.default_rng(11)
    y = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 6)) + 0.7 * rng.normal(size=(n, 6))
    amounts = {f"A{j}": np.where(y[:, j] < 0.4 * j - 1, 0, np.exp(7 + y[:, j])).round() for j in range(6)}
    return Microdata(pl.DataFrame(amounts))


@pytest.mark.parametrize("n", [90, 1000])
def test_correlations_are_those_before_numbers_of_few_are_averaged(n: int) -> None:
    data = skewed(n)
    mask = sf.ClusterShuffle(columns=data.columns)
    masked, _ = applied(mask, data)
    averaged = moved(data, mask.own_list(data))
    assert moved(data, masked) < 0.2 * moved(data, swapped(data))
    assert moved(data, masked) < averaged


def test_correlations_among_the_known_survive_many_missing_values() -> None:
    rng = np.random.default_rng(2)
    n = 1500
    x = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 7)) + 0.5 * rng.normal(size=(n, 7))
    gone = rng.random((n, 7)) < np.linspace(0.2, 0.8, 7)
    frame = pl.DataFrame({f"V{j}": pl.Series(x[:, j]).set(pl.Series(gone[:, j]), None) for j in range(7)})
    data = Microdata(frame)
    masked, notes = applied(sf.ClusterShuffle(columns=data.columns), data)
    assert notes.figures["kept"] == "moments"
    # a third of what a rank swap moves them by would be left without the variances among pairs
    assert moved(data, masked) < 0.05 * moved(data, swapped(data))


def weighted(data: Microdata, weight: str) -> np.ndarray:
    """Weighted means, variances and covariances, in units of the file's own."""
    x, w = data.matrix(["A", "B", "C"]), data.numbers(weight)
    mean = np.average(x, axis=0, weights=w)
    spread = x.std(axis=0)
    covariance = np.cov(x.T, aweights=w, ddof=0) / np.outer(spread, spread)
    return np.concatenate([mean / spread, covariance.ravel()])


def test_weighted_moments_are_kept_where_the_weight_is_shuffled() -> None:
    rng = np.random.default_rng(3)
    n = 1200
    x = rng.normal(size=(n, 3)) @ np.linalg.cholesky(0.5 + 0.5 * np.eye(3)).T
    # the weight depends on the product of two columns: nothing that pairs of columns tell
    w = np.exp(0.6 * x[:, 0] * x[:, 1] + 0.3 * rng.normal(size=n)).round(1).clip(0.1, 6.0)
    frame = pl.DataFrame({"A": x[:, 0], "B": x[:, 1], "C": x[:, 2], "W": w})
    off = []
    for roles in ({"weight": "W"}, {}):
        data = Microdata(frame, {"roles": roles})
        masked, notes = applied(sf.ClusterShuffle(columns=data.columns), data)
        assert notes.figures.get("weighted_moments_kept", False) == bool(roles)
        off.append(np.abs(weighted(masked, "W") - weighted(data, "W")).max())
    assert off[0] < 0.02
    assert off[0] < 0.2 * off[1]


def test_a_weight_with_edits_and_missing_values_keeps_them_all() -> None:
    rng = np.random.default_rng(4)
    n = 800
    income = rng.gamma(2.0, 10.0, n).round()
    frame = pl.DataFrame(
        {
            "INCOME": income,
            "TAX": (income * rng.uniform(0.0, 0.5, n)).round(),
            "AGE": pl.Series(rng.integers(18, 80, n)).set(pl.Series(rng.random(n) < 0.2), None),
            "W": rng.gamma(4.0, 1.0, n).round(1) + 0.1,
        }
    )
    data = Microdata(frame, {"roles": {"weight": "W"}, "variables": {"TAX": {"edits": ["TAX <= INCOME"]}}})
    masked, _ = applied(sf.ClusterShuffle(columns=data.columns), data)
    assert (masked.frame["TAX"] <= masked.frame["INCOME"]).all()
    for column in frame.columns:
        assert masked.frame[column].null_count() == frame[column].null_count()
    means = [float(np.average(d.numbers("INCOME"), weights=d.numbers("W"))) for d in (data, masked)]
    assert means[1] == pytest.approx(means[0], abs=0.01 * float(income.std()))


def test_where_a_repair_puts_people_together_again_it_is_undone_there() -> None:
    """Columns that are nearly one another: their correlation within a cluster is nearly an order, so that a
    repair of it puts whole records together. It stays in the clusters where it doesn't."""
    rng = np.random.default_rng(11)
    n = 1500
    z = rng.normal(size=(n, 3))
    one = np.exp(8 + z[:, 0])
    data = Microdata(
        pl.DataFrame(
            {
                "A": one,
                "A2": one * (1 + 0.001 * rng.normal(size=n)),
                "A3": one * (1 + 0.01 * rng.normal(size=n)),
                "B": np.exp(z[:, 1]),
                "B2": np.exp(z[:, 1] + 0.05 * z[:, 2]),
            }
        )
    )
    mask = sf.ClusterShuffle(columns=data.columns)
    masked, notes = applied(mask, data)
    assert 0 < notes.figures["clusters_without_repair"] < 0.25 * notes.figures["clusters"]
    assert notes.figures["kept"] == "moments"
    # counted by hand: rows of the release that are a whole record, once numbers of few are averaged
    records = set(mask.own_list(data).frame.iter_rows())
    assert sum(row in records for row in masked.frame.iter_rows()) <= 4
    assert moved(data, masked) < 0.2 * moved(data, swapped(data))


def test_few_records_of_many_columns_keep_the_moments_of_their_values() -> None:
    """93 records of 15 columns: 105 products of values are within a tenth of the cells, no more is."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(93, 3)) @ rng.normal(size=(3, 15)) + rng.normal(size=(93, 15))
    data = Microdata(pl.DataFrame({f"X{j}": x[:, j].round(2) for j in range(15)}))
    masked, notes = applied(sf.ClusterShuffle(columns=data.columns), data)
    assert notes.figures["kept"] == "values"
    assert notes.figures["kept_numbers_a_cell"] == pytest.approx(105 / (93 * 15))
    assert moved(data, masked) < 0.2 * moved(data, swapped(data))
