"""Kim and Winkler (1995), masking microdata files: Tables 1 to 5 on the incomes deck, and the copies."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

import sfumato as sf
from papers.framework import STAND_IN, Context, Table, carry_out, number
from sfumato.data.microdata import BoolArray, FloatArray, Microdata
from sfumato.decks.incomes import COMPONENTS, INCOMES, RECORDS
from sfumato.utility.copies import compare_copies, independent_copies
from sfumato.utility.subdomain import corrected_moments, domain_of

TITLE: Final = "Kim and Winkler"
REFERENCE: Final = (
    "Kim, J. J. and Winkler, W. E. (1995). Masking microdata files. Proceedings of the Section on Survey "
    "Research Methods, American Statistical Association, 114-119."
)
ABOUT: Final = (
    "The paper's file, 59,315 tax returns matched to the March 1991 CPS, is confidential. The incomes deck, "
    "synthetic and fitted to the means and correlations below as far as they can be, stands in: no digit is "
    "judged, the patterns are. The paper doesn't print the share c of the covariance that its noise has; "
    "d = 0.01 is what Yancey et al. call the same file (`add01`)."
)
D: Final = 0.01

# -- what was printed -----------------------------------------------------------------------------

LABELS: Final = dict(zip(COMPONENTS, ("Wage", "Tax Int", "Div", "Rent", "Ntax Int", "Soc Sec"), strict=True))
TABLE_1: Final = {
    "WAGE": ("23,799", "23,784"), "TAX_INT": ("1,825", "1,823"), "DIVIDEND": ("587", "587"),
    "RENT": ("1,190", "1,187"), "NTAX_INT": ("342", "342"), "SOC_SEC": ("947", "948"),
}  # fmt: skip
PAIRS: Final = (
    ("WAGE", "DIVIDEND"), ("WAGE", "TAX_INT"), ("DIVIDEND", "SOC_SEC"), ("TAX_INT", "RENT"),
    ("DIVIDEND", "RENT"), ("NTAX_INT", "SOC_SEC"),
)  # fmt: skip
TABLE_2: Final = ((".18", ".18"), (".12", ".12"), (".12", ".12"), (".08", ".08"), (".04", ".04"),
                  (".04", ".04"))  # fmt: skip
TABLE_3: Final = ((".027", ".029"), (".108", ".105"), (".155", ".154"), (".172", ".171"), (".040", ".039"),
                  (".056", ".052"))  # fmt: skip
STAGES: Final = ("raw", "masked", "5% swap", "20% swap")
TABLE_4: Final = {
    "WAGE": ("24,715", "24,677", "25,338", "26,891"), "RENT": ("2,820", "2,822", "2,779", "2,746"),
    "TAX_INT": ("2,178", "2,174", "2,171", "2,145"), "DIVIDEND": ("783", "779", "773", "755"),
    "NTAX_INT": ("393", "391", "366", "346"), "SOC_SEC": ("790", "790", "803", "822"),
}  # fmt: skip
TABLE_5: Final = (
    (".6361", ".6352", ".6143", ".6217"), (".1903", ".1900", ".2425", ".2413"),
    (".1535", ".1547", ".1528", ".1346"), (".1984", ".1978", ".1967", ".2167"),
    (".1291", ".1285", ".1265", ".1304"), (".1057", ".1062", ".1181", ".0957"),
)  # fmt: skip


# -- what the tables share ------------------------------------------------------------------------


def deck(context: Context) -> Microdata:
    def make() -> Microdata:
        data = sf.decks.incomes(6_000 if context.quick else RECORDS)
        grouped: Microdata = data.with_columns({"AGE_GROUP": data.frame["AGE"] // 10})
        return grouped

    data: Microdata = context.once("incomes", make)
    return data


def noise(ratio: float = D) -> Any:
    return sf.AdditiveNoise(columns=[*INCOMES, "OTHER_INC", "ADJUSTMENT"], variance_ratio=ratio)


def masked(context: Context, seed: int) -> Microdata:
    release: Microdata = context.once(
        ("kim-winkler", seed), lambda: carry_out(noise(), deck(context), seed, "kim-winkler")[0]
    )
    return release


def swapped(context: Context, seed: int, percent: float) -> Microdata:
    """Strings of incomes swapped at random within age × race × sex, not controlled for the subdomain."""
    columns = [*INCOMES, "OTHER_INC", "ADJUSTMENT"]
    swap = sf.RandomSwap(
        columns=columns, rate_percent=percent, within=["AGE_GROUP", "RACE", "SEX"], together=True
    )
    return carry_out(swap, masked(context, seed), seed, f"swap {percent}")[0]


def moments(data: Microdata, inside: BoolArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Means, and the correlations of the six pairs."""
    x = data.matrix(list(COMPONENTS))
    x = x if inside is None else x[inside]
    return x.mean(axis=0), _pairs(np.cov(x.T))


