"""Find the plan of least loss that meets limits: search on a sample, verify and strengthen on the whole file.

Keys made safe and numbers made safe apart are not safe together: keys times groups of numbers leave single
rows. So the starts are: everything dealt at once among alike records; the same with rare values of single
keys joined; keys recoded until every class is large enough, and all else dealt within classes; keys recoded
and suppressed. Each start takes the least size that holds on a sample; of those the one of least loss is
given back detail, key by key, and then carried out on the whole file, where the full battery and several
splits decide. What a sample flattered is strengthened there, or another start takes its place.
"""

from __future__ import annotations

import math
import textwrap
import time
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sfumato import registry
from sfumato.contract.measure import RiskMeasure
from sfumato.data.microdata import Microdata, as_microdata
from sfumato.draws import Seed, as_seed
from sfumato.errors import ParameterError, SfumatoError, SfumatoWarning, suggesting
from sfumato.experiment.candidates import Workshop, workshop
from sfumato.experiment.conditions import conditions_of
from sfumato.experiment.trials import SIZES, TRIES, Progress, Trial, Trials
from sfumato.plan import source as plan_source
from sfumato.plan.audience import BATTERY, Audience, audience
from sfumato.plan.parts import Limit
from sfumato.plan.plan import Plan
from sfumato.plan.suggest.draft import key, value
from sfumato.run.exposure import WHOLE
from sfumato.run.run import Run, carry_out
from sfumato.run.scenario import population_known

MOST_WHOLE: Final = 4
"""Runs on the whole file: the plan chosen, larger groups, then other starts."""


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
@suggesting
def protect(
    data: Any,
    limits: str | Audience | Mapping[str, Any] | Sequence[Limit] = "public",
    keep: Sequence[str] = (),
    *,
    conditions: Sequence[RiskMeasure] = (),
    drop: Sequence[str] = (),
    template: Plan | None = None,
    seed: Seed | int | None = None,
    attacked: int = WHOLE,
    progress: Progress | None = None,
    tried: Callable[[Trial, Plan], None] | None = None,
) -> Run:
    """The run of the best plan found under the limits; its verdict says whether they are met.

    ``limits``: "public" or "research" (:mod:`sfumato.plan.audience`), or limits on the battery of one's own
    (``{"battery.rate": {"at_most": 0.02}}``). ``keep`` names analyses that must survive; they enter the loss.
    ``conditions`` are what a board counts in the release (``sf.KAnonymity(k=5)``, ``sf.LDiversity(l=3)`` …):
    then keys are recoded until no record violates them, and all else is dealt within the classes. Measures of
    the template that a limit holds at 0 are conditions too. The plan's text tells in comments what was tried
    and measured. If no plan within reach meets the limits, the nearest is returned, and its verdict says what
    it misses. ``tried`` is told every trial on the sample with its plan, as it comes.

    >>> import sfumato as sf
    >>> run = sf.protect(sf.decks.housing().slice(0, 2_000), "public", seed=1)  # doctest: +SKIP
    >>> run.verdict.safe                                                      # doctest: +SKIP
    True
    """
    file = as_microdata(data)
    secret = as_seed(seed)
    wanted, whom = _limits(limits, population_known(file))
    measure = registry.measure("analyst_loss").from_dict({"keep": list(keep)} if keep else {})
    base = template or Plan(schema=file.schema)
    asked = [*conditions, *_asked_in(base, file)]
    strange = [m.name for m in asked if m.as_condition(file) is None]
    if strange:
        raise ParameterError(f"{strange[0]} isn't a condition that a recode can be searched for")
    shop = workshop(
        file,
        tuple(wanted.values()),
        tuple(drop),
        replace(base, measures=(*base.measures, measure), audience=whom.name if whom else None),
        whom,
        asked,
    )
    trials = Trials(file, shop, wanted, keep, secret.child("search"), progress, tried)
    begun = time.process_time()
    chosen = trials.search()
    run, whole = _verified(file, shop, chosen, trials.holding(), secret, attacked, progress)
    found = Search(trials.before(), tuple(trials.made), chosen, time.process_time() - begun, tuple(whole))
    heads = commented(found, wanted, run.verdict.safe, min(attacked, len(file)))
    return replace(run, plan=replace(run.plan, source=f"{heads}\n\n{plan_text_of(run.plan.to_dict())}"))


def _asked_in(plan: Plan, file: Microdata) -> list[RiskMeasure]:
    """The plan's own conditions: measures that count violations, with a limit of 0 on them."""
    held = {x.measure for x in plan.limits if x.figure in ("value", "violations") and x.at_most == 0}
    return [m for m in conditions_of(plan.measures, file) if (m.id or m.name) in held or m.name in held]


def _limits(
    limits: str | Audience | Mapping[str, Any] | Sequence[Limit], areas: bool
) -> tuple[dict[str, Limit], Audience | None]:
    """The limits on the battery by figure, and the audience that they are those of."""
    whom = None
    if isinstance(limits, (str, Audience)):
        whom = audience(limits)
        made: Sequence[Limit] = whom.limits(areas=areas)
    elif isinstance(limits, Mapping):
        made = Plan(limits=limits).limits  # type: ignore[arg-type]
    else:
        made = tuple(limits)
    out = {one.figure: one for one in made if one.measure == BATTERY}
    if "rate" not in out or len(out) < len(made):
        raise ParameterError(
            "a search needs a limit on battery.rate, and knows limits on the battery alone",
            hint='limits="public", or {"battery.rate": {"at_most": 0.05}, "battery.gain": …}; what a board '
            "counts in the release is a condition",
        )
    return out, whom


