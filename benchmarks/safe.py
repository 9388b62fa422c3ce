"""SAFE tables by size, and records brought to them.

Targets: 50 × 50 and 20 × 20 × 20 in under a minute on two cores within 1% of the bound; 100 × 100 × 20 in
minutes with its gap; records realised at ten million. Counts are Poisson with gamma means (shape 0.8). The
yardstick of realising is one Polars ``group_by`` of the same keys in the same run. With ``proved`` as
an argument it takes tables so small that an integer program proves the least distance: how much of a gap is
the bound's.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import polars as pl

import sfumato as sf
from harness import Table, arguments, time_it
from sfumato.tables.realise import plan_moves


def counts(shape: tuple[int, ...], mean: float) -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.poisson(rng.gamma(0.8, mean / 0.8, shape))


def proved(sides: tuple[int, ...], seconds: float) -> None:
    """With all two-way margins: the relaxation's bound, the least distance, what moves on cubes find."""
    from sfumato.tables import safe
    from sfumato.tables.build import as_table
    from sfumato.tables.program import solve
    from sfumato.tables.search import Cubes, sharp

    for side in sides:
        for seed in (1, 2, 3):
            rng = np.random.default_rng(seed)
            given = as_table(rng.poisson(rng.gamma(0.8, 6 / 0.8, (side,) * 3)))
            kept = safe.margin_sets("two_way", given.keys)
            problem, active = safe._problem(given, 3, kept, "l1", None, False)
            bound = sharp(problem, solve(problem, relaxed=True, seconds=seconds).bound)
            best = solve(problem, seconds=seconds)
            moves = Cubes(given.counts.shape, active).search(problem, 2.0)
            found = problem.cost(moves.table) if moves.table is not None else float("nan")
            least = problem.cost(best.table) if best.status == "optimal" else float("nan")
            print(
                f"{side}³ seed {seed}: bound {bound:g}, {best.status} {least:g}, moves {found:g}", flush=True
            )


def main() -> None:
    if "proved" in sys.argv:
        return proved((3, 4), 120.0)
    quick = arguments(__doc__ or "").quick
    table = Table("safe", "SAFE tables and their records", __doc__ or "")
    cases = [((10, 10), 3, 4, "one_way"), ((20, 20), 3, 4, "one_way"), ((50, 50), 3, 4, "one_way")]
    if not quick:
        cases += [
            ((50, 50), 5, 6, "one_way"),
            ((200, 200), 3, 4, "one_way"),
            ((20, 20, 20), 3, 4, "one_way"),
            ((10, 10, 10), 3, 4, "two_way"),
            ((20, 20, 20), 3, 6, "two_way"),
            ((100, 100, 20), 3, 4, "one_way"),
        ]
    for shape, tolerance, mean, margins in cases:
        cpu = time.process_time()
        limit = 180.0 if np.prod(shape) > 50_000 else 60.0
        safe = sf.safe_table(counts(shape, mean), tolerance, margins=margins, time_limit=limit)
        cpu = time.process_time() - cpu
        table.add(
            table=" × ".join(map(str, shape)), tolerance=tolerance, margins=margins, seconds=safe.seconds,
            cpu_seconds=cpu, distance=safe.distance, bound=safe.bound, gap=f"{safe.gap:.2%}",
        )  # fmt: skip
    for n in (100_000,) if quick else (1_000_000, 10_000_000):
        rng = np.random.default_rng(2)
        weight = rng.gamma(0.8, 1.0, 200 * 200)
        cell = np.searchsorted(np.cumsum(weight) / weight.sum(), rng.random(n))
        data = sf.Microdata(pl.DataFrame({"A": cell // 200, "B": cell % 200}), sf.Schema(keys=["A", "B"]))
        safe = sf.safe_table(data, 3, time_limit=60)
        yardstick = time_it(lambda data=data: data.frame.group_by("A", "B").len(), repeat=3)
        ours = time_it(lambda data=data, safe=safe: sf.realise(data, safe, seed=1), repeat=2)
        moved = plan_moves(safe, {"A": 1.0, "B": 1.0}).total
        table.add(
            table="200 × 200, realise", records=n, seconds=ours.seconds, cpu_seconds=ours.cpu_seconds,
            ratio_to_group_by=ours.seconds / yardstick.seconds, distance=safe.distance, records_changed=moved,
        )  # fmt: skip
    if not quick:
        table.save()


if __name__ == "__main__":
    main()