def _pairs(cov: FloatArray) -> FloatArray:
    sd = np.sqrt(np.clip(np.diag(cov), 1e-12, None))
    cor = cov / np.outer(sd, sd)
    place = {c: i for i, c in enumerate(COMPONENTS)}
    return np.array([cor[place[a], place[b]] for a, b in PAIRS])


def _name(pair: tuple[str, str]) -> str:
    return f"{LABELS[pair[0]]} vs {LABELS[pair[1]]}"


def seeds(context: Context) -> range:
    return range(context.count(0.25))


# -- the tables -----------------------------------------------------------------------------------


def tables_1_and_2(context: Context) -> list[Table]:
    """Tables 1 and 2: means and correlations of the whole file."""
    about = f"Ours: the incomes deck, {len(deck(context)):,} records, noise of d = {D}."
    one, two = Table("Table 1. Means", about), Table("Table 2. Correlations", about)
    mean, cor = moments(deck(context))
    runs = [moments(masked(context, s)) for s in seeds(context)]
    after, cors = np.array([m for m, _ in runs]), np.array([c for _, c in runs])
    for j, (column, (raw, text)) in enumerate(TABLE_1.items()):
        one.add(LABELS[column], "raw", raw, mean[j], standing=STAND_IN)
        one.add(LABELS[column], "masked", text, context.mean(list(after[:, j])), standing=STAND_IN)
    for j, (pair, (raw, text)) in enumerate(zip(PAIRS, TABLE_2, strict=True)):
        two.add(_name(pair), "raw", raw, cor[j], standing=STAND_IN)
        two.add(_name(pair), "masked", text, context.mean(list(cors[:, j])), standing=STAND_IN)
    gap = np.abs(after / mean - 1)
    paper = max(abs(number(b) / number(a) - 1) for a, b in TABLE_1.values())
    # The noise of a mean has the standard error √(d·Var/n), a tenth of the mean's own.
    x = deck(context).matrix(list(COMPONENTS))
    own = x.std(axis=0, ddof=1) / np.sqrt(len(x)) / mean
    one.claim(
        "masked means are almost identical: they move by less than half of their own standard error",
        float((gap / own).max()) < 0.5,
        f"largest move {gap.max():.2%} (the paper's {paper:.2%}), {float((gap / own).max()):.2f} standard "
        "errors",
    )
    totals = [
        abs(masked(context, s).numbers(c).mean() / deck(context).numbers(c).mean() - 1)
        for s in seeds(context)
        for c in ("TOTAL_INC", "AGI")
    ]
    limit = 0.0007 * (RECORDS / len(deck(context))) ** 0.5
    one.claim(
        f"means of total and adjusted gross income are less than {limit:.2%} off (0.07 percent at 59,315)",
        float(np.mean(totals)) < limit,
        f"{float(np.mean(totals)):.3%} on average, at most {max(totals):.3%}",
        reason="the deck's totals vary more than the paper's, and few seeds tell little",
    )
    ratio = [
        masked(context, s).numbers(c).var() / deck(context).numbers(c).var()
        for s in seeds(context)
        for c in ("TOTAL_INC", "AGI")
    ]
    one.claim(
        "variances of the two totals are virtually identical (within 2 percent)",
        max(abs(r - 1) for r in ratio) < 0.02,
        f"ratios {min(ratio):.4f} to {max(ratio):.4f}; d inflates them by {D:.0%}",
    )
    off = np.abs(cors - cor).max()
    two.claim(
        "all correlations are the same to two decimal places (within 0.005)",
        off < 0.005,
        f"largest change {off:.4f}",
    )
    return [one, two]


