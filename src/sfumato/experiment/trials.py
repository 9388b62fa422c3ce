"""Candidates tried on a sample, each once: what an intruder finds, what is told, what analysts lose.

The figures are quick ones, to rank plans by: some persons looked for, one split. A candidate that loses more
than one that already holds isn't measured further.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sfumato.data.microdata import Microdata
from sfumato.draws import Seed
from sfumato.errors import ParameterError, SfumatoError
from sfumato.experiment.candidates import Candidate, Workshop
from sfumato.experiment.side_by_side import carried_out, loss_of, masked_by, quick_rate, some_records
from sfumato.plan.parts import Limit
from sfumato.plan.plan import Plan
from sfumato.run.exposure import least_group
from sfumato.run.gain import attribute_gain

SIZES: Final = (3, 5, 10, 20, 50, 100)
SAMPLE: Final = 4_000
"""Records of the sample that the search works on."""
SLACK: Final = 0.05
"""A gain from one split of a sample is rough by about as much; the whole file decides."""
TRIES: Final = 3
"""Sizes that a start tries, and that the whole file may be strengthened by."""

Progress = Callable[[str, float, int], None]


@dataclass(frozen=True)
class Trial:
    """What a candidate gave on the sample."""

    candidate: Candidate
    words: str
    rate: float = math.nan
    bound: float = 1.0
    gain: float = math.nan
    group: float = 0.0
    loss: float = math.inf
    worst: str = ""
    problem: str = ""
    outdone: bool = False
    """Whether another that holds loses less, so that the gain wasn't measured."""

    def misses(self, limits: Mapping[str, Limit], slack: float = SLACK) -> list[str]:
        """The limits that it misses; a rate that is proved counts, not the luck of one attack."""
        if self.problem:
            return ["run"]
        out = []
        rate = min(self.rate, self.bound)
        for name, value in (("rate", rate), ("gain", self.gain - slack), ("group", self.group)):
            if name in limits and not limits[name].holds(value):
                out.append(name)
        return out


