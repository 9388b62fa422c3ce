"""The summary of a run: everything a report shows, as plain values.

The **internal** summary has everything but the seed and the confidential logs. The **public** one has
nothing that helps an intruder:

- no seed, no plan text, no number of records that a step changed, no notes or tables of measures
  (they may name parameters, areas or records), no figure of the original file's distributions;
- distributions and correlations of the masked file only, whose bars have round limits, so that no
  value of a record shows;
- no column that isn't released;
- the masks, but their parameters, step names, plan digest and limits only where the plan says
  ``release.publish_parameters``, and of the parameters only those that their class declares public
  (:mod:`sfumato.report.public`). Else promises that name no number, and measured values as bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.contract.measure import Attack, Measure
from sfumato.contract.result import Result
from sfumato.data.plain import plain
from sfumato.plan.audience import BATTERY
from sfumato.report.glance import glance
from sfumato.report.pictures import pictures
from sfumato.report.public import bound, names_a_number, public_parameters
from sfumato.run.exposure import KNOWN, price

if TYPE_CHECKING:
    from sfumato.run.run import LimitOutcome, Run, StepRecord

MOST_ROWS = 200
UNSAID = "more promises of this method, whose text would name a parameter"


def summary(run: Run, *, public: bool, experiment: Any = None) -> dict[str, Any]:
    """What there is to say of a run, as plain values. ``experiment`` adds its risk-utility map."""
    from sfumato import __version__

    plan = run.plan
    secret = public and not plan.release.publish_parameters
    columns = _released(run) if public else run.masked.columns
    out: dict[str, Any] = {
        "report": "public" if public else "internal",
        "sfumato": __version__,
        # No time in the public one: the same plan and seed make the same bundle, byte for byte.
        "made": None if public else datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "title": plan.title or "Release of masked microdata",
        "ok": bool(run.ok),
        "verdict": _verdict(run, public=public),
        "secret_parameters": not plan.release.publish_parameters,
        "file": _file(run, columns, public=public),
        "steps": [_step(run, s, at, public=public, secret=secret) for at, s in enumerate(run.steps, start=1)],
        "risk": _results(run, "risk", public=public, secret=secret),
        "utility": _results(run, "utility", public=public, secret=secret),
        "limits": [] if secret else [_limit(x) for x in run.limits],
        "pictures": pictures(run, columns, public=public),
    }
    if not secret:
        out["plan"] = {"hash": plan.hash()}
    if not public:
        out["plan"] |= {"text": plan.to_toml(), "data": plan.data_path}
        out["board"] = _plain(run.board)
        out["seconds"] = float(run.seconds)
        out["warnings"] = [str(w) for w in getattr(run, "warnings", [])]
        out["reproduce"] = "sfumato run plan.toml --seed-file SEED --out RELEASE"
    if experiment is not None and not public:
        out["experiment"] = experiment.points()
    out["glance"] = glance(out)
    return out


def _verdict(run: Run, *, public: bool) -> dict[str, Any]:
    """In public only whether it is safe: what falls short, and by how much, is for those who can mend it."""
    verdict = run.verdict
    if not public:
        return verdict.to_dict()
    head = "safe by the limits that were set" if verdict.safe else "not cleared for handing out"
    return {"safe": verdict.safe, "head": head, "text": head + "."}


def _released(run: Run) -> list[str]:
    """The columns of the released file (a release without any is refused where it is written)."""
    dropped = set(run.plan.release.drop)
    if not run.plan.release.new_ids:
        dropped.add(run.masked.schema.id or "")
    return [c for c in run.masked.columns if c not in dropped]


def _seen(columns: Iterable[str], run: Run, public: bool) -> list[str]:
    """The columns that may be named: in public not those which aren't released."""
    return [c for c in columns if not public or c in _released(run)]


def _limit(outcome: LimitOutcome) -> dict[str, Any]:
    """Four digits, unless they would hide on which side of the limit the value lies."""
    limit = outcome.limit
    said = f"{outcome.measured:.4g}"
    if said in {f"{b:.4g}" for b in (limit.at_most, limit.at_least) if b is not None}:
        said = f"{outcome.measured:.8g}"
    return {
        "text": outcome.worded(said),
        "ok": bool(outcome.ok),
        "measured": _plain(outcome.measured),
        "found": _plain(outcome.found),
    }


def _file(run: Run, columns: list[str], *, public: bool) -> dict[str, Any]:
    schema, options = run.masked.schema, run.plan.release
    changed = {c for s in run.steps for c, n in s.touched.items() if n}
    rows = []
    gone = run.masked.aggregate(lambda block, _: [int(block.missing(c).sum()) for c in columns], columns)
    missing = dict(zip(columns, map(sum, zip(*gone, strict=True)), strict=True)) if gone else {}
    for column in columns:
        variable = schema[column]
        row: dict[str, Any] = {
            "name": column,
            "type": str(run.masked.dtype(column)),
            "kind": run.masked.kind(column),
            "role": schema.role_of(column),
            "label": variable.label,
            "masked": column in changed,
            "state": "masked" if column in changed else "as collected",
        }
        if column not in options.drop and (
            column == schema.household or (column == schema.id and options.new_ids)
        ):
            row["state"] = "numbered anew"
        if not public:
            if column not in _released(run):
                row["state"] = "not released"
            row["missing"] = missing.get(column, 0)
        rows.append(row)
    return {
        "records": len(run.masked),
        "columns": rows,
        "dropped": [] if public else [c for c in run.masked.columns if c not in _released(run)],
        "shuffled": bool(options.shuffle),
    }


