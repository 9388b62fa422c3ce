"""Work that a person starts or stops: jobs, and the release that is signed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sfumato import registry
from sfumato.errors import ParameterError, ReleaseError
from sfumato.workbench import edits
from sfumato.workbench.adopt import work_hash
from sfumato.workbench.bench import Workbench
from sfumato.workbench.changes.form import Done, Sent
from sfumato.workbench.release import inside

MOST_POINTS = 60


def jobs(bench: Workbench, form: Sent) -> Done:
    """Start a job, or stop one."""
    kind = str(form.get("kind", ""))
    if form.get("stop"):
        bench.jobs.stop(form.number("stop"))
        bench.now.epoch += 1
        return Done(toast="Stopped. The plan is as it was.")
    if kind == "run":
        bench.start("run")
        return Done()
    if kind == "preview":
        data = bench.data
        at = form.number("column")
        if data is None or not 0 <= at < len(data.columns):
            raise ParameterError("There is no such column.")
        bench.start("preview", column=data.columns[at])
        return Done(f"/protect?step={form.get('step', '0')}&column={at}#preview")
    if kind == "propose":
        bench.start("propose")
        return Done("/data")
    if kind == "search":
        bench.start("search")
        return Done("/compare")
    if kind == "fit":
        formula = str(form.get("formula", "")).strip()
        registry.measure("interval_overlap").from_dict({"formula": formula})
        bench.start("fit", formula=formula)
        return Done("/attack#analyst")
    if kind == "place":
        return _place(bench, form)
    raise ParameterError("There is no such job.")


def _place(bench: Workbench, form: Sent) -> Done:
    """Some values of one parameter of one step, each a plan and a point."""
    text, at = bench.now.text, form.number("step")
    tables = edits.tables(text, "step")
    if not 0 <= at < len(tables):
        raise ParameterError("There is no such step.")
    name = str(form.get("parameter", ""))
    cls = registry.masks().get(str(tables[at].get("mask")))
    if cls is None or name not in cls.parameters():
        raise ParameterError("That step has no such parameter.")
    label = str(tables[at].get("id") or tables[at].get("mask"))
    here, now = work_hash(text), tables[at].get(name)
    words = f"{name.replace('_', ' ')} {now:g}" if isinstance(now, (int, float)) else "as it was"
    plans = [{"label": f"{label}: {words}", "text": text}]
    if any(p.get("hash") == here for p in bench.points()):
        plans = []
    for word in str(form.get("values", "")).split(","):
        if not word.strip():
            continue
        try:
            number = float(word)
        except ValueError:
            raise ParameterError(f"{word.strip()[:40]!r} isn't a number.") from None
        value = int(number) if number.is_integer() else number
        try:
            cls.from_dict({k: v for k, v in {**tables[at], name: value}.items() if k in cls.parameters()})
        except ParameterError as problem:
            raise ParameterError(f"{problem.message}. Nothing was run.", hint=problem.hint) from None
        new = edits.set_parameters(text, "step", at, {name: value})
        plans.append({"label": f"{label}: {name.replace('_', ' ')} {value:g}", "text": new})
    if not plans:
        raise ParameterError("Name some values, for instance 2, 5, 10.")
    if len(plans) > MOST_POINTS:
        raise ParameterError(f"{len(plans)} plans are many; try at most {MOST_POINTS} at once.")
    runs = form.number("runs")
    if not 1 <= runs <= 50:
        raise ParameterError("Runs of each plan: 1 to 50.")
    bench.start("place", plans=plans, runs=runs)
    return Done("/compare")


def release(bench: Workbench, form: Sent) -> Done:
    """Sign and write. The signature is bound to the plan that the page showed."""
    session = bench.now
    if form.get("plan") != session.hash():
        raise ReleaseError(
            "The plan has changed since this page was made, so your signature doesn't hold. Read it again."
        )
    result = bench.result("run")
    if result is None or not result["internal"]["verdict"]["safe"]:
        raise ReleaseError("Not released: this plan isn't known to be safe by its limits. Run it first.")
    missing = [
        words
        for name, words in (
            ("read", "that you have read the findings"),
            ("scenario", "that the scenario is agreed"),
        )
        if form.get(name) is None
    ]
    missing += [
        words for name, words in (("prepared", "who prepared it"), ("approved", "who approves it"))
        if not str(form.get(name, "")).strip()
    ]  # fmt: skip
    if missing:
        return Done(
            "/release#sign",
            error=f"Not released. Still missing: {', '.join(missing)}.",
            more={"typed": _typed(form)},
        )
    out = str(form.get("out", "")).strip()
    base = session.path.parent
    folder = inside(base, out, "folder")
    overwrite = form.get("overwrite") is not None
    if folder.exists() and not overwrite:
        return Done(
            "/release#sign",
            error=f"There is a folder {folder.name} already.",
            hint="Choose another name, or tick that it is replaced, whole: the old one is gone then.",
            more={"typed": _typed(form), "exists": True},
        )
    signed = {
        "prepared_by": str(form.get("prepared")).strip(),
        "approved_by": str(form.get("approved")).strip(),
        "date": str(form.get("date", "")).strip() or f"{datetime.now(UTC):%Y-%m-%d}",
        "read": True,
        "scenario_agreed": True,
    }
    options: dict[str, Any] = {"out": out, "signed": signed, "overwrite": overwrite}
    if form.get("seed") is not None:
        options["seed_name"] = f"{session.path.stem}.{out}.seed"
    bench.start("release", **options)
    return Done("/release")


def _typed(form: Sent) -> dict[str, Any]:
    return {k: form.get(k) for k in ("prepared", "approved", "date", "out", "read", "scenario", "seed")}