def subdomains(context: Context) -> list[Table]:
    """Table 3 and section 3.2: subdomains."""
    where, data = "RETURN_TYPE = 4", deck(context)
    inside = domain_of(data, where)
    table = Table(
        "Table 3. Correlations where the return type is 4",
        f"Ours: {int(inside.sum()):,} records of the deck; correlations of the release are corrected for the "
        "noise as Kim (1990) does.",
        improved="not corrected",
    )
    _, cor = moments(data, inside)
    plain, better, means = [], [], []
    for s in seeds(context):
        release = masked(context, s)
        found = corrected_moments(release, where, list(COMPONENTS), variance_ratio=D)
        better.append(_pairs(found.covariance))
        plain.append(_pairs(found.uncorrected_covariance))
        means.append(found.mean)
    fixed, raw = np.array(better), np.array(plain)
    for j, (pair, (text, after)) in enumerate(zip(PAIRS, TABLE_3, strict=True)):
        table.add(_name(pair), "raw", text, cor[j], standing=STAND_IN)
        table.add(_name(pair), "masked", after, context.mean(list(fixed[:, j])), standing=STAND_IN,
                  improved=f"{raw[:, j].mean():.4f}")  # fmt: skip
    place = list(COMPONENTS).index("NTAX_INT")
    table.add("text: Ntax Int", "mean, raw", "70", data.numbers("NTAX_INT")[inside].mean(), standing=STAND_IN)
    table.add("text: Ntax Int", "mean, masked", "61", context.mean([m[place] for m in means]),
              standing=STAND_IN)  # fmt: skip
    gaps = [float(np.abs(v.mean(axis=0) - cor).mean()) for v in (fixed, raw)]
    paper = float(np.mean([abs(number(a) - number(b)) for a, b in TABLE_3]))
    table.claim(
        "correlations of the subdomain survive the masking (mean change under 0.02)",
        gaps[0] < 0.02,
        f"{gaps[0]:.4f} corrected, {gaps[1]:.4f} as they are (the paper's: {paper:.4f})",
        reason="where the noise exceeds the variation of a subdomain, a correlation can't be recovered",
    )
    moved = np.abs(np.mean(means, axis=0) / data.matrix(list(COMPONENTS))[inside].mean(axis=0) - 1)
    table.claim(
        "subdomain means are recovered but for small amounts (the paper: nontaxable interest off by a tenth)",
        float(np.median(moved)) < 0.02,
        ", ".join(f"{LABELS[c]} {m:.1%}" for c, m in zip(COMPONENTS, moved, strict=True)),
    )
    return [table, _by_masked_variable(context)]


def _by_masked_variable(context: Context) -> Table:
    table = Table(
        "Section 3.2. A subdomain formed by a masked variable: wage at most 15,000",
        "Records cross the cut-off when the wage that defines the group is masked.",
    )
    data = deck(context)
    before = data.numbers("WAGE") <= 15_000
    others = [c for c in COMPONENTS if c != "WAGE"]
    mean = data.matrix(list(COMPONENTS))[before].mean(axis=0)
    counts, moved, wages = [], [], []
    for s in seeds(context):
        release = masked(context, s)
        after = release.numbers("WAGE") <= 15_000
        counts.append(float(after.sum()))
        now = release.matrix(list(COMPONENTS))[after].mean(axis=0)
        moved.append(np.abs(now / mean - 1)[1:])
        wages.append(float(now[0] / mean[0] - 1))
    table.add("wage ≤ 15,000", "records, raw", "28,268", before.sum(), standing=STAND_IN)
    table.add("wage ≤ 15,000", "records, masked", "28,296", context.mean(counts), standing=STAND_IN)
    share = abs(float(np.mean(counts)) / before.sum() - 1)
    table.claim("nearly as many records are in the group (within 2 percent)", share < 0.02, f"{share:.2%}")
    table.claim(
        "means of the other incomes are virtually identical (within 5 percent)",
        float(np.mean(moved, axis=0).max()) < 0.05,
        ", ".join(f"{LABELS[c]} {m:.1%}" for c, m in zip(others, np.mean(moved, axis=0), strict=True)),
        reason="who crosses the cut-off differs from who stays, and the deck's wages are spread otherwise",
    )
    table.claim(
        "the mean of the wage itself is biased, so that the subdomain correction doesn't apply",
        abs(float(np.mean(wages))) > 0.02,
        f"{float(np.mean(wages)):+.1%}",
        ours=True,
    )
    return table


