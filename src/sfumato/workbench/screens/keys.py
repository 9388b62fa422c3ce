"""The Keys and risk screen: the matrix, what would help, the unsafe combinations."""

from __future__ import annotations

import math
from typing import Any, Final

from sfumato.workbench import charts
from sfumato.workbench.bench import Workbench
from sfumato.workbench.cellview import all_keys
from sfumato.workbench.names import shown
from sfumato.workbench.screens.common import Query, whole

CELLS_PAGE: Final = 12


def keys_screen(bench: Workbench, query: Query) -> dict[str, Any]:
    data, view = bench.data, bench.view()
    if data is None or view is None:
        return {"view": None, "reading": bench.opened is not None and bench.opened.reading}
    scenario = view.scenario
    place = {c: at for at, c in enumerate(data.columns)}
    rungs = bench.rungs(view)
    rows = view.matrix()
    top = max([1, *(n for r in rows for n, _ in r["cells"])])
    for row in rows:
        row["at"] = place[row["key"]]
        row["options"] = [(r.level, r.words, r.levels) for r in rungs.get(row["key"], [])]
        step = view.recoded.get(row["key"])
        row["level"] = next(
            (r.level for r in rungs.get(row["key"], []) if step is not None and _same(r.mask, step)), None
        )
        row["own"] = step is not None and row["level"] is None
        row["shade"] = [_shade(n, top) for n, _ in row["cells"]]
    found = bench.helps(view) if not view.safe_by else []
    sets = view.key_sets()
    wanted = query.get("set", "")
    names = next((s["set"] for s in sets if str(sets.index(s)) == wanted), None)
    listed = view.unsafe_combinations(names) if view.now.records_unsafe else []
    text = query.get("q", "").strip().casefold()
    if text:
        listed = [
            r
            for r in listed
            if any(v is not None and text in str(v).casefold() for v in r["values"].values())
        ]
    order = query.get("sort", "")
    if order == "keys":
        listed = sorted(listed, key=lambda r: (r["keys"], r["records"]))
    page = min(whole(query, "page"), max(0, (len(listed) - 1) // CELLS_PAGE))
    candidates = [*scenario.keys, *(c for c in all_keys(data, bench.plan) if c not in scenario.keys)]
    others = [
        c for c in data.columns
        if c not in candidates and c != data.schema.id and c not in bench.plan.release.drop
        and (bench.opened.facts(data, c)["values"] or 0) <= 100  # type: ignore[union-attr]
    ][:6] if len(data.columns) <= 60 else []  # fmt: skip
    return {
        "view": view,
        "scenario": scenario,
        "rows": rows,
        "totals": view.totals(),
        "chips": [(place[c], c, c in scenario.keys) for c in [*candidates, *others]],
        "helps": found,
        "worst": sets[:8],
        "sets": [
            (str(k), " × ".join(map(shown, s["set"])), s["unsafe"]) for k, s in enumerate(sets) if s["unsafe"]
        ],
        "set": wanted,
        "q": query.get("q", ""),
        "sort": order,
        "curve": charts.curve(view.curve(), scenario.tolerance),
        "cells": listed[page * CELLS_PAGE : (page + 1) * CELLS_PAGE],
        "listed": len(listed),
        "page": page,
        "pages": math.ceil(len(listed) / CELLS_PAGE),
        "share": charts.share,
        "records": view.table.records,
        "combinations": int(view.now.combinations.sum()),
        "unsafe_combinations": int(view.now.unsafe_combinations.sum()),
        "bits": sum(view.now.entropy[k] for k in scenario.keys),
        "place": place,
    }


def _same(one: Any, two: Any) -> bool:
    a, b = one.to_dict(), two.to_dict()
    a.pop("id", None), b.pop("id", None)
    return bool(one.name == two.name and a == b)


def _shade(n: int, top: int) -> str:
    if not n:
        return "zero"
    return f"u{min(3, 1 + int(2.999 * math.log1p(n) / math.log1p(top)))}"
