"""ε of permutation swapping, against exact enumeration of the mechanism on small strata."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from sfumato.errors import ParameterError
from sfumato.stats.swap_epsilon import (
    epsilon_per_record,
    in_words,
    invariants,
    permutation_epsilon,
    rate_for_epsilon,
)


def law(rates: list[Fraction]) -> dict[tuple[int, ...], Fraction]:
    """The exact probability of every permutation: select independently, permute the selected uniformly."""
    b = len(rates)
    out: dict[tuple[int, ...], Fraction] = dict.fromkeys(itertools.permutations(range(b)), Fraction(0))
    for r in range(b + 1):
        for chosen in itertools.combinations(range(b), r):
            weight = Fraction(1)
            for i in range(b):
                weight *= rates[i] if i in chosen else 1 - rates[i]
            for image in itertools.permutations(chosen):
                full = list(range(b))
                for i, j in zip(chosen, image, strict=True):
                    full[i] = j
                out[tuple(full)] += weight / math.factorial(r)
    return out


def output_law(rates: list[Fraction], areas: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
    """The exact law of the published areas when household i has area ``areas[i]``."""
    out: dict[tuple[int, ...], Fraction] = {}
    for permutation, chance in law(rates).items():
        published = tuple(areas[j] for j in permutation)
        out[published] = out.get(published, Fraction(0)) + chance
    return out


@pytest.mark.parametrize("size", [2, 3, 4, 5])
@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(1, 2), Fraction(9, 10), Fraction(1)])
def test_epsilon_is_attained_when_all_areas_differ(size: int, rate: Fraction):
    rates = [rate] * size
    chance = law(rates)
    assert sum(chance.values()) == 1
    here = output_law(rates, tuple(range(size)))
    worst = Fraction(1)
    for i, j in itertools.combinations(range(size), 2):
        other = list(range(size))
        other[i], other[j] = other[j], other[i]
        there = output_law(rates, tuple(other))
        worst = max(worst, *(here[y] / there[y] for y in here), *(there[y] / here[y] for y in here))
    assert math.log(worst) == pytest.approx(permutation_epsilon(size, float(rate)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("areas", [(0, 0, 1, 1), (0, 0, 0, 1), (0, 1, 2, 2)])
def test_ties_between_areas_only_help(areas: tuple[int, ...]):
    rates = [Fraction(1, 3)] * 4
    here = output_law(rates, areas)
    limit = permutation_epsilon(4, 1 / 3)
    for i, j in itertools.combinations(range(4), 2):
        other = list(areas)
        other[i], other[j] = other[j], other[i]
        there = output_law(rates, tuple(other))
        for y in here:
            assert abs(math.log(here[y] / there[y])) <= limit + 1e-12


def test_unequal_rates_by_area_are_bounded_by_the_lowest():
    # The rate belongs to the area (small areas have another), so it moves with the exchange.
    rate_of = {0: Fraction(1, 5), 1: Fraction(1, 2), 2: Fraction(4, 5), 3: Fraction(1, 3)}
    limit = permutation_epsilon(4, 1 / 5)

    def published(areas: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
        return output_law([rate_of[a] for a in areas], areas)

    here = published((0, 1, 2, 3))
    assert len(here) == 24
    worst = 0.0
    for i, j in itertools.combinations(range(4), 2):
        other = [0, 1, 2, 3]
        other[i], other[j] = other[j], other[i]
        there = published(tuple(other))
        worst = max(worst, *(abs(math.log(here[y] / there[y])) for y in here))
    assert 0 < worst <= limit + 1e-12


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_k_changed_records_cost_at_most_k_times_epsilon_per_record(size: int):
    rates = [Fraction(2, 5)] * size
    here = output_law(rates, tuple(range(size)))
    each = epsilon_per_record(size, 0.4)
    for other in itertools.permutations(range(size)):
        k = sum(a != b for a, b in zip(other, range(size), strict=True))
        there = output_law(rates, other)
        for y in here:
            assert abs(math.log(here[y] / there[y])) <= k * each + 1e-12


def test_the_ends():
    assert permutation_epsilon(1, 0.0) == permutation_epsilon(0, 0.5) == 0
    assert permutation_epsilon(2, 0.0) == math.inf == epsilon_per_record(2, 0.0)
    assert permutation_epsilon(10**6, 1.0) == 0 == epsilon_per_record(5, 1.0)
    assert permutation_epsilon(2, 0.5) == pytest.approx(math.log(2 / 0.25 - 1))


@pytest.mark.parametrize("size", [2, 4, 50, 10_000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 12.0])
def test_the_rate_for_an_epsilon_gives_it_back(size: int, epsilon: float):
    assert permutation_epsilon(size, rate_for_epsilon(size, epsilon)) == pytest.approx(epsilon)


@pytest.mark.parametrize("call", [(-1, 0.5), (2, 1.5), (2, -0.1)])
def test_impossible_sizes_and_rates_are_refused(call: tuple[int, float]):
    with pytest.raises(ParameterError):
        permutation_epsilon(*call)
    with pytest.raises(ParameterError):
        rate_for_epsilon(2, -1.0)


def test_the_words_say_what_isnt_protected():
    text = invariants(["AGE"], ["TRACT", "BLOCK"], ["STATE"], "household")
    assert "published as it was collected" in text[0]
    assert "STATE, AGE" in text[1]
    assert "(ε = 0)" in in_words(0.0, 5, "household")
    assert "no protection" in in_words(math.inf, 5, "household")
    assert "nothing is protected" in in_words(0.0, 1, "household")
