"""Distance-based linkage, and the intruder who learns the mask's residuals by himself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.linkage.assign import Links
from sfumato.linkage.blocks import Blocks
from sfumato.linkage.fields import Fields
from sfumato.linkage.points import PointAttack, Points, standard_points, whitener


@dataclass(frozen=True, kw_only=True)
class DistanceLinkage(PointAttack):
    """Re-identify records as the nearest ones, 1-1 by the least total squared distance.

    ``metric="standardised"`` measures in units of the original's standard deviations;
    ``"mahalanobis"`` whitens by the covariance of the release, which is the right metric against
    noise whose covariance is proportional to the data's; ``"rank"`` compares each column's ranks. A
    value missing on one side only counts as 2 squared units. Categories agree or not (Gower): a
    disagreement counts 2 / (1 − u), u the share of random pairs that agree, so that over random
    pairs a category weighs as much as a number. ``nearest_rate`` is the rate of the plain nearest
    neighbour, ties shared.

    Reference: Pagliuca and Seri (1999); Domingo-Ferrer and Torra (2001), in Confidentiality,
    Disclosure and Data Access, ch. 5-6; Torra, Abowd and Domingo-Ferrer (2006) for Mahalanobis.

    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame({"A": [1.0, 2.0, 9.0], "B": [5.0, 1.0, 3.0]})
    >>> sf.DistanceLinkage(known=["A", "B"]).measure(people, people + 0.2).rate
    1.0
    """

    name: ClassVar[str] = "distance_linkage"
    reference: ClassVar[str] = "Domingo-Ferrer and Torra (2001)"

    metric: Literal["standardised", "mahalanobis", "rank"] = parameter(
        "standardised",
        doc="The distance: standardised, Mahalanobis by the release's covariance, or of ranks.",
        choices=("standardised", "mahalanobis", "rank"),
    )

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        if not intruder.values:
            return ()
        plain = cls(known=intruder.values, block_on=intruder.block_on)
        others: list[Literal["mahalanobis", "rank"]] = ["mahalanobis", "rank"] if intruder.numbers else []
        return [plain, *(replace(plain, metric=metric) for metric in others)]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        known = self._known(original, masked)
        truth = self._truth(original, masked)
        points = standard_points(original, masked, known, ranks=self.metric == "rank")
        if self.metric == "mahalanobis" and points.names and len(masked) > 1:
            fields = points.turned(whitener(covariance(points.right)))
        else:
            fields = points.fields(points.left, points.right)
        blocks = self._blocks(original, masked, draws)
        links = self._link(fields, blocks, truth)
        return self._result(
            links, blocks, truth, known, [f"he links by {self.metric} distance and knows nothing of the mask"]
        )


@dataclass(frozen=True, kw_only=True)
class SelfTrainedLinkage(PointAttack):
    """Re-identify records by a linkage that trains itself: link, learn the residuals, link again.

    Starting from plain distance, 1-1 linkage and the estimation of the residuals' covariance
    alternate until the links stay; each linkage uses the Mahalanobis distance of the last
    residuals. The intruder knows nothing of the mask. He tries it on the values and on their ranks,
    and keeps the one whose links are the likelier, by the mean log-likelihood ratio of linked
    against random pairs (ranks where the two are within 3 percent). What agreement on a category,
    or on what is missing, is worth he learns from his links, too.

    Reference: the latent-class idea of Winkler (1988) with Gaussian residuals in place of
    agreement patterns; see the attacks page for what it reaches.

    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame({"A": [1.0, 2.0, 9.0, 4.0], "B": [5.0, 1.0, 3.0, 4.0]})
    >>> sf.SelfTrainedLinkage(known=["A", "B"]).measure(people, people * 1.01).rate
    1.0
    """

    name: ClassVar[str] = "self_trained_linkage"
    reference: ClassVar[str] = "after Winkler (1988)"

    space: Literal["best", "values", "ranks"] = parameter(
        "best",
        doc="Where residuals are taken: on the values, on their ranks, or on the better of both.",
        choices=("best", "values", "ranks"),
    )
    iterations: int = parameter(15, doc="How often, at most, the linkage trains itself.", at_least=1)

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        return [cls(known=intruder.values, block_on=intruder.block_on)] if intruder.values else ()

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        known = self._known(original, masked)
        truth = self._truth(original, masked)
        blocks = self._blocks(original, masked, draws)
        lesson = self._lesson_blocks(original, masked, blocks, draws)
        tried = []
        for space in ("values", "ranks") if self.space == "best" else (self.space,):
            points = standard_points(original, masked, known, ranks=space == "ranks")
            fields, links, rounds, gain = self._train(points, lesson, truth)
            tried.append((gain, space, fields, links, rounds))
        gain, space, fields, links, rounds = max(
            tried, key=lambda t: t[0] * (_NEARLY if t[1] == "ranks" else 1.0)
        )
        if not self.one_to_one or links.gap or lesson is not blocks:
            links = self._link(fields, blocks, truth)
        notes = [f"he knows nothing of the mask and learns its residuals from his own links (on {space})"]
        if lesson is not blocks:
            notes.append(f"he learnt them from {len(lesson.left):,} persons, and linked all once")
        if rounds >= self.iterations:
            notes.append(f"the links were still changing after {rounds} rounds")
        return self._result(
            links, blocks, truth, known, notes, space=space, rounds=rounds, log_likelihood_ratio=gain
        )

    def _train(self, points: Points, blocks: Blocks, truth: IntArray) -> tuple[Fields, Links, int, float]:
        """Link, learn, link again: what was learnt, the last links, the rounds, the mean log-likelihood
        ratio."""
        left, right = points.left, points.right
        # While it learns, the best of the first candidates will do in blocks too large for a matrix.
        links = self._link(points.fields(left, right), blocks, truth, one_to_one=True, rounds=0)
        residual, gains = _lesson(points, links)
        rounds = 0
        if (links.match >= 0).sum() > 1:
            while rounds < self.iterations:
                turned = points.turned(whitener_of(residual), gains)
                again = self._link(turned, blocks, truth, one_to_one=True, rounds=0)
                rounds += 1
                stays = bool((again.match == links.match).all())
                links, (residual, gains) = again, _lesson(points, again)
                if stays:
                    break
        gain = _log_ratio(left, right, links, residual)
        return points.turned(whitener_of(residual), gains), links, rounds, gain


_SHRINK = 1e-6
_NEARLY = 1.03  # where the two spaces are this near, ranks: outliers can't sway them


def whitener_of(residual: FloatArray) -> FloatArray:
    """The map after which these residuals are white; a direction without any residual keeps a little."""
    values, vectors = np.linalg.eigh(residual)
    return np.asarray((vectors / np.sqrt(np.maximum(values, _SHRINK))).T)


def covariance(points: FloatArray) -> FloatArray:
    return np.atleast_2d(np.cov(points, rowvar=False))


def _residual_covariance(left: FloatArray, right: FloatArray, links: Links) -> FloatArray:
    m = left.shape[1]
    linked = links.match >= 0
    if linked.sum() < 2 or not m:
        return np.eye(m)
    return covariance(right[links.match[linked]] - left[linked]) + _SHRINK * np.eye(m)


def _lesson(points: Points, links: Links) -> tuple[FloatArray, FloatArray | None]:
    """What the links teach: the residuals' covariance, and what the flags are worth."""
    rows = np.flatnonzero(links.match >= 0)
    return (
        _residual_covariance(points.left, points.right, links),
        points.learnt_gains(rows, links.match[rows]),
    )


def _log_ratio(left: FloatArray, right: FloatArray, links: Links, residual: FloatArray) -> float:
    """The mean log-likelihood ratio of the links: Gaussian residuals against those of random pairs."""
    linked = links.match >= 0
    m = left.shape[1]
    if linked.sum() < 2 or not m:
        return 0.0
    apart = right[links.match[linked]] - left[linked]
    random = covariance(left) + covariance(right) + _SHRINK * np.eye(m)
    total = 0.0
    for matrix, sign in ((residual, 1.0), (random, -1.0)):
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(values, _SHRINK)
        white = (apart - (apart.mean(0) if sign > 0 else 0.0)) @ vectors / np.sqrt(values)
        total += sign * (-0.5 * np.log(values).sum() - 0.5 * float((white**2).sum(1).mean()))
    return float(total)
