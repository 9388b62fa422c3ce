"""Which attack breaks which mask: rates on the CASC file, the two decks and an outside file.

``python benchmarks/attacks.py [--quick] [--part casc|curve|housing|incomes|outside]`` writes
docs/benchmarks/attacks.md (with ``--part``, that part of it). The reference data are expected at
../shared/data. Two processes share the work.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from harness import DOCS, Table
from sfumato.data.microdata import Microdata
from sfumato.risk.intruder import TABLE_5
from sfumato.run.curve import known_curve

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
Cells = dict[str, list[float]]


# -- the files ------------------------------------------------------------------------------------


@cache
def casc() -> Microdata:
    return Microdata(pl.read_csv(SHARED / "CASCrefmicrodata.csv").cast(pl.Float64))


@cache
def housing() -> Microdata:
    tops = dict(zip(TABLE_5, (100_000, 350_000, 1_800, 9_000, 62), strict=True))
    return Microdata(
        pl.read_parquet(SHARED / "housing_deck.parquet"),
        sf.Schema(
            keys=["REGION", "BEDROOMS", "BATHS", "YR_BLT"],
            sensitive=list(TABLE_5),
            variables={c: {"top": t, "bottom": 0} for c, t in tops.items()},
        ),
    )


@cache
def incomes() -> tuple[Microdata, list[str]]:
    deck = sf.decks.incomes()
    money = list(deck.schema.sensitive)
    numbers = {c: deck.column(c).cast(pl.Float64) for c in money}
    return deck.with_columns({**numbers, "DECADE": deck.column("AGE") // 10}), money


@cache
def surveys() -> tuple[Microdata, Microdata]:
    """Owners who answered all three questions, in 1989 and in 1991."""
    files = [
        pl.read_csv(SHARED / "ahs" / f"ahs_national_{year}.csv", infer_schema_length=None)
        .drop_nulls(["MARKETVAL", "HINCP", "TOTHCAMT"])
        .filter(pl.col("TENURE") == 1)
        for year in (1989, 1991)
    ]
    return Microdata(files[0]), Microdata(files[1])


def mask_of(name: str, columns: Iterable[str]) -> Any:
    """'rank swap 15%', 'rank swap R0 = 0.95', 'rank swap K0 = 0.1', 'normal noise d = 0.1', …"""
    columns = list(columns)
    kind, _, number = name.rpartition(" ")
    value = float(number.rstrip("%"))
    if kind == "rank swap":
        return sf.RankSwap(columns=columns, window_percent=value)
    if kind == "rank swap R0 =":
        return sf.RankSwap(columns=columns, correlation=value, interval="theorem")
    if kind == "rank swap K0 =":
        return sf.RankSwap(columns=columns, mean_change=value, interval="theorem")
    if kind == "normal noise R0 =":  # R(a, a')² = 1 / (1 + d)
        return sf.AdditiveNoise(columns=columns, variance_ratio=1 / value - 1)
    noise = {"normal noise d =": sf.AdditiveNoise, "mixture noise d =": sf.MixtureNoise}[kind]
    return noise(columns=columns, variance_ratio=value)


def masked_by(name: str, data: Microdata, columns: Iterable[str], seed: int = 0) -> Microdata:
    return data if name == "no mask" else mask_of(name, columns).mask(data, seed=seed)


def aware_of(name: str, columns: Iterable[str], **more: Any) -> Any:
    """The intruder who knows the method, and none of its parameters."""
    if name.startswith("rank swap"):
        return sf.RankAttack(columns=list(columns), **more)
    form = {"form": "normal"} if name.startswith("normal") and more else {}
    return sf.NoiseAttack(columns=list(columns), **form, **more)


def strong_attacks(columns: Iterable[str], **more: Any) -> dict[str, Any]:
    known = list(columns)
    return {
        "distance": sf.DistanceLinkage(known=known, **more),
        "Mahalanobis": sf.DistanceLinkage(known=known, metric="mahalanobis", **more),
        "ranks": sf.DistanceLinkage(known=known, metric="rank", **more),
        "self-trained": sf.SelfTrainedLinkage(known=known, **more),
        "10% of pairs known": sf.SupervisedLinkage(known=known, **more),
    }


# -- one mask, one seed ---------------------------------------------------------------------------


def casc_job(name: str, seed: int, strong: bool) -> Cells:
    data = casc()
    columns = data.columns
    masked = mask_of(name, columns).mask(data, seed=seed)
    attacks = {
        "linkage d": sf.Linkage(known=columns, metric="d"),
        "linkage l": sf.Linkage(known=columns),
        **(strong_attacks(columns) if strong else {}),
    }
    cells = {label: [a.measure(data, masked, seed=seed).value] for label, a in attacks.items()}
    if strong:
        found = aware_of(name, columns).measure(data, masked, seed=seed)
        cells["method-aware"] = [found.value]
        if name.startswith("rank"):
            cells["certain"], cells["propagated"] = [found.certain_rate], [found.propagated_rate]
    return cells


SIZES = (2, 3, 5, 7, 10, 13)


def curve_job(name: str, seed: int, aware: bool) -> Cells:
    """Rates by the number of known variables, one value a random set."""
    data = casc()
    columns = data.columns
    masked = mask_of(name, columns).mask(data, seed=seed)
    form = {"form": "normal"} if name.startswith("normal") else {}
    kind = sf.RankAttack if name.startswith("rank") else sf.NoiseAttack
    attack = kind(columns=columns, **form) if aware else sf.Linkage(known=columns)
    found = known_curve(attack, data, masked, sizes=SIZES, seed=seed)
    return {f"k = {r['known']}": [r["mean"], r["sd"]] for r in found.to_dicts()}


WORDS = ("correct", "incorrect", "questionable", "false")
HOUSE_KEYS = ("BEDROOMS", "BATHS", "YR_BLT", "REGION")


def moore_job(name: str, seed: int) -> Cells:
    data = housing()
    test = sf.IntruderTest(
        block_on=data.schema.keys, skeptical_of=["REGION"], known=list(TABLE_5), weights=dict(TABLE_5)
    )
    result = test.measure(data, mask_of(name, TABLE_5).mask(data, seed=seed), seed=seed)
    return {word: [result.figures[word]] for word in WORDS}


def housing_job(name: str) -> Cells:
    data = housing()
    masked = masked_by(name, data, TABLE_5)
    return blocked(data, masked, name, list(TABLE_5), HOUSE_KEYS)


def incomes_job(name: str, on: tuple[str, ...]) -> Cells:
    data, money = incomes()
    masked = masked_by(name, data, money)
    return blocked(data, masked, name, money, on, every="AGE" in on)


def open_job(name: str) -> Cells:
    """No key at all: every record of the release is compared with every other."""
    data, money = incomes()
    masked = mask_of(name, money).mask(data, seed=0)
    attacks = {
        "linkage l": sf.Linkage(known=money, one_to_one=False),
        "Mahalanobis": sf.DistanceLinkage(known=money, metric="mahalanobis", one_to_one=False),
    }
    results = {label: a.measure(data, masked) for label, a in attacks.items()}
    return {"by chance": [results["linkage l"].baseline], **{k: [r.value] for k, r in results.items()}}


def blocked(
    data: Microdata, masked: Microdata, name: str, known: list[str], on: tuple[str, ...], every: bool = True
) -> Cells:
    attacks = {
        "linkage l": sf.Linkage(known=known, block_on=on),
        **(strong_attacks(known, block_on=on) if every and name != "no mask" else {}),
    }
    if name != "no mask":
        # A swap makes totals anew from their parts, so their ranks tell nothing of the window.
        parts = [c for c in known if not (name.startswith("rank") and data.schema[c].sum_of)]
        attacks["method-aware"] = aware_of(name, parts, block_on=on)
    results = {label: attack.measure(data, masked) for label, attack in attacks.items()}
    return {"by chance": [results["linkage l"].baseline], **{k: [r.value] for k, r in results.items()}}


AMOUNTS = ("MARKETVAL", "HINCP", "TOTHCAMT")


def outside_job(name: str) -> Cells:
    old, new = surveys()
    masked = masked_by(name, new, AMOUNTS)
    more: dict[str, Any] = {"known": AMOUNTS, "truth": "CONTROL", "one_to_one": False}
    attacks = {
        "linkage d": sf.Linkage(metric="d", **more),
        "linkage l": sf.Linkage(**more),
        "distance": sf.DistanceLinkage(**more),
        "ranks": sf.DistanceLinkage(metric="rank", **more),
        "10% of pairs known": sf.SupervisedLinkage(**more),
    }
    results = {label: a.measure(old, masked) for label, a in attacks.items()}
    return {"by chance": [results["linkage l"].baseline], **{k: [r.value] for k, r in results.items()}}


# -- the parts ------------------------------------------------------------------------------------

Job = tuple[str, Callable[..., Cells], tuple[Any, ...]]


def gather(pool: ProcessPoolExecutor, jobs: list[Job]) -> dict[str, Cells]:
    """The cells of each row, the values of its jobs one after another."""
    waiting = [(row, pool.submit(job, *args)) for row, job, args in jobs]
    out: dict[str, Cells] = {}
    for row, future in waiting:
        mine = out.setdefault(row, defaultdict(list))
        for cell, values in future.result().items():
            mine[cell] += values
    return out


def rates(values: list[float], digits: int = 3) -> str:
    text = f"{np.mean(values):.{digits}f}"
    return f"{text} ({np.std(values):.{digits}f})" if len(values) > 1 else text


def on_casc(pool: ProcessPoolExecutor, quick: bool) -> list[Table]:
    strong, more = (1, 1) if quick else (3, 15)
    names = [f"rank swap {w}%" for w in ((15,) if quick else (5, 10, 15, 25))]
    for kind in ("normal", "mixture"):
        names += [f"{kind} noise d = {d}" for d in ((0.1,) if quick else (0.01, 0.05, 0.1, 0.2))]
    jobs: list[Job] = [(name, casc_job, (name, s, s < strong)) for name in names for s in range(more)]
    table = Table(
        "attacks_casc",
        "Attacks on the CASC file",
        f"Share of the 1,080 records re-identified, all 13 variables known; means (standard deviations) over "
        f"{strong} masked files (papers' linkage: {more}). The intruder of the last three columns knows the "
        "method, not its parameters. By chance: 0.0009.",
    )
    for name, cells in gather(pool, jobs).items():
        table.add(mask=name, **{k: rates(v) for k, v in cells.items()})
    return [table]


def on_curve(pool: ProcessPoolExecutor, _: bool) -> list[Table]:
    table = Table(
        "attacks_curve",
        "Rates over the number of known variables",
        "CASC, one masked file; mean over six random sets of k variables ± the standard deviation between "
        "sets.",
    )
    jobs: list[Job] = []
    for name in ("rank swap 15%", "normal noise d = 0.1"):
        for aware, label in ((False, "papers' linkage l"), (True, "method-aware")):
            jobs.append((f"{name}, {label}", curve_job, (name, 0, aware)))
    for name, cells in gather(pool, jobs).items():
        table.add(case=name, **{k: f"{mean:.3f} ± {sd:.3f}" for k, (mean, sd) in cells.items()})
    return [table]


PUBLISHED = {
    "rank swap K0 = 0.1": (124, 54, 378, 215),
    "rank swap R0 = 0.975": (100, 52, 266, 353),
    "rank swap R0 = 0.95": (90, 51, 236, 394),
    "rank swap R0 = 0.9": (89, 53, 204, 405),
    "normal noise R0 = 0.99": (126, 52, 411, 191),
    "normal noise R0 = 0.975": (103, 54, 328, 286),
    "normal noise R0 = 0.95": (96, 54, 280, 342),
    "normal noise R0 = 0.9": (92, 55, 230, 394),
}
"""Moore (1996), Tables 6 (rank swapping) and 7 (noise)."""


def on_housing(pool: ProcessPoolExecutor, quick: bool) -> list[Table]:
    seeds = 1 if quick else 4
    moore = Table(
        "attacks_moore",
        "Moore's intruder on the housing deck",
        f"`IntruderTest`: 771 targets, mean counts over {seeds} seeds; in brackets what Moore prints for his "
        "own file (Table 6: rank swapping, Table 7: noise).",
    )
    names = list(PUBLISHED)[3:5] if quick else list(PUBLISHED)
    found = gather(pool, [(name, moore_job, (name, s)) for name in names for s in range(seeds)])
    for name, cells in found.items():
        pairs = zip(WORDS, PUBLISHED[name], strict=True)
        moore.add(mask=name, **{w: f"{np.mean(cells[w]):.0f} ({p})" for w, p in pairs})
    table = Table(
        "attacks_housing",
        "Attacks on the housing deck",
        "Share of the 64,998 records re-identified by one who knows the five amounts, and BEDROOMS, BATHS, "
        "YR_BLT and REGION exactly. One masked file each; the rank attack on a sample of 5,000. Those not "
        "found without a mask are twins. Most amounts are blank, zero or top-coded; no mask touches those.",
    )
    wanted = ["no mask"] + [n for n in names if n.endswith(("0.975", "0.95", "0.9"))]
    for name, cells in gather(pool, [(name, housing_job, (name,)) for name in wanted]).items():
        table.add(mask=name, **{k: rates(v) for k, v in cells.items()})
    return [moore, table]


INCOME_MASKS = (
    "no mask",
    "rank swap 5%",
    "rank swap 15%",
    "normal noise d = 0.01",
    "normal noise d = 0.1",
    "mixture noise d = 0.01",
    "mixture noise d = 0.1",
)


def on_incomes(pool: ProcessPoolExecutor, quick: bool) -> list[Table]:
    table = Table(
        "attacks_incomes",
        "Attacks on the incomes deck",
        "Share of the 59,315 records re-identified by one who knows the ten incomes, and the keys named "
        "exactly (full: AGE, RACE, SEX, STATE; decade: the same with ten years of age; none: all 3.5 billion "
        "pairs, nearest record, ties shared). One masked file each. Kim and Winkler (1995) say of noise with "
        "d = 0.01 that 0.8% of the records have a probability of disclosure above 20% and the others one of "
        "less than 0.02%.",
    )
    full, decade = ("AGE", "RACE", "SEX", "STATE"), ("DECADE", "RACE", "SEX", "STATE")
    names = INCOME_MASKS[3:4] if quick else INCOME_MASKS
    jobs: list[Job] = [(f"{name}|full", incomes_job, (name, full)) for name in names]
    if not quick:  # the longest first, so that no process waits for it in the end
        jobs += [(f"{name}|decade", incomes_job, (name, decade)) for name in names[::2]]
        jobs.insert(0, ("normal noise d = 0.01|none", open_job, ("normal noise d = 0.01",)))
    found = gather(pool, jobs)
    for row in sorted(found, key=lambda r: names.index(r.split("|")[0])):
        name, keys = row.split("|")
        table.add(mask=name, keys=keys, **{k: rates(v, 5 if k == "by chance" else 3)
                                           for k, v in found[row].items()})  # fmt: skip
    return [table]


def on_outside(pool: ProcessPoolExecutor, quick: bool) -> list[Table]:
    old, new = surveys()
    shared = old.frame.join(new.frame, on="CONTROL").height
    table = Table(
        "attacks_outside",
        "An outside file",
        f"The intruder has the American Housing Survey of 1989 (its {len(old):,} owners' value, income and "
        f"housing cost); the release is that of 1991 ({len(new):,} owners, {shared:,} of them in both: true "
        "links by CONTROL). Nobody is asked to be 1-1: the nearest record, ties shared. Share of the owners "
        "in both who are found.",
    )
    names = ["no mask", "rank swap 5%", "rank swap 15%", "normal noise d = 0.05"]
    names = names[:1] if quick else names
    for name, cells in gather(pool, [(name, outside_job, (name,)) for name in names]).items():
        table.add(release=name, **{k: rates(v, 5) for k, v in cells.items()})
    return [table]


PARTS = {
    "casc": on_casc,
    "curve": on_curve,
    "housing": on_housing,
    "incomes": on_incomes,
    "outside": on_outside,
}
PAGE = DOCS / "attacks.md"
OPENING = """# Which attack breaks which mask

