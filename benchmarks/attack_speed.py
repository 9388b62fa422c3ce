"""What each attack of the battery costs without blocks, in CPU seconds, and how it grows.

``python benchmarks/attack_speed.py [--records 10000] [--columns 8] [--mask noise|rank|cluster|all]
[--only NAME] [--most 120]`` prints a line an attack as it ends. Without options it measures all three masks
at 2,500 and 10,000 records and writes the table for the docs. The yardstick is SciPy's dense assignment of
2,000 of the records, measured in the same run.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment

import sfumato as sf
from harness import Table
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Attack
from sfumato.data.microdata import Microdata
from sfumato.run.battery import fitting_attacks

ABOUT = """
Every attack that the battery finds fitting, on amounts that share three factors and have heavy tails
(8 columns, no keys): nothing to block on, every record a candidate of every other. CPU seconds on one
thread, kernels compiled before. *growth* is the exponent between the two sizes. *yardstick* is SciPy's
dense assignment of 2,000 of these records, in the same run.

Targets: at most 30 CPU seconds an attack at 10,000 × 8; growth at most 1.3 beyond 10,000.
"""


def hard(n: int, m: int) -> Microdata:
    """Amounts that share three factors: heavy tails, no keys."""
    rng = np.random.default_rng(1)
    mixed = rng.normal(size=(n, 3)) @ rng.normal(size=(3, m)) + 0.7 * rng.normal(size=(n, m))
    names = [f"x{j}" for j in range(m)]
    return Microdata(pl.DataFrame(np.exp(0.6 * mixed), schema=names), sf.Schema(sensitive=names))


def masks(columns: list[str]) -> dict[str, Mask]:
    return {
        "noise": sf.AdditiveNoise(columns=columns, variance_ratio=0.1),
        "rank": sf.RankSwap(columns=columns, window_percent=15),
        "cluster": sf.ClusterShuffle(columns=columns, smallest=20),
    }


LABELS = {"noise": "noise d = 0.1", "rank": "rank swap 15%", "cluster": "cluster shuffle k = 20"}


def label_of(attack: Attack) -> str:
    return f"{attack.name} {getattr(attack, 'metric', '')}".strip()


def yardstick(data: Microdata, masked: Microdata) -> float:
    x, z = (f.frame.head(2_000).to_numpy() / data.frame.to_numpy().std(axis=0) for f in (data, masked))
    cost = (x**2).sum(1)[:, None] + (z**2).sum(1)[None, :] - 2 * x @ z.T
    began = time.process_time()
    linear_sum_assignment(cost)
    return time.process_time() - began


def timed(records: int, columns: int, mask: str, only: str = "") -> dict[str, tuple[float, float]]:
    """Rate and CPU seconds of every attack, by its label."""
    data = hard(records, columns)
    step = masks(data.columns)[mask]
    masked = step.mask(data, seed=1)
    print(f"{LABELS[mask]}, {records:,} × {columns}; SciPy, dense, 2,000 records: "
          f"{yardstick(data, masked):.2f} CPU s", flush=True)  # fmt: skip
    out: dict[str, tuple[float, float]] = {}
    for attack in fitting_attacks(data, masked, [step])[0]:
        label = label_of(attack)
        label = f"{label} (told the mask)" if label in out else label
        if only and only not in label:
            continue
        attack.measure(data.slice(0, 1_300), masked.slice(0, 1_300))  # compiles the sparse way too
        began = time.process_time()
        result = attack.measure(data, masked)
        out[label] = result.value, time.process_time() - began
        print(f"  {label:44s} {result.value:.4f}  {out[label][1]:6.1f} CPU s", flush=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small sizes; the docs' table isn't written")
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--mask", choices=(*LABELS, "all"), default="all")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    chosen = list(LABELS) if args.mask == "all" else [args.mask]
    if args.records or args.only:
        for mask in chosen:
            timed(args.records or 10_000, args.columns, mask, args.only)
        return
    sizes = (1_300, 2_600) if args.quick else (10_000, 20_000)
    table = Table("attack_speed", "What the attacks cost without blocks", ABOUT)
    for mask in chosen:
        small, large = (timed(n, args.columns, mask) for n in sizes)
        for label, (rate, seconds) in small.items():
            table.add(
                **{
                    "mask": LABELS[mask],
                    "attack": label,
                    "rate": f"{rate:.4f}",
                    f"{sizes[0]:,} records": f"{seconds:.1f}",
                    f"{sizes[1]:,} records": f"{large[label][1]:.1f}" if label in large else "",
                    "growth": f"{math.log2(large[label][1] / max(seconds, 1e-3)):.2f}"
                    if label in large
                    else "",
                }
            )
    if not args.quick:
        table.save()


if __name__ == "__main__":
    main()
