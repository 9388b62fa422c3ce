"""The Attack and utility screen: what intruders find, what analysts lose, one analyst's regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato import registry
from sfumato.data.microdata import Microdata
from sfumato.plan.audience import BATTERY
from sfumato.workbench import charts, edits
from sfumato.workbench.bench import Workbench
from sfumato.workbench.rail import battery_of, limit_on
from sfumato.workbench.screens.common import Query, choices, filled_by_role, form_for


def attack_screen(bench: Workbench, query: Query, flashed: Mapping[str, Any]) -> dict[str, Any]:
    data, plan = bench.data, bench.plan
    result, old = bench.result("run"), None
    if result is None:
        held = bench.last_result("run")
        if held is not None:
            old, result = held
    fit, fit_old = bench.result("fit"), None
    if fit is None:
        held = bench.last_result("fit")
        if held is not None:
            fit_old, fit = held
    internal = result["internal"] if result else {}
    columns = choices(data)
    tables = edits.tables(bench.now.text, "measure")
    adding, more = query.get("add", ""), flashed.get("more") or {}
    form = None
    if adding in registry.measures():
        form = form_for(
            registry.measures()[adding],
            {},
            columns,
            more.get("typed"),
            more.get("errors") or {},
            filled_by_role(data),
        )
        form |= {"new": True, "id": adding}
    elif query.get("measure", "").isdigit() and int(query["measure"]) < len(tables):
        table = tables[int(query["measure"])]
        cls = registry.measures().get(str(table.get("measure")))
        if cls is not None:
            form = form_for(cls, table, columns, more.get("typed"), more.get("errors") or {})
            form |= {"new": False, "id": str(table.get("id") or cls.name), "at": int(query["measure"])}
    rate = limit_on(plan, BATTERY, "rate")
    rows = _attack_rows(battery_of(result))
    finders = [r for r in rows if r["finds"] == "records" and r["rate"] is not None]
    return {
        "result": result,
        "old": old,
        "internal": internal,
        "job": next((j for j in bench.jobs.active("run") if j.key == bench.key()), None),
        "failed": next(
            (j for j in [bench.jobs.last("run", bench.key())] if j is not None and j.state == "failed"), None
        ),
        "attacks": rows,
        "limit": rate.at_most if rate else None,
        "before": (result or {}).get("before"),
        "chart": charts.attacks(finders[:14], rate.at_most if rate else None, (result or {}).get("before"))
        if finders
        else "",
        "battery": battery_of(result),
        "losses": internal.get("utility", []),
        "risks": [r for r in internal.get("risk", []) if r["name"] != BATTERY],
        "groups": (internal.get("board") or {}).get("groups", [])[:8],
        "scenario_words": (internal.get("board") or {}).get("scenario", ""),
        "heat": _heat(internal.get("pictures", {}).get("correlations")),
        "fit": fit,
        "fit_old": fit_old,
        "fit_job": next(iter(bench.jobs.active("fit")), None),
        "fit_failed": next(
            (j for j in [bench.jobs.last("fit")] if j is not None and j.state == "failed"), None
        ),
        "fit_chart": charts.coefficients(fit["rows"]) if fit else "",
        "formula": query.get("formula") or (fit["formula"] if fit else _first_formula(data)),
        "measures": [
            {"at": k, "id": str(t.get("id") or t.get("measure")), "measure": str(t.get("measure"))}
            for k, t in enumerate(tables)
        ],
        "known": sorted(registry.measures()),
        "form": form,
    }


def _attack_rows(battery: dict[str, Any] | None) -> list[dict[str, Any]]:
    table = (battery or {}).get("breakdown")
    if not table or "attack" not in table["columns"]:
        return []
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    for row in rows:
        row["name"] = str(row["attack"]).replace("_", " ")
    return sorted(
        rows, key=lambda r: (r["finds"] != "records", -(r["rate"] if r["rate"] is not None else -1))
    )


def _heat(held: Any) -> dict[str, Any] | None:
    """Three matrices with a class for each cell's shade."""
    if not held or not held.get("columns") or "before" not in held:
        return None
    columns = held["columns"][:30]
    n = len(columns)

    def cells(matrix: Any, scale: float) -> list[list[tuple[str, str]]]:
        out = []
        for i in range(n):
            row = []
            for j in range(n):
                v = matrix[i][j]
                if v is None:
                    row.append(("–", "h0"))
                    continue
                size = min(5, round(5 * min(abs(v) / scale, 1.0) ** 0.8))
                shade = "h0" if not size or i == j else f"{'hp' if v > 0 else 'hn'}{size}"
                row.append(("1" if i == j and scale == 1 else _figure(v, scale), shade))
            out.append(row)
        return out

    scale = max([0.05, *(abs(v) for row in held["difference"] for v in row if v is not None)])
    return {
        "columns": columns,
        "tables": [
            ("As collected", cells(held["before"], 1.0)),
            ("After the steps", cells(held["after"], 1.0)),
            ("Difference × 100", cells(held["difference"], scale)),
        ],
    }


def _figure(v: float, scale: float) -> str:
    text = f"{v + 0.0 if abs(v) >= 0.005 else 0.0:.2f}" if scale == 1.0 else f"{100 * v:+.1f}"
    text = "0" if scale != 1.0 and abs(v) < 0.0005 else text
    return text.replace("-", "−")


def _first_formula(data: Microdata | None) -> str:
    if data is None:
        return ""
    numbers = [c for c in data.schema.sensitive if data.dtype(c).is_numeric() and c.isidentifier()]
    return f"{numbers[0]} ~ {' + '.join(numbers[1:5])}" if len(numbers) > 1 else ""
