"""The intruder who makes the clusters of a shuffle again, and looks inside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl

from sfumato.contract.mask import Mask
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.result import Result
from sfumato.data.following import following
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.draws import Draws, Seed
from sfumato.linkage.assign import link
from sfumato.linkage.blocks import Blocks
from sfumato.linkage.points import standard_points
from sfumato.linkage.results import attack_result, true_links
from sfumato.risk.clusters_known import KnowsClusters, borne_out
from sfumato.stats.levels import Levels, features, levels_of
from sfumato.stats.partition import Partition
from sfumato.stats.ranks import mid_ranks

NEAR_RANK: Final = 0.05
NEAR_PERCENT: Final = 2.0
_FOLDS: Final = 5
_SURE: Final = 0.99
_MOST_COLUMNS: Final = 12
_RIDGE: Final = 1.0
_HULLS: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class ClusterAttack(KnowsClusters):
    """Re-identify records of a cluster shuffle: make its clusters again, assign 1-1 inside them.

    The intruder has every original value of everybody, knows the method and its parameters, and is told
    which released rows belong to which cluster (his own exact values would tell him nearly always).
    Inside a cluster he links by the least total distance of ranks. Whatever he does, his expected rate
    is Σ 1/|cluster| / n = clusters/n (``bound``; with units, a unit's share of its cluster): ``excess``
    is how many standard errors the rate is above it.

    He then looks for one number at a time, told the cluster and knowing all other columns: the model
    of *other people* (a regression on all other columns, cross-fitted) puts the cluster's persons in order,
    and its released values go to them in that order. Gain = (g − b)/(1 − b), with g the share of persons
    whose value he gets right and b the share that the model alone gets right: exactly
    (``exact_gain``), within 2 percent (``near_gain``), within .05 ranks (``rank_gain``), as means over
    the columns; ``hull_gain`` is that of a regression inside the cluster's released rows (within .05
    ranks), which undoes anything that rotates records inside small clusters. The breakdown has each. A
    small link rate says nothing of these: read both.

    Reference: ours; the gain as in Hittmeir, M., Mayer, R., Ekelhart, A. (2020). A baseline for attribute
    disclosure risk in synthetic data. CODASPY, 133-143 (a model of other people as baseline).

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> x = np.arange(400.0)
    >>> people = pl.DataFrame({"A": x, "B": (x * 37) % 400, "C": (x * 91) % 400})
    >>> masked = sf.ClusterShuffle(columns=["A", "B", "C"], smallest=20).mask(people, seed=1)
    >>> found = sf.ClusterAttack(columns=["A", "B", "C"], smallest=20).measure(people, masked)
    >>> found.bound, found.rate < 0.1
    (0.05, True)
    """

    name: ClassVar[str] = "cluster_attack"
    reference: ClassVar[str] = "Hittmeir, Mayer, Ekelhart (2020) for the gain"
    compares_all: ClassVar[bool] = False

    def measure(
        self,
        original: Any,
        masked: Any = None,
        *,
        seed: Seed | int | None = 0,
        steps: Sequence[Mask] = (),
    ) -> Result:
        """The result on an original and a masked file. His own list stays as it is: he blurs it himself."""
        return RiskMeasure.measure(self, original, masked, seed=seed)

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        told = following(original.schema, self.columns)
        truth = true_links(original, masked, self.truth)
        columns, partition = self.clusters(original)
        found = float(borne_out(columns, masked, partition, truth).mean())
        bounds = _bounds(original, partition, self.unit)
        # Rows are told by their place only where the release bears the clusters out: wrong ones, so told,
        # would say more of a row's place than anybody knows.
        sure = found > _SURE
        label = partition.label if sure else original.codes(self.within)[0]
        blocks = _blocks(label, truth, len(masked), draws)
        points = standard_points(original, masked, told.dealt, ranks=True)
        links = link(points.fields(points.left, points.right), blocks, truth)
        gains = _gains(original, masked, _of_interest(original, columns), told.dealt, label, truth, draws)
        bound = float(bounds[truth >= 0].mean()) if (truth >= 0).any() else 0.0
        n = max(int((truth >= 0).sum()), 1)
        right = int(((links.match == truth) & (truth >= 0)).sum())
        mean = {
            name: float(gains[name].mean()) if gains.height else 0.0  # type: ignore[arg-type]
            for name in ("exact_gain", "near_gain", "rank_gain", "hull_gain")
        }
        return attack_result(
            links,
            [blocks],
            truth,
            one_to_one=True,
            notes=[
                f"he knows {', '.join(told.dealt[:6])}{' …' if len(told.dealt) > 6 else ''} of everybody, "
                "the method, its parameters and the clusters; not the seed",
                f"clusters make {bound:.4f} of his links right, whatever he does"
                if sure
                else f"only {found:.0%} of his clusters hold the released values: he links without them",
            ],
            figures={
                "bound": bound,
                "worst_bound": float(bounds.max(initial=0.0)),
                "excess": (right / n - bound) / np.sqrt(max(bound * (1 - bound), 1e-12) / n),
                "clusters": len(partition.sizes),
                "clusters_found": found,
                **mean,
                "by_column": gains,
            },
        )


def _of_interest(data: Microdata, columns: Sequence[Levels]) -> list[str]:
    """The numbers whose values he looks for: sensitive ones, else those of most different values."""
    numbers = [c for c in columns if c.ordered and len(c) >= 3]
    wanted = [c.name for c in numbers if c.name in data.schema.sensitive]
    if not wanted:
        wanted = [c.name for c in sorted(numbers, key=lambda c: (-len(c), c.name))]
    return wanted[:_MOST_COLUMNS]


def _bounds(data: Microdata, partition: Partition, unit: str | None) -> FloatArray:
    """For each record, the chance that a row of its cluster is its (or its unit's)."""
    held = np.ones(len(data), np.int64)
    if unit is not None:
        owner, _ = data.households(unit)
        held = np.bincount(owner)[owner]
    return np.asarray(held / partition.sizes[partition.label], dtype=np.float64)


def _blocks(label: IntArray, truth: IntArray, n_right: int, draws: Draws) -> Blocks:
    """The clusters as blocks; released rows are in their person's, in a random order on both sides."""
    there = np.full(n_right, -1, np.int64)
    there[truth[truth >= 0]] = label[truth >= 0]
    sides, starts = [], []
    for which, code in (("original", label), ("masked", there)):
        order = draws.stream(purpose=f"shuffle {which}").permutation(len(code))
        order = order[code[order] >= 0]
        sides.append(order[np.argsort(code[order], kind="stable")])
        starts.append(np.bincount(code[code >= 0], minlength=int(label.max()) + 1))
    full = (starts[0] > 0) & (starts[1] > 0)
    kept = [side[np.repeat(full, count)] for side, count in zip(sides, starts, strict=True)]
    begins = [np.concatenate([[0], np.cumsum(count[full])]).astype(np.int64) for count in starts]
    return Blocks(kept[0], kept[1], begins[0], begins[1])


# -- one value at a time --------------------------------------------------------------------------


def _gains(
    original: Microdata,
    masked: Microdata,
    wanted: Sequence[str],
    columns: Sequence[str],
    label: IntArray,
    truth: IntArray,
    draws: Draws,
) -> pl.DataFrame:
    """For every number that is looked for, what the model alone and what the cluster's values get right."""
    known = truth >= 0
    levels = [levels_of(original, c) for c in columns]
    fold = (draws.stream(purpose="folds").bits(0, len(original)) % np.uint64(_FOLDS)).astype(np.int64)
    design, owner = _design(levels)
    rows = []
    for column in wanted if len(columns) > 1 else ():
        own = levels[columns.index(column)]
        if not (masked.dtype(column).is_numeric() or masked.dtype(column).is_temporal()):
            continue
        value = own.numbers[own.codes]
        ok = known & np.isfinite(value)
        if ok.sum() < 10 * _FOLDS:
            continue
        rank = _ranks(value, ok)
        guess = _cross_fitted(design[:, owner != columns.index(column)], rank, fold, ok)
        ordered = np.sort(value[ok])
        place = np.clip(np.rint(guess * (len(ordered) + 1)).astype(np.int64) - 1, 0, len(ordered) - 1)
        alone = _hits(ordered[place], value, ordered, ok)
        released = np.full(len(value), np.nan)
        released[known] = masked.numbers(column)[truth[known]]
        told = _hits(_dealt_by(guess, released, label), value, ordered, ok)
        gain = [(g - b) / (1 - b) if b < 1 else 0.0 for g, b in zip(told, alone, strict=True)]
        ruled = _hits(_on_hull(original, masked, column, columns, label, truth), value, ordered, ok)[2]
        rows.append(
            {
                "column": column,
                "hull_gain": (ruled - alone[2]) / (1 - alone[2]) if alone[2] < 1 else 0.0,
                **dict(zip(("exact_gain", "near_gain", "rank_gain"), gain, strict=True)),
                **dict(zip(("exact", "near", "rank"), told, strict=True)),
                **dict(zip(("exact_model", "near_model", "rank_model"), alone, strict=True)),
            }
        )
    return pl.DataFrame(rows)


def _on_hull(
    original: Microdata,
    masked: Microdata,
    column: str,
    columns: Sequence[str],
    label: IntArray,
    truth: IntArray,
) -> FloatArray:
    """Each person's value on the plane through his cluster's released rows, at his other numbers.

    A rotation of m records inside a cluster leaves them in their affine hull: with m at most the number of
    columns, a regression of the cluster's rows gives the last value back. Some clusters of a large file.
    """
    names = [c for c in columns if c != column and masked.is_numeric(c) and original.is_numeric(c)]
    out = np.full(len(original), np.nan)
    if not names:
        return out
    left, right = original.matrix(names), masked.matrix(names)
    scale = np.nanstd(left, axis=0)
    keep = scale > 0
    middle = np.nanmean(left, axis=0)
    left, right = (np.nan_to_num((x[:, keep] - middle[keep]) / scale[keep]) for x in (left, right))
    target = masked.numbers(column)
    order = np.argsort(label, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(label[order])) + 1)[:_HULLS]:
        there = truth[rows]
        there = there[there >= 0]
        there = there[np.isfinite(target[there])]
        if len(there) < 2:
            continue
        design = np.column_stack([np.ones(len(there)), right[there]])
        beta = np.linalg.lstsq(design, target[there], rcond=None)[0]
        out[rows] = np.column_stack([np.ones(len(rows)), left[rows]]) @ beta
    return out