class Trials:
    """Starts of a search on a sample, and detail given back to the best of them."""

    def __init__(
        self,
        file: Microdata,
        shop: Workshop,
        limits: Mapping[str, Limit],
        keep: Sequence[str],
        seed: Seed,
        progress: Progress | None,
        tried: Callable[[Trial, Plan], None] | None = None,
    ) -> None:
        self.shop, self.limits, self.seed = shop, limits, seed
        self._tried = tried
        self.rows = some_records(file, SAMPLE, seed)
        self.sample = file.with_frame(file.frame[self.rows]) if len(self.rows) < len(file) else file
        self.keep = tuple(keep)
        self.made: list[Trial] = []
        self._tell = progress or (lambda _what, _done, _all: None)
        self._parts = 12

    @property
    def sizes(self) -> list[int]:
        """The sizes that the limits allow on this file, the least first: proved, not searched."""
        group = self.limits["group"].at_least if "group" in self.limits else None
        rate = self.limits["rate"].at_most or 1.0
        least = max(group or 2, math.ceil(1 / rate - 1e-9))
        out = [s for s in SIZES if s >= least]
        if least not in out and least < SIZES[-1] * 10:
            out = [math.ceil(least), *out]
        most = len(self.sample) // 4
        return [s for s in out if s <= most][:TRIES]

    def before(self) -> Trial:
        """The file as it is, for the record."""
        none = Candidate((), "none", 0)
        plan = replace(self.shop.template, steps=(), limits=(), source=None)
        group = least_group(self.sample, self.sample, (), plan.release.drop)
        return self._measured(none, self.sample, plan, "as it is", group[:2], within=math.inf)

    def search(self) -> Trial:
        """The candidate of least loss that holds on the sample, or else the nearest."""
        starts = self._starts()
        if not starts:
            raise ParameterError(
                f"the file has {len(self.sample):,} records, too few for groups as large as the limits ask",
                hint="release nothing of so small a file, or only tables",
            )
        found = self.holding()
        if not found:
            ran = [t for t in self.made if not t.problem]
            if not ran:
                raise ParameterError(f"every plan that was tried was refused: {self.made[-1].problem}")
            return min(ran, key=lambda t: (len(t.misses(self.limits)), t.rate, t.gain))
        best = found[0]
        floor = dict(self.shop.floor)
        for key, level in best.candidate.levels:
            if level > floor.get(key, 0) and not self.shop.asked:
                finer = self.look(best.candidate.coarser(key, -1))
                if not finer.misses(self.limits) and finer.loss < best.loss:
                    best = finer
        return best

    def holding(self) -> list[Trial]:
        """The trials that hold, the one of least loss first."""
        return sorted((t for t in self.made if not t.misses(self.limits)), key=lambda t: t.loss)

    def _starts(self) -> list[Trial]:
        ladders, sizes = self.shop.ladders, self.sizes
        if not sizes:
            return []
        if self.shop.asked:
            return self._by_count(sizes)
        # A category that fewer than three hold can't be blurred: it is joined with others from the start.
        floor = dict(self.shop.floor)
        as_it_is = tuple(floor.items())
        least = sizes[0]
        if self.shop.household is not None:
            # Who lives with whom is worth more than any loss of single records shows: where it can be kept
            # within the limits, it is.
            whole = self._least(Candidate(as_it_is, "all", least, together=True), sizes[:1])
            if whole is not None and not whole.misses(self.limits):
                return [whole]
        out = [self._least(Candidate(as_it_is, "all", least), sizes)]
        out.append(self._least(Candidate(as_it_is, "all", least, blind=False), sizes))
        common = tuple((k, max(v, floor[k])) for k, v in ladders.common(max(3, least // 2)).items())
        if common != as_it_is:
            better = min((t for t in out if t is not None), key=lambda t: t.loss, default=None)
            blind = better.candidate.blind if better is not None else True
            out.append(self._least(Candidate(common, "all", least, blind=blind), sizes))
        if ladders.keys:
            # Twice the size: a split of the sample must still fill the classes.
            classes = ladders.best(2 * least, rows=self.rows, suppress_at_most=0.0).levels
            merged = tuple((k, max(v, floor[k])) for k, v in classes.items())
            out.append(self._least(Candidate(merged, "within", least), sizes[:1]))
            group = self.limits["group"].at_least if "group" in self.limits else 3
            k = max(2, int(group or 3))
            levels = ladders.best(k, rows=self.rows).levels
            out.append(self.look(Candidate(tuple(levels.items()), "none", k)))
        return [t for t in out if t is not None]

    def _by_count(self, sizes: Sequence[int]) -> list[Trial]:
        """Conditions that count in the release hold for classes that stay: all else is dealt within them."""
        levels = tuple((k, max(v, dict(self.shop.floor)[k])) for k, v in self.shop.asked_levels.items())
        out = [self._least(Candidate(levels, "within", sizes[0]), sizes)]
        larger = self.shop.ladders.best(2 * sizes[0], rows=self.rows, suppress_at_most=0.0).levels
        both = tuple((k, max(v, larger[k])) for k, v in levels)
        if both != levels:
            out.append(self._least(Candidate(both, "within", sizes[0]), sizes))
        return [t for t in out if t is not None]

    def _least(self, candidate: Candidate, sizes: Sequence[int]) -> Trial | None:
        """The candidate at the least size that holds; the last tried where none does."""
        trial = None
        for size in sizes:
            trial = self.look(candidate.sized(size))
            if trial.outdone or not trial.misses(self.limits):
                break
        return trial

    def look(self, candidate: Candidate) -> Trial:
        """The candidate's trial, made where it isn't there."""
        for known in self.made:
            if known.candidate == candidate:
                return known
        words = self.shop.words(candidate)
        self._tell(f"trying: {words[:60]}", min(len(self.made), self._parts - 1), self._parts)
        plan = self.shop.plan(candidate)
        held = self.holding()
        try:
            run = carried_out(plan, self.sample, self.seed)
            steps = [(s.mask, s.notes) for s in run.steps]
            group = least_group(self.sample, run.masked, steps, plan.release.drop)
            within = held[0].loss if held else math.inf
            trial = self._measured(candidate, run.masked, plan, words, group[:2], within=within)
        except SfumatoError as problem:
            trial = Trial(candidate, words, problem=problem.message)
        self.made.append(trial)
        if self._tried is not None:
            self._tried(trial, plan)
        return trial

    def _measured(
        self,
        candidate: Candidate,
        masked: Microdata,
        plan: Plan,
        words: str,
        group: tuple[int, bool],
        *,
        within: float,
    ) -> Trial:
        """Quick figures; the gain, which costs the most, only of what loses less than ``within``."""
        sample, drop = self.sample, plan.release.drop
        least, proved = group
        known = None if self.shop.audience is None else self.shop.audience.numbers_known
        rate = quick_rate(sample, masked, plan, self.seed, numbers_known=known)
        out = Trial(candidate, words, rate, 1 / max(least, 1) if proved else 1.0, math.nan, least)
        if words != "as it is" and set(replace(out, gain=-math.inf).misses(self.limits)):
            return out
        loss, worst = loss_of(sample, masked, plan, self.keep)
        out = replace(out, loss=loss, worst=worst)
        if loss >= within:
            return replace(out, outdone=True)
        told = attribute_gain(
            sample,
            lambda part, other: masked_by(plan, part, other),
            plan.steps,
            drop=drop,
            splits=1,
            people=500,
            numbers_known=known,
            seed=self.seed,
        )
        # The worst column of so few persons is mostly luck: only what is surely told counts here, and the
        # whole file decides.
        return replace(out, gain=max(told.pooled, told.low))
