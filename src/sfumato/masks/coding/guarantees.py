"""What top and bottom coding promises, recomputed from the two files and the schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sfumato.contract.guarantees import ByBlocks, Guarantee
from sfumato.data.microdata import Microdata
from sfumato.masks.coding.codes import SIDES, in_type


@dataclass(frozen=True)
class WithinCodes(ByBlocks):
    """No value lies beyond a code, and what lay between the codes stays.

    Codes that were asked for as values are taken from the request, codes by percent from the schema
    of the masked file. Where a mean or median replaces the coded values (``exact=False``), those
    beyond the code must all be one and the same value.
    """

    column: str
    bottom: float | None = None
    top: float | None = None
    exact: bool = True

    def describe(self) -> str:
        what = "no value" if self.exact else "no more than one value"
        return f"{what} of {self.column} lies beyond its code, and the values between its codes stay"

    def looks_at(self) -> Sequence[str]:
        return (self.column,)

    def partial(self, before: Microdata, after: Microdata) -> dict[str, Any]:
        """How many values changed that shouldn't, and the ends of those beyond each code."""
        known = after.schema[self.column]
        dtype, at = after.dtype(self.column), pl.col("after")
        both = pl.DataFrame({self.column: before.column(self.column), "after": after.column(self.column)})
        there, was = ~before.missing_expr(self.column), pl.col(self.column)
        inside, asked = there, []
        for side, said in (("top", self.top), ("bottom", self.bottom)):
            code = getattr(known, side) if said is None else said
            code = None if code is None else in_type(code, dtype, top=side == "top")
            if code is None:
                continue
            beyond = there & (at > code if side == "top" else at < code)
            values = at.filter(beyond)
            asked += [values.min().alias(f"{side} low"), values.max().alias(f"{side} high")]
            inside &= was < code if side == "top" else was > code
        asked += [(inside & was.ne_missing(at)).sum().alias("changed")]
        asked += [(~there & was.ne_missing(at)).sum().alias("missing")]
        return both.select(asked).row(0, named=True)

    def judged(self, parts: Sequence[dict[str, Any]]) -> str | None:
        for side in SIDES:
            ends = [p[f"{side} {end}"] for p in parts for end in ("low", "high") if f"{side} {end}" in p]
            beyond = {end for end in ends if end is not None}
            if len(beyond) > (0 if self.exact else 1):
                return f"values of {self.column} lie beyond its {side} code"
        missing, changed = (sum(p[name] for p in parts) for name in ("missing", "changed"))
        if missing:
            return f"{missing:,} missing values of {self.column} changed"
        return f"{changed:,} values of {self.column} between codes changed" if changed else None


@dataclass(frozen=True)
class SharedExtreme(Guarantee):
    """At least a percent of the eligible values share the largest (or smallest) one, by stratum."""

    column: str
    percent: float
    top: bool = True
    within: tuple[str, ...] = ()

    def describe(self) -> str:
        where = f" in each stratum of {', '.join(self.within)}" if self.within else ""
        word = "largest" if self.top else "smallest"
        return f"the {word} value of {self.column} is shared by at least {self.percent:g}%{where}"

    def failure(self, before: Microdata, after: Microdata) -> str | None:
        frame = pl.DataFrame(
            {
                "stratum": before.codes(self.within)[0],
                "eligible": before.eligible(self.column),
                "there": ~after.missing(self.column),
                "value": after.column(self.column),
            }
        )
        value = pl.col("value").filter(pl.col("there"))
        extreme = value.max() if self.top else value.min()
        counts = frame.group_by("stratum").agg(
            eligible=pl.col("eligible").sum(), shared=(value == extreme).sum()
        )
        needed = (pl.col("eligible") * (self.percent / 100) - 1e-9).ceil()
        short = counts.filter(pl.col("shared") < needed).height
        return f"too few records share it in {short:,} strata" if short else None
