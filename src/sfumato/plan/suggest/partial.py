"""Sums that hold in most records: totals with a residual, or broken by edits and rounding.

A start is any group of columns that makes the total in a handful of records (by hashes), any run of
neighbouring columns, and nothing. From each, columns are added one by one as long as the total is made
in more records. What is left must hold in most records in which a sum is at work at all, and far more
often than for totals dealt out at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sfumato.data.microdata import Microdata
from sfumato.plan.suggest.sums import hashed_sums

Matrix = npt.NDArray[np.float64]

_SAMPLE: Final = 600
_HANDFUL: Final = 5
_HANDFULS: Final = 40
_MOST_COLUMNS: Final = 100
_LONGEST_RUN: Final = 30
_MOST_PARTS: Final = 40
_FEWEST: Final = 30
_LEAST_SHARE: Final = 0.6
_GOOD: Final = 0.9
"""From this share on, a part of the parts isn't tried."""
_GAIN: Final = 0.004
_VALUES: Final = 10


@dataclass(frozen=True)
class Partial:
    """The parts of a total, and the share of records with all of them in which they make it."""

    parts: tuple[str, ...]
    share: float


def find_partial_sums(
    data: Microdata, columns: Sequence[str], known: Sequence[str] = ()
) -> dict[str, Partial]:
    """Each total among these columns (but for the ``known`` ones) → what it is mostly the sum of.

    >>> import polars as pl
    >>> a, b = [7 * i % 101 for i in range(400)], [11 * i % 97 for i in range(400)]
    >>> total = [x + y + (i % 12 == 0) for i, (x, y) in enumerate(zip(a, b))]
    >>> found = find_partial_sums(Microdata(pl.DataFrame({"a": a, "b": b, "t": total})), ["a", "b", "t"])
    >>> found["t"].parts, round(found["t"].share, 2)
    (('a', 'b'), 0.92)
    """
    if len(data) < _FEWEST:
        return {}
    usable = [c for c in columns if _varies(data.numbers(c))][:_MOST_COLUMNS]
    if len(usable) < 3:
        return {}
    step = max(1, len(data) // _SAMPLE)
    sample = np.column_stack([data.numbers(c)[::step] for c in usable])
    sample = np.nan_to_num(sample, nan=0.0)
    best: dict[int, tuple[float, tuple[int, ...]]] = {}
    tried: set[tuple[int, tuple[int, ...]]] = set()
    for total, start in _starts(sample):
        made, of = best.get(total, (0.0, ()))
        done = made >= _GOOD and set(start) <= set(of)
        if usable[total] in known or done or (total, start) in tried:
            continue
        tried.add((total, start))
        parts = _grown(sample, total, start)
        share = _holds(sample, total, parts)
        if share > best.get(total, (0.0, ()))[0]:
            best[total] = (share, parts)
    out: dict[str, Partial] = {}
    for total, (share, parts) in sorted(best.items(), key=lambda item: -item[1][0]):
        names = tuple(usable[p] for p in sorted(parts))
        clash = any(
            usable[total] in p.parts and set(p.parts) - {usable[total]} & {t, *names} for t, p in out.items()
        )
        if share >= _LEAST_SHARE and len(parts) >= 2 and not clash:
            whole = np.column_stack([data.numbers(c) for c in (usable[total], *names)])
            there = whole[np.isfinite(whole).all(axis=1)]
            held = _holds(there, 0, tuple(range(1, whole.shape[1])))
            if held >= _LEAST_SHARE:
                every = np.isclose(there[:, 0], there[:, 1:].sum(axis=1), rtol=1e-9, atol=1e-6)
                out[usable[total]] = Partial(names, float(every.mean()))
    return out


def _varies(values: Matrix) -> bool:
    known = values[np.isfinite(values)]
    return len(known) >= _FEWEST and known.min() < known.max()


def _starts(sample: Matrix) -> Iterator[tuple[int, tuple[int, ...]]]:
    n, m = sample.shape
    for total in range(m):
        yield total, ()
    prefix = np.concatenate([np.zeros((n, 1)), np.cumsum(sample, axis=1)], axis=1)
    for total in range(m):
        for begin in (total + 1, total + 2, *range(max(0, total - _LONGEST_RUN), total - 1)):
            ends = range(begin + 2, min(m, begin + _LONGEST_RUN) + 1) if begin > total else (total - 1, total)
            for end in ends:
                if begin >= 0 and begin + 2 <= end <= m and not begin <= total < end:
                    made = prefix[:, end] - prefix[:, begin]
                    if _share_made(sample, total, made) > 0.3:
                        yield total, tuple(range(begin, end))
    scaled = np.rint(sample * 100).astype(np.int64)
    filled = (sample != 0).sum(axis=1)
    rich = np.argsort(-filled, kind="stable")
    handfuls = _HANDFULS if m <= 40 else 10
    for k in range(handfuls):
        rows = rich[k::handfuls][:_HANDFUL]
        if len(rows) == _HANDFUL:
            usable = np.flatnonzero((scaled[rows] != 0).sum(axis=0) >= 3)
            for total, parts in hashed_sums(scaled[np.ix_(rows, usable)]):
                yield int(usable[total]), tuple(int(usable[p]) for p in parts)


def _share_made(sample: Matrix, total: int, made: Matrix) -> float:
    work = (sample[:, total] != 0) & (made != 0)
    if work.sum() < _FEWEST // 2:
        return 0.0
    return float(np.isclose(sample[work, total], made[work], rtol=1e-9, atol=1e-6).mean())


def _grown(sample: Matrix, total: int, start: tuple[int, ...]) -> tuple[int, ...]:
    """Columns added as long as each makes the total in more records."""
    parts = list(start)
    rest = sample[:, total] - sample[:, parts].sum(axis=1)
    size = 1e-6 + 1e-9 * np.abs(sample[:, total])
    live = sample[:, total] != 0
    now = int((np.abs(rest) <= size)[live].sum()) if parts else 0
    others = [j for j in range(sample.shape[1]) if j != total and j not in parts]
    while others and len(parts) < _MOST_PARTS:
        made = (np.abs(rest[:, None] - sample[:, others]) <= size[:, None])[live].sum(axis=0)
        pick = int(np.argmax(made))
        if made[pick] < now + max(2, _GAIN * live.sum()):
            break
        now = int(made[pick])
        column = others.pop(pick)
        parts.append(column)
        rest = rest - sample[:, column]
    return tuple(parts)


def _holds(sample: Matrix, total: int, parts: tuple[int, ...]) -> float:
    """The share, among records in which two parts or more are at work, in which they make the total;
    0 where as much would come about by chance."""
    if len(parts) < 2:
        return 0.0
    work = (sample[:, list(parts)] != 0).sum(axis=1) >= 2
    t, made = sample[work, total], sample[np.ix_(work, list(parts))].sum(axis=1)
    if work.sum() < _FEWEST or len(np.unique(t)) < _VALUES:
        return 0.0
    share = float(np.isclose(t, made, rtol=1e-9, atol=1e-6).mean())
    chance = float(np.isclose(np.roll(t, len(t) // 2), made, rtol=1e-9, atol=1e-6).mean())
    return share if share > chance + 0.5 else 0.0
