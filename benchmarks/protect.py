"""Finding a plan that meets the limits: CPU seconds of ``protect`` and ``init``, search and battery included.

    python benchmarks/protect.py            5e4 records of 15 columns (target: 180 CPU s) and a smaller file
    python benchmarks/protect.py --quick    2,000 records

The yardstick is one cluster shuffle of the same columns in the same run.
"""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl

import sfumato as sf
from harness import Table, arguments, time_it


def people(n: int, columns: int = 15) -> sf.Microdata:
    """Six keys, a weight and skewed amounts that go with age and schooling, some of them mostly zero."""
    rng = np.random.default_rng(4)
    age, school = rng.integers(18, 90, n), rng.integers(1, 7, n)
    frame = {
        "AGE": age,
        "SEX": rng.integers(1, 3, n),
        "SCHOOL": school,
        "AREA": rng.choice(np.arange(1, 25), n),
        "STATUS": rng.integers(1, 6, n),
        "SIZE": np.clip(rng.poisson(1.5, n) + 1, 1, 8),
    }
    for j in range(columns - len(frame)):
        amount = np.exp(6 + 0.01 * age + 0.15 * school + rng.normal(0, 0.6, n))
        frame[f"AMOUNT{j}"] = np.where(rng.random(n) < 0.15 * (j % 4), 0, np.rint(amount)).astype(np.int64)
    keys = list(frame)[:6]
    schema = sf.Schema(keys=keys, sensitive=[c for c in frame if c not in keys])
    kinds = {k: {"kind": "categorical"} for k in ("SEX", "AREA", "STATUS")} | {"AGE": {"kind": "ordinal"}}
    return sf.Microdata(pl.DataFrame(frame), sf.Schema.from_dict({**schema.to_dict(), "variables": kinds}))


def main() -> None:
    options = arguments(__doc__ or "")
    warnings.simplefilter("ignore")
    table = Table(
        "protect",
        "Protecting a file",
        "`protect` in full: search on a sample, the whole file masked, the battery of attacks on 2,000 "
        "records, the gain by several splits. `init` is the same with 600 records attacked. Target: "
        "50,000 × 15 in 180 CPU seconds; `init` on 3,000 × 28 in 20. The yardstick is one cluster shuffle "
        "of the same file in this run.",
    )
    for n, columns in ((2_000, 10),) if options.quick else ((3_000, 28), (50_000, 15)):
        data = people(n, columns)
        shuffle = sf.ClusterShuffle(columns=data.columns)
        shuffle.mask(data.with_frame(data.frame[:2_000]), seed=1)  # compiles
        once = time_it(lambda d=data, m=shuffle: m.mask(d, seed=1), repeat=1, warm_up=False)
        for what, attacked in (("init", 600), ("protect", 2_000)):
            found: list[sf.Run] = []
            took = time_it(
                lambda d=data, a=attacked, f=found: f.append(sf.protect(d, "public", seed=1, attacked=a)),
                repeat=1,
                warm_up=False,
            )
            battery = found[-1].results["battery"]
            table.add(
                what=what,
                records=n,
                columns=columns,
                CPU_s=took.cpu_seconds,
                times_a_shuffle=took.cpu_seconds / once.cpu_seconds,
                safe=str(found[-1].verdict.safe),
                rate=float(battery.figures["rate"]),
                gain=float(battery.figures["gain"]),
                loss=float(found[-1].results["analyst_loss"].value),
            )
    if not options.quick:
        table.save()


if __name__ == "__main__":
    main()