def _verified(
    file: Microdata,
    shop: Workshop,
    chosen: Trial,
    others: Sequence[Trial],
    seed: Seed,
    attacked: int,
    progress: Progress | None,
) -> tuple[Run, list[tuple[str, dict[str, float]]]]:
    """The chosen plan on the whole file with the full battery; while a limit fails, larger groups, then the
    other starts that held on the sample."""
    told: list[tuple[str, dict[str, float]]] = []
    runs: list[Run] = []
    refused: SfumatoError | None = None
    one = chosen.candidate
    larger = [s for s in SIZES if s > one.size and s <= len(file) // 4][: TRIES - 1]
    line = [one] if one.deal == "none" else [one, *(one.sized(s) for s in larger)]
    line += [t.candidate for t in others if t.candidate not in line and not t.problem]
    for now in line[:MOST_WHOLE]:
        if runs and runs[-1].verdict.safe:
            break
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SfumatoWarning)
                run = carry_out(shop.plan(now), file, seed, progress=progress, attacked=attacked)
        except SfumatoError as problem:
            refused = problem
            continue
        runs.append(run)
        told.append((shop.words(now), {x.limit.figure: float(x.measured) for x in run.limits}))
    if not runs:
        assert refused is not None
        raise refused
    best = next((r for r in runs if r.verdict.safe), None)
    if best is None:
        best = min(runs, key=lambda r: sum(not x.ok for x in r.limits))
    return best, told


def commented(found: Search, limits: Mapping[str, Limit], safe: bool, attacked: int) -> str:
    """What was tried and measured, as comments for the head of a plan."""
    head = (
        "Found by `sfumato protect`: the plan of least loss among those tried that meets the limits."
        if safe
        else "Found by `sfumato protect`: the nearest plan; NONE that was tried meets the limits."
    )
    lines = [
        head,
        "",
        f"before, on a sample: the quick intruder finds {found.before.rate:.1%}, "
        f"gain {found.before.gain:.2f}, least group {found.before.group:.0f}",
        "tried on the sample (found by the quick intruder / gain / loss; what it misses):",
    ]
    for trial in found.trials:
        if trial.problem:
            lines.append(f"  {_safe(trial.words)}: refused, {_safe(trial.problem)}")
            continue
        missed = ", ".join(trial.misses(limits)) or "holds"
        if trial.outdone:
            missed = "loses more than one that holds"
        gain = f"{trial.gain:.2f}" if math.isfinite(trial.gain) else "-"
        loss = f"{trial.loss:.3f}" if math.isfinite(trial.loss) else "-"
        lines.append(f"  {_safe(trial.words)}: {trial.rate:.1%} / {gain} / {loss}; {missed}")
    lines.append(f"on the whole file, the full battery ({attacked:,} records attacked) and several splits:")
    for words, figures in found.whole:
        said = ", ".join(f"{k} {v:.3g}" for k, v in figures.items() if not math.isinf(v))
        lines.append(f"  {_safe(words)}: {said}")
    return "\n".join(wrapped for line in lines for wrapped in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    """A comment of one line, on as many as it needs."""
    if not line:
        return ["#"]
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(
        line, 100, initial_indent="# ", subsequent_indent=f"#   {indent}", break_on_hyphens=False
    )


def plan_text_of(content: Mapping[str, Any]) -> str:
    """A plan's tables as text, with long lists on several lines."""
    return "\n".join(_folded(line) for line in plan_source.dump(content).splitlines())


def _folded(line: str) -> str:
    if len(line) <= 100 or not line.endswith("]"):
        return line
    try:
        ((name, listed),) = tomllib.loads(line).items()
    except (tomllib.TOMLDecodeError, ValueError):
        return line
    return f"{key(name)} = {value(listed)}"


def work_lines(plan: Plan) -> list[str]:
    """A found plan's comments, steps, measures and limits, as lines for a first plan."""
    heads = [line for line in (plan.source or "").splitlines() if line.startswith("#")]
    content = {k: v for k, v in plan.to_dict().items() if k in ("step", "measure", "limits")}
    return [*heads, *plan_text_of(content).splitlines(), ""]


def limits_alone(whom: str, why: str) -> list[str]:
    """The limits of an audience where no plan meets them, so that nothing is released by mistake."""
    heads = [
        f"NO plan that meets the limits of a {whom} file was found: {_safe(why)}",
        "So there is no step yet; as it stands, `sfumato run` refuses to release the file.",
    ]
    content = Plan(limits=audience(whom).limits()).to_dict()
    tables = plan_text_of({"limits": content["limits"]})
    return [*(w for line in heads for w in _wrapped(line)), *tables.splitlines(), ""]


def _safe(text: str) -> str:
    """One line of a comment."""
    return " ".join(text.split())
