"""EM: known parameters recovered, a likelihood that never falls, drift that is said."""

from __future__ import annotations

import itertools
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.draws import Seed
from sfumato.errors import MeasureError
from sfumato.linkage.blocks import make_blocks
from sfumato.linkage.em import Patterns, fit_em, random_agreement
from sfumato.linkage.fields import agreement_fields
from sfumato.linkage.judge import predicted_agreement
from sfumato.linkage.weights import decision_thresholds, log_weights


def exact_patterns(m, u, share, pairs=1e6):
    """The expected pattern counts of a latent-class model: no sampling error."""
    states, counts = [], []
    for bits in itertools.product((0, 1), repeat=len(m)):
        p = math.prod(a if b else 1 - a for a, b in zip(m, bits, strict=True))
        q = math.prod(a if b else 1 - a for a, b in zip(u, bits, strict=True))
        states.append(bits)
        counts.append(pairs * (share * p + (1 - share) * q))
    return Patterns(np.array(states, dtype=np.int8), np.array(counts))


M = np.array([0.95, 0.9, 0.85, 0.8, 0.92])
U = np.array([0.1, 0.2, 0.05, 0.3, 0.15])


@pytest.mark.parametrize("share", [0.3, 0.02])
def test_known_parameters_are_recovered_from_expected_counts(share):
    fit = fit_em(exact_patterns(M, U, share), expected_share=share, share="free", tolerance=1e-14)
    np.testing.assert_allclose(fit.m, M, atol=2e-3)
    np.testing.assert_allclose(fit.u, U, atol=2e-3)
    assert fit.share == pytest.approx(share, rel=0.01)
    assert fit.trusted
    assert fit.drift == pytest.approx(1, rel=0.01)


def test_known_parameters_are_recovered_from_simulated_vectors():
    rng = np.random.default_rng(1)
    n, share = 200_000, 0.05
    match = rng.random(n) < share
    vectors = rng.random((n, 5)) < np.where(match[:, None], M, U)
    states, counts = np.unique(vectors.astype(np.int8), axis=0, return_counts=True)
    fit = fit_em(Patterns(states, counts.astype(float)), expected_share=share)
    # Four standard errors of a proportion among the 10,000 matches, twice over for the latent class.
    np.testing.assert_allclose(fit.m, M, atol=8 * 0.5 / math.sqrt(n * share))
    np.testing.assert_allclose(fit.u, U, atol=8 * 0.5 / math.sqrt(n))


def test_missing_fields_add_nothing():
    rng = np.random.default_rng(2)
    n, share = 200_000, 0.1
    match = rng.random(n) < share
    vectors = (rng.random((n, 5)) < np.where(match[:, None], M, U)).astype(np.int8)
    vectors[rng.random((n, 5)) < 0.3] = -1
    states, counts = np.unique(vectors, axis=0, return_counts=True)
    fit = fit_em(Patterns(states, counts.astype(float)), expected_share=share)
    np.testing.assert_allclose(fit.m, M, atol=8 * 0.5 / math.sqrt(0.7 * n * share))


@given(st.integers(0, 10_000), st.sampled_from(["fixed", "bounded", "free"]), st.booleans())
def test_the_likelihood_never_falls(seed, share, with_u):
    rng = np.random.default_rng(seed)
    states = rng.integers(-1, 2, (12, 4)).astype(np.int8)
    patterns = Patterns(states, rng.integers(1, 1000, 12).astype(float))
    u = random_agreement(patterns) if with_u else None
    fit = fit_em(patterns, expected_share=0.1, share=share, u=u, iterations=200)
    steps = np.diff(fit.log_likelihood)
    assert (steps >= -1e-9 * abs(fit.log_likelihood[-1])).all()
    assert ((fit.m > 0) & (fit.m < 1) & (fit.u > 0) & (fit.u < 1)).all()
    if share == "fixed":
        assert fit.share == 0.1
    if share == "bounded":
        assert fit.share <= 0.2 + 1e-12


def test_a_fit_that_found_another_class_says_that_it_drifted():
    """Half of the pairs share an income bracket; one in a thousand is a match. Free EM takes the half."""
    patterns = exact_patterns(np.full(6, 0.8), np.full(6, 0.1), 0.5)
    fit = fit_em(patterns, expected_share=0.001, share="free")
    assert fit.drift > 2
    assert not fit.trusted


def test_a_fit_that_did_not_converge_says_so():
    fit = fit_em(exact_patterns(M, U, 0.3), expected_share=0.3, iterations=2)
    assert not fit.converged
    assert not fit.trusted


