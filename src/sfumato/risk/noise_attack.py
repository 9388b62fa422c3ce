"""The intruder who knows that noise was added, and its form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from sfumato.contract.disclosure import NoiseAdded, of_kind
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.result import Result
from sfumato.data.codes import joint_codes
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.linkage.assign import Links
from sfumato.linkage.blocks import Blocks, make_blocks
from sfumato.linkage.fields import Fields, known_columns, point_fields
from sfumato.linkage.points import PointAttack, Points, standard_points, whitener
from sfumato.linkage.results import attack_result, block_notes
from sfumato.risk.distance import covariance, whitener_of

_ROOTS = ("principal", "cholesky", "symmetric")
_ROUNDS = 6
_NO_NOISE = 1e-12  # a ratio below this is rounding
_SHRINK = 1e-6  # the least variance of the noise in any direction, in units of the data's


@dataclass(frozen=True, kw_only=True)
class NoiseAttack(PointAttack):
    """Re-identify records of a noise-masked file by the likelihood of the noise, 1-1.

    Noise with covariance dΣ is white after Σ^−½, and Σ can be had from the data. For normal noise
    the likelihood of a pair is then its Mahalanobis distance, whatever d is; where his links show
    another covariance of the noise (sums that were kept, zeros that were left alone), he learns it
    from them and links again. For mixture noise each
    white component lies near ±θ, θ = √(1 − σ²): the log-likelihood of a pair is −Σ_j (|w_j| − θ)² /
    2σ² with w = L⁺(z − x)/√d and L the root that coloured the noise. The intruder who isn't told
    the form, the root or d tries them, and keeps the likeliest.

    With a part of the columns known, or with uncorrelated noise, only the normal likelihood is
    used.

    Reference: Fuller (1993), J. Official Statistics 9, 383-406, for the likelihood of normal noise;
    the mixture's is ours.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> rng = np.random.default_rng(0)
    >>> people = pl.DataFrame(rng.normal(size=(50, 4)), schema=list("ABCD"))
    >>> noisy = people + pl.DataFrame(0.1 * rng.normal(size=(50, 4)), schema=list("ABCD"))
    >>> sf.NoiseAttack(columns=list("ABCD")).measure(people, noisy).rate
    1.0
    """

    name: ClassVar[str] = "noise_attack"
    reference: ClassVar[str] = "after Fuller (1993)"

    columns: tuple[str, ...] = parameter(
        (), doc="The columns that noise was added to.", columns="sensitive", numeric=True
    )
    known: tuple[str, ...] = parameter(
        (), doc="Those of the columns that the intruder knows; all by default.", columns=True, numeric=True
    )
    form: Literal["auto", "normal", "mixture"] = parameter(
        "auto", doc="The noise's distribution; auto tries both.", choices=("auto", "normal", "mixture")
    )
    variance_ratio: float | None = parameter(None, doc="d, if the intruder knows it.", above=0)
    component_variance: float = parameter(0.025, doc="σ² of the mixture's components.", above=0, below=1)
    root: Literal["auto", "principal", "cholesky", "symmetric"] = parameter(
        "auto", doc="The root of Σ that coloured the noise; auto tries all.", choices=("auto", *_ROOTS)
    )
    rescaled: bool = parameter(False, doc="Whether the release was brought back to the original's moments.")
    independent: bool = parameter(False, doc="Whether the noise was uncorrelated.")
    within: tuple[str, ...] = parameter((), doc="The strata that had noise of their own.", columns=True)

    @classmethod
    def against(cls, step: Mask, data: Microdata, intruder: Intruder) -> Sequence[Attack]:
        out: list[Attack] = []
        for fact in of_kind(NoiseAdded, step.discloses(data)):
            mine = tuple(c for c in fact.columns if c in intruder.numbers)
            if not mine:
                continue
            out.append(
                cls(
                    columns=mine,
                    block_on=tuple(c for c in intruder.block_on if c not in fact.columns),
                    within=fact.within,
                    form="mixture" if fact.form == "mixture" else "normal",
                    variance_ratio=fact.variance_ratio,
                    component_variance=fact.component_variance,
                    root=fact.root,  # type: ignore[arg-type]
                    rescaled=fact.rescaled,
                    independent=fact.independent,
                )
            )
        return out

    def _check(self) -> Sequence[Fault]:
        strange = [c for c in self.known if self.columns and c not in self.columns]
        return [(f"`known` names {strange[0]}, which isn't in `columns`", None, "known")] if strange else ()

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        columns = known_columns(original, masked, self.columns, numbers=True)
        known = self.known or columns
        truth = self._truth(original, masked)
        on = tuple(dict.fromkeys([*self.block_on, *self.within]))
        blocks = make_blocks(original, masked, on, draws)
        points = standard_points(original, masked, known)
        strata = joint_codes(original, masked, self.within)[:2] if self.within else None
        # Forms are tried on some persons of a large file; then all of them are linked, once.
        lesson = self._lesson_blocks(original, masked, blocks, draws, on)
        tried: list[_Fit] = []
        normal = self._normal(points, lesson, truth, strata)
        if self.form != "mixture" or not points.names:
            tried.append(normal)
        whole = len(points.names) == len(columns) and not self.independent
        if self.form != "normal" and whole and points.names and normal.ratio > _NO_NOISE:
            roots = _ROOTS if self.root == "auto" else (self.root,)
            tried += [self._mixture(points, lesson, truth, strata, root, normal) for root in roots]
        best = max(tried or [normal], key=lambda fit: fit.log_likelihood)
        final = lesson is blocks and self.one_to_one
        links = best.links if final else self._link(best.fields, blocks, truth)
        notes = [
            *block_notes(on, known, truth=self.truth),
            "he knows that noise was added"
            + ("" if self.form == "auto" else f", of {self.form} form")
            + ("" if self.variance_ratio is None else ", and its variance"),
        ]
        if lesson is not blocks:
            notes.append(
                f"he learnt the noise from {len(lesson.left):,} persons, and linked all of them once"
            )
        if best.learnt:
            notes.append(
                "the noise's covariance isn't proportional to the data's (sums that were kept, or values "
                "that weren't masked); he learnt it from his links"
            )
        if self.form != "normal" and not whole:
            notes.append(
                "the mixture's likelihood needs all columns of correlated noise; the normal one was used"
            )
        return attack_result(
            links,
            [blocks],
            truth,
            one_to_one=self.one_to_one,
            notes=notes,
            figures={
                "form": best.form,
                "root": best.root,
                "variance_ratio": best.ratio,
                "covariance": "learnt" if best.learnt else "proportional",
                "log_likelihood": best.log_likelihood,
            },
        )

    def _normal(self, points: Points, blocks: Blocks, truth: IntArray, strata: Any) -> _Fit:
        if not points.names or len(points.left) < 2:
            fields = points.fields(points.left, points.right)
            return _Fit("normal", None, fields, self._link(fields, blocks, truth, one_to_one=True), 0.0, 0.0)

        def transform(values: FloatArray) -> FloatArray:
            cov = np.atleast_2d(np.cov(values, rowvar=False))
            return whitener(np.diag(np.diag(cov)) if self.independent else cov)

        left, right = _mapped(points.left, points.right, strata, transform)
        fields = points.fields(left, right)
        links = self._link(fields, blocks, truth, one_to_one=True)
        apart = _residuals(left, right, links)
        n, m = apart.shape
        if n < 2 or m == 0:
            return _Fit("normal", None, fields, links, 0.0, 0.0)
        ratio = float((apart**2).mean())
        log_likelihood = -0.5 * m * (np.log(2 * np.pi * max(ratio, _NO_NOISE)) + 1.0)
        # One number against m (m + 1) / 2: a covariance of its own must be worth that many (BIC).
        price = 0.5 * np.log(n) / n * (m * (m + 1) / 2 - 1)
        matrix, learnt, gains = np.eye(m), False, None
        for _ in range(_ROUNDS if ratio > _NO_NOISE else 0):
            own = _own_log_likelihood(covariance(apart)) - price
            if own > log_likelihood and not self.independent:
                matrix, learnt, log_likelihood = whitener_of(covariance(apart)), True, own
            rows = np.flatnonzero(links.match >= 0)
            gains = points.learnt_gains(rows, links.match[rows])
            if not learnt and gains is None:
                break
            metric = matrix if learnt else matrix / np.sqrt(ratio)
            fields = points.fields(left @ metric.T, right @ metric.T, gains)
            again = self._link(fields, blocks, truth, one_to_one=True)
            stays = bool((again.match == links.match).all())
            links, apart = again, _residuals(left, right, again)
            ratio = max(float((apart**2).mean()), _NO_NOISE)
            if stays:
                break
        return _Fit(
            "normal", None, fields, links, self.variance_ratio or ratio, log_likelihood, learnt, gains
        )

    def _mixture(
        self, points: Points, blocks: Blocks, truth: IntArray, strata: Any, root: str, start: _Fit
    ) -> _Fit:
        from sfumato.stats.covariance import ROOTS

        def transform(values: FloatArray) -> FloatArray:
            # In the data's own units: the principal root depends on them.
            raw = values * points.spread
            made = ROOTS[root](np.atleast_2d(np.cov(raw, rowvar=False)))
            size = np.linalg.norm(made, axis=0)
            live = size > 1e-6 * size.max(initial=1e-300)
            return np.asarray((np.linalg.pinv(made, rcond=1e-9) * points.spread[None, :])[live])

        ratio = self.variance_ratio or start.ratio
        gains = None if start.gains is None else start.gains / 2  # here weights are log-likelihoods
        centre, width = np.sqrt(1 - self.component_variance), np.sqrt(self.component_variance)
        links, log_likelihood = None, 0.0
        for _ in range(1 if self.variance_ratio else _ROUNDS):
            right = _unscaled(points.right, ratio) if self.rescaled else points.right
            one, two = (side / np.sqrt(ratio) for side in _mapped(points.left, right, strata, transform))
            fields = point_fields(
                [f"axis {j + 1}" for j in range(one.shape[1])], one, two, centre=centre, width=width
            )
            fields = points.flagged(fields, gains)
            links = self._link(fields, blocks, truth, one_to_one=True)
            white = _residuals(one, two, links)
            log_likelihood = float(
                (
                    -0.5 * np.log(2 * np.pi * width**2 * ratio)
                    - np.log(2)
                    - (np.abs(white) - centre) ** 2 / (2 * width**2)
                )
                .sum(axis=1)
                .mean()
            )
            fresh = ratio * float((white**2).mean())
            if self.variance_ratio or abs(fresh - ratio) < 1e-3 * ratio or fresh < _NO_NOISE:
                break
            ratio = fresh
        assert links is not None
        return _Fit("mixture", root, fields, links, ratio, log_likelihood)


@dataclass(frozen=True)
class _Fit:
    """One hypothesis about the noise, and what it links."""

    form: str
    root: str | None
    fields: Fields
    links: Links
    ratio: float
    log_likelihood: float
    learnt: bool = False
    """Whether the noise had a covariance of its own, not proportional to the data's."""
    gains: FloatArray | None = None
    """What agreement on the flags is worth."""


