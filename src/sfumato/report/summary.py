"""The summary of a run: everything a report shows, as plain values.

The **internal** summary has everything but the seed and the confidential logs. The **public** one has
nothing that helps an intruder:

- no seed, no plan text, no number of records that a step changed, no notes or tables of measures
  (they may name parameters, areas or records), no figure of the original file's distributions;
- distributions and correlations of the masked file only, whose bars have round limits, so that no
  value of a record shows;
- the masks and their parameters, unless the plan says ``release.secret_parameters``: then neither
  parameters, step names, plan digest nor limits, only promises that name no number, and measured
  values rounded to two digits (a loss given exactly tells the variance of the noise).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.measures import Measure, Result
from sfumato.report.pictures import pictures

if TYPE_CHECKING:
    from sfumato.run import Run, StepRecord

MOST_ROWS = 200
SAFE_FIGURES = (
    *("rate", "baseline", "il1", "il1s", "il2", "il3", "il4", "il5", "s0", "s1", "s2"),
    *("a_score", "d_score", "s_score", "u_p", "null_mean", "ratio", "p_value", "j", "non_overlaps"),
    *("coefficients", "d", "percentage_bias", "bias", "verdict", "sign_changes"),
)


def summary(run: Run, *, public: bool, experiment: Any = None) -> dict[str, Any]:
    """What there is to say of a run, as plain values. ``experiment`` adds its risk-utility map."""
    from sfumato import __version__

    plan = run.plan
    secret = public and plan.release.secret_parameters
    released = [c for c in run.masked.columns if c not in plan.release.drop]
    out: dict[str, Any] = {
        "report": "public" if public else "internal",
        "sfumato": __version__,
        # No time in the public one: the same plan and seed make the same bundle, byte for byte.
        "made": None if public else datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "title": plan.title or "Release of masked microdata",
        "ok": bool(run.ok),
        "secret_parameters": bool(plan.release.secret_parameters),
        "file": _file(run, released if public else run.masked.columns, public=public),
        "steps": [_step(s, at, public=public, secret=secret) for at, s in enumerate(run.steps, start=1)],
        "risk": _results(run, "risk", public=public, secret=secret),
        "utility": _results(run, "utility", public=public, secret=secret),
        "limits": []
        if secret
        else [{"text": x.text, "ok": bool(x.ok), "measured": _plain(x.measured)} for x in run.limits],
        "pictures": pictures(run, released if public else run.masked.columns, public=public),
    }
    if not secret:
        out["plan"] = {"hash": plan.hash()}
    if not public:
        out["plan"] |= {"text": plan.to_toml(), "data": plan.data_path}
        out["seconds"] = float(run.seconds)
        out["warnings"] = [str(w) for w in getattr(run, "warnings", [])]
        out["reproduce"] = "sfumato run plan.toml --seed-file SEED --out RELEASE"
    if experiment is not None and not public:
        out["experiment"] = experiment.points()
    return out


def _file(run: Run, columns: list[str], *, public: bool) -> dict[str, Any]:
    schema = run.masked.schema
    changed = {c for s in run.steps for c, n in s.touched.items() if n}
    rows = []
    for column in columns:
        variable = schema[column]
        row: dict[str, Any] = {
            "name": column,
            "type": str(run.masked.dtype(column)),
            "kind": run.masked.kind(column),
            "role": schema.role_of(column),
            "label": variable.label,
            "masked": column in changed,
        }
        if not public:
            row["missing"] = int(run.masked.missing(column).sum())
        rows.append(row)
    return {"records": len(run.masked), "columns": rows, "dropped": list(run.plan.release.drop)}


def _step(step: StepRecord, at: int, *, public: bool, secret: bool) -> dict[str, Any]:
    mask = step.mask
    names = sorted([*step.touched, *mask.named_columns()], key=len, reverse=True)
    checks = []
    for check in step.checks:
        text = check.guarantee
        if secret and re.search(r"\d", _without(text, names)):
            text = "a promise of this method, whose text would name a parameter"
        checks.append({"text": text, "ok": bool(check.ok), **({} if public else {"detail": check.detail})})
    out: dict[str, Any] = {
        "id": f"step {at}" if secret else step.id,
        "mask": mask.name,
        "about": type(mask).summary().replace("`", ""),
        "reference": mask.reference,
        "columns": list(step.touched),
        "guarantees": checks,
    }
    if not secret:
        out["parameters"] = _plain({k: v for k, v in mask.to_dict().items() if k != "id"})
    if not public:
        out |= {
            "touched": {c: int(n) for c, n in step.touched.items()},
            "seconds": float(step.seconds),
            "figures": _plain(step.notes.figures),
            "warnings": list(step.notes.warnings),
            "log_rows": 0 if step.notes.log is None else step.notes.log.height,
        }
    return out


def _without(text: str, names: list[str]) -> str:
    for name in names:
        text = text.replace(name, "")
    return text


def _results(run: Run, side: str, *, public: bool, secret: bool) -> list[dict[str, Any]]:
    measures = dict(zip(run.plan.measure_ids(), run.plan.measures, strict=True))
    out = []
    for result in run.results:
        measure = measures.get(result.name) or _by_name(measures, result.measure)
        if measure is None or measure.side != side:
            continue
        out.append(_result(run, measure, result, public=public, secret=secret))
    return out


def _by_name(measures: Mapping[str, Measure], name: str) -> Measure | None:
    return next((m for m in measures.values() if m.name == name), None)


def _result(run: Run, measure: Measure, result: Result, *, public: bool, secret: bool) -> dict[str, Any]:
    figures = {k: v for k, v in result.figures.items() if not public or k in SAFE_FIGURES}
    number = _rounded if secret else _plain
    out: dict[str, Any] = {
        "name": measure.name if secret else result.name,
        "measure": result.measure,
        "about": type(measure).summary().replace("`", ""),
        "reference": measure.reference,
        "value": number(result.value),
        "unit": result.unit,
        "interval": [number(v) for v in result.interval] if result.interval else None,
        "better": result.direction,
        "bounds": [_plain(b) for b in result.bounds],
        "figures": {} if secret else _plain(figures),
    }
    if measure.files == "one" and not public:
        # Of the original only, so that a steward sees risk before and after.
        out["before"] = _plain(measure.measure(run.original).value)
    if not public:
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


def _rounded(value: Any) -> Any:
    plain = _plain(value)
    return float(f"{plain:.2g}") if isinstance(plain, float) else plain


def _plain(value: Any) -> Any:
    """Values that JSON has: NaN and infinities become None, frames lists of rows, the rest text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, pl.DataFrame):
        return [_plain(row) for row in value.head(MOST_ROWS).to_dicts()]
    if isinstance(value, pl.Series):
        return [_plain(v) for v in value.head(MOST_ROWS).to_list()]
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "to_dict"):
        return _plain(value.to_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    return str(value)
