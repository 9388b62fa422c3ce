"""What the worker processes do: a task names a plan's text, and everything else is read from that.

A task is made of plain values; so is what it finds (``plain``), so that a result is the same before and after
it was kept on disk.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sfumato import registry, report
from sfumato.data.microdata import Microdata
from sfumato.draws import Seed, as_seed
from sfumato.errors import SfumatoError, SfumatoWarning
from sfumato.experiment.protect import protect, work_lines
from sfumato.experiment.side_by_side import PEOPLE, quick_rate, side_by_side, some_records
from sfumato.experiment.trials import Trial
from sfumato.plan.plan import Plan
from sfumato.plan.suggest.roles import plan_text, suggest
from sfumato.report.pictures import pictures
from sfumato.run.run import Run, carry_out
from sfumato.workbench.adopt import with_steps
from sfumato.workbench.release import write

Tell = Callable[[str, float, int], None]
Find = Callable[[str, Any], None]


@dataclass(frozen=True)
class Task:
    """What to do, with which plan, from which folder."""

    kind: str
    text: str
    base: str
    options: dict[str, Any] = field(default_factory=dict)


def work(task: Task, tell: Tell, find: Find) -> Any:
    """Do a task; see :class:`sfumato.workbench.jobs.Lane`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        return plain(_KINDS[task.kind](task, tell, find))


def plain(value: Any) -> Any:
    """As it would come back from a file."""
    return json.loads(json.dumps(value, default=str))


_files: dict[tuple[str, int, int, str], Microdata] = {}


def _data(plan: Plan) -> Microdata:
    """The plan's data; the file itself is kept for the next task."""
    path = plan.data_file()
    try:
        stat = path.stat()
        key = (str(path), stat.st_mtime_ns, stat.st_size, json.dumps(dict(plan.read_options), default=str))
    except OSError:
        return plan.data()
    if key not in _files:
        _files.clear()
        _files[key] = plan.file_alone()
    return plan.with_schema_of(_files[key])


def _plan(task: Task) -> Plan:
    return Plan.loads(task.text, base=task.base)


def _run(task: Task, tell: Tell, find: Find) -> dict[str, Any]:
    plan = _plan(task)
    tell("reading the data", 0, 1)
    data = _data(plan)
    return told(carry_out(plan, data, Seed.new(), progress=tell), data)


def told(run: Run, data: Microdata) -> dict[str, Any]:
    """All that the page and the two reports say of a run."""
    return {
        "internal": report.summary(run, public=False),
        "public": report.summary(run, public=True),
        "before": as_collected(data, run.plan),
        "loss_before": 0.0,
    }


def as_collected(data: Microdata, plan: Plan) -> float | None:
    """What the quick intruder finds in the file as it is: where a gauge starts."""
    seed = as_seed(0)
    rows = some_records(data, 4_000, seed)
    part = data.with_frame(data.frame[rows]) if len(rows) < len(data) else data
    try:
        return quick_rate(part, part, Plan(schema=data.schema, release=plan.release), seed)
    except (SfumatoError, ValueError):
        return None


def _preview(task: Task, tell: Tell, find: Find) -> dict[str, Any]:
    plan, column = _plan(task), task.options["column"]
    tell("reading the data", 0, len(plan.steps) + 2)
    data = _data(plan)
    run = carry_out(plan, data, Seed.new(), progress=tell, measure=False)
    if column not in run.masked.columns:
        return {"column": column, "gone": True, "records": len(data)}
    drawn = pictures(run, [column], public=False)
    return {
        "column": column,
        "records": len(data),
        "drawn": drawn,
        "table": _correlations(data, run.masked, column),
        "touched": sum(step.touched.get(column, 0) for step in run.steps),
    }


def _correlations(data: Microdata, masked: Microdata, column: str) -> list[dict[str, Any]]:
    """How the column goes with itself as it was, and with other numbers, before and after."""
    import numpy as np

    def numbers(of: Microdata, name: str) -> Any:
        if name not in of.columns or not of.dtype(name).is_numeric():
            return None
        values = of.column(name).cast(float).to_numpy().copy()
        values[of.missing(name)] = np.nan
        return values

    def r(a: Any, b: Any) -> float | None:
        if a is None or b is None:
            return None
        both = np.isfinite(a) & np.isfinite(b)
        if both.sum() < 3 or np.ptp(a[both]) == 0 or np.ptp(b[both]) == 0:
            return None
        return float(np.corrcoef(a[both], b[both])[0, 1])

    before, after = numbers(data, column), numbers(masked, column)
    out = [{"with": "itself as collected", "name": False, "before": 1.0, "after": r(before, after)}]
    others = [c for c in data.schema.sensitive if c != column] or [c for c in data.columns if c != column]
    for other in others:
        one = r(before, numbers(data, other))
        if one is not None and len(out) < 9:
            out.append(
                {"with": other, "name": True, "before": one, "after": r(after, numbers(masked, other))}
            )
    return [row for row in out if row["after"] is not None]


