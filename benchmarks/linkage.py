"""Record linkage against Splink, the recordlinkage package and SciPy; and at scale.

``python benchmarks/linkage.py [--quick]`` writes docs/benchmarks/linkage.md. The two rivals are installed
in a virtual environment of their own, in a temporary folder; where that can't be done, they are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment

import sfumato as sf
from harness import Table, arguments, time_it
from sfumato.draws import Seed
from sfumato.linkage.assign import link
from sfumato.linkage.blocks import make_blocks
from sfumato.linkage.fields import agreement_fields

ABOUT = """
*Pairs a second*: the same pairs compared on the same 8 numbers, 10,000 by 10,000 records in blocks of 250
and in blocks of 1,000. Reading the columns and taking their logarithms costs the same for both, and is a
third of our time with blocks of 250. Ours, "comparing": from the frames to the continuous weight of every
pair and each record's best link; blocking not counted, as for recordlinkage. Splink on DuckDB: `predict`
with levels of 5% and 20% difference, its parameters given, training not counted, blocking part of it.
recordlinkage: `Compare.compute` with linear numeric similarity, indexing not counted. *Ratio* is their time
over our comparing time, for the same pairs, two cores; best of several.

*Against the assignment alone*: 1,080 by 1,080 records with 13 numbers (the CASC file, ranks swapped
within 10%), EM and 1-1 assignment included, against `scipy.optimize.linear_sum_assignment` on the very
matrix of weights.

*Candidates*: how much a block of 2,500 by 2,500 loses if it is assigned by candidates as a larger one would
be. *At scale*: never more than a block's matrix in memory; peak memory is above the start. Incomes are
`sf.decks.incomes()` under normal noise with d = 0.01.
"""
RIVALS = """
import json, sys, time, warnings
import pandas as pd
warnings.simplefilter("ignore")
folder, what = sys.argv[1], sys.argv[2]
one, two = pd.read_parquet(f"{folder}/one.parquet"), pd.read_parquet(f"{folder}/two.parquet")
names = [c for c in one.columns if c.startswith("x")]
best, cpu, pairs = None, None, 0
if what == "splink":
    import splink.comparison_level_library as cll
    import splink.comparison_library as cl
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on
    comparisons = [
        cl.CustomComparison(
            output_column_name=c,
            comparison_levels=[
                cll.NullLevel(c),
                cll.PercentageDifferenceLevel(c, 0.05).configure(m_probability=0.6, u_probability=0.05),
                cll.PercentageDifferenceLevel(c, 0.2).configure(m_probability=0.3, u_probability=0.15),
                cll.ElseLevel().configure(m_probability=0.1, u_probability=0.8),
            ],
        )
        for c in names
    ]
    settings = SettingsCreator(
        link_type="link_only", unique_id_column_name="id", comparisons=comparisons,
        blocking_rules_to_generate_predictions=[block_on("block")], probability_two_random_records_match=0.01,
        retain_intermediate_calculation_columns=False, retain_matching_columns=False,
    )
    import logging
    logging.disable(logging.WARNING)
    for _ in range(3):
        api = DuckDBAPI()
        try:  # Splink 5
            tables = [api.register(f, dataset_display_name=w) for f, w in ((one, "a"), (two, "b"))]
            linker = Linker(tables, settings)
        except TypeError:  # Splink 4
            linker = Linker([one, two], settings, db_api=api)
        start, c0 = time.perf_counter(), time.process_time()
        found = linker.inference.predict()
        pairs = len(found.as_duckdbpyrelation().project("match_weight").fetchnumpy()["match_weight"])
        t, c = time.perf_counter() - start, time.process_time() - c0
        if best is None or t < best:
            best, cpu = t, c
else:
    import recordlinkage
    one, two = one.set_index("id"), two.set_index("id")
    index = recordlinkage.Index()
    index.block("block")
    links = index.index(one, two)
    pairs = len(links)
    compare = recordlinkage.Compare()
    for c in names:
        compare.numeric(c, c, method="linear", offset=0.0, scale=1000.0)
    for _ in range(2):
        start, c0 = time.perf_counter(), time.process_time()
        compare.compute(links, one, two)
        t, c = time.perf_counter() - start, time.process_time() - c0
        if best is None or t < best:
            best, cpu = t, c