Every number is measured by `benchmarks/attacks.py`; [Attacks](../methods/attacks.md) says what each attack
knows and what follows from these tables.
"""


def save(part: str, tables: list[Table]) -> None:
    """Put a part's tables into the page, in place of what it held of that part."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    pieces = dict.fromkeys(PARTS, "")
    for name in PARTS:
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        if begin in text and end in text:
            pieces[name] = text[text.index(begin) : text.index(end) + len(end)]
    shown = "\n".join(
        t.markdown()
        .replace("# ", "## ", 1)
        .replace(f"benchmarks/{t.name}.py", f"benchmarks/attacks.py --part {part}")
        for t in tables
    )
    pieces[part] = f"<!-- {part} -->\n{shown}\n<!-- end of {part} -->\n"
    DOCS.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join([OPENING, *(p for p in pieces.values() if p)]), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one case of each; the docs' page isn't written")
    parser.add_argument("--part", choices=list(PARTS), help="only this part")
    options = parser.parse_args()
    if not SHARED.is_dir():
        print("the reference data aren't at ../shared/data: nothing was measured", file=sys.stderr)
        return
    os.environ["SFUMATO_THREADS"] = os.environ["POLARS_MAX_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=spawn) as pool:
        for part in [options.part] if options.part else PARTS:
            begin = time.perf_counter()
            tables = PARTS[part](pool, options.quick)
            print(f"{part}: {time.perf_counter() - begin:.0f} seconds", file=sys.stderr)
            if not options.quick:
                save(part, tables)


if __name__ == "__main__":
    main()
