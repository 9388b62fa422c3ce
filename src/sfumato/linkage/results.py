"""What all attacks report: the rate, chance, an interval, the links, what was assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from sfumato.contract.measure import FOUND
from sfumato.contract.result import Result
from sfumato.data.codes import joint_codes
from sfumato.data.microdata import BoolArray, FloatArray, IntArray, Microdata
from sfumato.errors import MeasureError
from sfumato.linkage.assign import Links
from sfumato.linkage.blocks import Blocks

_Z95 = 1.959963984540054


def wilson(correct: float, n: int) -> tuple[float, float]:
    """The 95% score interval of a proportion (Wilson 1927).

    >>> low, high = wilson(5, 50)
    >>> round(low, 4), round(high, 4)
    (0.0435, 0.2136)
    """
    if n == 0:
        return 0.0, 1.0
    p, z2 = correct / n, _Z95 * _Z95
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * np.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    # Rounding must not put the proportion itself outside.
    return float(max(0.0, min(centre - half, p))), float(min(1.0, max(centre + half, p)))


def true_links(original: Microdata, masked: Microdata, truth: str | None) -> IntArray:
    """The masked record that each original record belongs to (−1: none).

    Record i of one file is record i of the other, unless ``truth`` names an id that both files have.
    Files of different length are linked by the schema's id; without one, record i is taken to be
    record i only where the values bear that out.
    """
    if truth is None and len(original) == len(masked):
        return np.arange(len(original), dtype=np.int64)
    if truth is None:
        mark = original.schema.id
        if mark is None or mark not in original.columns or mark not in masked.columns:
            return _by_place(original, masked)
        truth = mark
    left, right, size = joint_codes(original, masked, [truth])
    gone_left, gone_right = original.missing(truth), masked.missing(truth)
    for code, gone, which in ((left, gone_left, "original"), (right, gone_right, "masked")):
        if (np.bincount(code[~gone], minlength=1) > 1).any():
            raise MeasureError(f"{truth} isn't unique in the {which} file, so it can't tell the true links")
    place = np.full(size, -1, dtype=np.int64)
    place[right[~gone_right]] = np.flatnonzero(~gone_right)
    return np.where(gone_left, -1, place[left])


def _by_place(original: Microdata, masked: Microdata) -> IntArray:
    """Record i is record i as far as the shorter file goes, if most columns look like it."""
    n = min(len(original), len(masked))
    shared = [c for c in original.columns if c in masked.columns]
    alike = 0
    for column in shared:
        one, two, _ = joint_codes(original, masked, [column])
        one, two = one[:n], two[:n]
        size = int(max(one.max(initial=0), two.max(initial=0))) + 1
        first, second = np.bincount(one, minlength=size), np.bincount(two, minlength=size)
        # Codes follow the values' order. Between random records the places of two values among all
        # are a third apart on average, and they are equal with probability Σ f g.
        apart = np.abs((np.cumsum(first) / n)[one] - (np.cumsum(second) / n)[two]).mean() if n else 1.0
        equal, by_chance = float((one == two).mean()) if n else 0.0, float(first @ second) / max(n * n, 1)
        noise = 4.0 / np.sqrt(max(n, 1))
        alike += bool(apart < 1 / 3 - 0.24 * noise or equal > by_chance + 0.5 * noise)
    if not n or 2 * alike <= len(shared):
        raise MeasureError(
            f"the files have {len(original):,} and {len(masked):,} records, "
            "and record i of one doesn't look like record i of the other",
            hint="name the column with the true links: truth=…",
        )
    return np.where(np.arange(len(original)) < n, np.arange(len(original)), -1)


def chance(blockings: Sequence[Blocks], truth: IntArray, attacked: BoolArray) -> float:
    """The rate of an intruder who draws a masked record at random among those he would compare."""
    seen = np.zeros(len(truth))
    reached = np.zeros(len(truth), dtype=np.bool_)
    for blocks in blockings:
        left_sizes, right_sizes = blocks.sizes
        seen[blocks.left] += np.repeat(right_sizes, left_sizes)
        left_block = np.full(len(truth), -1, dtype=np.int64)
        left_block[blocks.left] = np.repeat(np.arange(len(blocks)), left_sizes)
        top = max(int(truth.max(initial=-1)), int(blocks.right.max(initial=-1))) + 2
        right_block = np.full(top, -2, dtype=np.int64)
        right_block[blocks.right] = np.repeat(np.arange(len(blocks)), right_sizes)
        reached |= left_block == right_block[truth]
    rates = np.divide(reached, seen, out=np.zeros(len(truth)), where=seen > 0)
    return float(rates[attacked].mean()) if attacked.any() else 0.0


def zone_threshold(weight: FloatArray, correct: BoolArray, share: float) -> float:
    """The lowest weight T at which the links of weight ≥ T are still at least ``share`` true.

    Ties stand or fall together. Infinite where no cut reaches the share.
    """
    if not len(weight):
        return float("inf")
    order = np.argsort(-weight, kind="stable")
    w, running = weight[order], np.cumsum(correct[order])
    ends = np.flatnonzero(np.append(np.diff(w) != 0, True))
    good = ends[running[ends] >= share * (ends + 1)]
    return float(w[good[-1]]) if len(good) else float("inf")


def links_frame(links: Links, truth: IntArray) -> pl.DataFrame:
    """The links in decreasing weight, with the running share of true ones. Confidential."""
    left = np.flatnonzero(links.match >= 0)
    left = left[np.argsort(-links.weight[left], kind="stable")]
    right = links.match[left]
    correct = truth[left] == right
    return pl.DataFrame(
        {
            "original": left,
            "masked": right,
            "weight": links.weight[left],
            "correct": correct,
            "running_share": np.cumsum(correct) / np.arange(1, len(left) + 1),
        }
    )


def by_weight(frame: pl.DataFrame, bands: int = 10) -> pl.DataFrame:
    """The links in bands of equal number by weight: how many are true in each."""
    if frame.is_empty():
        return pl.DataFrame(schema={"band": pl.Int64, "links": pl.Int64, "true_share": pl.Float64})
    band = pl.Series("band", np.arange(frame.height) * bands // frame.height + 1)
    return (
        frame.with_columns(band)
        .group_by("band", maintain_order=True)
        .agg(
            pl.len().alias("links"),
            pl.col("weight").min().alias("lowest_weight"),
            pl.col("correct").mean().alias("true_share"),
        )
    )


def attack_result(
    links: Links,
    blockings: Sequence[Blocks],
    truth: IntArray,
    *,
    one_to_one: bool,
    notes: Sequence[str],
    figures: Mapping[str, Any] | None = None,
    confidential: Mapping[str, Any] | None = None,
    attacked: BoolArray | None = None,
    zone_percent: float = 20.0,
) -> Result:
    """The result of an attack that links records.

    ``attacked`` are the records whose re-identification counts: by default all that have a true
    counterpart. Without 1-1, a record with several nearest records counts by the chance of a draw.
    """
    counted = truth >= 0 if attacked is None else attacked & (truth >= 0)
    n = int(counted.sum())
    if n == 0:
        raise MeasureError(
            "no record of the original file has a true counterpart in the masked file",
            hint="check that `truth` names an id that both files share",
        )
    frame = links_frame(links, truth)
    hits = counted & (links.match == truth)
    of_each: dict[str, Any] = {}
    if attacked is None:  # of a sample, a household's other members aren't known to be safe
        of_each[FOUND] = hits.astype(np.float64) if one_to_one else np.where(counted, links.nearest, 0.0)
    else:
        frame = frame.filter(pl.Series(attacked)[frame["original"]])
    correct = int(hits.sum())
    nearest = float(links.nearest[counted].sum())
    rate = correct / n if one_to_one else nearest / n
    weights, true = frame["weight"].to_numpy(), frame["correct"].to_numpy()
    threshold = zone_threshold(weights, true, zone_percent / 100)
    in_zone = weights >= threshold
    risky = frame.filter(pl.Series(in_zone & true)).select("original", "masked", "weight")
    said = list(notes)
    unreached = n - int((counted & (links.match >= 0)).sum())
    if unreached:
        said.append(f"{unreached:,} records had no admissible counterpart left and stayed without a link")
    absent = int((truth < 0).sum())
    if absent:
        said.append(
            f"{absent:,} records of the original file have no counterpart in the release and aren't counted"
        )
    if links.sparse_blocks:
        said.append(_sparse_note(links))
    return Result(
        value=rate,
        unit="share of records re-identified",
        interval=wilson(rate * n, n),
        breakdown=by_weight(frame),
        notes=tuple(said),
        figures={
            "rate": rate,
            "correct": correct if one_to_one else nearest,
            "baseline": chance(blockings, truth, counted),
            "attacked": n,
            "linked": frame.height,
            "precision": float(true.mean()) if frame.height else 0.0,
            "nearest_rate": nearest / n,
            "zone_rate": risky.height / n,
            "zone_links": int(in_zone.sum()),
            "zone_threshold": threshold if np.isfinite(threshold) else None,
            "pairs": links.pairs,
            "assignment_gap": links.gap if np.isfinite(links.gap) else None,
            **(figures or {}),
        },
        confidential={"links": frame, "risky": risky, **of_each, **(confidential or {})},
    )


def _sparse_note(links: Links) -> str:
    """Whether the assignment by candidates is the best over all pairs."""
    start = "large blocks were assigned by each record's best candidates"
    if links.gap == 0.0:
        return f"{start}; no other 1-1 assignment is heavier, as its dual prices prove"
    if not np.isfinite(links.gap):
        return f"{start}; a heavier 1-1 assignment over all pairs isn't ruled out"
    total = float(np.nansum(np.abs(links.weight)))
    share = f" ({links.gap / total:.2%} of the total)" if total > 0 else ""
    return f"{start}; another 1-1 assignment could be heavier by {links.gap:.3g}{share} at most"


def block_notes(block_on: Sequence[str], known: Sequence[str], *, truth: str | None) -> list[str]:
    """What every linking intruder was assumed to know."""
    whose = "an outside file" if truth else "the original values"
    text = f"the intruder has {whose} of {', '.join(known)} for every record"
    if block_on:
        text += f", and {', '.join(block_on)} exactly"
    return [text + ", and knows that each person is in the release"] if not truth else [text]
