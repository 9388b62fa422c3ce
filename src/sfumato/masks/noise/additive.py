"""Additive noise with the covariance of the data (Kim 1986; Kim and Winkler 1995)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Fact, NoiseAdded
from sfumato.contract.guarantees import Guarantee, SameMoments, SumRule, broken_sums
from sfumato.contract.mask import Notes, RowsMask
from sfumato.contract.parameters import Fault, parameter
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.data.schema import Schema
from sfumato.data.sums import Rule, check_bounds, circular, rebuild, touched_rules
from sfumato.draws import Draws
from sfumato.errors import MaskError, Problem
from sfumato.masks.noise.fit import (
    Block,
    Blocks,
    NoiseState,
    back_to_type,
    bring_back,
    found_rules,
    make_block,
    make_exact,
    moments,
    strata_groups,
    type_range,
    unit_of,
)
from sfumato.masks.noise.notes import (
    InflatedMoments,
    WithinBounds,
    leaves_range,
    note_flags,
    note_flat_strata,
    note_residuals,
    note_result,
)
from sfumato.stats.covariance import cholesky_root, polished, rank_of

MOST_PROMISED: Final = 0.05
"""The loosest tolerance that a promise of exact moments may have, in standard deviations."""


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise(RowsMask):
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
    chunk_records: ClassVar[int] = 1 << 16

    columns: tuple[str, ...] = parameter(
        doc="The columns to add noise to.", columns="sensitive", numeric=True, public=True
    )
    variance_ratio: float = parameter(doc="d: the noise's variance over the column's.", above=0, public=True)
    rescale: bool = parameter(False, doc="Bring mean and covariance back to the original's.", public=True)
    exact: bool = parameter(
        False,
        doc="Make the noise's sample mean and covariance exact, so that moments are guaranteed.",
        public=True,
    )
    independent: bool = parameter(
        False, doc="Uncorrelated noise (correlations shrink by 1/(1+d)).", public=True
    )
    residual: str = parameter(
        "mask",
        doc="What happens to total − sum where it isn't 0: masked too, or kept (published; it leaks).",
        choices=("mask", "keep"),
        public=True,
    )
    keep_zero_residuals: bool = parameter(
        False,
        doc="Let a total stay the sum in each record where it was, even if it isn't in others; "
        "this tells which records those are.",
        public=True,
    )
    flag_zeros: bool = parameter(
        False, doc="Add a column <name>_zero that tells which values were zero (an exact key).", public=True
    )
    within: tuple[str, ...] = parameter(
        (), doc="Strata: each has its own covariance and its own mean.", columns=True, public=True
    )
    smallest_stratum: int | None = parameter(
        None,
        doc="Strata below this size are pooled; by default max(10, 3·(columns + 1)).",
        at_least=2,
        public=True,
    )
    round_to_unit: bool = parameter(
        True, doc="Round to the schema's unit without bias (integer columns are always rounded).", public=True
    )
    non_negative: bool = parameter(
        False, doc="Keep columns without negative values at 0 or above; this shifts their means.", public=True
    )
    lower: Mapping[str, float] = parameter({}, doc="Lower bounds by column.", columns=True, public=True)
    upper: Mapping[str, float] = parameter({}, doc="Upper bounds by column.", columns=True, public=True)

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
            if kept or not broken_sums(data, total, parts).any():
                out.append(SumRule(total, parts))
        low, high = self._bounds(data)
        out += [WithinBounds(c, low.get(c), high.get(c)) for c in self.columns if c in low or c in high]
        if self.exact:
            out += self._exact_promises(data)
        return out

    def _exact_promises(self, data: Microdata) -> list[Guarantee]:
        columns = self._vector(data, self._rules(data))
        plain = all(bool(data.eligible(c).all()) for c in columns)
        tolerance = max(1e-9, self._rounding_error(data, columns))
        if tolerance > MOST_PROMISED:
            return []  # a promise that says nothing; `foresees` says so
        if self.rescale and plain and not self.within:
            return [SameMoments(columns, tolerance=tolerance)]
        factor = 1.0 if self.rescale else 1.0 + self.variance_ratio
        strata = self._groups(data, columns, Notes())[0] if self.within else None
        return [InflatedMoments(columns, factor, tolerance, self.within, strata)]

    def _rounding_error(self, data: Microdata, columns: Sequence[str]) -> float:
        """How far rounding by less than a unit can move a standardised mean or covariance.

        Without a unit it is the rounding of a double, which matters where the mean is 1e6 deviations.
        """
        worst = 0.0
        for column in columns:
            unit = unit_of(data.schema, column, data.dtype(column), self.round_to_unit)
            values = data.numbers(column)
            values = values[np.isfinite(values)]
            if len(values) > 1 and values.std() > 0:
                grain = np.finfo(np.float32 if data.dtype(column) == pl.Float32 else np.float64).eps
                worst = max(worst, (unit or 8 * grain * np.abs(values).max()) / values.std())
        scale = np.sqrt(1 + self.variance_ratio)
        surely = 2 * worst * scale + worst**2
        if self.within or len(data) < 2:
            return float(surely)
        # Up or down at random: the errors of n records, each of variance 1/4 unit² at most, average out;
        # eight standard errors of a variance. Totals carry the errors of their parts.
        parts = 1 + max((len(p) for _, p in touched_rules(data.schema.sums, self.columns)), default=0)
        chance = 8 * worst * scale * np.sqrt(parts / len(data))
        return float(min(surely, chance + parts * worst**2 * (0.25 + 2 / np.sqrt(len(data)))))

    def _bounds(self, data: Microdata) -> tuple[dict[str, float], dict[str, float]]:
        low, high = dict(self.lower), dict(self.upper)
        if self.non_negative:
            rebuilt = {t for t, _ in touched_rules(data.schema.sums, self.columns)}
            for column in self.columns:
                if column not in rebuilt and column not in low:
                    values = data.numbers(column)[data.eligible(column)]
                    if len(values) and values.min() >= 0:
                        low[column] = 0.0
        return low, high

    # -- the fit ------------------------------------------------------------------------------------

    def _vector_order(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The order in which columns take their draws: by name, so that `columns` may be shuffled."""
        return tuple(sorted(columns))

    def _root(self, covariance: FloatArray) -> FloatArray:
        return cholesky_root(covariance)

    def _white(self, draws: Draws, vector: Sequence[str], start: int, n: int) -> FloatArray:
        """Independent draws with mean 0 and variance 1, one row a component of the noise."""
        from sfumato.kernels.noise import normals

        out = np.empty((len(vector), n))
        for j, column in enumerate(vector):
            normals(draws.stream(column, purpose=self._purpose).bits(start, n), out[j])
        return out

    @property
    def _purpose(self) -> str:
        # Two releases with one seed and two values of d mustn't share their noise: x could be solved for.
        return f"noise {float(self.variance_ratio)!r}"

    def _rules(self, data: Microdata) -> list[Rule]:
        out = []
        for total, parts in touched_rules(data.schema.sums, self.columns):
            broken = bool(broken_sums(data, total, parts).any())
            out.append(Rule(total, tuple((p, 1) for p in parts), holds=not broken))
        return out

    def _vector(self, data: Microdata, rules: Sequence[Rule]) -> tuple[str, ...]:
        """The columns that get noise: those named, less (published rule) or plus rebuilt totals."""
        totals = {r.total for r in rules}
        if self.residual == "keep":
            chosen = [c for c in self.columns if c not in totals]
        else:
            chosen = [*self.columns, *(r.total for r in rules if not r.holds)]
        return self._vector_order(tuple(dict.fromkeys(chosen)))

    def _fit(self, data: Microdata, draws: Draws, notes: Notes) -> NoiseState:
        narrow = data.with_frame(data.select([c for c in data.columns if c in set(self.needs(data))]))
        rules = self._rules(data)
        vector = self._vector(data, rules)
        m = len(vector)
        if len(data) <= m:
            raise MaskError(
                f"{self.name} needs more records than columns: there are {len(data)} records and {m} columns",
                hint="mask fewer columns at a time",
            )
        strata, groups = self._groups(narrow, vector, notes)
        split = self.exact and any(not bool(narrow.eligible(c).all()) for c in vector)
        total_groups = groups * 2 if split else groups
        state = NoiseState(
            vector,
            root=np.zeros((total_groups, m, m)),
            shrink=np.ones(total_groups),
            shift=np.zeros((total_groups, m)),
            project=np.zeros((total_groups, m, m)),
            centre=np.zeros((total_groups, m)),
            projected=np.zeros(total_groups, dtype=np.bool_),
            strata=strata,
            groups=groups,
            split=split,
        )
        blocks = Blocks(narrow, state)
        state.mean, state.covariance = moments(blocks, notes)
        for g in range(total_groups):
            covariance = state.covariance[g]
            if self.independent:
                covariance = np.diag(np.diag(covariance))
            root = self._root(covariance)
            if self.exact:
                root = polished(root, covariance)
            state.root[g] = np.sqrt(self.variance_ratio) * root
        note_flat_strata(vector, state.covariance[-groups:], notes)
        self._units_and_bounds(narrow, state, rules, blocks)
        if self.exact:
            make_exact(blocks, lambda start, n: self._white(draws, vector, start, n))
        if self.rescale:
            bring_back(
                blocks,
                lambda block: self._coloured(block, state, draws),
                self.variance_ratio,
                exact=self.exact,
            )
        note_residuals(
            self.columns,
            narrow,
            rules,
            notes,
            way=self.residual,
            zeros_kept=self.keep_zero_residuals,
            zeros_flagged=self.flag_zeros,
        )
        if self.flag_zeros:
            note_flags(self.columns, data, notes)
        notes.figure("variance_ratio", self.variance_ratio)
        notes.figure("rank", [rank_of(c) for c in state.covariance[:20]])
        return state

    def _groups(
        self, data: Microdata, vector: Sequence[str], notes: Notes
    ) -> tuple[pl.DataFrame | None, int]:
        """Which covariance each stratum takes."""
        return strata_groups(
            data, self.within, vector, notes, exact=self.exact, smallest=self.smallest_stratum
        )

    def _units_and_bounds(
        self, data: Microdata, state: NoiseState, rules: Sequence[Rule], blocks: Blocks
    ) -> None:
        units = {}
        for column in dict.fromkeys([*state.vector, *(r.total for r in rules)]):
            unit = unit_of(data.schema, column, data.dtype(column), self.round_to_unit)
            if unit:
                units[column] = unit
        for rule in reversed(rules):  # parts without a unit take that of their total
            if rule.total in units and (rule.holds or self.keep_zero_residuals or self.residual == "keep"):
                for part in rule.components:
                    if part in state.vector:
                        units.setdefault(part, units[rule.total])
        state.unit = units
        state.low, state.high = self._bounds(data)
        for column, bound in state.low.items():
            values = data.numbers(column)[data.eligible(column)]
            check_bounds(column, bound, int((values < bound).sum()), "lower")
        for column, bound in state.high.items():
            values = data.numbers(column)[data.eligible(column)]
            check_bounds(column, bound, int((values > bound).sum()), "upper")
        # Identities nobody declared come first: they hold among the parts that declared totals are made of.
        found = [] if self.independent else found_rules(state, rules, blocks)
        state.rules = (*found, *rules)

    # -- the rows -----------------------------------------------------------------------------------

    def _coloured(self, block: Block, state: NoiseState, draws: Draws) -> FloatArray:
        from sfumato.kernels.noise import colour, colour_groups

        white = self._white(draws, state.vector, block.start, block.x.shape[1])
        out = np.empty_like(block.x)
        if len(state.root) == 1:
            root = state.root[0]
            if state.projected[0]:  # what depends on x is one more set of components
                white = np.concatenate([white, block.x - state.centre[0][:, None]])
                root = np.concatenate([root, state.project[0]], axis=1)
            colour(block.x, white, root, state.shrink[0], state.shift[0], out)
        else:
            colour_groups(
                block.x,
                white,
                block.group,
                state.root,
                state.shrink,
                state.shift,
                state.project,
                state.centre,
                state.projected,
                out,
            )
        return out

    def _rows(self, chunk: Microdata, start: int, state: NoiseState, draws: Draws) -> Microdata:
        block = make_block(chunk, start, state)
        z = self._coloured(block, state, draws)
        self._settle(z, block, chunk, state, draws)
        new: dict[str, pl.Series] = {}
        if state.rules:
            after = self._rebuilt(z, block, chunk, state)
            for column in after:
                new[column] = back_to_type(after[column], chunk, column, np.isfinite(after[column]))
        else:
            for j, column in enumerate(state.vector):
                new[column] = back_to_type(z[j], chunk, column, block.eligible[j])
        if self.flag_zeros:
            for column in self.columns:
                zero = pl.Series(chunk.numbers(column) == 0, dtype=pl.Boolean)
                gone = pl.Series(chunk.missing(column))
                new[f"{column}_zero"] = pl.select(pl.when(~gone).then(zero)).to_series()
        return chunk.with_columns(new)

    def _settle(self, z: FloatArray, block: Block, chunk: Microdata, state: NoiseState, draws: Draws) -> None:
        """Bounds, then unbiased rounding; ineligible values go back to what they were."""
        from sfumato.kernels.noise import round_unbiased

        for j, column in enumerate(state.vector):
            low, high = type_range(chunk.dtype(column))
            low = max(low, state.low.get(column, -np.inf))
            high = min(high, state.high.get(column, np.inf))
            if np.isfinite(low) or np.isfinite(high):
                np.clip(z[j], low, high, out=z[j])
            unit = state.unit.get(column)
            if unit:
                bits = draws.stream(column, purpose="rounding").bits(block.start, z.shape[1])
                round_unbiased(z[j], bits, unit)
                if np.isfinite(low) or np.isfinite(high):  # a bound between two units
                    np.clip(z[j], np.ceil(low / unit) * unit, np.floor(high / unit) * unit, out=z[j])
            if not block.complete:
                np.copyto(z[j], block.x[j], where=~block.eligible[j])

    def _rebuilt(
        self, z: FloatArray, block: Block, chunk: Microdata, state: NoiseState
    ) -> dict[str, FloatArray]:
        """Every changed column after its totals were rebuilt; NaN where a value is missing."""
        used = [c for r in state.rules for c in (r.total, *r.components)]
        before = {c: chunk.numbers(c) for c in dict.fromkeys([*state.vector, *used])}
        after = dict(before)
        for j, column in enumerate(state.vector):
            after[column] = np.where(np.isnan(before[column]), np.nan, z[j])
        for rule in state.rules:
            keep = self.residual == "keep" and rule.declared
            total = rebuild(
                rule,
                before,
                after,
                keep_residual=keep,
                keep_zero=self.keep_zero_residuals,
                noised=rule.total in state.vector,
            )
            unit = state.unit.get(rule.total)
            total = np.rint(total / unit) * unit if unit else total
            low, high = type_range(chunk.dtype(rule.total))
            with np.errstate(invalid="ignore"):
                outside = int(((total < low) | (total > high)).sum())
            if outside and rule.declared:
                raise MaskError(
                    f"the rebuilt {rule.total} doesn't fit {chunk.dtype(rule.total)} in {outside:,} records",
                    hint=f"cast {rule.total} to Int64, or set non_negative = true",
                )
            after[rule.total] = np.clip(total, low, high) if outside else total
        changed = {*state.vector, *(r.total for r in state.rules)}
        return {c: v for c, v in after.items() if c in changed}

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        masked = RowsMask._apply(self, data, draws, notes)
        note_result(data, masked, self.columns, self._bounds(data), notes)
        return masked
