"""Risk of single records, summed over households and over groups of people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.microdata import FloatArray, Microdata

if TYPE_CHECKING:
    from sfumato.contract.result import Result


def household_risk(risk: FloatArray, household: npt.NDArray[np.int64]) -> FloatArray:
    """1 − Π (1 − r) over the members of each record's household: it is found if one of them is.

    >>> import numpy as np
    >>> household_risk(np.array([0.5, 0.5, 0.1]), np.array([0, 0, 1])).tolist()
    [0.75, 0.75, 0.1]
    """
    with np.errstate(divide="ignore"):
        safe = np.log1p(-np.minimum(risk, 1.0))
    return np.asarray(-np.expm1(np.bincount(household, weights=safe)[household]))


def household_figures(risk: FloatArray, data: Microdata, column: str) -> dict[str, Any]:
    """How many households (and records in them) are at risk, or expected to be found."""
    codes, households = data.households(column)
    shared = household_risk(risk, codes)
    of_each = np.zeros(households)
    of_each[codes] = shared
    return {
        "households": households,
        "households_at_risk": float(of_each.sum()),
        "household_rate": float(of_each.mean()) if households else 0.0,
        "household_records_at_risk": float(shared.sum()),
    }


def by_group(result: Result, figure: str, data: Microdata, columns: Sequence[str]) -> pl.DataFrame:
    """A per-record figure by the groups of some columns: records, how many at risk (or expected), rate.

    The riskiest group comes first.
    """
    names = data.select(list(columns)).select(pl.all().cast(pl.String).fill_null("missing"))
    frame = pl.DataFrame(
        {
            "group": names.select(pl.concat_str(pl.all(), separator=" × ")).to_series(),
            "risk": np.asarray(result.confidential[figure], np.float64),
        }
    )
    return (
        frame.group_by("group")
        .agg(
            pl.len().alias("records"),
            pl.col("risk").sum().alias("at_risk"),
            pl.col("risk").mean().alias("rate"),
        )
        .sort(["rate", "records", "group"], descending=[True, True, False])
    )
