"""A page that shows a table before and after, changed cells marked. Internal: it has the original."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from sfumato.tables.safe import SafeTable

MOST_SLICES = 40
MOST_LEVELS = 60

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2530; max-width: 1240px;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: .2rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.warn { color: #8a3b00; font-weight: 600 } .pair { display: flex; gap: 1.2rem; flex-wrap: wrap }
.pair table { font-size: 13px } .pair th, .pair td { padding: .15rem .4rem } .facts td { text-align: left }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid #d9dee5 }
th[scope=row], thead th:first-child { text-align: left }
.total { color: #5a6675; border-left: 1px solid #9aa5b1 }
td.up { background: #fde3c8 } td.down { background: #cfe3f5 } td.unsafe { outline: 2px solid #b3261e }
td small { color: #5a6675 } .key span { padding: 0 .5rem; margin-right: 1rem }
@media print { body { margin: 0; max-width: none } .pair { break-inside: avoid } }
"""


def page(safe: SafeTable) -> str:
    """One self-contained HTML page."""
    proof = (
        "proved to be the least"
        if safe.optimal
        else f"at least {safe.bound:g} is needed (gap {safe.gap:.2%})"
    )
    facts = [
        ("keys", " × ".join(safe.keys)),
        ("cells", f"{safe.counts.size:,}, of them {int(_unsafe(safe).sum()):,} below the tolerance before"),
        ("tolerance", f"every cell is empty or at least {safe.tolerance}"),
        ("margins kept exactly", ", ".join(" × ".join(m) or "the total" for m in safe.margins)),
        (f"distance ({safe.objective})", f"{safe.distance:g}; {proof}"),
        ("cells changed", f"{safe.cells_changed:,}; the largest change is {safe.largest_change}"),
        ("dissimilarity D", f"{safe.dissimilarity:.5f}"),
    ]
    rows = "".join(f"<tr><th scope=row>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
        "<title>A safe table</title>"
        f"<style>{_STYLE}</style><h1>A safe table</h1>"
        '<p class="warn">Internal: this page shows the original counts. Don\'t hand it out.</p>'
        f'<table class="facts">{rows}</table>'
        '<p class="key"><span style="background:#fde3c8">more than before</span>'
        '<span style="background:#cfe3f5">fewer than before</span>'
        '<span style="outline:2px solid #b3261e">below the tolerance</span></p>'
        f"{_slices(safe)}</html>\n"
    )


def _unsafe(safe: SafeTable) -> Any:
    return (safe.original > 0) & (safe.original < safe.tolerance)


def _slices(safe: SafeTable) -> str:
    """Two tables side by side for each combination of the keys beyond the first two."""
    shape = safe.counts.shape
    if len(shape) == 1:
        return _pair(safe, safe.original[:, None], safe.counts[:, None], (safe.keys[0], ""), "")
    out: list[str] = []
    left = 0
    for rest in np.ndindex(*shape[2:]):
        place = (slice(None), slice(None), *rest)
        before, after = safe.original[place], safe.counts[place]
        if np.array_equal(before, after) and len(shape) > 2:
            continue
        if len(out) >= MOST_SLICES:
            left += 1
            continue
        names = zip(safe.keys[2:], rest, range(2, len(shape)), strict=True)
        title = ", ".join(f"{k} {safe.table.levels[axis][i]}" for k, i, axis in names)
        out.append(_pair(safe, before, after, (safe.keys[0], safe.keys[1]), title))
    tail = f"<p>{left:,} more slices have changes.</p>" if left else ""
    return "".join(out) + tail


def _pair(safe: SafeTable, before: Any, after: Any, keys: tuple[str, str], title: str) -> str:
    head = f"<h2>{escape(title)}</h2>" if title else ""
    if max(before.shape) > MOST_LEVELS:
        return f"{head}<p>This slice is too large to show ({before.shape[0]} × {before.shape[1]}).</p>"
    both = (("Before", before, before), ("After", after, before))
    return head + '<div class="pair">' + "".join(_table(safe, *b, keys) for b in both) + "</div>"


def _table(safe: SafeTable, caption: str, counts: Any, before: Any, keys: tuple[str, str]) -> str:
    columns = safe.table.levels[1] if len(safe.keys) > 1 else ("count",)
    head = "".join(f"<th>{escape(str(c))}</th>" for c in columns)
    corner = escape(keys[0] + (f" \\ {keys[1]}" if keys[1] else ""))
    body = []
    for i, level in enumerate(safe.table.levels[0]):
        cells = "".join(_cell(safe, int(counts[i, j]), int(before[i, j])) for j in range(len(columns)))
        total = f'<td class="total">{int(counts[i].sum()):,}</td>'
        body.append(f"<tr><th scope=row>{escape(str(level))}</th>{cells}{total}</tr>")
    totals = "".join(f'<td class="total">{int(counts[:, j].sum()):,}</td>' for j in range(len(columns)))
    last = f'<tr><th scope=row>total</th>{totals}<td class="total">{int(counts.sum()):,}</td></tr>'
    return (
        f"<table><caption>{caption}</caption><thead><tr><th>{corner}</th>{head}<th>total</th></tr></thead>"
        f"<tbody>{''.join(body)}{last}</tbody></table>"
    )


def _cell(safe: SafeTable, count: int, before: int) -> str:
    kinds = []
    if 0 < count < safe.tolerance:
        kinds.append("unsafe")
    if count != before:
        kinds.append("up" if count > before else "down")
    sign = "+" if count > before else "−"
    change = f" <small>({sign}{abs(count - before)})</small>" if count != before else ""
    name = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<td{name}>{count:,}{change}</td>"
