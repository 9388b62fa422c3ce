"""The formal reading of swapping: pure differential privacy subject to the swap's invariants.

Bailie, Gong and Meng prove that permutation swapping satisfies pure differential privacy once the
files that are compared agree on what the swap leaves unaltered (A Refreshment Stirred, Not Shaken:
Invariant-Preserving Deployments of Differential Privacy for the U.S. Decennial Census, Harvard Data
Science Review, 2026; arXiv:2501.08449). The ε below is our own derivation for the mechanism that
sfumato runs (select independently, permute the selected uniformly); docs/methods/
swapping-and-differential-privacy.md has the proof, and a test enumerates small strata exactly.

In a stratum of b households, household i selected with probability p_i, z_i = (1 − p_i)/p_i, a
permutation whose moved set is M has probability

    f(M) = Σ_{S ⊇ M} Π_{S} p_i Π_{not S} (1 − p_i) / |S|!

Two files with the same invariants that differ by exchanging the areas of two households differ by a
transposition, which adds at most two households i, j to the moved set, and

    f(M) / f(M ∪ {i, j}) ≤ 1 + (z_i + z_j) b + z_i z_j b (b − 1) = exp(ε).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.errors import ParameterError


def permutation_epsilon(size: int, rate: float) -> float:
    """ε of permutation swapping in a stratum of ``size`` records, each selected with probability ``rate``.

    ε = ln(1 + 2bz + b(b − 1)z²) with z = (1 − p)/p, for two files that have the same invariants and
    differ by exchanging the areas of two records. It is attained for b = 2 and b ≥ 4; for b = 3 the
    attained value ln((1 + 9z + 18z² + 6z³)/(1 + 3z)) is given. A stratum of one has ε = 0 (nothing
    can differ), p = 0 has ε = ∞ (nothing is moved), p = 1 has ε = 0 (all areas are shuffled).

    >>> round(permutation_epsilon(2, 0.5), 6)    # ln(2/p² − 1)
    1.94591
    >>> permutation_epsilon(100, 1.0), permutation_epsilon(1, 0.1)
    (0.0, 0.0)
    """
    _check(size, rate)
    if size < 2:
        return 0.0
    if rate == 0:
        return math.inf
    z = (1 - rate) / rate
    if size == 3:
        return math.log((1 + 9 * z + 18 * z**2 + 6 * z**3) / (1 + 3 * z))
    return math.log1p(2 * size * z + size * (size - 1) * z * z)


def epsilon_per_record(size: int, rate: float) -> float:
    """ε for each record whose area differs: ln(1 + b(1 − p)/p).

    Two files with the same invariants that differ in the areas of k records have output
    probabilities within a factor exp(k · ε) of each other (k ≥ 2: one area alone can't differ).

    >>> round(epsilon_per_record(100, 0.5), 4)
    4.6151
    """
    _check(size, rate)
    if size < 2:
        return 0.0
    return math.inf if rate == 0 else math.log1p(size * (1 - rate) / rate)


def rate_for_epsilon(size: int, epsilon: float) -> float:
    """The smallest selection probability whose ε isn't above ``epsilon`` in strata up to ``size``.

    >>> p = rate_for_epsilon(100, 5.0)
    >>> round(permutation_epsilon(100, p), 6)
    5.0
    """
    if not epsilon >= 0:
        raise ParameterError(f"epsilon must be at least 0, not {epsilon}")
    _check(size, 1.0)
    if size < 2:
        return 0.0
    # The positive root z of b(b − 1)z² + 2bz = e^ε − 1, written without cancellation.
    b, right = size, math.expm1(epsilon)
    z = right / (b + math.sqrt(b * b + b * (b - 1) * right))
    return 1 / (1 + z)


def invariants(match_on: Sequence[str], swap: Sequence[str], within: Sequence[str], unit: str) -> list[str]:
    """What the permutation swap leaves unaltered, each in a sentence for those who must sign for it."""
    keys = ", ".join([*within, *match_on]) or "no key at all"
    areas = ", ".join(swap)
    return [
        f"Everything about a {unit} but its {areas} is published as it was collected: the protection "
        f"is of the link between a {unit} and its {areas}, and of nothing else.",
        f"For every area ({areas}), the number of {unit}s with each combination of {keys} is exact.",
        f"A {unit} that shares its combination of {keys} with no other keeps its true {areas}.",
        f"A {unit} whose {areas} is missing stays as it is, and it is seen which ones these are.",
    ]


def in_words(epsilon: float, size: int, unit: str) -> str:
    """What ε says, in a sentence."""
    if size < 2:
        return f"No two {unit}s agree on the keys: nothing is moved, and nothing is protected."
    if epsilon == 0:
        return "Within the invariants the published file says nothing about who lives where (ε = 0)."
    if math.isinf(epsilon):
        return "No household is moved: there is no protection (ε = ∞)."
    factor = math.exp(epsilon)
    return (
        f"Take any two {unit}s that agree on the keys, and suppose that their areas had been the other "
        f"way round: no published file would be more than {factor:,.4g} times as likely or unlikely "
        f"(e^ε, ε = {epsilon:.3f}; the largest group of {unit}s with the same keys has {size:,})."
    )


def _check(size: int, rate: float) -> None:
    if size < 0:
        raise ParameterError(f"a stratum can't have {size} records")
    if not 0 <= rate <= 1:
        raise ParameterError(f"a selection probability lies in [0, 1], not {rate}")
