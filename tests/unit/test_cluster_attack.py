"""The intruder who makes a shuffle's clusters again."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.data.microdata import Microdata
from sfumato.errors import MeasureError
from sfumato.risk.cluster_attack import _cross_fitted, _dealt_by, _hits
from sfumato.run.battery import run_battery


def people(n: int = 400, seed: int = 0, **roles: object) -> Microdata:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5)) @ np.linalg.cholesky(0.5 + 0.5 * np.eye(5)).T
    frame = pl.DataFrame({c: np.exp(3 + x[:, j]).round(2) for j, c in enumerate("ABCD")})
    return Microdata(frame.with_columns(G=pl.Series(np.where(x[:, 4] > 0, "u", "v"))), {"roles": roles})


COLUMNS = ("A", "B", "C", "D", "G")


@pytest.mark.statistical
@pytest.mark.parametrize("keep", ["moments", "none"])
def test_whatever_he_does_his_rate_is_that_of_the_clusters(keep: str) -> None:
    """The number of right links in a cluster has mean and variance 1, so z is standard normal."""
    data = people()
    mask = sf.ClusterShuffle(columns=COLUMNS, smallest=20, keep=keep)
    attack = sf.ClusterAttack(columns=COLUMNS, smallest=20)
    z = []
    for seed in range(25):
        found = attack.measure(data, mask.mask(data, seed=seed), seed=seed)
        assert found.clusters_found == 1.0
        assert found.bound == found.clusters / 400
        z.append((found.rate * 400 - found.clusters) / np.sqrt(found.clusters))
    assert abs(np.mean(z)) < 4 / np.sqrt(len(z))


def test_the_file_itself_is_linked_whole() -> None:
    data = people()
    found = sf.ClusterAttack(columns=COLUMNS, smallest=20, blur=0).measure(data, data)
    assert found.rate == 1.0
    assert found.bound <= 0.05
    assert found.excess > 50


def test_clusters_that_the_release_does_not_bear_out_are_not_told() -> None:
    """Blocks told by place would say more than anybody knows: he then links without them."""
    data = people()
    masked = sf.RankSwap(columns=list("ABCD"), window_percent=40).mask(data, seed=1)
    found = sf.ClusterAttack(columns=COLUMNS, smallest=20).measure(data, masked)
    assert found.clusters_found < 0.5
    assert any("links without them" in note for note in found.notes)


def test_gains_by_hand() -> None:
    guess = np.array([0.9, 0.1, 0.2, 0.8])
    label = np.array([0, 0, 1, 1])
    released = np.array([5.0, 7.0, 100.0, 90.0])
    # cluster 0: record 1 is below record 0, so it gets 5; cluster 1: record 2 gets 90
    assert _dealt_by(guess, released, label).tolist() == [7.0, 5.0, 90.0, 100.0]
    value = np.array([7.0, 5.0, 91.0, 150.0])
    exact, near, rank = _hits(np.array([7.0, 5.0, 90.0, 100.0]), value, np.sort(value), np.ones(4, bool))
    assert exact == 0.5  # 7 and 5
    assert near == 0.75  # 90 is within 2% of 91
    assert rank == 0.5


def test_the_model_never_learns_from_the_person_himself() -> None:
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(50), rng.normal(size=(50, 3))])
    rank, fold, ok = rng.random(50), np.arange(50) % 5, np.ones(50, bool)
    before = _cross_fitted(design, rank, fold, ok)
    changed = rank.copy()
    changed[7] = 0.999
    after = _cross_fitted(design, changed, fold, ok)
    same = fold == fold[7]
    assert (before[same] == after[same]).all()
    assert (before[~same] != after[~same]).any()


@pytest.mark.statistical
def test_gain_falls_with_larger_clusters_and_with_blur() -> None:
    data = people(1000)

    def gains(k: int, blur: int) -> tuple[float, float]:
        mask = sf.ClusterShuffle(columns=COLUMNS, smallest=k, blur=blur, keep="none")
        found = sf.ClusterAttack(columns=COLUMNS, smallest=k, blur=blur).measure(
            data, mask.mask(data, seed=1)
        )
        return found.exact_gain, found.rank_gain

    # exact values are unique: with the cluster told, a guess hits about one in k (more, by the model)
    few, many, blurred = gains(5, 0), gains(50, 0), gains(5, 3)
    assert few[0] > many[0] > 0
    assert few[1] > many[1]
    assert blurred[0] < few[0] / 3


def test_the_battery_brings_it_against_a_shuffle_and_nothing_else() -> None:
    data = people(200, sensitive=["D"], keys=["G"])
    mask = sf.ClusterShuffle(columns=COLUMNS, smallest=20)
    tried = run_battery(data, mask.mask(data, seed=1), [mask])
    found = [t for t in tried.tried if t.attack.name == "cluster_attack"]
    assert len(found) == 1
    assert found[0].attack.blind == ("D",)
    assert found[0].result is not None
    assert found[0].result.figures["clusters_found"] == 1.0
    swap = sf.RankSwap(columns=["A", "B"], window_percent=10)
    tried = run_battery(data, swap.mask(data, seed=1), [swap])
    assert not [t for t in tried.tried if t.attack.name == "cluster_attack"]


def test_too_small_a_file_is_a_clear_error() -> None:
    with pytest.raises(MeasureError, match="at least 40 records"):
        sf.ClusterAttack(columns=COLUMNS, smallest=20).measure(people(30), people(30))


def test_a_rotation_inside_small_clusters_is_undone_by_its_hull() -> None:
    """Rows of a cluster turned about its mean keep every mean and covariance, and their affine hull: with
    fewer records than columns, the other columns give the last one back."""
    rng = np.random.default_rng(0)
    n, p, k = 400, 12, 8
    x = rng.normal(size=(n, 3)) @ rng.normal(size=(3, p)) + rng.normal(size=(n, p))
    names = [f"C{j}" for j in range(p)]
    data = Microdata(pl.DataFrame(x, schema=names))
    step = sf.ClusterShuffle(columns=names, smallest=k, blur=0)
    _, notes, _ = step.carry_out(data, sf.Seed.from_int(1).draws("x"))
    assert notes.log is not None
    label = notes.log["cluster"].to_numpy()
    turned = x.copy()
    for g in np.unique(label):
        rows = np.flatnonzero(label == g)
        centre = x[rows].mean(0)
        # An orthogonal matrix that leaves the mean alone.
        m = len(rows)
        basis = np.linalg.qr(np.column_stack([np.ones(m), rng.normal(size=(m, m - 1))]))[0]
        turn = np.linalg.qr(rng.normal(size=(m - 1, m - 1)))[0]
        full = np.eye(m)
        full[1:, 1:] = turn
        turned[rows] = centre + basis @ full @ basis.T @ (x[rows] - centre)
    attack = sf.ClusterAttack(columns=names, smallest=k, blur=0)
    shuffled = step.mask(data, seed=1)
    plain = attack.measure(data, shuffled).figures["hull_gain"]
    # The clusters are told: their labels can't be read from turned values.
    from sfumato.risk.cluster_attack import _on_hull

    said = _on_hull(data, Microdata(pl.DataFrame(turned, schema=names)), "C0", names, label, np.arange(n))
    small = np.bincount(label)[label] <= p
    assert small.mean() > 0.5
    assert np.allclose(said[small], x[small, 0], atol=1e-6)
    assert plain < 0.3
