"""Noise from a mixture of normal distributions (Yancey, Winkler and Creecy 2002)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Fact, NoiseAdded
from sfumato.contract.parameters import Fault, parameter
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import Problem
from sfumato.masks.noise.additive import AdditiveNoise
from sfumato.stats.covariance import ROOTS

SAFE_COMPONENT_VARIANCE = 0.6
"""From here on an intruder who knows the form links no more than with normal noise (measured on the
CASC file at d = 0.01 … 0.20; docs/methods/noise.md has the table)."""


@dataclass(frozen=True, kw_only=True)
class MixtureNoise(AdditiveNoise):
    """Add noise whose uncoloured components come from a mixture of normals, not from one normal.

    Z = X + √d·Σ^½·w; each w_j is drawn from Σ_k ω_k·N(θ_k, σ²) with σ² = ``component_variance``,
    mean 0 and variance 1. By default K = 2, ω = ½, θ = ±√(1 − σ²): most draws lie near ±1, so that
    few values get almost no noise. In general ψ_1 … ψ_{K−1} are free (``psi``), ψ_K = −(1/ω_K) Σ
    ω_k·ψ_k (the paper prints ψ_k), S = Σ ω_k·ψ_k² and θ_k = ψ_k·√((1 − σ²)/S). The square root of Σ
    matters here, unlike for normal noise: ``root`` names it. Everything else is as in
    :class:`AdditiveNoise`.

    A small σ² is undone by an intruder who knows the form: in the whitened space the noise is almost
    ±1, and at least 99.9% of the CASC file is linked at every d from 0.01 to 0.20.

    Reference: Yancey, W. E., Winkler, W. E. and Creecy, R. H. (2002). Disclosure risk assessment in
    perturbative microdata protection. In: Inference Control in Statistical Databases, LNCS 2316.

    >>> MixtureNoise(columns=["A"], variance_ratio=0.1).component_means().round(3).tolist()
    [0.987, -0.987]
    """

    name: ClassVar[str] = "mixture_noise"
    reference: ClassVar[str] = "Yancey, Winkler and Creecy (2002)"

    component_variance: float = parameter(
        0.025, doc="σ²: the variance of each component of the mixture.", above=0, below=1, public=True
    )
    root: str = parameter(
        "principal",
        doc="The square root of the covariance that colours the noise.",
        choices=("principal", "cholesky", "symmetric"),
        public=True,
    )
    weights: tuple[float, ...] = parameter(
        (0.5, 0.5), doc="ω: the components' weights (they add up to 1).", above=0, below=1, public=True
    )
    psi: tuple[float, ...] = parameter(
        (1.0,),
        doc="ψ_1 … ψ_{K−1}: where the components lie, before scaling; the last one follows.",
        public=True,
    )

    def _check(self) -> Sequence[Fault]:
        out = list(super()._check())
        if len(self.weights) < 2 or abs(sum(self.weights) - 1) > 1e-9:
            out.append(
                (f"`weights` must be two or more that add up to 1, not {list(self.weights)}", None, "weights")
            )
        if len(self.psi) != len(self.weights) - 1:
            out.append(
                (
                    f"`psi` needs {len(self.weights) - 1} numbers, not {len(self.psi)}",
                    "the last ψ follows from the others",
                    "psi",
                )
            )
        elif not any(self.psi):
            out.append(("`psi` can't be all 0: the components would lie on one another", None, "psi"))
        return out

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        return [
            NoiseAdded(
                columns=self.columns,
                within=self.within,
                form="mixture",
                variance_ratio=self.variance_ratio,
                independent=self.independent,
                rescaled=self.rescale,
                component_variance=self.component_variance,
                root=self.root,
            )
        ]

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = super().check(schema, types)
        if self.component_variance < SAFE_COMPONENT_VARIANCE:
            out.append(
                Problem(
                    0,
                    f"component_variance = {self.component_variance:g} puts the noise near ± one standard "
                    "deviation on every axis: an intruder who knows its form links more with it than with "
                    "normal noise (`sfumato attack` says how many)",
                    f"from {SAFE_COMPONENT_VARIANCE:g} on it is no worse than additive_noise",
                    severity="warning",
                )
            )
        return out

    def component_means(self) -> FloatArray:
        """θ_1 … θ_K, so that a draw has mean 0 and variance 1."""
        weight = np.array(self.weights)
        psi = np.array([*self.psi, -(weight[:-1] @ np.array(self.psi)) / weight[-1]])
        theta: FloatArray = psi * np.sqrt((1 - self.component_variance) / (weight @ psi**2))
        return theta

    def _vector_order(self, columns: Sequence[str]) -> tuple[str, ...]:
        # The Cholesky root depends on the order of columns, and with it the law of the noise: as given.
        return tuple(columns) if self.root == "cholesky" else tuple(sorted(columns))

    def _root(self, covariance: FloatArray) -> FloatArray:
        return ROOTS[self.root](covariance)

    def _white(self, draws: Draws, vector: Sequence[str], start: int, n: int) -> FloatArray:
        from sfumato.kernels.noise import mixtures

        out = np.empty((len(vector), n))
        cumulative = np.cumsum(np.array(self.weights))
        theta, deviation = self.component_means(), float(np.sqrt(self.component_variance))
        for j, column in enumerate(vector):
            # A principal component belongs to no column; the j-th largest takes the j-th stream.
            where = f"component {j}" if self.root == "principal" else column
            bits = draws.stream(where, purpose=self._purpose).bits(start, n)
            which = draws.stream(where, purpose=f"component of {self._purpose}").bits(start, n)
            mixtures(bits, which, cumulative, theta, deviation, out[j])
        return out