def _step(run: Run, step: StepRecord, at: int, *, public: bool, secret: bool) -> dict[str, Any]:
    mask = step.mask
    names = sorted([*step.touched, *mask.named_columns()], key=len, reverse=True)
    checks: list[dict[str, Any]] = []
    for check in step.checks:
        text = check.guarantee
        unsaid = public and any(c in text for c in run.masked.columns if c not in _released(run))
        if unsaid or (secret and names_a_number(text, names)):
            text = UNSAID
        if {"text": UNSAID, "ok": bool(check.ok)} in checks and text == UNSAID:
            continue
        checks.append({"text": text, "ok": bool(check.ok), **({} if public else {"detail": check.detail})})
    out: dict[str, Any] = {
        "id": f"step {at}" if secret else step.id,
        "mask": mask.name,
        "about": type(mask).summary().replace("`", ""),
        "reference": mask.reference,
        "columns": _seen(step.touched, run, public),
        "guarantees": checks,
    }
    if not secret:
        plain = _plain({k: v for k, v in mask.to_dict().items() if k != "id"})
        out["parameters"] = public_parameters(mask, plain, _released(run)) if public else plain
        if not public:
            left = {n: getattr(mask, n) for n in type(mask).parameters() if n not in plain and n != "id"}
            out["defaults"] = _plain({n: v for n, v in left.items() if v not in (None, (), {}, "")})
    if not public:
        out |= {
            # Of somebody else's release without known pairs, nobody can count what changed.
            "touched": {c: int(n) for c, n in step.touched.items()} if run.paired else {},
            "seconds": float(step.seconds),
            "figures": _plain(step.notes.figures),
            "warnings": list(step.notes.warnings),
            "log_rows": 0 if step.notes.log is None else step.notes.log.height,
        }
    return out


def _results(run: Run, side: str, *, public: bool, secret: bool) -> list[dict[str, Any]]:
    measures = dict(zip(run.plan.measure_ids(), run.plan.measures, strict=True))
    out = []
    for result in run.results:
        measure = measures.get(result.name) or _by_name(measures, result.measure)
        if measure is None and result.measure == BATTERY and side == "risk":
            told = run.plan.release.publish_parameters
            out.append(_battery(result, public=public, secret=secret, published=told))
        if measure is None or measure.side != side:
            continue
        out.append(_result(run, measure, result, public=public, secret=secret))
    return out


def _battery(result: Result, *, public: bool, secret: bool, published: bool) -> dict[str, Any]:
    """The battery behind a plan's limits on it, as one line among the measures of risk."""
    value, words = _plain(result.value), None
    if secret:
        value, words = bound(value, higher_is_better=False, bounds=result.bounds)
    out: dict[str, Any] = {
        "name": BATTERY,
        "measure": BATTERY,
        "about": "Every attack that fits the file, one after another; the strongest counts."
        + (f" The masks' parameters are published: {price(result)}." if published else ""),
        "reference": "",
        "value": value,
        "bound": words,
        "unit": result.unit,
        "interval": None,
        "better": "lower",
        "bounds": [0.0, 1.0],
        "figures": {},
        "knows": _knows(result),
    }
    if not public:
        out |= {
            "figures": _plain(dict(result.figures)),
            "notes": list(result.notes),
            "breakdown": _table(result.breakdown),
            "parameters": {},
        }
    return out


def _knows(result: Result) -> list[str]:
    """What the battery's intruder has of everybody."""
    said = next((n for n in result.notes if n.startswith(KNOWN)), None)
    return ["every key and every number of everybody"] if said is None else [said.removeprefix(KNOWN)]


def _by_name(measures: Mapping[str, Measure], name: str) -> Measure | None:
    return next((m for m in measures.values() if m.name == name), None)


def _result(run: Run, measure: Measure, result: Result, *, public: bool, secret: bool) -> dict[str, Any]:
    figures = {k: v for k, v in result.figures.items() if not public or k in measure.public_figures}
    value, words = _plain(result.value), None
    knows = measure.knows(*run.looked_at) if isinstance(measure, Attack) else []
    if secret:
        value, words = bound(value, higher_is_better=result.direction == "higher", bounds=result.bounds)
    out: dict[str, Any] = {
        "name": measure.name if secret else result.name,
        "measure": result.measure,
        "about": type(measure).summary().replace("`", ""),
        "reference": measure.reference,
        "value": value,
        "bound": words,
        "unit": result.unit,
        "interval": [_plain(v) for v in result.interval] if result.interval and not secret else None,
        "better": result.direction,
        "bounds": [_plain(b) for b in result.bounds],
        "figures": {} if secret else _plain(figures),
        "knows": _seen(knows, run, public),
    }
    if result.unit == "records" and isinstance(value, (int, float)) and len(run.looked_at[1]):
        out["share"] = min(1.0, value / len(run.looked_at[1]))
    if not public:
        before = run.before.get(result.name)
        if before is not None:
            out["before"], out["before_is"] = _plain(before[0]), before[1]
            if "share" in out and out["before"] is not None:
                out["before_share"] = min(1.0, out["before"] / len(run.looked_at[0]))
        out["notes"] = list(result.notes)
        out["breakdown"] = _table(result.breakdown)
        out["parameters"] = _plain({k: v for k, v in measure.to_dict().items() if k != "id"})
    return out


def _table(frame: pl.DataFrame | None) -> dict[str, Any] | None:
    if frame is None:
        return None
    shown = frame.head(MOST_ROWS)
    return {
        "columns": shown.columns,
        "rows": [[_plain(v) for v in row] for row in shown.iter_rows()],
        "all": frame.height,
    }


def _plain(value: Any) -> Any:
    return plain(value, most_rows=MOST_ROWS, strict=True)
