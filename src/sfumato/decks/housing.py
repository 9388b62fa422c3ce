"""The housing deck: a synthetic stand-in for the 1993 American Housing Survey file of Moore (1996).

>>> deck = housing()
>>> len(deck), int(deck.eligible("INCOME").sum())
(64998, 35717)
"""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import Final

import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema, Variable
from sfumato.errors import suggesting

MONEY: Final = ("INCOME", "HOME_VAL", "MORTGAGE", "MAINTAIN", "TAXES")
"""The five continuous fields of both papers."""

KEYS: Final = ("REGION", "BEDROOMS", "BATHS", "YR_BLT")

TOP: Final = {"INCOME": 100_000, "HOME_VAL": 350_000, "MORTGAGE": 1_800, "MAINTAIN": 9_000, "TAXES": 62}
"""The top codes of Table 1; every bottom code is 0."""

_LABEL: Final = {
    "INCOME": "Income of the household, dollars",
    "HOME_VAL": "Value of the home, dollars",
    "MORTGAGE": "Monthly mortgage payment, dollars",
    "MAINTAIN": "Yearly cost of maintenance, dollars",
    "TAXES": "Real estate taxes, in the classes of the survey",
}

SCHEMA: Final = Schema(
    id="IDNUM",
    keys=KEYS,
    sensitive=MONEY,
    geography=("REGION",),
    variables={
        "IDNUM": Variable(kind="categorical", label="Control number"),
        "REGION": Variable(
            kind="categorical",
            label="Census region",
            labels={1: "Northeast", 2: "Midwest", 3: "South", 4: "West"},
        ),
        "BEDROOMS": Variable(kind="ordinal", label="Number of bedrooms"),
        "BATHS": Variable(kind="ordinal", label="Number of bathrooms"),
        "YR_BLT": Variable(kind="ordinal", label="Year built, as coded by the survey (80 through 92)"),
        **{
            name: Variable(kind="continuous", top=TOP[name], bottom=0, unit=1, label=_LABEL[name])
            for name in MONEY
        },
    },
)


@suggesting
def housing() -> Microdata:
    """64,998 synthetic housing units fitted to the published tables of both Moore (1996) papers.

    Keys: REGION, BEDROOMS, BATHS, YR_BLT. Money: INCOME, HOME_VAL, MORTGAGE, MAINTAIN, TAXES, with
    the papers' top codes and bottom code 0; null means not reported. Counts of eligible values, the
    ten pair counts, the 473 unique and 149 doubled key combinations are the papers' exactly; means
    are within 0.004%, standard deviations within 0.012% and correlations within 0.0004.

    Reference: Moore, R. A. (1996). Controlled data-swapping techniques for masking public use
    microdata sets. SRD RR96/04; and SRD RR96/06, U.S. Bureau of the Census.
    """
    with as_file(files("sfumato.decks") / "data" / "housing_deck.parquet") as path:
        return Microdata(pl.read_parquet(path), SCHEMA)
