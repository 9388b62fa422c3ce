"""Which mask, when: every mask over its parameters, by the strongest attack and by what analysts lose.

``python benchmarks/frontier.py [--quick]`` masks nine files (1,080 records' numbers of each: CASC is whole)
with every mask at every strength and five seeds. The first release of each is attacked with the whole
battery for links; the others with the attacks that found at least half as many as the strongest (three at
least), so that a mean over seeds is the strongest attack's. Every release is attacked for values by models.
``--points FILE --minutes 14`` works for so long and goes on from there another time. Measured is what no mask
aims at: the overlap of regressions' intervals, the same inside subdomains, boosted trees trained on the
release and tested on the original, quantiles and joint tails, equalities between columns. It writes the
tables and the two maps of docs/methods/which-mask.md. The reference data are expected at ../shared/data.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.run.battery import run_battery

HERE = Path(__file__).resolve().parents[1]
SHARED = HERE.parent / "shared" / "data"
PAGE = HERE / "docs" / "methods" / "which-mask.md"
LIMITS = (0.5, 0.2, 0.1, 0.05, 0.01)
GAINS = (0.5, 0.25, 0.1, 0.05)
PARTS = ("overlap", "subdomains", "boosted trees", "tails", "equalities")
RECORDS, SEEDS = 1080, 5
Floats = np.ndarray[Any, np.dtype[np.float64]]

# -- files ----------------------------------------------------------------------------------------


def _csv(path: str, columns: str, where: Any = True) -> pl.DataFrame:
    names = columns.split()
    frame = pl.read_csv(
        SHARED / path, infer_schema_length=None, columns=list(dict.fromkeys([*names, *_by(where)]))
    )
    return frame.filter(where).select(pl.col(names).cast(pl.Float64)).drop_nulls()


def _by(where: Any) -> list[str]:
    return [] if where is True else where.meta.root_names()


def _deck(data: sf.Microdata) -> pl.DataFrame:
    names = [c for c in data.columns if data.dtype(c).is_numeric() and data.column(c).n_unique() > 20]
    apart = {data.schema.id, data.schema.household, data.schema.weight, *data.schema.geography}
    return data.frame.select(pl.col([c for c in names if c not in apart]).cast(pl.Float64)).drop_nulls()


HOUSEHOLDS = "SIZE N_WHITE N_BLACK N_HISPANIC N_OVER18 INCOME HOME_VAL RENT"
EUSILC = "age py010n py050n py090n py100n hy040n hy050n hy090n hy145n eqIncome"
FILES: dict[str, Callable[[], pl.DataFrame]] = {
    "CASC": lambda: pl.read_csv(SHARED / "CASCrefmicrodata.csv").cast(pl.Float64),
    "housing deck": lambda: _deck(sf.decks.housing()),
    "incomes deck": lambda: _deck(sf.decks.incomes()),
    "households deck": lambda: sf.decks.households(20_000).frame.select(
        pl.col(HOUSEHOLDS.split()).cast(pl.Float64).fill_null(0)
    ),
    "CPS tax units": lambda: _csv(
        "income/cps_taxunits_2013.csv",
        "age_head wages self_employment interest_taxable dividends pensions social_security real_estate_tax "
        "mortgage_interest total_income",
    ),
    "ACS owners": lambda: _csv("census/acs2011_households.csv", "ELEP GASP WATP INSP VALP HINCP SMOCP RMSP"),
    "EU-SILC": lambda: _csv("census/eusilc_laeken.csv", EUSILC, pl.col("age") >= 16),
    "EU-SILC population": lambda: _csv("census/eusilcP_population.csv", EUSILC, pl.col("age") >= 16),
    "Free1": lambda: _csv("free1.csv", "AGE AGEYOUNG INCOME ASSETS DEBTS"),
}


@cache
def file(name: str, records: int) -> sf.Microdata:
    frame = FILES[name]()
    frame = frame.sample(min(records, frame.height), seed=1)
    frame = frame.select(c for c in frame.columns if frame[c].n_unique() > 4)
    sums = {t: {"sum_of": list(p)} for t, p in _sums(name).items() if {t, *p} <= set(frame.columns)}
    return sf.Microdata(frame, sf.Schema(sensitive=frame.columns, variables=sums))


def _sums(name: str) -> dict[str, tuple[str, ...]]:
    if name == "incomes deck":
        return dict(sf.decks.incomes().schema.sums)
    return {"PTOTVAL": ("PEARNVAL", "POTHVAL")} if name == "CASC" else {}


# -- masks ----------------------------------------------------------------------------------------


def masks(
    columns: list[str], sums: Collection[str], blind: Collection[str] = ()
) -> dict[tuple[str, float], Callable[[], Any]]:
    """Every mask at every strength; the strength is its own parameter."""
    out: dict[tuple[str, float], Callable[[], Any]] = {}

    def add(family: str, strengths: tuple[float, ...], make: Callable[[Any], Any]) -> None:
        for one in strengths:
            out[family, one] = lambda one=one: make(one)

    add("rank swap, window %", (5, 15, 60), lambda w: sf.RankSwap(columns=columns, window_percent=w))
    # A total follows its parts by itself.
    apart = [c for c in columns if c not in sums]
    add("random swap, %", (100,), lambda r: sf.RandomSwap(columns=apart, rate_percent=r))
    add("noise, d", (0.1, 1, 5), lambda d: sf.AdditiveNoise(columns=columns, variance_ratio=d, rescale=True))
    add("mixture noise, d", (1,), lambda d: sf.MixtureNoise(columns=columns, variance_ratio=d))
    add("microaggregation, k", (3, 10, 50), lambda k: sf.Microaggregate(columns=columns, k=k))
    if hasattr(sf, "ClusterShuffle"):
        add(
            "cluster shuffle, k",
            (3, 10, 20, 50),
            # Every number is sensitive here; clusters that look at none of them would be random.
            lambda k: sf.ClusterShuffle(columns=columns, smallest=k, blind=(), certain_percent=100),
        )
        # As it comes: blind to what `init` calls sensitive, which in these files is nearly everything.
        add(
            "cluster shuffle, blind, k",
            (20,),
            lambda k: sf.ClusterShuffle(columns=columns, smallest=k, blind=blind, certain_percent=100),
        )
    add("synthesis, leaf", (5, 20, 80), lambda k: sf.Synthesise(columns=columns, leaf=k))
    return out


# -- what is lost ---------------------------------------------------------------------------------


def interval(y: Floats, x: Floats) -> tuple[Floats, Floats]:
    design = np.column_stack([np.ones(len(x)), x])
    inverse = np.linalg.pinv(design.T @ design)
    b = inverse @ (design.T @ y)
    left = y - design @ b
    error = np.sqrt(np.maximum(np.diag(inverse), 0) * (left @ left) / max(len(y) - design.shape[1], 1))
    return b - 1.96 * error, b + 1.96 * error


def overlap_loss(x: Floats, z: Floats, seed: int = 5, models: int = 12) -> float:
    """1 − the mean overlap of the intervals of regressions on random columns, half of them of logarithms."""
    rng = np.random.default_rng(seed)
    shares: list[float] = []
    for i in range(models):
        y, *others = rng.permutation(x.shape[1])[:4]
        of = (lambda v: np.sign(v) * np.log1p(np.abs(v))) if i % 2 else (lambda v: v)
        (low, high), (low2, high2) = (interval(of(d[:, y]), of(d[:, others])) for d in (x, z))
        both = np.minimum(high, high2) - np.maximum(low, low2)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = 0.5 * (both / (high - low) + both / (high2 - low2))
        shares += list(np.nan_to_num(share[1:], nan=0.0, posinf=0.0, neginf=0.0))
    return 1 - float(np.clip(shares, 0, 1).mean())


def subdomain_loss(x: Floats, z: Floats) -> float:
    """The same inside the lower and upper half of three columns."""
    losses = []
    for column in range(min(3, x.shape[1])):
        cut = np.median(x[:, column])
        for side in (True, False):
            one, two = x[(x[:, column] > cut) == side], z[(z[:, column] > cut) == side]
            losses.append(overlap_loss(one, two, 7 + column, 4) if min(len(one), len(two)) > 12 else 1.0)
    return float(np.mean(losses))


def boosted_loss(x: Floats, z: Floats, test: Floats) -> float:
    """1 − what trees trained on the release explain of new original records, as a share of what trees
    trained on the original explain."""
    from sklearn.ensemble import HistGradientBoostingRegressor as Trees

    losses = []
    for target in range(0, x.shape[1], max(1, x.shape[1] // 3)):
        others = [c for c in range(x.shape[1]) if c != target]

        def explained(data: Floats, others: list[int] = others, target: int = target) -> float:
            rank = np.sort(x[:, target])

            def place(v: Floats) -> Floats:
                return (np.searchsorted(rank, v) + np.searchsorted(rank, v, "right")) / 2 / len(rank)

            model = Trees(
                max_iter=40, max_leaf_nodes=8, min_samples_leaf=10, early_stopping=False, random_state=0
            )
            model.fit(data[:, others], place(data[:, target]))
            y = place(test[:, target])
            return 1 - float(((model.predict(test[:, others]) - y) ** 2).mean() / max(y.var(), 1e-12))

        best = explained(x)
        if best > 0.05:
            losses.append(1 - max(explained(z), 0.0) / best)
    return float(np.clip(np.mean(losses), 0, 1)) if losses else float("nan")


def tail_loss(x: Floats, z: Floats) -> float:
    """Quantiles' errors in units of the range between outer deciles, and those of joint upper tenths."""
    q = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]
    one, two = np.quantile(x, q, axis=0), np.quantile(z, q, axis=0)
    width = one[6] - one[2]
    width = np.where(width > 0, width, np.maximum(x.std(0), 1e-12))
    marginal = float(np.clip(np.abs(one - two) / width, 0, 1).mean())
    top = np.quantile(x, 0.9, axis=0)
    both = [((d > top).astype(float).T @ (d > top)) / len(d) for d in (x, z)]
    at = np.triu_indices(x.shape[1], 1)
    return 0.5 * marginal + 0.5 * float(np.clip(np.abs(both[0] - both[1])[at].mean() / 0.1, 0, 1))


