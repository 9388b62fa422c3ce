"""Find the plan of least loss that meets limits: search on a sample, verify and strengthen on the whole file.

Keys made safe and numbers made safe apart are not safe together: keys times groups of numbers leave single
rows. So the starts are: everything dealt at once among alike records; the same with rare values of single
keys joined; keys recoded until every class is large enough, and all else dealt within classes; keys recoded
and suppressed. Each start takes the least size that holds on a sample; of those the one of least loss is
given back detail, key by key, and then carried out on the whole file, where the full battery and three
splits decide. What a sample flattered is strengthened there.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sfumato import registry
from sfumato.data.microdata import Microdata, as_microdata
from sfumato.draws import Seed, as_seed
from sfumato.errors import ParameterError, SfumatoError, SfumatoWarning, suggesting
from sfumato.experiment.candidates import Candidate, Workshop, workshop
from sfumato.experiment.side_by_side import loss_of, masked_by, quick_rate, some_records
from sfumato.plan import source as plan_source
from sfumato.plan.audience import BATTERY, Audience, audience
from sfumato.plan.parts import Limit
from sfumato.plan.plan import Plan
from sfumato.run.gain import attribute_gain
from sfumato.run.run import Run, carry_out

SIZES: Final = (3, 5, 10, 20, 50, 100)
SAMPLE: Final = 4_000
"""Records of the sample that the search works on."""
SLACK: Final = 0.05
"""A gain from one split of a sample is rough by about as much; the whole file decides."""
TRIES: Final = 3
"""Sizes that a start tries, and that the whole file may be strengthened by."""

Progress = Callable[[str, int, int], None]


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


@dataclass(frozen=True)
class Search:
    """What was tried, and what was chosen."""

    before: Trial
    trials: tuple[Trial, ...]
    chosen: Trial
    seconds: float
    whole: tuple[tuple[str, dict[str, float]], ...] = field(default=())
    """Runs on the whole file: in words, and their figures."""


@suggesting
def protect(
    data: Any,
    limits: str | Audience | Mapping[str, Any] | Sequence[Limit] = "public",
    keep: Sequence[str] = (),
    *,
    drop: Sequence[str] = (),
    template: Plan | None = None,
    seed: Seed | int | None = None,
    progress: Progress | None = None,
) -> Run:
    """The run of the best plan found under the limits; its verdict says whether they are met.

    ``limits``: "public" or "research" (:mod:`sfumato.plan.audience`), or limits on the battery of one's own
    (``{"battery.rate": {"at_most": 0.02}}``). ``keep`` names analyses that must survive; they enter the loss.
    The plan's text tells in comments what was tried and measured. If no plan within reach meets the limits,
    the nearest is returned, and its verdict says what it misses.

    >>> import sfumato as sf
    >>> run = sf.protect(sf.decks.housing(records=2_000), "public", seed=1)   # doctest: +SKIP
    >>> run.verdict.safe                                                      # doctest: +SKIP
    True
    """
    file = as_microdata(data)
    secret = as_seed(seed)
    wanted = _limits(limits)
    measure = registry.measure("analyst_loss").from_dict({"keep": list(keep)} if keep else {})
    base = template or Plan(schema=file.schema)
    shop = workshop(
        file, tuple(wanted.values()), tuple(drop), replace(base, measures=(*base.measures, measure))
    )
    trials = _Trials(file, shop, wanted, keep, secret.child("search"), progress)
    begun = time.process_time()
    chosen = trials.search()
    run, whole = _verified(file, shop, chosen, wanted, secret, progress)
    found = Search(trials.before(), tuple(trials.made), chosen, time.process_time() - begun, tuple(whole))
    return replace(run, plan=replace(run.plan, source=commented(run.plan, found, wanted)))


def _limits(limits: str | Audience | Mapping[str, Any] | Sequence[Limit]) -> dict[str, Limit]:
    if isinstance(limits, (str, Audience)):
        made: Sequence[Limit] = audience(limits).limits()
    elif isinstance(limits, Mapping):
        made = Plan(limits=limits).limits  # type: ignore[arg-type]
    else:
        made = tuple(limits)
    out = {one.figure: one for one in made if one.measure == BATTERY}
    if "rate" not in out or len(out) < len(made):
        raise ParameterError(
            "a search needs a limit on battery.rate, and knows limits on the battery alone",
            hint='limits="public", or {"battery.rate": {"at_most": 0.05}, "battery.gain": …}',
        )
    return out


class _Trials:
    """Candidates tried on a sample, each once."""

    def __init__(
        self,
        file: Microdata,
        shop: Workshop,
        limits: Mapping[str, Limit],
        keep: Sequence[str],
        seed: Seed,
        progress: Progress | None,
    ) -> None:
        self.shop, self.limits, self.seed = shop, limits, seed
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
        return self._measured(none, self.sample, Plan(schema=self.sample.schema), "as it is", gain=True)

    def search(self) -> Trial:
        starts = self._starts()
        if not starts:
            raise ParameterError(
                f"the file has {len(self.sample):,} records, too few for groups as large as the limits ask",
                hint="release nothing of so small a file, or only tables",
            )
        found = [t for t in starts if not t.misses(self.limits)]
        if not found:
            return min(self.made, key=lambda t: (len(t.misses(self.limits)), t.rate, t.gain))
        best = min(found, key=lambda t: t.loss)
        for key, level in best.candidate.levels:
            if level:
                finer = self.look(best.candidate.coarser(key, -1))
                if not finer.misses(self.limits) and finer.loss < best.loss:
                    best = finer
        return best

    def _starts(self) -> list[Trial]:
        ladders, sizes = self.shop.ladders, self.sizes
        if not sizes:
            return []
        # A category that fewer than three hold can't be blurred: it is joined with others from the start.
        as_it_is = tuple(ladders.common(3, numbers=False).items())
        least = sizes[0]
        out = [self._least(Candidate(as_it_is, "all", least), sizes)]
        out.append(self._least(Candidate(as_it_is, "all", least, blind=False), sizes))
        common = tuple(ladders.common(max(3, least // 2)).items())
        if common != as_it_is:
            better = min((t for t in out if t is not None), key=lambda t: t.loss, default=None)
            blind = better.candidate.blind if better is not None else True
            out.append(self._least(Candidate(common, "all", least, blind=blind), sizes))
        if ladders.keys:
            # Twice the size: a split of the sample must still fill the classes.
            classes = ladders.best(2 * least, rows=self.rows, suppress_at_most=0.0).levels
            out.append(self._least(Candidate(tuple(classes.items()), "within", least), sizes[:1]))
            group = self.limits["group"].at_least if "group" in self.limits else 3
            k = max(2, int(group or 3))
            out.append(self.look(Candidate(tuple(ladders.best(k, rows=self.rows).levels.items()), "none", k)))
        return [t for t in out if t is not None]

    def _least(self, candidate: Candidate, sizes: Sequence[int]) -> Trial | None:
        """The candidate at the least size that holds; the last tried where none does."""
        trial = None
        for size in sizes:
            trial = self.look(candidate.sized(size))
            if not trial.misses(self.limits):
                break
        return trial

    def look(self, candidate: Candidate) -> Trial:
        for known in self.made:
            if known.candidate == candidate:
                return known
        words = self.shop.words(candidate)
        self._tell(f"trying: {words[:60]}", min(len(self.made), self._parts - 1), self._parts)
        plan = self.shop.plan(candidate)
        try:
            masked = masked_by(plan, self.sample, self.seed)
            trial = self._measured(candidate, masked, plan, words, gain=False)
            if not [m for m in trial.misses(self.limits) if m != "gain"]:
                trial = self._measured(candidate, masked, plan, words, gain=True)
        except SfumatoError as problem:
            trial = Trial(candidate, words, problem=problem.message)
        self.made.append(trial)
        return trial

    def _measured(
        self, candidate: Candidate, masked: Microdata, plan: Plan, words: str, *, gain: bool
    ) -> Trial:
        """Quick figures: some persons looked for, one split of the sample."""
        sample = self.sample
        drop = plan.release.drop
        dealt = candidate.deal != "none"
        rate = quick_rate(sample, masked, plan, self.seed)
        group = candidate.size if dealt else _count(masked, drop)
        out = Trial(candidate, words, rate, 1 / candidate.size if dealt else 1.0, math.nan, group)
        if not gain:
            return replace(out, gain=-math.inf)
        told = attribute_gain(
            sample,
            lambda part, other: masked_by(plan, part, other),
            plan.steps,
            drop=drop,
            splits=1,
            people=500,
            seed=self.seed,
        )
        loss, worst = loss_of(sample, masked, plan, self.keep)
        return replace(out, gain=told.value, loss=loss, worst=worst)


def _count(masked: Microdata, drop: Sequence[str]) -> int:
    keys = [k for k in masked.schema.keys if k in masked.columns and k not in drop]
    if not keys:
        return len(masked)
    return int(masked.cells(keys).frequencies().min(initial=len(masked)))


def _verified(
    file: Microdata,
    shop: Workshop,
    chosen: Trial,
    limits: Mapping[str, Limit],
    seed: Seed,
    progress: Progress | None,
) -> tuple[Run, list[tuple[str, dict[str, float]]]]:
    """The chosen plan on the whole file with the full battery, strengthened while a limit fails."""
    candidate, told = chosen.candidate, []
    runs: list[Run] = []
    larger = [s for s in SIZES if s > candidate.size and s <= len(file) // 4][: TRIES - 1]
    for size in [candidate.size, *larger]:
        if runs and (candidate.deal == "none" or runs[-1].verdict.safe):
            break
        now = candidate.sized(size)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SfumatoWarning)
                run = carry_out(shop.plan(now), file, seed, progress=progress)
        except SfumatoError:
            if not runs and size == ([candidate.size, *larger])[-1]:
                raise
            continue
        runs.append(run)
        told.append((shop.words(now), {x.limit.figure: float(x.measured) for x in run.limits}))
    best = next((r for r in runs if r.verdict.safe), None)
    if best is None:
        best = min(runs, key=lambda r: sum(not x.ok for x in r.limits))
    return best, told


def commented(plan: Plan, found: Search, limits: Mapping[str, Limit]) -> str:
    """The plan's text, headed by what was tried and measured."""
    lines = [
        "# Found by `sfumato protect`: the plan of least loss among those tried that meets the limits.",
        "#",
        f"# before, on a sample: the quick intruder finds {found.before.rate:.1%}, "
        f"gain {found.before.gain:.2f}, least group {found.before.group:.0f}",
        "# tried on the sample (found / gain / loss, misses):",
    ]
    for trial in found.trials:
        if trial.problem:
            lines.append(f"#   {_safe(trial.words)}: refused, {_safe(trial.problem)}")
            continue
        missed = ", ".join(trial.misses(limits)) or "none"
        gain = f"{trial.gain:.2f}" if math.isfinite(trial.gain) else "-"
        loss = f"{trial.loss:.3f}" if math.isfinite(trial.loss) else "-"
        lines.append(f"#   {_safe(trial.words)}: {trial.rate:.1%} / {gain} / {loss}, {missed}")
    lines.append("# on the whole file, with the full battery and three splits:")
    for words, figures in found.whole:
        said = ", ".join(f"{k} {v:.3g}" for k, v in figures.items())
        lines.append(f"#   {_safe(words)}: {said}")
    return "\n".join([*lines, "", plan_source.dump(plan.to_dict())])


def work_lines(plan: Plan) -> list[str]:
    """A found plan's comments, steps, measures and limits, as lines for a first plan."""
    heads = [line for line in (plan.source or "").splitlines() if line.startswith("#")]
    content = {k: v for k, v in plan.to_dict().items() if k in ("step", "measure", "limits")}
    return [*heads, *plan_source.dump(content).splitlines(), ""]


def _safe(text: str) -> str:
    """One line of a comment."""
    return " ".join(text.split())
