"""Correlated noise carried out: the fit of its covariance, the rows, the totals rebuilt from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from sfumato.contract.mask import Notes, RowsMask
from sfumato.contract.parameters import parameter
from sfumato.contract.per_household import PerHousehold
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.data.rules import count_broken_sums
from sfumato.data.sums import touched_rules
from sfumato.draws import Draws
from sfumato.errors import MaskError
from sfumato.masks.noise.fit import (
    Block,
    Blocks,
    NoiseState,
    all_eligible,
    back_to_type,
    beyond,
    bring_back,
    eligible_ends,
    found_rules,
    make_block,
    make_exact,
    moments,
    strata_groups,
    type_range,
    unit_of,
)
from sfumato.masks.noise.notes import note_flags, note_flat_strata, note_residuals, note_result
from sfumato.masks.noise.sums import Rule, check_bounds, rebuild
from sfumato.stats.covariance import cholesky_root, polished, rank_of


@dataclass(frozen=True, kw_only=True)
class CorrelatedNoise(PerHousehold, RowsMask):
    """The parameters of noise with the data's covariance, and how it is made; what the masks of this
    family check and promise is theirs to say."""

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

    def _bounds(self, data: Microdata) -> tuple[dict[str, float], dict[str, float]]:
        low, high = dict(self.lower), dict(self.upper)
        if self.non_negative:
            rebuilt = {t for t, _ in touched_rules(data.schema.sums, self.columns)}
            for column in self.columns:
                if column not in rebuilt and column not in low:
                    ends = eligible_ends(data, column)
                    if ends is not None and ends[0] >= 0:
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
            broken = count_broken_sums(data, total, parts)
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
        needed = set(self.needs(data))
        narrow = data.only([c for c in data.columns if c in needed])
        rules = self._rules(data)
        vector = self._vector(data, rules)
        m = len(vector)
        if len(data) <= m:
            raise MaskError(
                f"{self.name} needs more records than columns: there are {len(data)} records and {m} columns",
                hint="mask fewer columns at a time",
            )
        strata, groups = self._groups(narrow, vector, notes)
        split = self.exact and not all_eligible(narrow, vector)
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
            check_bounds(column, bound, beyond(data, column, bound, below=True), "lower")
        for column, bound in state.high.items():
            check_bounds(column, bound, beyond(data, column, bound, below=False), "upper")
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

    def _note_result(self, data: Microdata, masked: Microdata, state: NoiseState, notes: Notes) -> None:
        note_result(data, masked, self.columns, (state.low, state.high), notes)