def _own_log_likelihood(residual: FloatArray) -> float:
    """The mean log-likelihood of residuals under their own covariance."""
    values = np.maximum(np.linalg.eigvalsh(residual), _SHRINK)
    return float(-0.5 * (len(values) * (np.log(2 * np.pi) + 1.0) + np.log(values).sum()))


def _mapped(
    left: FloatArray, right: FloatArray, strata: Any, transform: Any
) -> tuple[FloatArray, FloatArray]:
    """Both files after the map of their stratum (made from the original values there)."""
    if strata is None:
        matrix = transform(left)
        return left @ matrix.T, right @ matrix.T
    out = np.zeros_like(left), np.zeros_like(right)
    for s in np.unique(strata[0]):
        mine, theirs = strata[0] == s, strata[1] == s
        if mine.sum() < 2:
            continue
        matrix = transform(left[mine])
        k = matrix.shape[0]
        out[0][mine, :k], out[1][theirs, :k] = left[mine] @ matrix.T, right[theirs] @ matrix.T
    return out


def _residuals(left: FloatArray, right: FloatArray, links: Links) -> FloatArray:
    linked = links.match >= 0
    return right[links.match[linked]] - left[linked]


def _unscaled(right: FloatArray, ratio: float) -> FloatArray:
    """Z from its rescaled form a·Z + (1 − a)·mean(Z), a = 1/√(1+d)."""
    a = 1.0 / np.sqrt(1.0 + ratio)
    return np.asarray((right - (1 - a) * right.mean(axis=0)) / a)