def equality_loss(x: Floats, z: Floats) -> float:
    """How much rarer A = B is in the release, among pairs of columns where it holds in more than 30% of the
    records that have both: NaN where the file has no such pair."""
    lost = []
    for a in range(x.shape[1]):
        for b in range(x.shape[1]):
            if a >= b:
                continue
            positive, other = (d[:, a] * d[:, b] != 0 for d in (x, z))
            held = float((x[positive, a] == x[positive, b]).mean()) if positive.sum() > 20 else 0.0
            if held > 0.3:
                kept = float((z[other, a] == z[other, b]).mean()) if other.any() else 0.0
                lost.append(max(0.0, 1 - kept / held))
    return float(np.mean(lost)) if lost else float("nan")


def losses(x: Floats, z: Floats, test: Floats) -> dict[str, float]:
    return {
        "overlap": overlap_loss(x, z),
        "subdomains": subdomain_loss(x, z),
        "boosted trees": boosted_loss(x, z, test),
        "tails": tail_loss(x, z),
        "equalities": equality_loss(x, z),
    }


# -- one release ----------------------------------------------------------------------------------


def one_point(job: tuple[str, str, float, int, int, tuple[str, ...]]) -> dict[str, Any]:
    name, family, strength, seed, records, attacks = job
    logging.getLogger("sfumato").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    data = file(name, records)
    mask = masks(data.columns, data.schema.sums, blind(name, records))[family, strength]()
    cpu = time.process_time()
    out: dict[str, Any] = {"file": name, "mask": family, "strength": strength, "seed": seed}
    try:
        release = mask.mask(data, seed=seed)
    except SfumatoError as problem:
        return {**out, "refused": problem.message[:120]}
    if attacks:
        rates = _again(data, release, mask, attacks, seed)
    else:
        battery = run_battery(data, release, [mask], seed=seed, finds="records")
        rates = {t.label: float(t.result.value) for t in battery.tried if t.result is not None}
    out["gain"] = attribute_gain(data, release, name)
    best = max(rates, key=rates.__getitem__)
    out |= {"link": rates[best], "attack": best, "rates": rates}
    x, z = data.frame.to_numpy(), release.frame.select(data.columns).cast(pl.Float64).to_numpy()
    out |= losses(x, z, _fresh(name, records))
    out["loss"] = float(np.nanmean([out[k] for k in PARTS]))
    out["cpu"] = time.process_time() - cpu
    return out


