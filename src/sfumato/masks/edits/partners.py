"""Finding partners: same bucket, another area, nobody twice, at a cost linear in the records."""

from __future__ import annotations

import numpy as np

from sfumato.data.microdata import BoolArray, IntArray


def find_partners(
    seekers: IntArray,
    bucket: IntArray,
    n_buckets: int,
    area: IntArray,
    free: BoolArray,
    partner: IntArray,
    rng: np.random.Generator,
    *,
    tries: int = 24,
) -> IntArray:
    """Pair seekers with free records of their bucket in another area; returns those left alone.

    ``partner`` (−1: nobody yet) is filled in place for both sides. First by drawing uniformly from
    the bucket; whoever finds nobody in ``tries`` draws is settled by an exact search over the areas
    that still have free records, so that a seeker is left alone only if no free partner remained.
    """
    from sfumato.kernels import edits

    if not len(seekers):
        return seekers
    wanted = np.zeros(n_buckets, np.bool_)
    wanted[bucket[seekers]] = True
    there = np.flatnonzero(wanted[bucket] & free & (partner < 0))
    if not len(there):
        return seekers
    seekers = seekers[rng.permutation(len(seekers))]
    starts, places = edits.by_class(bucket[there], n_buckets)
    left = edits.probe_partners(seekers, bucket, area, free, starts, there[places], partner, rng, tries)
    if len(left):
        left = _settle(left, bucket, n_buckets, area, free, partner, rng)
    # Somebody left alone may have become the partner of a later seeker.
    return left[partner[left] < 0]


def _settle(
    seekers: IntArray,
    bucket: IntArray,
    n_buckets: int,
    area: IntArray,
    free: BoolArray,
    partner: IntArray,
    rng: np.random.Generator,
) -> IntArray:
    """The exact search, over the buckets of these seekers only."""
    from sfumato.kernels import edits

    wanted = np.zeros(n_buckets, np.bool_)
    wanted[bucket[seekers]] = True
    pool = np.flatnonzero(wanted[bucket] & free & (partner < 0))
    if not len(pool):
        return seekers
    # In random order within an area, then by bucket and area: a run is one area of one bucket.
    pool = pool[rng.permutation(len(pool))]
    number = np.cumsum(wanted) - 1
    width = int(area.max(initial=0)) + 1
    order = np.argsort(number[bucket[pool]] * width + area[pool], kind="stable")
    pool = pool[order]
    of_bucket, of_area = number[bucket[pool]], area[pool]
    new = np.r_[True, (of_bucket[1:] != of_bucket[:-1]) | (of_area[1:] != of_area[:-1])]
    runs = np.r_[np.flatnonzero(new), len(pool)]
    run_bucket = of_bucket[runs[:-1]]
    bucket_runs = np.searchsorted(run_bucket, np.arange(int(wanted.sum()) + 1))
    left: IntArray = edits.exact_partners(
        seekers, number[bucket], area, runs, of_area[runs[:-1]], bucket_runs, pool, partner, rng
    )
    return left