print(json.dumps({"seconds": best, "cpu": cpu, "pairs": pairs}))
"""

CASC = Path(__file__).resolve().parents[2] / "shared" / "data" / "CASCrefmicrodata.csv"


def two_files(n: int, block: int, columns: int = 8, seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    rng = np.random.default_rng(seed)
    x = rng.lognormal(9, 1, (n, columns))
    z = x * rng.lognormal(0, 0.1, x.shape)
    keys = {"id": np.arange(n), "block": np.arange(n) // block}
    names = [f"x{j}" for j in range(columns)]
    one = pl.DataFrame({**keys, **{c: x[:, j] for j, c in enumerate(names)}})
    two = pl.DataFrame({**keys, **{c: z[:, j] for j, c in enumerate(names)}})
    return one, two


def rivals(one: pl.DataFrame, two: pl.DataFrame, sizes: dict[str, int]) -> dict[str, dict[str, Any]]:
    """The rivals' times, each on the first records of the files, in an environment of their own."""
    out: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder) / "env", with_pip=True)
        python = str(Path(folder) / "env" / "bin" / "python")
        for what, n in sizes.items():
            needs = [what, "pandas<3", "pyarrow"]
            made = subprocess.run(
                [python, "-m", "pip", "install", "-q", *needs], capture_output=True, text=True
            )
            if made.returncode:
                print(f"{what} couldn't be installed; it is left out: {made.stderr.strip()[-200:]}")
                continue
            one.head(n).write_parquet(Path(folder) / "one.parquet")
            two.head(n).write_parquet(Path(folder) / "two.parquet")
            ran = subprocess.run([python, "-c", RIVALS, folder, what], capture_output=True, text=True)
            if ran.returncode:
                print(f"{what} failed; it is left out: {ran.stderr.strip()[-600:]}")
                continue
            out[what] = json.loads(ran.stdout.strip().splitlines()[-1])
    return out


def pairs_a_second(table: Table, n: int, block: int) -> None:
    size = f"blocks of {block:,}"
    one, two = two_files(n, block)
    names = [c for c in one.columns if c.startswith("x")]
    first, second = sf.Microdata(one), sf.Microdata(two)
    blocks = make_blocks(first, second, ["block"], Seed.from_int(0).draws("benchmark"))
    truth = np.arange(n)

    def compare() -> Any:
        return link(agreement_fields(first, second, names), blocks, truth, one_to_one=False)

    whole = sf.Linkage(known=names, block_on=["block"], one_to_one=False)
    ours, all_of_it = time_it(compare, repeat=9), time_it(lambda: whole.measure(one, two), repeat=9)
    for what, t in (("sfumato, comparing", ours), ("sfumato, the whole measure", all_of_it)):
        table.add(
            what=f"{what}, 8 numbers, {size}", pairs=blocks.pairs, seconds=t.seconds,
            cpu_seconds=t.cpu_seconds, pairs_a_second=f"{blocks.pairs / t.seconds:.3g}",
        )  # fmt: skip
    for what, got in rivals(one, two, {"splink": n, "recordlinkage": n}).items():
        target = {"splink": 10, "recordlinkage": 50}[what]
        wall = got["seconds"] / ours.seconds * blocks.pairs / got["pairs"]
        cpu = got["cpu"] / ours.cpu_seconds * blocks.pairs / got["pairs"]
        table.add(
            what=f"{what}, {size}", pairs=got["pairs"], seconds=got["seconds"], cpu_seconds=got["cpu"],
            pairs_a_second=f"{got['pairs'] / got['seconds']:.3g}",
            ratio=f"{wall:.0f} by wall, {cpu:.0f} by CPU (target {target})",
        )  # fmt: skip


def against_assignment(table: Table) -> None:
    if not CASC.is_file():
        print("the CASC file isn't at ../shared/data; the assignment alone isn't compared")
        return
    rng = np.random.default_rng(1)
    one = pl.read_csv(CASC).cast(pl.Float64)
    names = one.columns
    two = sf.RankSwap(columns=names, window_percent=10).mask(one, seed=1).frame
    x, z = one.to_numpy(), two.to_numpy()
    a, b = np.log(x), np.log(z)
    weights = np.zeros((1080, 1080))
    for j in range(13):
        weights += np.maximum(
            0, 1 - np.abs(a[:, None, j] - b[None, :, j]) / (0.2 * np.maximum(np.abs(a[:, None, j]), 0.1))
        )
    order = rng.permutation(1080), rng.permutation(1080)
    shuffled = np.ascontiguousarray(weights[np.ix_(*order)])
    yard = time_it(lambda: linear_sum_assignment(shuffled, maximize=True), repeat=7)
    table.add(what="SciPy assignment alone, 1,080²", pairs=1080**2, seconds=yard.seconds,
              cpu_seconds=yard.cpu_seconds, ratio="1")  # fmt: skip
    for label, weighing in (("equal weights", "equal"), ("EM", "em")):
        attack = sf.Linkage(known=names, weights=weighing)
        ours = time_it(lambda attack=attack: attack.measure(one, two), repeat=7)
        table.add(
            what=f"Linkage, {label}, 13 numbers, assignment", pairs=1080**2, seconds=ours.seconds,
            cpu_seconds=ours.cpu_seconds,
            ratio=f"{ours.cpu_seconds / yard.cpu_seconds:.2g} by CPU (target at most 5)",
        )  # fmt: skip


