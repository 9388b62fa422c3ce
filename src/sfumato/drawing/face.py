"""What an object shows of itself in a notebook: small pieces of HTML in the charts' own colours.

Every text is escaped here and nowhere else: what isn't :class:`Html` is text, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.drawing.style import FONT, rules, standalone
from sfumato.drawing.words import esc, number

MOST_ROWS = 40
_SCOPE = ".sf-face,.sf-chart"
_STYLE = f"""
.sf-face{{background:var(--sf-paper);color:var(--sf-ink);font:13px/1.5 {FONT};padding:8px 12px;
max-width:1080px;overflow-x:auto;}}
.sf-face table{{border-collapse:collapse;margin:6px 0 10px;font-variant-numeric:tabular-nums;color:inherit;}}
.sf-face th,.sf-face td{{text-align:left;padding:3px 14px 3px 0;border-bottom:1px solid var(--sf-rule);
background:none;color:inherit;vertical-align:top;max-width:34em;white-space:normal;}}
.sf-face th{{color:var(--sf-soft);font-weight:600;}}
.sf-face tbody th{{color:inherit;}}
.sf-face .n{{text-align:right;white-space:nowrap;}}
.sf-face .soft{{color:var(--sf-soft);}}
.sf-face p{{margin:4px 0;}}
.sf-face ul{{margin:4px 0;padding-left:18px;}}
.sf-face .verdict{{font-weight:650;font-size:15px;border-left:4px solid currentColor;padding-left:10px;}}
.sf-face .good{{color:var(--sf-move);}}
.sf-face .bad{{color:var(--sf-after);}}
.sf-face .charts{{display:flex;flex-wrap:wrap;gap:16px;}}
.sf-face svg.sf-chart{{flex:1 1 320px;max-width:640px;height:auto;}}
.sf-face code{{background:none;color:inherit;font-size:0.95em;}}
"""


class Html(str):
    """Text that is HTML already, and isn't escaped again."""

    __slots__ = ()


def said(value: Any) -> str:
    """A value as escaped HTML; numbers as people write them."""
    if isinstance(value, Html):
        return value
    if value is None:
        return '<span class="soft">–</span>'
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return number(value, 4)
    if isinstance(value, (list, tuple)):
        return ", ".join(said(v) for v in value)
    return esc(value)


def paragraph(text: Any, kind: str = "") -> Html:
    return Html(f'<p class="{kind}">{said(text)}</p>' if kind else f"<p>{said(text)}</p>")


def listed(texts: Iterable[Any]) -> Html:
    items = "".join(f"<li>{said(t)}</li>" for t in texts)
    return Html(f"<ul>{items}</ul>" if items else "")


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], *, most: int = MOST_ROWS) -> Html:
    """A table whose columns of numbers stand to the right; a long one ends with how many rows are left.

    >>> table(["a"], [["<b>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><th>&lt;b&gt;</th></tr></tbody></table>'
    """
    if not rows:
        return Html("")
    right = [
        j > 0 and all(r[j] is None or isinstance(r[j], (int, float)) for r in rows) for j in range(len(heads))
    ]
    kind = [' class="n"' if r else "" for r in right]
    head = "".join(f"<th{k}>{esc(h)}</th>" for h, k in zip(heads, kind, strict=True))
    body = []
    for row in rows[:most]:
        first, *rest = row
        cells = "".join(f"<td{k}>{said(v)}</td>" for v, k in zip(rest, kind[1:], strict=True))
        body.append(f"<tr><th>{said(first)}</th>{cells}</tr>")
    more = f'<p class="soft">… and {len(rows) - most:,} more</p>' if len(rows) > most else ""
    return Html(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{more}")


def facts(of: Mapping[str, Any]) -> Html:
    """Names and values, one below the other; what is empty is left out."""
    rows = [[name, value] for name, value in of.items() if value not in (None, "", (), [], {})]
    return Html(
        "<table><tbody>"
        + "".join(f"<tr><th>{said(name)}</th><td>{said(value)}</td></tr>" for name, value in rows)
        + "</tbody></table>"
        if rows
        else ""
    )


def verdict(safe: bool, head: str, reasons: Sequence[str], do: Sequence[str]) -> Html:
    """The verdict as the report says it: head, reasons, what to do."""
    mark, kind = ("✓", "good") if safe else ("✗", "bad")
    todo = paragraph(f"What to do: {'; '.join(do)}.") if do else ""
    return Html(f'<p class="verdict {kind}">{mark} {esc(head)}</p>{listed(reasons)}{todo}')


def face(*parts: str) -> str:
    """The pieces as one block with its style; what is text among them becomes a paragraph."""
    inner = "".join(p if isinstance(p, Html) else paragraph(p) for p in parts if p)
    return f'<div class="sf-face"><style>{rules(scope=_SCOPE)}{_STYLE}</style>{inner}</div>'


class Picture:
    """Charts that show themselves in Jupyter, in VS Code and, saved, in a browser.

    >>> Picture(['<svg class="sf-chart"><title>A</title></svg>'])
    Picture(1 chart)
    """

    def __init__(self, charts: Sequence[str]) -> None:
        self.charts = tuple(charts)

    def __repr__(self) -> str:
        n = len(self.charts)
        return f"Picture({n} chart{'' if n == 1 else 's'})"

    def _repr_html_(self) -> str:
        return face(Html(f'<div class="charts">{"".join(self.charts)}</div>'))

    def save(self, path: str | Path) -> None:
        """One chart as .svg with its style inside; several, or .html, as one page."""
        path = Path(path)
        if path.suffix.casefold() == ".svg" and len(self.charts) == 1:
            path.write_text(standalone(self.charts[0]), encoding="utf-8")
            return
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Charts</title>'
        path.write_text(f"{head}{self._repr_html_()}</html>", encoding="utf-8")
