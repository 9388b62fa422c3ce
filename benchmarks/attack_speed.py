"""What each attack of the battery costs without blocks, in CPU seconds.

``python benchmarks/attack_speed.py [--records 10000] [--columns 8] [--mask noise|rank] [--only NAME]``
prints one line an attack as it ends. The yardstick is SciPy's dense assignment of 2,000 of the records,
measured in the same run.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment

import sfumato as sf
from sfumato.data.microdata import Microdata
from sfumato.run.battery import fitting_attacks


def hard(n: int, m: int) -> Microdata:
    """Amounts that share three factors: heavy tails, no keys."""
    rng = np.random.default_rng(1)
    mixed = rng.normal(size=(n, 3)) @ rng.normal(size=(3, m)) + 0.7 * rng.normal(size=(n, m))
    names = [f"x{j}" for j in range(m)]
    return Microdata(pl.DataFrame(np.exp(0.6 * mixed), schema=names), sf.Schema(sensitive=names))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--mask", choices=("noise", "rank"), default="noise")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    data = hard(args.records, args.columns)
    step = (
        sf.AdditiveNoise(columns=data.columns, variance_ratio=0.1)
        if args.mask == "noise"
        else sf.RankSwap(columns=data.columns, window_percent=15)
    )
    masked = step.mask(data, seed=1)
    x, z = (f.frame.head(2_000).to_numpy() / data.frame.to_numpy().std(axis=0) for f in (data, masked))
    cost = (x**2).sum(1)[:, None] + (z**2).sum(1)[None, :] - 2 * x @ z.T
    began = time.process_time()
    linear_sum_assignment(cost)
    print(f"SciPy, dense, 2,000 records: {time.process_time() - began:.2f} CPU s", flush=True)
    for attack in fitting_attacks(data, masked, [step])[0]:
        label = f"{attack.name} {getattr(attack, 'metric', '')}".strip()
        if args.only and args.only not in label:
            continue
        attack.measure(data.slice(0, 60), masked.slice(0, 60))  # compiles
        began = time.process_time()
        result = attack.measure(data, masked)
        print(f"{label:32s} {result.value:.4f}  {time.process_time() - began:6.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()