def _design(columns: Sequence[Levels]) -> tuple[FloatArray, IntArray]:
    """What the model looks at, and whose it is: the columns' features and the squares of their scores."""
    parts: list[FloatArray] = [np.ones(len(columns[0].codes))]
    owner = [-1]
    for j, one in enumerate(columns):
        for i, f in enumerate(features(one)):
            made = [f[one.codes]]
            if one.ordered and i == 1:
                made.append(made[0] ** 2 - 1)
            parts += made
            owner += [j] * len(made)
    return np.column_stack(parts), np.array(owner)


def _ranks(value: FloatArray, ok: BoolArray) -> FloatArray:
    out = np.full(len(value), np.nan)
    out[ok] = mid_ranks(value[ok]) / (ok.sum() + 1)
    return out


def _cross_fitted(design: FloatArray, rank: FloatArray, fold: IntArray, ok: BoolArray) -> FloatArray:
    """Ridge regression of the rank, each person's from the other folds."""
    out = np.full(len(rank), np.nan)
    penalty = _RIDGE * np.eye(design.shape[1])
    penalty[0, 0] = 0.0
    for f in range(_FOLDS):
        learn, use = ok & (fold != f), fold == f
        x = design[learn]
        beta = np.linalg.solve(x.T @ x + penalty, x.T @ rank[learn])
        out[use] = design[use] @ beta
    return np.asarray(np.clip(out, 0.0, 1.0))


def _dealt_by(guess: FloatArray, released: FloatArray, label: IntArray) -> FloatArray:
    """Each cluster's released values, in order, to its persons in the order of the guess."""
    out = np.empty(len(guess))
    out[np.lexsort((guess, label))] = released[np.lexsort((released, label))]
    return out


def _hits(
    said: FloatArray, value: FloatArray, ordered: FloatArray, ok: BoolArray
) -> tuple[float, float, float]:
    """The shares of persons whose value is said exactly, within 2 percent, and within .05 ranks."""
    said, value = said[ok], value[ok]
    with np.errstate(invalid="ignore"):
        exact = said == value
        near = np.abs(said - value) <= NEAR_PERCENT / 100 * np.abs(value)

    def rank(x: FloatArray) -> FloatArray:
        low, high = np.searchsorted(ordered, x, "left"), np.searchsorted(ordered, x, "right")
        return np.asarray((low + high + 1) / 2 / (len(ordered) + 1))

    close = np.abs(rank(said) - rank(value)) <= NEAR_RANK
    return float(exact.mean()), float(near.mean()), float((close & np.isfinite(said)).mean())
