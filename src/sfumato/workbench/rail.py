"""The rail: verdict, next best step, running work, and the gauges of risk and loss, each with its plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sfumato.drawing import number, percent, plural, tenths
from sfumato.plan.audience import BATTERY
from sfumato.plan.parts import Limit
from sfumato.plan.plan import Plan
from sfumato.workbench.adopt import work_hash
from sfumato.workbench.bench import Workbench
from sfumato.workbench.cellview import View
from sfumato.workbench.charts import gauge
from sfumato.workbench.names import sentence


@dataclass(frozen=True)
class Gauge:
    """One figure now, as collected, and its limit."""

    what: str
    now: float | None
    before: float | None
    limit: float | None
    words: str
    before_words: str
    limit_words: str
    drawn: Any
    old: str = ""
    """The hash of the older plan that the number is of."""


@dataclass(frozen=True)
class Next:
    """The next best step: a link, or a change that one click makes."""

    label: str
    words: str
    href: str = ""
    action: str = ""
    fields: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rail:
    tone: str
    head: str
    text: str
    counts: str
    next: Next | None
    gauges: list[Gauge]
    unsafe: int | None = None
    found: dict[str, Any] | None = None
    """What the attacks on this very plan found, and whether that is too much."""


def limit_on(plan: Plan, measure: str, figure: str) -> Limit | None:
    return next((x for x in plan.limits if x.measure == measure and x.figure == figure), None)


def loss_of(result: dict[str, Any] | None) -> tuple[str, float] | None:
    """The figure of loss that a run gave."""
    if not result:
        return None
    for name, figure in (("analyst_loss", None), ("information_loss", "s0")):
        for one in result["internal"].get("utility", []):
            if one["measure"] == name:
                value = one["value"] if figure is None else one["figures"].get(figure)
                if isinstance(value, (int, float)):
                    return ("Loss to analysts" if figure is None else "Information loss s0"), float(value)
    return None


def battery_of(result: dict[str, Any] | None) -> dict[str, Any] | None:
    if not result:
        return None
    return next((r for r in result["internal"].get("risk", []) if r["name"] == BATTERY), None)


def rail(bench: Workbench) -> Rail:
    """Where the plan that stands is."""
    plan, view = bench.plan, bench.view()
    result = bench.result("run")
    older = None if result is not None else bench.last_result("run")
    gauges = _gauges(bench, plan, view, result, older)
    errors = [p for p in bench.problems() if p.severity == "error"]
    tone, head, text = _verdict(bench, plan, view, result, errors)
    steps, limits = plural(len(plan.steps), "step"), plural(len(plan.limits), "limit")
    unsafe = view.unsafe if view is not None else None
    battery, rate = battery_of(result), limit_on(plan, BATTERY, "rate")
    found = None
    if battery is not None:
        most = rate.at_most if rate is not None else None
        found = {"rate": battery["value"], "over": most is not None and battery["value"] > most}
    next_ = _next(bench, plan, view, result, errors)
    return Rail(tone, head, text, f"{steps} · {limits}", next_, gauges, unsafe, found)


def _verdict(
    bench: Workbench, plan: Plan, view: View | None, result: Any, errors: list[Any]
) -> tuple[str, str, str]:
    if bench.opened is not None and bench.opened.problem:
        return "bad", "The file can't be read", bench.opened.problem
    if bench.data is None and not errors:
        return "wait", "Not known yet", "The file is being read."
    if errors:
        more = f" And {plural(len(errors) - 1, 'other mistake')}." if len(errors) > 1 else ""
        return "bad", "Not safe", f"The plan has a mistake: {sentence(errors[0].message)}{more}"
    if result is not None:
        said = result["internal"]["verdict"]
        reasons = "; ".join(said["reasons"])
        if said["safe"]:
            return "good", "Safe by the limits you set", sentence(reasons)
        if said["head"] == "no limits set":
            return "wait", "No limits set", sentence(reasons)
        return "bad", "Not safe", sentence(reasons)
    unsafe = _unsafe_words(view)
    job = bench.jobs.last("run", bench.key())
    if view is not None and view.unsafe and limit_on(plan, BATTERY, "group"):
        return "bad", "Not safe", f"{unsafe} No attack has been run on this plan."
    if not plan.limits:
        return "wait", "No limits set", f"{unsafe} Without limits nothing can be called safe."
    if job is not None and job.active:
        return "wait", "Not known yet", f"{unsafe} The attacks on this plan are running."
    if job is not None and job.state == "failed":
        return "wait", "Not known yet", f"{unsafe} The run stopped: {sentence(job.problem)}"
    return "wait", "Not known yet", f"{unsafe} This plan hasn't been run and attacked yet."


def _unsafe_words(view: View | None) -> str:
    if view is None:
        return "No key is named, so no combination is counted."
    if view.unsafe:
        have = "record has" if view.unsafe == 1 else "records have"
        return f"{view.unsafe:,} {have} a key combination that fewer than {view.scenario.tolerance} share."
    return f"The keys are safe: {view.scenario.tolerance} records or more share every combination."


# -- gauges ---------------------------------------------------------------------------------------------


def _gauges(bench: Workbench, plan: Plan, view: View | None, result: Any, older: Any) -> list[Gauge]:
    out = []
    if view is not None:
        limited = limit_on(plan, BATTERY, "group") or limit_on(plan, "tolerance", "value")
        bound = limited.at_most if limited and limited.measure == "tolerance" else 0.0 if limited else None
        first = view.before.records_unsafe
        out.append(
            _gauge(
                "Unsafe records",
                float(view.unsafe),
                float(first),
                bound,
                max(first, view.unsafe, 1),
                "count",
            )
        )
    held, old = (result, "") if result is not None else (older[1], older[0]) if older else (None, "")
    battery = battery_of(held)
    rate = limit_on(plan, BATTERY, "rate")
    now = battery["value"] if battery is not None else None
    before = (held or {}).get("before")
    top = max([0.1, *(v for v in (now, before, rate.at_most if rate else None) if v)]) * 1.05
    out.append(
        _gauge("Strongest attack finds", now, before, rate.at_most if rate else None, top, "share", old)
    )
    gain = limit_on(plan, BATTERY, "gain")
    told = battery["figures"].get("gain") if battery is not None else None
    if gain is not None or isinstance(told, (int, float)):
        told = float(told) if isinstance(told, (int, float)) else None
        bound = gain.at_most if gain else None
        out.append(
            _gauge(
                "Tells of a person (gain)",
                told,
                None,
                bound,
                max(0.3, (bound or 0) * 1.5, told or 0),
                "figure",
                old,
            )
        )
    loss = loss_of(held)
    limit = limit_on(plan, "analyst_loss", "value") or limit_on(plan, "information_loss", "s0")
    name, value = loss if loss is not None else ("Loss to analysts", None)
    bound = limit.at_most if limit else None
    top = max([0.1, *(v for v in (value, bound) if v)]) * 1.3
    out.append(_gauge(name, value, 0.0, bound, top, "figure", old))
    return out


def _gauge(
    what: str,
    now: float | None,
    before: float | None,
    limit: float | None,
    top: float,
    kind: str,
    old: str = "",
) -> Gauge:
    words = "not run yet" if now is None else _say(now, kind)
    first = "" if before is None else f"as collected {_say(before, kind)}"
    bound = "no limit" if limit is None else f"limit {percent(limit) if kind == 'share' else number(limit)}"
    title = f"{what}: now {words}, {first or 'as collected not measured'}, {bound}"
    if old and now is not None:
        title += f" (of plan {old[:8]})"
    drawn = gauge(now, before, limit, top, title, old=bool(old), least=False)
    return Gauge(what, now, before, limit, words, first, bound, drawn, old if now is not None else "")


def _say(value: float, kind: str) -> str:
    if kind == "count":
        return f"{value:,.0f}"
    return tenths(value) if kind == "share" else f"{value:.3f}" if value else "0"


# -- the next best step ---------------------------------------------------------------------------------


def _next(bench: Workbench, plan: Plan, view: View | None, result: Any, errors: list[Any]) -> Next | None:
    """The first that applies; it names the change and what it brings."""
    session = bench.now
    if bench.opened is not None and bench.opened.problem:
        return Next("Open another file", "", href="/data#open")
    if bench.data is None and not errors:
        return None
    if errors:
        where = "/protect" if "step" in errors[0].message or plan.steps else "/data"
        return Next(
            "Mend the plan", errors[0].hint or "Every mistake is listed there.", href=f"{where}#mistakes"
        )
    if not session.kept.get("roles_checked"):
        keys = len(view.scenario.keys) if view is not None else 0
        many = f"{plural(keys, 'key')} {'was' if keys == 1 else 'were'} taken from names and values."
        words = f"{many} A key that is missing here is a risk that nobody counts."
        return Next("Check the roles", words, href="/data#columns")
    if view is not None and view.unsafe:
        step = _least_loss(bench, view)
        if step is not None:
            return step
    if not plan.limits:
        return Next(
            "Set the limits of a public file",
            "At most 5% found, a gain of 0.10 at most, 10 records a group: then the verdict can say safe.",
            action="/plan/limits",
            fields={"do": "public"},
        )
    job = bench.jobs.last("run", bench.key())
    if result is None:
        if job is not None and job.active:
            return Next(
                "See what the attacks find", "They go on while you work; this page is told.", href="/attack"
            )
        return Next(
            "Run and attack this plan",
            "Every step, every promise and every attack that fits, as a job beside your work.",
            action="/jobs",
            fields={"kind": "run"},
        )
    if not result["internal"]["verdict"]["safe"]:
        return _to_limits(bench, plan)
    written = bench.result("release")
    if written is not None:
        words = f"{written['folder']}/ is written and signed for this plan. A change of the plan starts anew."
        return Next("See what was released", words, href="/release#bundles")
    return Next(
        "Read, sign and write the release", "All limits and promises hold on this plan.", href="/release"
    )


def _least_loss(bench: Workbench, view: View) -> Next | None:
    found = bench.helps(view)
    if not found:
        return Next("See what would help most", f"{view.unsafe:,} unsafe records.", href="/keys#helps")
    best, rival = found[0], next((h for h in found[1:] if h.key is not None), None)
    if best.key is None:
        words = f"{view.now.records_unsafe:,} → 0 unsafe records, for about {best.bits:.2f} bits a record."
        if rival is not None:
            words += f" {rival.key} {rival.words} would leave {rival.unsafe:,} and lose {rival.bits:.2f}."
        return Next(
            f"Blank the {best.blanks:,} values left",
            words,
            action="/plan/steps",
            fields={"do": "blank"},
        )
    words = f"{view.now.records_unsafe:,} → {best.unsafe:,} unsafe records, for {best.bits:.2f} bits in all."
    return Next(
        f"{best.key}: {best.words}",
        words,
        action="/plan/recode",
        fields={"key": best.key, "level": str(best.level)},
    )


def _to_limits(bench: Workbench, plan: Plan) -> Next:
    rate = limit_on(plan, BATTERY, "rate")
    loss = limit_on(plan, "analyst_loss", "value")
    fits = [
        p
        for p in bench.points()
        if not p.get("problem")
        and p.get("hash") != work_hash(bench.now.text)
        and (rate is None or rate.at_most is None or p["risk"] + 2 * p["risk_se"] <= rate.at_most)
        and (loss is None or loss.at_most is None or p["loss"] <= loss.at_most)
    ]
    if fits:
        best = min(fits, key=lambda p: p["loss"])
        found = f"Risk {percent(best['risk'])}, loss {best['loss']:.3f} by {plural(best['runs'], 'run')}"
        words = f"{found} on the map; undo brings this plan back."
        return Next(
            f"Adopt: {best['label']}"[:80], words, action="/plan/adopt", fields={"hash": best["hash"]}
        )
    if bench.jobs.active("search"):
        return Next("Watch the search", "It puts its points on the map.", href="/compare")
    return Next(
        "Find the best plan under your limits",
        "A search with your roles and limits, as a job of a minute or more; this plan stays meanwhile.",
        action="/jobs",
        fields={"kind": "search"},
    )
