"""Individual risk of combinations: E(1/F) where F people share the keys of f records.

F is negative binomial given f (Benedetti, Franconi 1998); its variants are those of
:class:`~sfumato.risk.individual.IndividualRisk`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import FloatArray
from sfumato.errors import InputError


def cell_risks(
    frequency: npt.NDArray[np.int64], population: FloatArray, variant: str
) -> tuple[FloatArray, Sequence[str]]:
    """The risk of each combination and what to say of it."""
    if len(population) and not (population > 0).all():
        raise InputError(
            f"the weights of {int((population <= 0).sum()):,} combinations add up to 0",
            hint="a record that stands for nobody can't be at risk; drop it or mend its weight",
        )
    notes = []
    low = population < frequency
    if low.any():
        notes.append(
            f"{int(low.sum()):,} combinations have weights below 1 on average: "
            "their population is taken to be the sample"
        )
    f = frequency.astype(np.float64)
    p = np.minimum(f / population, 1.0)
    if variant == "sdcmicro":
        return np.where(f >= 3, p / (f - 1 + p), exact_risk(np.minimum(frequency, 2), p)), notes
    if variant == "argus":
        return np.where(f > 3, p / f * _series(f, 1 - p, 7), exact_risk(np.minimum(frequency, 3), p)), notes
    return exact_risk(frequency, p), notes


def exact_risk(frequency: npt.NDArray[np.int64], p: FloatArray) -> FloatArray:
    """p/f · ₂F₁(1, 1; f+1; 1−p), to rounding, for every f ≥ 1 and 0 < p ≤ 1.

    J_f = ₂F₁(1, 1; f+1; q)/f obeys J_1 = −ln p / q and J_(f+1) = (1/f − p J_f)/q, which is stable
    for p < ½; elsewhere, and for large f, the series converges within 60 terms.
    """
    f = frequency.astype(np.float64)
    q = 1.0 - p
    out = p / f * _series(f, q, 60)
    by_steps = np.flatnonzero((p < 0.5) & (frequency < 50))
    if len(by_steps):
        goal, pp, qq = frequency[by_steps], p[by_steps], q[by_steps]
        integral = -np.log(pp) / qq
        for step in range(1, int(goal.max())):
            integral = np.where(step < goal, (1.0 / step - pp * integral) / qq, integral)
        out[by_steps] = pp * integral
    return out


def _series(f: FloatArray, q: FloatArray, terms: int) -> FloatArray:
    total = np.ones_like(f)
    term = np.ones_like(f)
    for n in range(1, terms + 1):
        term = term * (n * q / (f + n))
        total += term
    return total