def test_there_must_be_something_to_tell_apart():
    with pytest.raises(MeasureError, match="match"):
        fit_em(exact_patterns(M, U, 0.3), expected_share=1.0)


def test_random_pairs_give_u():
    patterns = exact_patterns(M, U, 0.0)
    np.testing.assert_allclose(random_agreement(patterns), U, atol=1e-9)


def test_thresholds_keep_the_error_bounds_and_review_as_little_as_possible():
    upper, lower = decision_thresholds(M, U, false_link=0.01, false_nonlink=0.02)
    agree, disagree = log_weights(M, U)
    over = under = next_over = next_under = 0.0
    weights = []
    for bits in itertools.product((0, 1), repeat=5):
        b = np.array(bits, bool)
        w = agree[b].sum() + disagree[~b].sum()
        p = np.where(b, M, 1 - M).prod()
        q = np.where(b, U, 1 - U).prod()
        weights.append((w, p, q))
    over = sum(q for w, p, q in weights if w >= upper - 1e-12)
    under = sum(p for w, p, q in weights if w <= lower + 1e-12)
    assert over <= 0.01
    assert under <= 0.02
    # One pattern more on either side would break its bound.
    next_over = over + max((w, q) for w, p, q in weights if w < upper - 1e-12)[1]
    next_under = under + min((w, p) for w, p, q in weights if w > lower + 1e-12)[1]
    assert next_over > 0.01
    assert next_under > 0.02
    assert lower < upper


def test_many_fields_have_thresholds_too():
    m, u = np.full(24, 0.9), np.full(24, 0.1)
    upper, lower = decision_thresholds(m, u, false_link=1e-6, false_nonlink=1e-6)
    # With so many fields both bounds can be kept at once: nothing is left for review.
    assert upper == lower
    assert abs(upper) < 5 * (math.log(9) - math.log(1 / 9))


# -- judged by what it predicts -----------------------------------------------------------------------


def correlated_categories(n: int, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Six categories that share a factor; each value stays with probability .9, else another record's."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=n)
    sizes = (40, 12, 8, 5, 3, 2)
    share = [1 / (1 + np.exp(-1.5 * factor - rng.normal(size=n))) for _ in sizes]
    people = pl.DataFrame(
        {f"c{j}": np.floor(size * share[j]).astype(int).astype(str) for j, size in enumerate(sizes)}
    )
    new = {}
    for column in people.columns:
        values = people[column].to_numpy()
        new[column] = np.where(rng.random(n) < 0.9, values, rng.permutation(values))
    return people, pl.DataFrame(new)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_em_is_never_worse_than_equal_weights(seed):
    """m was off on correlated categories, and the rate below that of equal weights, without a word."""
    people, masked = correlated_categories(500, seed)
    known = people.columns
    em = sf.Linkage(known=known, weights="em").measure(people, masked)
    equal = sf.Linkage(known=known).measure(people, masked)
    room = 2 * np.sqrt(equal.value * (1 - equal.value) / 500)
    assert em.value >= equal.value - room
    if em.em_used:
        assert em.em_predicts > em.equal_predicts - 0.02
    else:
        assert em.value == equal.value
    assert any("EM" in note and "used" in note for note in em.notes)


def test_the_better_weights_predict_a_field_that_is_left_out():
    """Independent fields of very different size: the right weights predict more than equal ones, and those
    more than weights that are turned around."""
    rng = np.random.default_rng(4)
    sizes = (60, 30, 3, 2)
    people = pl.DataFrame({f"c{j}": rng.integers(0, k, 600).astype(str) for j, k in enumerate(sizes)})
    masked = pl.DataFrame(
        {
            c: np.where(rng.random(600) < stays, people[c].to_numpy(), rng.permutation(people[c].to_numpy()))
            for c, stays in zip(people.columns, (0.95, 0.95, 0.6, 0.6), strict=True)
        }
    )
    one, two = sf.Microdata(people), sf.Microdata(masked)
    fields = agreement_fields(one, two, people.columns)
    draws = Seed.from_int(1).draws("t")
    made = make_blocks(one, two, [], draws)
    right = np.log([0.95 * 60, 0.95 * 30, 1.2, 1.2])
    tried = (right, np.ones(4), right[::-1].copy())
    scores = [predicted_agreement(fields, w, np.zeros(4), made, draws) for w in tried]
    assert scores[0] > scores[1] > scores[2]