def tables_4_and_5(context: Context) -> list[Table]:
    """Tables 4 and 5: Schedule C before and after swapping."""
    data = deck(context)
    inside = domain_of(data, "SCHED_C = 1")
    about = (
        f"Ours: {int(inside.sum()):,} records of the deck; strings of incomes are swapped at random within "
        "age × race × sex, not controlled for Schedule C."
    )
    four = Table("Table 4. Means for Schedule C users", about)
    five = Table("Table 5. Correlations for Schedule C users", about)
    found: dict[str, list[tuple[FloatArray, FloatArray]]] = {"raw": [moments(data, inside)]}
    for s in seeds(context):
        for stage, release in (
            ("masked", masked(context, s)),
            ("5% swap", swapped(context, s, 5)),
            ("20% swap", swapped(context, s, 20)),
        ):
            found.setdefault(stage, []).append(moments(release, inside))
    place = {c: i for i, c in enumerate(COMPONENTS)}
    for column, texts in TABLE_4.items():
        for stage, text in zip(STAGES, texts, strict=True):
            values = [m[place[column]] for m, _ in found[stage]]
            four.add(LABELS[column], stage, text, context.mean(values), standing=STAND_IN)
    for j, (pair, texts) in enumerate(zip(PAIRS, TABLE_5, strict=True)):
        for stage, text in zip(STAGES, texts, strict=True):
            five.add(_name(pair), stage, text, context.mean([c[j] for _, c in found[stage]]),
                     standing=STAND_IN)  # fmt: skip
    mean, cor = found["raw"][0]
    move = {k: float(np.mean([np.abs(m / mean - 1).mean() for m, _ in found[k]])) for k in STAGES[1:]}
    bend = {k: float(np.mean([np.abs(c - cor).mean() for _, c in found[k]])) for k in STAGES[1:]}
    listed = ", ".join(f"{k} {v:.2%}" for k, v in move.items())
    four.claim(
        "masking alone gives excellent means (mean change under 1 percent)",
        move["masked"] < 0.01 * (2 if context.quick else 1),
        listed,
    )
    four.claim(
        "the more is swapped, the farther the means move",
        move["masked"] < move["5% swap"] < move["20% swap"],
        listed,
        reason="few seeds",
    )
    five.claim(
        "swapping doesn't harm the correlations too much (mean change under 0.05)",
        bend["20% swap"] < 0.05,
        ", ".join(f"{k} {v:.4f}" for k, v in bend.items()),
        reason="the deck's subdomain leans on a few outliers that a swap takes away",
    )
    return [four, five]