def _again(
    data: sf.Microdata, release: sf.Microdata, mask: Any, attacks: tuple[str, ...], seed: int
) -> dict[str, float]:
    """The attacks of these labels once more."""
    from sfumato.contract.own_list import own_list
    from sfumato.run.battery import Tried, fitting_attacks

    mine = own_list(data, release, [mask])
    found, _ = fitting_attacks(mine, release, [mask])
    rates = {}
    for attack in found:
        label = Tried(attack, None, 0.0).label
        if label in attacks and attack.finds == "records":
            try:
                rates[label] = float(attack.measure(mine, release, seed=seed).value)
            except SfumatoError:
                continue
    return rates or {"none": 0.0}


def strong(rates: dict[str, float]) -> tuple[str, ...]:
    """The attacks that found at least half as many as the strongest, three at least."""
    order = sorted(rates, key=rates.__getitem__, reverse=True)
    return tuple(a for i, a in enumerate(order) if i < 3 or rates[a] >= 0.5 * rates[order[0]])


@cache
def blind(name: str, records: int) -> tuple[str, ...]:
    """What `init` would call sensitive."""
    from sfumato.plan.suggest.roles import suggest

    data = file(name, records)
    return tuple(suggest(sf.Microdata(data.frame)).schema.sensitive)


def attribute_gain(data: sf.Microdata, release: sf.Microdata, name: str) -> float:
    """What the release tells about its people beyond what it tells about others: the mean over three columns.

    Whoever knows all other columns predicts a value from the nearest released record, from the nearest five
    or from boosted trees, for persons of the file (share right: g) and for persons of the same population
    that no mask saw (b); right is within 10 percent. The gain is (g − b)/(1 − b) of the best way.
    """
    x, z = data.frame.to_numpy(), release.frame.select(data.columns).cast(pl.Float64).to_numpy()
    others = _fresh(name, len(data))
    gains = []
    for target in range(0, x.shape[1], max(1, x.shape[1] // 3)):
        known = [c for c in range(x.shape[1]) if c != target]
        ways = [_right(z, d, known, target) for d in (x, others)]
        gains.append(max(0.0, *((g - b) / max(1 - b, 1e-9) for g, b in zip(*ways, strict=True))))
    return float(np.mean(gains))


def _right(z: Floats, people: Floats, known: list[int], target: int) -> list[float]:
    """How often each way is right for these people."""
    from sklearn.ensemble import HistGradientBoostingRegressor as Trees

    def ranks(d: Floats) -> Floats:
        made = [np.searchsorted(np.sort(z[:, c]), d[:, c]) / len(z) for c in known]
        return np.column_stack(made)

    one, two = ranks(people), ranks(z)
    far = ((one[:, None, :] - two[None, :, :]) ** 2).sum(2)
    near = np.argpartition(far, 5, axis=1)[:, :5]
    model = Trees(max_iter=40, max_leaf_nodes=8, min_samples_leaf=5, random_state=0)
    model.fit(z[:, known], z[:, target])
    guesses = (z[far.argmin(1), target], np.median(z[near, target], axis=1), model.predict(people[:, known]))
    truth = people[:, target]
    return [float((np.abs(g - truth) <= 0.1 * np.abs(truth)).mean()) for g in guesses]


@cache
def _fresh(name: str, records: int) -> Floats:
    """Original records that no mask saw, to test models on."""
    frame = FILES[name]()
    seen = file(name, records)
    rest = frame.join(seen.frame, on=seen.columns, how="anti") if frame.height > records else seen.frame
    rest = rest if rest.height >= 50 else seen.frame
    return rest.select(seen.columns).sample(min(1000, rest.height), seed=2).to_numpy()


# -- tables and maps ------------------------------------------------------------------------------


def table(points: pl.DataFrame, risk: str, limits: tuple[float, ...]) -> list[str]:
    """For each mask and limit: the least loss within it, by file, and on how many files it can be met."""
    mean = (
        points.filter(pl.col(risk).is_not_null())
        .group_by("file", "mask", "strength")
        .agg(pl.col(risk).mean(), pl.col("loss").mean())
    )
    n_files = mean["file"].n_unique()
    heads = [f"at most {100 * limit:g}%" for limit in limits]
    lines = ["| mask | " + " | ".join(heads) + " |", "|---|" + "---|" * len(limits)]
    rows: dict[str, list[str]] = defaultdict(list)
    for limit in limits:
        best = (
            mean.filter(pl.col(risk) <= limit)
            .group_by("file", "mask")
            .agg(pl.col("loss").min(), pl.col("strength").get(pl.col("loss").arg_min()).alias("at"))
        )
        leader = best.group_by("mask").agg(pl.col("loss").mean(), pl.len())
        full = leader.filter(pl.col("len") == n_files)
        lowest = full["loss"].min() if full.height else None
        for family in mean["mask"].unique(maintain_order=False).sort():
            own = best.filter(pl.col("mask") == family)
            if not own.height:
                rows[family].append("–")
                continue
            loss = own["loss"].mean()
            at = f"{own['at'].median():g}"
            where = "" if own.height == n_files else f", {own.height} of {n_files} files"
            text = f"{loss:.2f} ({at}{where})"
            rows[family].append(f"**{text}**" if lowest is not None and np.isclose(loss, lowest) else text)
    return lines + [f"| {family} | " + " | ".join(cells) + " |" for family, cells in sorted(rows.items())]


COLOURS = ("#1b6ca8", "#c2541b", "#2e7d32", "#8e44ad", "#7f6000", "#b3003c", "#455a64", "#00838f")


def svg(points: pl.DataFrame, risk: str, title: str) -> str:
    """A map of the masks' means over files: risk to the right, loss upwards, a line a mask."""
    mean = (
        points.filter(pl.col(risk).is_not_null())
        .group_by("mask", "strength")
        .agg(pl.col(risk).mean(), pl.col("loss").mean())
        .sort("mask", "strength")
    )
    width, height, left, bottom = 720, 420, 60, 50
    top = max(0.8, float(mean["loss"].max() or 0.8))

    def at(r: float, loss: float) -> tuple[float, float]:
        return left + max(r, 0.0) ** 0.5 * (width - left - 190), height - bottom - loss / top * (
            height - bottom - 30
        )

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="sans-serif" font-size="12"><title>{title}</title>'
        '<rect width="100%" height="100%" fill="#fff"/>'
    ]
    for r in (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0):
        x, y = at(r, 0)
        out.append(f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{x:.0f}" y2="30" stroke="#e3e6ea"/>')
        out.append(f'<text x="{x:.0f}" y="{y + 16:.0f}" text-anchor="middle">{100 * r:g}%</text>')
    for loss in np.arange(0, top + 0.01, 0.2):
        x, y = at(0, loss)
        out.append(f'<text x="{x - 8:.0f}" y="{y + 4:.0f}" text-anchor="end">{loss:.1f}</text>')
    out.append(f'<text x="{left}" y="18">loss upwards, {title} to the right (root scale)</text>')
    for i, (family, own) in enumerate(mean.group_by("mask", maintain_order=True)):
        colour = COLOURS[i % len(COLOURS)]
        where = [at(r, loss) for r, loss in zip(own[risk], own["loss"], strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in where)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for (x, y), strength in zip(where, own["strength"], strict=True):
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
            out.append(
                f'<text x="{x + 6:.1f}" y="{y - 5:.1f}" fill="{colour}" font-size="10">{strength:g}</text>'
            )
        out.append(f'<text x="{width - 180}" y="{60 + 20 * i}" fill="{colour}">{family[0]}</text>')
    return "\n".join([*out, "</svg>\n"])


def parts(points: pl.DataFrame) -> list[str]:
    """Every setting: risks and the parts of the loss, means over files and seeds."""
    keys = [k for k in ("link", "gain", *PARTS, "loss") if k in points.columns]
    by = ["mask", "strength"]
    means = [pl.col(k).fill_nan(None).mean() for k in keys]
    mean = points.group_by(by).agg(*means, pl.col("file").n_unique().alias("files")).sort(by)
    lines = ["| mask | strength | files | " + " | ".join(keys) + " |", "|---|---|---|" + "---|" * len(keys)]
    for row in mean.iter_rows(named=True):
        cells = ["" if row[k] is None else f"{row[k]:.3f}" for k in keys]
        head = f"| {row['mask']} | {row['strength']:g} | {row['files']} | "
        lines.append(head + " | ".join(cells) + " |")
    return lines


def write(points: pl.DataFrame, page: Path, about: str) -> None:
    """Put tables and maps between the page's marks."""
    sections = [
        about,
        "",
        "### Links",
        "",
        *table(points, "link", LIMITS),
        "",
        "![links](which-mask-links.svg)",
        "",
    ]
    (page.parent / "which-mask-links.svg").write_text(
        svg(points, "link", "records linked by the strongest attack")
    )
    if "gain" in points.columns:
        sections += [
            "### Attribute gain",
            "",
            *table(points, "gain", GAINS),
            "",
            "![gain](which-mask-gain.svg)",
            "",
        ]
        (page.parent / "which-mask-gain.svg").write_text(svg(points, "gain", "attribute gain"))
    sections += ["### All settings, means over files", "", *parts(points), ""]
    text = page.read_text(encoding="utf-8")
    begin, end = "<!-- made by benchmarks/frontier.py -->", "<!-- end -->"
    head, tail = text.split(begin)[0], text.split(end)[1]
    page.write_text(head + begin + "\n\n" + "\n".join(sections) + "\n" + end + tail, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two files, one seed; the page isn't written")
    parser.add_argument("--points", type=Path, help="keep the points in this file, and take up those it has")
    parser.add_argument("--page", action="store_true", help="only write the page from the points kept")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--files", nargs="*", default=list(FILES))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after so many minutes")
    parser.add_argument("--masks", nargs="*", help="only masks whose name begins so")
    args = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "SFUMATO_THREADS"):
        os.environ.setdefault(name, "1")  # a point is small: a process's own threads cost more than they save
    if args.quick:
        args.files, args.seeds, args.records = ["CASC", "Free1"], 1, 150
    settings = [
        (name, *setting)
        for name in args.files
        for setting in masks(file(name, args.records).columns, file(name, args.records).schema.sums)
        if not args.masks or setting[0].startswith(tuple(args.masks))
    ]
    have = (
        [json.loads(line) for line in args.points.read_text().splitlines()]
        if args.points and args.points.exists()
        else []
    )
    begin = time.perf_counter()
    # Fresh processes: Polars' threads don't survive a fork.
    with ProcessPoolExecutor(args.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for seed in range(0 if args.page else args.seeds):
            first = {(p["file"], p["mask"], p["strength"]): p for p in have if p["seed"] == 0}
            done = {(p["file"], p["mask"], p["strength"]) for p in have if p["seed"] == seed}
            jobs = []
            for one in settings:
                if one in done or (seed and "rates" not in first.get(one, {})):
                    continue
                jobs.append((*one, seed, args.records, strong(first[one]["rates"]) if seed else ()))
            for at in range(0, len(jobs), 2 * args.processes):
                if time.perf_counter() - begin > 60 * args.minutes:
                    break
                for point in pool.map(one_point, jobs[at : at + 2 * args.processes]):
                    have.append(point)
                    if args.points:
                        with args.points.open("a") as sink:
                            sink.write(json.dumps(point) + "\n")
            print(f"seed {seed}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    refused = [p for p in have if "refused" in p]
    points = pl.DataFrame(
        [{k: v for k, v in p.items() if k != "rates"} for p in have if "refused" not in p],
        infer_schema_length=None,
    )
    for p in refused[:20]:
        print("refused:", p["file"], p["mask"], p["strength"], p["refused"], file=sys.stderr)
    files, seeds = points["file"].n_unique(), points["seed"].n_unique()
    minutes = points["cpu"].sum() / 60
    about = (
        f"{files} files, {args.records} records of each, seeds: {seeds}, {len(points):,} releases, "
        f"{minutes:.0f} CPU minutes; {len(refused)} were refused.\n"
        "Each cell: the least loss within the limit (the median of the strengths chosen, each file its own)."
    )
    if args.quick:
        print(about, *table(points, "link", LIMITS), *parts(points), sep="\n")
    else:
        write(points, PAGE, about)


if __name__ == "__main__":
    main()
