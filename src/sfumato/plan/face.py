"""A plan as a notebook shows it: what it says, table by table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.drawing.face import Html, face, facts, table


def plan_face(content: Mapping[str, Any], digest: str) -> str:
    """From what ``Plan.to_dict`` says."""
    title = content.get("title") or "A plan"
    parts = [Html(f"<p><b>{_text(title)}</b></p>"), facts({"data": content.get("data"), "digest": digest})]
    parts.append(facts(content.get("roles", {})))
    for word, kind in (("step", "mask"), ("measure", "measure")):
        rows = [
            [
                one.get("id") or one[kind],
                one[kind],
                "; ".join(f"{k} = {_plain(v)}" for k, v in one.items() if k not in (kind, "id")),
            ]
            for one in content.get(word, [])
        ]
        parts.append(table([word, kind, "parameters"], rows) if rows else Html(""))
    limits = [
        [f"{measure}.{figure}" if isinstance(bounds, Mapping) else measure, _plain(bounds)]
        for measure, figures in content.get("limits", {}).items()
        for figure, bounds in (figures.items() if isinstance(figures, Mapping) else [("", figures)])
    ]
    parts.append(table(["limit", ""], limits))
    parts.append(facts({f"release.{k}": _plain(v) for k, v in content.get("release", {}).items()}))
    return face(*parts)


def _text(value: Any) -> str:
    from sfumato.drawing.words import esc

    return esc(value)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{str(k).replace('_', ' ')} {_plain(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        words = ", ".join(_plain(v) for v in value) or "none"
        return words if len(words) <= 120 else words[:117] + "…"
    return str(value)
