"""The income deck: synthetic tax returns like the matched IRS-CPS file of Kim and Winkler (1995).

>>> deck = incomes(1_000)
>>> deck.schema.sums["TOTAL_INC"]
('WAGE', 'TAX_INT', 'DIVIDEND', 'RENT', 'NTAX_INT', 'SOC_SEC', 'OTHER_INC')
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from sfumato.data.microdata import BoolArray, FloatArray, Microdata
from sfumato.data.schema import Schema, Variable
from sfumato.draws import Draws, Seed
from sfumato.errors import suggesting

RECORDS: Final = 59_315
INCOMES: Final = ("TOTAL_INC", "AGI", "WAGE", "TAX_INT", "DIVIDEND", "RENT", "NTAX_INT", "SOC_SEC")
"""The eight incomes of the papers, in their order."""
COMPONENTS: Final = INCOMES[2:]
"""The six that are masked directly."""
FLAGS: Final = ("AGED", "SCHED_C", "SCHED_D", "SCHED_E", "SCHED_F")

_OUTLIER_BLOCK: Final = 2_966  # one record in so many is an extreme outlier: 20 in 59,315

# The model: level, slope on affluence and spread of the logarithm of each non-zero amount, and what a
# Schedule C does to it. Fitted to the means and correlations that Kim and Winkler print.
_MODEL: Final[dict[str, float]] = {
    "dividend c": 0.243,
    "dividend level": 5.7046,
    "dividend old": 0.5798,
    "dividend slope": 1.198,
    "dividend spread": 1.009,
    "ntax_int c": 0.2353,
    "ntax_int level": 6.494,
    "ntax_int slope": 1.025,
    "ntax_int spread": 1.231,
    "outlier dividend": 108_500,
    "outlier dividend with rent": 0.3369,
    "outlier ntax_int": 229_700,
    "outlier rent": 424_800,
    "outlier rent with tax_int": 0.3988,
    "outlier tax_int": 220_000,
    "outlier tax_int with ntax_int": 0.06133,
    "outlier wage": 1_102_400,
    "rent c": 0.6312,
    "rent level": 8.6937,
    "rent slope": 0.4129,
    "rent spread": 1.222,
    "soc_sec level": 7_317,
    "tax_int c": 0.1473,
    "tax_int level": 7.2364,
    "tax_int slope": 0.7834,
    "tax_int spread": 0.7741,
    "wage any": 0.8061,
    "wage c": 0.1245,
    "wage level": 10.078,
    "wage slope": 0.3579,
    "wage spread": 0.6912,
}

SCHEMA: Final = Schema(
    id="ID",
    keys=("AGE", "RACE", "SEX", "STATE", "RETURN_TYPE", "EXEMPTIONS", *FLAGS),
    sensitive=(*INCOMES, "OTHER_INC", "ADJUSTMENT"),
    geography=("STATE",),
    variables={
        "ID": Variable(kind="categorical", label="Number of the return"),
        "AGE": Variable(kind="ordinal", label="Age of the first filer"),
        "RACE": Variable(
            kind="categorical",
            label="Race of the first filer",
            labels={1: "White", 2: "Black", 3: "American Indian", 4: "Asian or Pacific", 5: "Other"},
        ),
        "SEX": Variable(kind="categorical", label="Sex of the first filer", labels={1: "Male", 2: "Female"}),
        "STATE": Variable(kind="categorical", label="State"),
        "RETURN_TYPE": Variable(
            kind="categorical",
            label="Return type",
            labels={1: "Single", 2: "Joint", 3: "Separate", 4: "Head of household", 5: "Widow(er)"},
        ),
        "CHILDREN": Variable(kind="ordinal", label="Child exemptions"),
        "EXEMPTIONS": Variable(kind="ordinal", label="Exemptions in all"),
        **{
            flag: Variable(kind="categorical", label=label, labels={0: "No", 1: "Yes"})
            for flag, label in zip(
                FLAGS,
                (
                    "Aged exemption",
                    "Schedule C filed",
                    "Schedule D filed",
                    "Schedule E filed",
                    "Schedule F filed",
                ),
                strict=True,
            )
        },
        "TOTAL_INC": Variable(
            kind="continuous", unit=1, label="Total income", sum_of=(*COMPONENTS, "OTHER_INC")
        ),
        "AGI": Variable(
            kind="continuous",
            unit=1,
            label="Adjusted gross income",
            sum_of=(*COMPONENTS, "OTHER_INC", "ADJUSTMENT"),
        ),
        "WAGE": Variable(kind="continuous", unit=1, label="Wage and salary income"),
        "TAX_INT": Variable(kind="continuous", unit=1, label="Taxable interest income"),
        "DIVIDEND": Variable(kind="continuous", unit=1, label="Dividend income"),
        "RENT": Variable(kind="continuous", unit=1, label="Rental income, net of losses"),
        "NTAX_INT": Variable(kind="continuous", unit=1, label="Nontaxable interest income"),
        "SOC_SEC": Variable(kind="continuous", unit=1, label="Social security income"),
        "OTHER_INC": Variable(kind="continuous", unit=1, label="All other income, net of losses"),
        "ADJUSTMENT": Variable(kind="continuous", unit=1, label="Statutory adjustments, at most 0"),
    },
)


@suggesting
def incomes(n: int = RECORDS, *, seed: int = 1991, start: int = 0) -> Microdata:
    """Tax-like records: eight skewed incomes with many zeros, two exact sums, a score of outliers.

    Each record is drawn at its own address, so record i is the same whatever ``n`` is and wherever a
    chunk starts. Amounts are whole dollars; rents, other income and adjustments may be negative. Of
    59,315 records, 20 are extreme outliers. See ``docs/decks.md`` for how near it comes to the file it
    stands for.

    Reference: Kim, J. J. and Winkler, W. E. (1995). Masking microdata files. Proceedings of the
    Section on Survey Research Methods, American Statistical Association, 114-119.
    """
    draws = Seed.from_int(seed).draws("incomes deck")
    return Microdata(pl.DataFrame(_columns(draws, start, n, _MODEL)), SCHEMA)


def _columns(draws: Draws, start: int, n: int, m: dict[str, float]) -> dict[str, Any]:
    def u(name: str) -> FloatArray:
        return draws.stream(name).uniform(start, n)

    def z(name: str) -> FloatArray:
        return draws.stream(name).normal(start, n)

    age = np.floor(
        np.interp(
            u("age"),
            [0, 0.05, 0.15, 0.35, 0.55, 0.72, 0.82, 0.88, 0.97, 1],
            [15, 19, 24, 31, 39, 49, 58, 65, 77, 91],
        )
    )
    kind = 1 + np.searchsorted([0.43, 0.85, 0.8808, 0.98], u("return type"))
    sched_c = u("schedule c") < 0.13182
    old = age >= 62
    # Affluence: what makes incomes rise and fall together.
    wealth = z("affluence") + 0.012 * (age - 43) + 0.25 * (kind == 2) - 0.45 * (kind == 4)

    def amount(name: str, share: FloatArray, extra: FloatArray | float = 0.0) -> FloatArray:
        size = np.exp(
            m[f"{name} level"] + m[f"{name} slope"] * wealth + m[f"{name} spread"] * z(name) + extra
        )
        return np.where(u(f"{name} any") < share, size, 0.0)

    own = np.where(sched_c, 1.0, 0.0)
    wage = amount("wage", np.where(old, 0.30, m["wage any"]) - 0.08 * own, m["wage c"] * own)
    tax_int = amount("tax_int", _share(0.52, 0.8, wealth), m["tax_int c"] * own)
    dividend = amount("dividend", _share(0.17, 0.9, wealth), m["dividend c"] * own + m["dividend old"] * old)
    rent = amount("rent", _share(0.10, 0.5, wealth) + 0.08 * own, m["rent c"] * own)
    rent *= np.where(u("rent loss") < 0.36, -0.45, 1.0)
    ntax = amount(
        "ntax_int", _share(0.035, 0.9, wealth), m["ntax_int c"] * own + 0.3 * old - 1.0 * (kind == 4)
    )
    # Benefits rise with affluence, which ties them to interest and dividends.
    soc_sec = np.clip(m["soc_sec level"] + 1_500 * wealth + 2_200 * z("soc_sec"), 900, 19_000)
    soc_sec = np.where(old & (u("soc_sec any") < 0.86 - 0.16 * own), soc_sec, 0.0)

    _outliers(draws, start, n, m, wage, tax_int, dividend, rent, ntax, sched_c)

    other = np.where(sched_c, np.exp(8.9 + 0.5 * wealth + 0.9 * z("business")), 0.0)
    other *= np.where(u("business loss") < 0.22, -0.6, 1.0)
    other += np.where(old & (u("pension any") < 0.5), np.exp(8.7 + 0.4 * wealth + 0.6 * z("pension")), 0.0)
    other += np.where(u("refund any") < 0.18, np.exp(5.9 + 0.9 * z("refund")), 0.0)
    adjustment = -np.where(
        u("adjustment any") < _share(0.10, 0.6, wealth), np.exp(7 + 0.6 * z("adjustment")), 0.0
    )

    parts = [np.rint(x).astype(np.int64) for x in (wage, tax_int, dividend, rent, ntax, soc_sec, other)]
    adjusted = np.rint(adjustment).astype(np.int64)
    total = np.sum(parts, axis=0)
    children = np.floor(-np.log(u("children")) * np.select([kind == 4, kind == 2], [1.2, 1.1], 0.08)) + (
        kind == 4
    )
    children = np.minimum(children, 9)
    race = 1 + np.searchsorted([0.85, 0.95, 0.958, 0.988], u("race"))
    # A few large states and many small ones.
    sizes = np.cumsum(1.0 / (np.arange(51) + 4.0))
    state = 1 + np.searchsorted(sizes / sizes[-1], u("state"))
    flags = {
        "AGED": age >= 65,
        "SCHED_C": sched_c,
        "SCHED_D": u("schedule d") < _share(0.11, 1.0, wealth),
        "SCHED_E": (parts[3] != 0) | (u("schedule e") < 0.03),
        "SCHED_F": u("schedule f") < 0.021,
    }
    return {
        "ID": pl.Series(np.arange(start, start + n)).cast(pl.String).str.zfill(9),
        "AGE": age.astype(np.int8),
        "RACE": race.astype(np.int8),
        "SEX": (1 + (u("sex") < np.where(kind == 4, 0.8, 0.42))).astype(np.int8),
        "STATE": state.astype(np.int8),
        "RETURN_TYPE": kind.astype(np.int8),
        "CHILDREN": children.astype(np.int8),
        "EXEMPTIONS": (1 + (kind == 2) + children).astype(np.int8),
        **{flag: on.astype(np.int8) for flag, on in flags.items()},
        "TOTAL_INC": total,
        "AGI": total + adjusted,
        **dict(zip((*COMPONENTS, "OTHER_INC"), parts, strict=True)),
        "ADJUSTMENT": adjusted,
    }


def _share(middle: float, slope: float, wealth: FloatArray) -> FloatArray:
    """The probability of a non-zero amount: logistic in affluence, ``middle`` at its average."""
    return np.asarray(1.0 / (1.0 + (1.0 / middle - 1.0) * np.exp(-slope * wealth)))


def _outliers(
    draws: Draws,
    start: int,
    n: int,
    m: dict[str, float],
    wage: FloatArray,
    tax_int: FloatArray,
    dividend: FloatArray,
    rent: FloatArray,
    ntax: FloatArray,
    sched_c: BoolArray,
) -> None:
    """Make one record of every block of 2,966 an extreme outlier, in place.

    The block draws which of its records it is, so the address of a record decides, not the chunk.
    """
    first, last = start // _OUTLIER_BLOCK, (start + max(n, 1) - 1) // _OUTLIER_BLOCK
    blocks = np.arange(first, last + 1)
    place, size = (draws.stream(f"outlier {what}").uniform(first, len(blocks)) for what in ("place", "size"))
    rows = blocks * _OUTLIER_BLOCK + np.floor(place * _OUTLIER_BLOCK).astype(np.int64) - start
    for block, row, scale in zip(blocks.tolist(), rows.tolist(), (0.5 + size).tolist(), strict=True):
        if not 0 <= row < n:
            continue
        if block % 5 in (0, 1):
            wage[row], dividend[row] = m["outlier wage"] * scale, m["outlier dividend"] * scale
        elif block % 5 == 2:
            tax_int[row] = m["outlier tax_int"] * scale
            rent[row] = m["outlier rent"] * m["outlier rent with tax_int"] * scale
        elif block % 5 == 3:
            ntax[row] = m["outlier ntax_int"] * scale
            tax_int[row] = m["outlier tax_int"] * m["outlier tax_int with ntax_int"] * scale
        else:
            rent[row] = m["outlier rent"] * scale
            dividend[row] = m["outlier dividend"] * m["outlier dividend with rent"] * scale
        sched_c[row] = block % 5 != 3
