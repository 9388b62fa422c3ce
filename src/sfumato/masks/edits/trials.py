"""Trials of the 2000 edit: which order of the keys, which share of the classes, and what it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.contract.mask import Notes
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MaskError
from sfumato.masks.edits import key_order
from sfumato.masks.edits.neighbour_swap import (
    Pairs,
    Swapper,
    largest_share,
    levels_of,
    percentage_bias,
    swap_log,
)


@dataclass(frozen=True)
class Trials:
    """What every trial on a file shares; ``x`` is the variable that judges order and bias, if any."""

    swapper: Swapper
    x: FloatArray | None
    window: int
    share: float
    """The share of the classes below tolerance that is asked for."""
    draws: Draws
    notes: Notes

    @property
    def classes(self) -> key_order.KeyClasses:
        return self.swapper.classes

    def pair(self, order: tuple[str, ...], share: float | None = None, window: int | None = None) -> Pairs:
        """Who swaps with whom in this order; every trial draws the far partners alike."""
        rng = self.draws.stream(purpose="far").generator()
        return self.swapper.pair(
            order, self.share if share is None else share, self.window if window is None else window, rng
        )

    def bias(self, pairs: Pairs) -> float:
        """PERCENTAGE BIAS by Moore's accounting: values exchanged between the classes of all keys."""
        assert self.x is not None
        finest = levels_of(self.classes, self.x, [self.classes.keys])[0]
        return percentage_bias(self.classes, finest, pairs, self.x)

    # -- the order of the keys --------------------------------------------------------------------

    def find_order(self, how: str, levels: Sequence[tuple[str, ...]], most: int) -> tuple[str, ...]:
        """The near-optimal order, or one that a search finds; as given where nothing can judge."""
        order = self.classes.keys
        if self.x is not None and how != "given":
            order, steps = key_order.near_optimal(self.classes, self.x)
            self.notes.figure("largest_standard_deviations", steps)
            if how == "search":
                order = self._search(order, self.x, levels, most)
        self.notes.figure("order", list(order))
        return order

    def _search(
        self, start: tuple[str, ...], x: FloatArray, levels: Sequence[tuple[str, ...]], most: int
    ) -> tuple[str, ...]:
        """The order with the least average bias, among those whose neighbours can be partners."""
        made = levels_of(self.classes, x, levels)
        allowed = self.pair(start).far

        def cost(order: tuple[str, ...]) -> float:
            pairs = self.pair(order)
            # An order that puts records of one area side by side leaves nothing to swap nearby.
            if pairs.far > allowed:
                return float("inf")
            return float(np.mean([percentage_bias(self.classes, level, pairs, x) for level in made]))

        first = cost(start)
        best, value, tried = key_order.search(start, cost, most)
        self.notes.figure("near_optimal_order", list(start))
        self.notes.figure("average_bias_near_optimal", first)
        self.notes.figure("average_bias_found", value)
        self.notes.figure("orders_tried", tried)
        return best

    # -- the share of the classes -----------------------------------------------------------------

    def tuned(self, order: tuple[str, ...], f: float | None, p: float) -> tuple[float, Pairs]:
        """The share of the classes that are swapped, and the pairs; the largest share within the limit."""
        from sfumato.stats.acceptable_bias import acceptable_range, share_to_keep

        x, share, pairs = self.x, self.share, self.pair(order)
        if f is None or x is None or not pairs.changed:
            return share, pairs
        there = x[np.isfinite(x)]
        mean, sd = (float(there.mean()), float(there.std(ddof=1))) if len(there) > 1 else (0.0, 0.0)
        if mean == 0:
            raise MaskError(
                "confidentiality_edit_2000: the mean of `order_by` is zero or missing, so `f` sets no limit"
            )
        limit = acceptable_range(mean, sd, n_s=pairs.changed, n=len(x), p=p, f=f)[1]
        bias = self.bias(pairs)
        self.notes.figure("bias_limit_percent", limit)
        self.notes.figure("bias_before_tuning_percent", bias)
        if bias < limit or bias == 0:
            return share, pairs
        theorem = share * share_to_keep(limit / bias, pairs.changed, pairs.helpers)
        self.notes.figure("share_by_theorem_a2", share * (limit / bias) ** 2)
        self.notes.figure("share_by_theorem_a3", theorem)
        best = largest_share(share, theorem, lambda s: self.pair(order, s), self.bias, limit)
        self.notes.warn(
            f"only {100 * best[0]:.1f}% of the combinations below tolerance are swapped, to keep the "
            "PERCENTAGE BIAS below its limit; the others stay as they are"
        )
        return best

    # -- what it did ------------------------------------------------------------------------------

    def report(
        self, data: Microdata, order: tuple[str, ...], share: float, pairs: Pairs, f: float | None, p: float
    ) -> None:
        notes, classes, failing = self.notes, self.classes, self.swapper.failing
        touched = np.zeros(len(classes), np.bool_)
        touched[classes.ids[pairs.partner >= 0]] = True
        notes.figure("share_of_classes_percent", 100 * share)
        notes.figure("records_changed", pairs.changed)
        notes.figure("records_from_larger_classes", pairs.helpers)
        notes.figure("classes_touched", int((touched & failing).sum()))
        notes.figure("tolerance_failures_left", int((failing & ~touched).sum()))
        if len(pairs.left):
            notes.figure("classes_without_partner", len(pairs.left))
            notes.warn(
                f"{len(pairs.left):,} combinations below tolerance have nothing to swap, or found no record "
                "that differs in it; they stay as they are and are named in the internal log"
            )
        if self.x is not None and pairs.changed:
            self._report_bias(self.x, order, share, pairs, f, p)
        notes.add_log(swap_log(data, classes, pairs, self.swapper.kept(share)))

    def _report_bias(
        self, x: FloatArray, order: tuple[str, ...], share: float, pairs: Pairs, f: float | None, p: float
    ) -> None:
        from sfumato.stats.acceptable_bias import acceptable_range, verdict_on

        bias = self.bias(pairs)
        there = x[np.isfinite(x)]
        mean = float(there.mean()) if len(there) else 0.0
        self.notes.figure("percentage_bias", bias)
        if self.window > 1:
            self.notes.figure("percentage_bias_of_next_record", self.bias(self.pair(order, share, 1)))
        if len(there) > 1 and mean:
            sd = float(there.std(ddof=1))
            low, high = acceptable_range(mean, sd, n_s=pairs.changed, n=len(x), p=p, f=f or 0.01)
            verdict = verdict_on(bias, low, high)
            self.notes.figure("acceptable_range_percent", [low, high])
            self.notes.figure("verdict", verdict)
            if verdict != "acceptable":
                self.notes.warn(
                    f"PERCENTAGE BIAS {bias:.3g} is {verdict}; acceptable is {low:.3g} to {high:.3g}"
                )