def copies(context: Context) -> Table:
    """Section 4.2: two copies, and what they don't tell."""
    table = Table(
        "Sections 2.2, 4.2 and 5. Two copies; the rule for sums",
        "Two independently masked copies are compared on analyses of the whole file and of a subdomain.",
    )
    data = deck(context)
    two = independent_copies(noise(), data, 2, seed=1)

    def means(one: Microdata) -> dict[str, float]:
        x = one.matrix(list(COMPONENTS))
        return {c: float(v) for c, v in zip(COMPONENTS, x.mean(axis=0), strict=True)}

    check = compare_copies(two, means)
    table.claim(
        "the copies agree on the means of the whole file", check.plausible, f"flagged: {check.flagged}"
    )
    inside = domain_of(data, "RETURN_TYPE = 4")

    def variance(one: Microdata) -> dict[str, float]:
        return {"variance of NTAX_INT": float(one.numbers("NTAX_INT")[inside].var())}

    strong = independent_copies(noise(0.2), data, 2, seed=1)
    biased = compare_copies(strong, variance)
    ratio = variance(strong[0])["variance of NTAX_INT"] / variance(data)["variance of NTAX_INT"]
    table.claim(
        "copies don't see a bias they share: at d = 0.2 an inflated subdomain variance passes the check",
        biased.plausible and ratio > 1.1,
        f"{ratio:.2f} times the true variance, flagged: {biased.flagged}",
        ours=True,
        reason="the copies differ by chance, or the subdomain's variance is far above the noise's",
    )
    schema = sf.Schema(
        variables={"TOTAL_INC": {"sum_of": list(COMPONENTS)}, "AGI": {"sum_of": list(COMPONENTS)}}
    )
    plain = Microdata(data.frame.select("TOTAL_INC", "AGI", *COMPONENTS).clone(), schema)
    rule = sf.AdditiveNoise(columns=list(COMPONENTS), variance_ratio=D, residual="keep")
    release, notes = carry_out(rule, plain, 0, "residual")

    def left(one: Microdata) -> pl.Series:
        return one.frame.select(pl.col("TOTAL_INC") - pl.sum_horizontal(COMPONENTS)).to_series()

    unique = notes.figures["unique_residuals"]
    table.claim(
        "the published rule for totals releases total − Σ components of every record exactly",
        bool((left(release) == left(plain)).all()) and unique > 0,
        f"{unique:,} of {len(data):,} records are unique on the two residuals; ours masks them by default",
        ours=True,
    )
    return table


def risk(context: Context) -> Table:
    """Section 5: the risk of the masked file."""
    table = Table(
        "Section 5. Disclosure risk",
        "Percent of the records that are right links in the 20% zone (above the last weight at which a fifth "
        "of the links are right), blocked on state, race, sex and age group, eight incomes known, l metric.",
        improved="Mahalanobis, percent of all",
    )
    data, release = deck(context), masked(context, 0)
    blocks, known = ["STATE", "RACE", "SEX", "AGE_GROUP"], list(INCOMES)
    link = sf.Linkage(known=known, block_on=blocks, metric="l")
    found = link.measure(data, release, seed=0)
    strong = sf.DistanceLinkage(known=known, block_on=blocks, metric="mahalanobis").measure(
        data, release, seed=0
    )
    swap = sf.LinkageSwap(
        attack=link, columns=[*INCOMES, "OTHER_INC", "ADJUSTMENT"], cells=["SEX", "RACE", "AGE_GROUP"],
        string_risk=False,
    )  # fmt: skip
    after = link.measure(data, swap.knowing(data).mask(release, seed=0), seed=0)
    table.add("masked", "in the 20% zone", "0.8", 100 * found.zone_rate, standing=STAND_IN,
              improved=f"{100 * strong.value:.1f}")  # fmt: skip
    table.add("masked and swapped", "in the 20% zone", "0.1", 100 * after.zone_rate, standing=STAND_IN)
    size = len(data) / data.codes(blocks)[1]
    table.claim(
        "under one percent of the records are right links in the zone",
        found.zone_rate < 0.01,
        f"{found.zone_rate:.2%}, in blocks of {size:.1f} records on average",
        reason=_unblocked(context, found.zone_rate),
    )
    table.claim(
        "swapping the re-identified brings the risk down",
        after.value < 0.5 * found.value,
        f"right links {found.value:.2%} → {after.value:.2%} of the records",
    )
    table.claim(
        "an intruder who whitens finds more than the papers' linkage",
        strong.value > found.value,
        f"{found.value:.2%} and {strong.value:.2%}",
        ours=True,
    )
    return table


_FEW: Final = 4_000


def _unblocked(context: Context, zone: float) -> str:
    """What the same intruder finds who knows incomes only."""
    text = "the paper doesn't say on which attributes it blocked together; in blocks so small nearly every "
    text += "weight lies in the zone"
    if context.quick or zone < 0.01:
        return text
    # All pairs of 59,000 records with 59,000, without a block, took most of the time of all papers.
    one, two = (d.with_frame(d.frame.head(_FEW)) for d in (deck(context), masked(context, 0)))
    alone = sf.Linkage(known=list(INCOMES), metric="l").measure(one, two, seed=0)
    return f"{text}; one who knows the incomes alone has {alone.zone_rate:.2%} there, among {_FEW:,} records"


TABLES: Final = (tables_1_and_2, subdomains, tables_4_and_5, copies, risk)