def _propose(task: Task, tell: Tell, find: Find) -> dict[str, Any]:
    """What `protect` finds for the file, as the text of a first plan."""
    path = Path(task.base) / task.options["data"]
    tell("looking at every column", 0, 14)
    plan = _plan(task)
    found, whom = suggest(plan.file_alone()), str(task.options["for"])
    done = protect(found.data, whom, drop=found.withheld, progress=tell)
    lines, gone = work_lines(done.plan), done.plan.release.drop
    text = plan_text(task.options["data"], found, work=lines, drop=gone, audience=whom)
    return {"text": text, "result": told(replace(done, plan=Plan.loads(text, base=path.parent)), found.data)}


def _search(task: Task, tell: Tell, find: Find) -> dict[str, Any]:
    """The best plan under the plan's own limits, with its roles."""
    plan = _plan(task)
    tell("reading the data", 0, 14)
    data = _data(plan)
    template = replace(plan, steps=(), measures=(), limits=(), source=None)
    limits = [x for x in plan.limits if x.measure == "battery"] or task.options["for"]

    def tried(trial: Trial, made: Plan) -> None:
        if not (math.isfinite(trial.loss) and math.isfinite(trial.rate)):
            return  # what misses a limit already isn't measured further
        text = with_steps(task.text, made.to_dict().get("step", []), made.release.drop)
        error = math.sqrt(max(trial.rate * (1 - trial.rate), 0.0) / PEOPLE)
        figures = {"risk": trial.rate, "risk_se": error, "loss": trial.loss, "loss_se": 0.0, "runs": 1}
        find(
            "point",
            plain({"label": trial.words, "text": text, "worst": trial.worst, "problem": "", **figures}),
        )

    done = protect(data, limits, drop=plan.release.drop, template=template, progress=tell, tried=tried)
    steps = [t for t in done.plan.to_dict().get("step", [])]
    return {
        "steps": steps,
        "drop": list(done.plan.release.drop),
        "safe": done.verdict.safe,
        "verdict": done.verdict.text,
        "heads": [line for line in (done.plan.source or "").splitlines() if line.startswith("#")],
        "point": _placed("the search's best", done.plan, data),
        "limits": done.plan.to_dict().get("limits", {}),
    }


def _place(task: Task, tell: Tell, find: Find) -> int:
    """Each of some plans on the map, handed out as it comes."""
    plan = _plan(task)
    tell("reading the data", 0, len(task.options["plans"]))
    data = _data(plan)
    for at, one in enumerate(task.options["plans"]):
        tell(one["label"], at, len(task.options["plans"]))
        try:
            made = Plan.loads(one["text"], base=task.base)
        except SfumatoError as problem:
            find("point", {**one, "problem": problem.message})
            continue
        find("point", {**one, **_placed(one["label"], made, data, task.options["runs"])})
    return len(task.options["plans"])


def _placed(label: str, plan: Plan, data: Microdata, runs: int = 3) -> dict[str, Any]:
    (place,) = side_by_side({label: plan}, data, replicates=runs)
    # Three runs may agree by luck: the intruder looks for so many persons, and can't be surer than that.
    sampled = math.sqrt(max(place.risk * (1 - place.risk), 0.0) / (PEOPLE * max(place.runs, 1)))
    return {
        "label": label,
        "risk": place.risk,
        "risk_se": max(place.risk_error, sampled),
        "loss": place.loss,
        "loss_se": place.loss_error,
        "runs": place.runs,
        "worst": place.worst,
        "problem": place.problem,
    }


def _fit(task: Task, tell: Tell, find: Find) -> dict[str, Any]:
    """The analyst's view: one regression from both files."""
    plan = _plan(task)
    tell("reading the data", 0, 3)
    data = _data(plan)
    measure = registry.measure("interval_overlap").from_dict({"formula": task.options["formula"]})
    masked = carry_out(plan, data, Seed.new(), progress=tell, measure=False).masked
    tell("fitting both", 2, 3)
    result = measure.measure(data, masked)
    rows = [] if result.breakdown is None else result.breakdown.to_dicts()
    return {
        "formula": task.options["formula"],
        "j": result.value,
        "rows": [r for r in rows if r["coefficient"]][:40],
        "notes": list(result.notes),
    }


def _release(task: Task, tell: Tell, find: Find) -> dict[str, Any]:
    plan = _plan(task)
    tell("reading the data", 0, 1)
    return write(plan, _data(plan), Path(task.base), task.options, tell)


_KINDS: dict[str, Callable[[Task, Tell, Find], Any]] = {
    "run": _run,
    "preview": _preview,
    "propose": _propose,
    "search": _search,
    "place": _place,
    "fit": _fit,
    "release": _release,
}
