"""Additive noise with the covariance of the data (Kim 1986; Kim and Winkler 1995)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Fact, NoiseAdded
from sfumato.contract.guarantees import MOST_PROMISED, Guarantee, SameMoments, SumRule
from sfumato.contract.mask import Notes
from sfumato.contract.parameters import Fault
from sfumato.data.microdata import Microdata
from sfumato.data.rules import count_broken_sums
from sfumato.data.schema import Schema
from sfumato.data.sums import circular, touched_rules
from sfumato.errors import Problem
from sfumato.masks.noise.correlated import CorrelatedNoise
from sfumato.masks.noise.fit import all_eligible, unit_of
from sfumato.masks.noise.notes import InflatedMoments, WithinBounds, leaves_range


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise(CorrelatedNoise):
    """Add noise that has the covariance of the data, so that means and correlations stay.

    Z = X + √d·Y with Y ~ N(0, Σ), Σ = Cov(X) and d = ``variance_ratio``: means are kept in
    expectation and Cov(Z) = (1 + d)·Σ, so correlations and regression slopes among the masked
    columns stay. ``rescale`` brings the covariance back: z ↦ a·z + (1 − a)·z̄ with a = 1/√(1 + d).
    ``exact`` makes the noise's sample mean 0, its sample covariance with X 0 and its own d·Σ, so
    that the moments of the release are guaranteed and not only expected. ``independent`` drops the
    correlations of the noise.

    Totals that the schema declares (``sum_of``) are rebuilt, and a rule that holds in every record
    holds afterwards, to the unit. A total that differs from its sum gets correlated noise of its
    own, which masks the difference as one more component; ``residual="keep"`` is Kim and Winkler's
    published rule, which releases the difference exactly. Missing, coded and imputed values stay;
    each covariance is then estimated from the records in which both values are eligible (in
    ``exact`` mode, for complete records, from the complete records). With ``within`` each stratum
    has its own covariance; strata that are too small are pooled into one.

    Values are rounded to the column's unit (whole numbers for integer columns) up or down at random
    so that the rounding adds no bias.

    References: Kim, J. J. (1986). A method for limiting disclosure in microdata based on random
    noise and transformation. ASA Proc. Survey Research Methods, 303-308. Kim, J. J. and Winkler,
    W. E. (1995). Masking microdata files. ASA Proc. Survey Research Methods, 114-119.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> wage = np.arange(200.0) ** 1.5
    >>> data = sf.Microdata(pl.DataFrame({"WAGE": wage, "TAX": 0.2 * wage + np.arange(200) % 7}))
    >>> noise = sf.AdditiveNoise(columns=["WAGE", "TAX"], variance_ratio=0.1, exact=True, rescale=True)
    >>> masked = noise.mask(data, seed=1).frame
    >>> bool(np.isclose(masked["WAGE"].std(), wage.std(ddof=1)))
    True
    """

    name: ClassVar[str] = "additive_noise"
    reference: ClassVar[str] = "Kim (1986); Kim and Winkler (1995)"

    # -- what it says of itself ---------------------------------------------------------------------

    def _check(self) -> Sequence[Fault]:
        out: list[Fault] = []
        if not self.columns:
            out.append(("`columns` must name at least one column", None, "columns"))
        if len(set(self.columns)) < len(self.columns):
            out.append(("`columns` names a column twice", None, "columns"))
        both = [c for c in self.columns if c in self.within]
        if both:
            out.append((f"{both[0]} can't be masked within itself", "take it out of `within`"))
        if self.exact and (self.non_negative or self.lower or self.upper):
            out.append(("`exact` moments and bounds can't both be kept", "drop one of them", "exact"))
        if self.exact and self.keep_zero_residuals:
            out.append(
                ("`exact` moments and `keep_zero_residuals` can't both be kept", "drop one of them", "exact")
            )
        if self.exact and self.independent:
            out.append(("`exact` needs the data's own covariance", "drop `independent`", "exact"))
        for column, bound in self.lower.items():
            if column in self.upper and bound >= self.upper[column]:
                out.append((f"the bounds of {column} are the wrong way round", None))
        return out

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = self.check_columns(types)
        if circular(schema.sums):
            out.append(Problem(0, f"{circular(schema.sums)} is, by way of other sums, a part of itself"))
            return out
        rebuilt = [t for t, _ in touched_rules(schema.sums, self.columns)]
        for column in self.columns:
            if types.get(column) == pl.Time:
                what = f"{column} holds times of day, which noise would carry past midnight"
                out.append(Problem(0, what, "recode them, or swap them"))
            if column in schema.sums and column not in rebuilt:
                names = ", ".join(schema.sums[column])
                out.append(
                    Problem(
                        0,
                        f"{column} is the sum of {names}, none of which is masked, so it can't change",
                        f"name {names} in `columns` too",
                    )
                )
        for total, parts in touched_rules(schema.sums, self.columns):
            unmasked = [p for p in parts if p not in self.columns and p not in rebuilt]
            if unmasked:
                out.append(
                    Problem(
                        0,
                        f"{total} is rebuilt with {', '.join(unmasked)}, which this step doesn't mask: the "
                        "masked total and parts give their exact values away",
                        f"name {', '.join(unmasked)} in `columns` too",
                        severity="warning",
                    )
                )
        for column in [*self.lower, *self.upper]:
            if column not in self.columns:
                out.append(Problem(0, f"{column} has a bound, but isn't in `columns`", parameter="columns"))
            elif column in rebuilt:
                out.append(Problem(0, f"{column} is rebuilt from its parts", "bound the parts instead"))
        if self.flag_zeros:
            out += [
                Problem(
                    0,
                    f"`flag_zeros` would add {c}_zero, which the data have already",
                    "rename it",
                    parameter="flag_zeros",
                )
                for c in self.columns
                if f"{c}_zero" in types
            ]
        whole = [c for c in self.columns if c in types and unit_of(schema, c, types[c], self.round_to_unit)]
        if self.exact and whole:
            out.append(
                Problem(
                    0,
                    f"{', '.join(whole)} are rounded to their unit, so `exact` moments are exact only "
                    "up to the rounding",
                    "store them as floats without a unit, or set round_to_unit = false for floats",
                    severity="warning",
                    parameter="exact",
                )
            )
        if self.residual == "keep" and rebuilt:
            out.append(
                Problem(
                    0,
                    f'residual = "keep" releases the difference between {", ".join(rebuilt)} and the sum '
                    "exactly; a run tells how many records are unique on it",
                    'use residual = "mask"',
                    severity="warning",
                )
            )
        return out

    def types_after(self, types: dict[str, pl.DataType], schema: Schema) -> dict[str, pl.DataType]:
        flags = [f"{c}_zero" for c in self.columns] if self.flag_zeros else []
        return {**types, **dict.fromkeys(flags, pl.Boolean())}

    def foresees(self, data: Microdata) -> list[Problem]:
        """Which columns won't keep their sign, or their range, and in how many records to expect that."""
        out = []
        low, high = self._bounds(data)
        for column in self.columns:
            word = leaves_range(
                data,
                column,
                self.variance_ratio,
                rescaled=self.rescale,
                bounded=(column in low, column in high),
            )
            if word is not None:
                hint = "say non_negative = true, or give `lower` and `upper` bounds"
                out.append(Problem(0, word, None if self.exact else hint, severity="warning"))
        if self.exact:
            columns = self._vector(data, self._rules(data))
            loose = self._rounding_error(data, columns)
            if loose > MOST_PROMISED:
                out.append(
                    Problem(
                        0,
                        f"rounding {', '.join(columns)} to their units may move a moment by "
                        f"{100 * loose:.3g}% of its standard deviations, so `exact` moments aren't promised",
                        "set round_to_unit = false for floats, or give the columns in finer units",
                        severity="warning",
                        parameter="exact",
                    )
                )
        return out

    def changes(self, data: Microdata) -> Sequence[str]:
        rebuilt = [t for t, _ in touched_rules(data.schema.sums, self.columns)]
        flags = [f"{c}_zero" for c in self.columns] if self.flag_zeros else []
        return tuple(dict.fromkeys([*self.columns, *rebuilt, *flags]))

    def needs(self, data: Microdata) -> Sequence[str]:
        rules = touched_rules(data.schema.sums, self.columns)
        used = [*self.columns, *self.within, *(c for t, parts in rules for c in (t, *parts))]
        flags = [data.schema[c].imputed for c in used]
        return tuple(dict.fromkeys([*used, *(f for f in flags if f is not None)]))

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        return [
            NoiseAdded(
                columns=self.columns,
                within=self.within,
                variance_ratio=self.variance_ratio,
                independent=self.independent,
                rescaled=self.rescale,
            )
        ]

    def own_list(self, data: Microdata) -> Microdata:
        """With the flags of zeros that this step adds."""
        if not self.flag_zeros:
            return data
        there = [c for c in self.columns if c in data.columns]
        return data.with_columns(
            {
                f"{c}_zero": pl.select(
                    pl.when(~pl.Series(data.missing(c))).then(data.column(c) == 0)
                ).to_series()
                for c in there
            }
        )

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        out: list[Guarantee] = []
        for total, parts in touched_rules(data.schema.sums, self.columns):
            kept = self.residual == "keep" or self.keep_zero_residuals
            if kept or not count_broken_sums(data, total, parts):
                out.append(SumRule(total, parts))
        low, high = self._bounds(data)
        out += [WithinBounds(c, low.get(c), high.get(c)) for c in self.columns if c in low or c in high]
        if self.exact:
            out += self._exact_promises(data)
        return out

    def _exact_promises(self, data: Microdata) -> list[Guarantee]:
        columns = self._vector(data, self._rules(data))
        plain = all_eligible(data, columns)
        tolerance = max(1e-9, self._rounding_error(data, columns))
        if tolerance > MOST_PROMISED:
            return []  # a promise that says nothing; `foresees` says so
        if self.rescale and plain and not self.within:
            return [SameMoments(columns, tolerance=tolerance)]
        factor = 1.0 if self.rescale else 1.0 + self.variance_ratio
        strata = self._groups(data, columns, Notes())[0] if self.within else None
        return [InflatedMoments(columns, factor, tolerance, self.within, strata)]

    def _coarsest(self, data: Microdata, columns: Sequence[str]) -> float:
        """The largest unit of a column, in its standard deviations."""
        worst = 0.0
        for column in columns:
            unit = unit_of(data.schema, column, data.dtype(column), self.round_to_unit)
            values = data.numbers(column)
            values = values[np.isfinite(values)]
            if len(values) > 1 and values.std() > 0:
                grain = np.finfo(np.float32 if data.dtype(column) == pl.Float32 else np.float64).eps
                worst = max(worst, (unit or 8 * grain * np.abs(values).max()) / values.std())
        return float(worst)

    def _rounding_error(self, data: Microdata, columns: Sequence[str]) -> float:
        """How far rounding by less than a unit can move a standardised mean or covariance.

        Without a unit it is the rounding of a double, which matters where the mean is 1e6 deviations.
        """
        worst = data.at_once(lambda there: self._coarsest(there, columns))
        scale = np.sqrt(1 + self.variance_ratio)
        surely = 2 * worst * scale + worst**2
        if self.within or len(data) < 2:
            return float(surely)
        # Up or down at random: the errors of n records, each of variance 1/4 unit² at most, average out;
        # eight standard errors of a variance. Totals carry the errors of their parts.
        parts = 1 + max((len(p) for _, p in touched_rules(data.schema.sums, self.columns)), default=0)
        chance = 8 * worst * scale * np.sqrt(parts / len(data))
        return float(min(surely, chance + parts * worst**2 * (0.25 + 2 / np.sqrt(len(data)))))
