"""The Release screen: verdict, limits, promises, bundles, the place to sign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sfumato.plan.audience import BATTERY
from sfumato.workbench.bench import Workbench
from sfumato.workbench.screens.common import Query

BUNDLE_WORDS: Final = {
    "dictionary.json": "what each column holds",
    "report.html": "the report",
    "MANIFEST.json": "sizes and digests",
    "plan.toml": "the plan",
    "run.json": "every figure",
    "order.parquet": "the original order",
    "seed-commitment.json": "binds the seed without showing it",
    "signature.json": "who signed",
}


def release_screen(bench: Workbench, query: Query, flashed: Mapping[str, Any]) -> dict[str, Any]:
    result = bench.result("run")
    internal = result["internal"] if result else {}
    written = bench.result("release")
    for part in ("public", "internal"):
        for one in (written or {}).get(part, []):
            one["what"] = BUNDLE_WORDS.get(one["name"].split("/")[-1]) or (
                "who was changed and how" if one["name"].startswith("log") else "the masked file"
            )
    job = bench.jobs.last("release", bench.key())
    more = flashed.get("more") or {}
    return {
        "result": result,
        "internal": internal,
        "steps": internal.get("steps", []),
        "promises": sum(len(s["guarantees"]) for s in internal.get("steps", [])),
        "limits": _limits(bench, internal),
        "cautions": internal.get("warnings", []),
        "written": written,
        "job": job if job is not None and job.active else None,
        "failed": job if job is not None and job.state == "failed" else None,
        "run_job": next((j for j in bench.jobs.active("run") if j.key == bench.key()), None),
        "typed": more.get("typed") or {},
        "exists": more.get("exists"),
        "dropped": [c for c in bench.plan.release.drop],
        "shuffled": bench.plan.release.shuffle,
    }


def _limits(bench: Workbench, internal: Mapping[str, Any]) -> list[dict[str, Any]]:
    measured = internal.get("limits", [])
    out = []
    words = {
        (BATTERY, "rate"): "Found by the strongest attack",
        (BATTERY, "gain"): "Told of a person beyond what is told of people (gain)",
        (BATTERY, "group"): "Records in the least group",
        ("analyst_loss", "value"): "Loss to analysts",
    }
    for at, limit in enumerate(bench.plan.limits):
        got = measured[at] if at < len(measured) else None
        out.append(
            {
                "what": words.get((limit.measure, limit.figure), f"{limit.measure}.{limit.figure}"),
                "measure": limit.measure,
                "figure": limit.figure,
                "share": (limit.measure, limit.figure) == (BATTERY, "rate"),
                "at_most": limit.at_most,
                "at_least": limit.at_least,
                "measured": got["measured"] if got else None,
                "found": got.get("found") if got else None,
                "ok": got["ok"] if got else None,
            }
        )
    return out