def at_scale(table: Table, quick: bool) -> None:
    deck = sf.decks.incomes()
    money = list(deck.schema.sensitive)[:8]
    data = deck.with_columns({c: deck.column(c).cast(pl.Float64) for c in money})
    masked = sf.AdditiveNoise(columns=money, variance_ratio=0.01).mask(data, seed=1)
    keys = [k for k in ("AGE", "RACE", "SEX", "STATE") if k in deck.columns]
    decade = {"DECADE": (deck.column("AGE") // 10)} if "AGE" in deck.columns else {}
    data, masked = data.with_columns(decade), masked.with_columns(decade)
    coarse = ["DECADE" if k == "AGE" else k for k in keys]
    for on in ([k for k in keys if k != "AGE"], coarse, keys):
        attack = sf.Linkage(known=money, block_on=on)
        t = time_it(lambda attack=attack: attack.measure(data, masked), repeat=1, warm_up=quick)
        scale_row(table, f"{len(data):,}², {len(money)} incomes, blocks of {' × '.join(on)}", t)
    n = 100_000 if quick else 1_000_000
    one, two = two_files(n, 100)
    attack = sf.Linkage(known=[f"x{j}" for j in range(8)], block_on=["block"])
    scale_row(table, f"{n:,}², 8 numbers, blocks of 100", time_it(lambda: attack.measure(one, two), repeat=1))
    n = 10_000 if quick else 50_000
    one, two = two_files(n, n)
    attack = sf.Linkage(known=[f"x{j}" for j in range(8)])
    scale_row(
        table,
        f"one block of {n:,}, sparse",
        time_it(lambda: attack.measure(one, two), repeat=1, warm_up=False),
    )


def scale_row(table: Table, what: str, t: Any) -> None:
    table.add(
        what=what, pairs=t.value.pairs, seconds=t.seconds, cpu_seconds=t.cpu_seconds,
        pairs_a_second=f"{t.value.pairs / t.seconds:.3g}", peak_MB=t.peak_bytes / 1e6,
        rate=f"{t.value.rate:.4f}", largest_block=t.value.largest_block,
    )  # fmt: skip


def sparse_against_dense(table: Table) -> None:
    """How much the candidates of the sparse way cost in rate, where both ways can be gone."""
    one, two = two_files(2_500, 2_500, seed=2)
    names = [f"x{j}" for j in range(8)]
    rng = np.random.default_rng(3)
    two = two.with_columns([two[c] * rng.lognormal(0, 0.35, two.height) for c in names])
    first, second = sf.Microdata(one), sf.Microdata(two)
    fields = agreement_fields(first, second, names)
    blocks = make_blocks(first, second, [], Seed.from_int(0).draws("benchmark"))
    truth = np.arange(len(first))
    dense = link(fields, blocks, truth)
    for k in (8, 32, 128):
        t = time_it(lambda k=k: link(fields, blocks, truth, dense_pairs=0, candidates=k), repeat=1)
        total = np.nansum(t.value.weight) - np.nansum(dense.weight)
        table.add(
            what=f"2,500² by {k} candidates at first, against a matrix", pairs=dense.pairs,
            seconds=t.seconds, cpu_seconds=t.cpu_seconds, rate=f"{(t.value.match == truth).mean():.4f}",
            ratio=f"total weight {total:+.1e}, gap proved {t.value.gap:.0g}",
        )  # fmt: skip


def main() -> None:
    quick = arguments(__doc__ or "").quick
    os.environ.setdefault("SFUMATO_THREADS", "2")
    table = Table("linkage", "Record linkage", ABOUT)
    against_assignment(table)
    sparse_against_dense(table)
    at_scale(table, quick)
    for block in (250,) if quick else (250, 1_000):
        pairs_a_second(table, 2_000 if quick else 10_000, block)
    if not quick:
        table.save()


if __name__ == "__main__":
    main()
    sys.exit(0)
