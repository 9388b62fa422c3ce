"""Who can be told to be in a file whose records are nobody's in particular.

Of a synthetic file, or one whose order and ids are gone, no link can be called right. But a release that
remembers persons comes nearer to them than to others. Persons of the original are set against others:
people of a holdout that the release never saw, or, without one, against what lies between the persons
themselves. The intruder says "he is in the file" of everybody who is nearer than some distance; the
distance is learnt on one half of the persons and judged on the other. ``share`` is how many more of those
inside he names than of those outside: 0 for a fresh sample of the same population, 1 for a copy.

Reference: Yeom et al. (2018), Privacy risk in machine learning, for the advantage; Platzer and Reutterer
(2021), Frontiers in Big Data 4, for the holdout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.kernels.nearest import nearest_distance
from sfumato.risk.closest_record import Points, Space, sampled, taken

MOST_ASKED: Final = 2_000
MOST_LOOKED_AT: Final = 20_000
_Z95: Final = 1.959963984540054
_DUST: Final = 1e-12


@dataclass(frozen=True)
class Nearness:
    """How many more of those inside are recognised than of others, by the better sign."""

    share: float
    interval: tuple[float, float]
    inside: float
    """Named by the intruder among persons of the file …"""
    outside: float
    """… and among others."""
    sign: str
    asked: int
    others: int
    holdout: bool

    @property
    def text(self) -> str:
        whom = "of people outside the file" if self.holdout else "if the release were a fresh sample"
        return (
            f"by nearness ({self.sign}) an intruder recognises {self.inside:.1%} of the persons, and would "
            f"take {self.outside:.1%} {whom} for persons of it"
        )


def nearness(
    original: Microdata,
    released: Microdata,
    columns: Sequence[str],
    draws: Draws,
    holdout: Microdata | None = None,
) -> Nearness:
    """Two signs are tried: the distance to the nearest released record, and the same beside the distance
    to the nearest other person (who stands apart from all others is recognised from afar)."""
    names = tuple(columns)
    space = Space(original, names)
    people, release = (space.points(d, names) for d in (original, released))
    asked = sampled(draws, "asked", len(original), MOST_ASKED)
    room = min(len(original) - 1, len(released), MOST_LOOKED_AT)
    near = sampled(draws, "people", len(original), room + 1)
    among = taken(release, sampled(draws, "released", len(released), max(room, 1)))
    self_at = np.searchsorted(near, asked)
    self_at = np.where(
        (self_at < len(near)) & (near[np.minimum(self_at, len(near) - 1)] == asked), self_at, -1
    )
    mine = taken(people, asked)
    to_people = _far(mine, taken(people, near), self_at)
    to_release = _far(mine, among, np.full(len(asked), -1))
    halves = draws.stream(purpose="halves").permutation
    if holdout is None:
        # What lies between persons is what a fresh sample would be away; either may be the nearer one.
        nearer, farther = (float((a < b - _DUST).mean()) for a, b in _both_ways(to_release, to_people))
        found = {
            "distance": _told(to_release, to_people, halves),
            "nearer than any other person": (nearer, farther, len(asked), len(asked)),
        }
    else:
        others = space.points(holdout, names)
        who = sampled(draws, "others", len(holdout), MOST_ASKED)
        theirs, none = taken(others, who), np.full(min(len(holdout), MOST_ASKED), -1)
        their_release, their_people = _far(theirs, among, none), _far(theirs, taken(people, near), none)
        found = {
            "distance": _told(to_release, their_release, halves),
            "distance over that to the nearest person": _told(
                _over(to_release, to_people), _over(their_release, their_people), halves
            ),
        }
    name = max(found, key=lambda sign: found[sign][0] - found[sign][1])
    inside, outside, m, k = found[name]
    half = _Z95 * float(np.sqrt(inside * (1 - inside) / m + outside * (1 - outside) / k))
    share = max(0.0, inside - outside)
    ends = max(0.0, min(inside - outside - half, share)), min(1.0, max(inside - outside + half, share))
    return Nearness(share, ends, inside, outside, name, m, k, holdout is not None)


def _told(
    inside: FloatArray, outside: FloatArray, permutation: Callable[[int], IntArray]
) -> tuple[float, float, int, int]:
    """The shares named of either side: each half by the distance that the other half teaches."""
    halves = [np.asarray(permutation(len(side))) % 2 for side in (inside, outside)]
    named = [0, 0]
    for half in (0, 1):
        teach = [side[h != half] for side, h in zip((inside, outside), halves, strict=True)]
        limit = _best_limit(*teach)
        for at, (side, h) in enumerate(zip((inside, outside), halves, strict=True)):
            named[at] += int((side[h == half] <= limit).sum())
    return named[0] / len(inside), named[1] / len(outside), len(inside), len(outside)


def _best_limit(inside: FloatArray, outside: FloatArray) -> float:
    """Where the two distribution functions are farthest apart; below all distances, if nowhere."""
    if not len(inside) or not len(outside):
        return -1.0
    tries = np.unique(np.concatenate([inside, outside]))
    ahead = np.searchsorted(np.sort(inside), tries, "right") / len(inside) - np.searchsorted(
        np.sort(outside), tries, "right"
    ) / len(outside)
    at = int(np.argmax(ahead))
    return float(tries[at]) if ahead[at] > 0 else -1.0


def _both_ways(one: FloatArray, two: FloatArray) -> tuple[tuple[FloatArray, FloatArray], ...]:
    return (one, two), (two, one)


def _over(one: FloatArray, two: FloatArray) -> FloatArray:
    return one / np.maximum(two, 1e-9)


def _far(asked: Points, among: Points, but: IntArray) -> FloatArray:
    return nearest_distance(*asked, *among, but)
