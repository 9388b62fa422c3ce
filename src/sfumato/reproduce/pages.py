"""The pages of a reproduction: one a paper, and an index that counts the verdicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sfumato.reproduce.framework import (
    ABSENT,
    FAILS,
    HOLDS,
    MISPRINT,
    NOT,
    REPRODUCED,
    SHOWN,
    STAND_IN,
    VERDICTS,
    Cell,
    Claim,
    Paper,
    Table,
    number,
)

_ORDER = (REPRODUCED, MISPRINT, NOT, STAND_IN, SHOWN, ABSENT)


def write(papers: Sequence[Paper], folder: Path) -> list[Path]:
    """Write the index and a page for each paper; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for name, text in {"index": index(papers), **{p.key: page(p) for p in papers}}.items():
        path = folder / f"{name}.md"
        path.write_text(text, encoding="utf-8")
        out.append(path)
    return out


def page(paper: Paper) -> str:
    """A paper's page: its claims and tables, each figure with its verdict."""
    lines = [f"# {paper.title}", "", paper.reference, "", paper.about, "", _how(paper), ""]
    lines += [f"In all {tally([c for _, c in paper.cells()])} {_claims([c for _, c in paper.claims()])}", ""]
    for table in paper.tables:
        lines += _table(table)
    lines += [_made(paper), ""]
    return "\n".join(lines)


def index(papers: Sequence[Paper]) -> str:
    """The summary over all papers."""
    lines = [
        "# The papers, rerun",
        "",
        "Every table and worked example that can be rerun, beside what was printed. The pages are written "
        "by `sfumato reproduce` (or `make reproduce`): published figures are data, ours and every verdict "
        "are computed.",
        "",
        "| paper | published cells | " + " | ".join(_ORDER) + " | patterns that hold | that fail |",
        "|---" * (len(_ORDER) + 4) + "|",
    ]
    total: Counter[str] = Counter()
    for p in papers:
        counts = Counter(c.verdict for _, c in p.cells())
        claims = Counter(c.verdict for _, c in p.claims())
        total += counts + claims + Counter(cells=len(p.cells()))
        row = [str(len(p.cells())), *(str(counts[v]) for v in _ORDER), str(claims[HOLDS]), str(claims[FAILS])]
        lines.append(f"| [{p.title}]({p.key}.md) | " + " | ".join(row) + " |")
    row = [str(total["cells"]), *(str(total[v]) for v in _ORDER), str(total[HOLDS]), str(total[FAILS])]
    lines += ["| **all** | " + " | ".join(f"**{v}**" for v in row) + " |", ""]
    judged = total[REPRODUCED] + total[MISPRINT] + total[NOT]
    fitted = sum(c.verdict == REPRODUCED for p in papers for t, c in p.cells() if t.fitted)
    lines += [
        f"Of {judged:,} cells whose digits can be judged, {total[REPRODUCED]:,} are reproduced within "
        f"tolerance, {total[MISPRINT]:,} are misprints whose right figure is reproduced, and {total[NOT]:,} "
        f"are not reproduced. {fitted:,} of those reproduced are in tables whose measured figures a "
        "synthetic deck was fitted to; their agreement proves only that the deck is what it says.",
        "",
        "What the verdicts mean:",
        "",
        *(f"- **{v}**: {meaning}." for v, meaning in VERDICTS.items()),
        "",
        "The tolerance of a cell is half a unit of the last printed digit, plus the table's stated "
        "allowance, plus k·s·√(1/runs + 1/seeds): s is the standard deviation of the figure over our seeds, "
        "*runs* how many runs the published figure averages (one where the paper doesn't say), and k "
        "Student's quantile that chance exceeds 27 times in 10,000 (3.5 for 20 seeds, 4.1 for 10, at most "
        "5). A published figure of one random run can't be known better than that. With about a thousand "
        "cells a few are outside by chance.",
        "",
    ]
    lines += _failures(papers) + _misprints(papers)
    lines += ["## Made how", "", *(f"- {p.title}: {_made(p)}" for p in papers), ""]
    return "\n".join(lines)


def _failures(papers: Sequence[Paper]) -> list[str]:
    rows: dict[tuple[str, str, str], list[Cell]] = {}
    for p in papers:
        for t, c in p.cells():
            if c.verdict == NOT:
                rows.setdefault((p.title, t.title, c.reason or "unexplained"), []).append(c)
    lines = ["## Not reproduced, and why", ""]
    if rows:
        lines += ["| paper | table | cells | why |", "|---|---|---|---|"]
        for (paper, title, why), cells in rows.items():
            some = ", ".join(
                f"{_text(c.row)} {_text(c.column)} ({c.published}, ours {_number(c)})" for c in cells[:4]
            )
            more = f" and {len(cells) - 4} more" if len(cells) > 4 else ""
            lines.append(f"| {paper} | {_text(title)} | {some}{more} | {_text(why)} |")
    else:
        lines.append("Every cell whose digits can be judged is reproduced.")
    failed = [(p, t, c) for p in papers for t, c in p.claims() if c.verdict == FAILS]
    if failed:
        lines += [
            "",
            "| paper | table | pattern that fails | what was found | why |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {p.title} | {_text(t.title)} | {_text(c.sentence)} | {_text(c.detail)} | {_text(c.reason)} |"
            for p, t, c in failed
        ]
    return [*lines, ""]


def _misprints(papers: Sequence[Paper]) -> list[str]:
    rows = [(p, t, c) for p in papers for t, c in p.cells() if c.verdict == MISPRINT]
    if not rows:
        return []
    lines = ["## Misprints", "", "| paper | table | cell | printed | should be | why |", "|---" * 6 + "|"]
    lines += [
        f"| {p.title} | {_text(t.title)} | {_text(c.row)} {_text(c.column)} | {c.published} "
        f"| {c.corrected} | {_text(c.reason)} |"
        for p, t, c in rows
    ]
    return [*lines, ""]


def _table(table: Table) -> list[str]:
    lines = [f"## {table.title}", "", table.about.strip()]
    if table.fitted:
        lines += [
            "",
            "*The deck was fitted to the measured figures here: their agreement says that the fit is good.*",
        ]
    if table.seeds:
        lines += ["", f"Ours: mean over {table.seeds} seeds."]
    if table.claims:
        lines += ["", "| pattern | whose | found | verdict |", "|---|---|---|---|"]
        for claim in table.claims:
            why = f" ({_text(claim.reason)})" if claim.reason and claim.verdict == FAILS else ""
            whose = "ours" if claim.ours else "the paper's"
            found = f"{_text(claim.detail)}{why}"
            lines.append(f"| {_text(claim.sentence)} | {whose} | {found} | {_bold(claim.verdict)} |")
    if table.cells:
        lines += ["", tally(table.cells), ""]
        heads = ["row", "column", "published", "ours", "s.e.", "tolerance", "verdict"]
        extra = bool(table.improved)
        heads += [table.improved] if extra else []
        heads += ["note"] if any(_note(c) for c in table.cells) else []
        lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        for c in table.cells:
            judged = c.verdict in (REPRODUCED, MISPRINT, NOT)
            row = [
                _text(c.row), _text(c.column), c.published, _number(c),
                _small(c.error) if c.error else "", _small(c.tolerance) if judged else "", _bold(c.verdict),
            ]  # fmt: skip
            row += [_text(c.improved)] if extra else []
            row += [_text(_note(c))] if "note" in heads else []
            lines.append("| " + " | ".join(row) + " |")
    return [*lines, ""]


def _note(cell: Cell) -> str:
    if cell.verdict == MISPRINT:
        return f"should be {cell.corrected}: {cell.reason}"
    return cell.reason if cell.verdict == NOT else ""


def tally(cells: Sequence[Cell]) -> str:
    """How many cells have which verdict, as a sentence."""
    if not cells:
        return "no cells."
    counts = Counter(c.verdict for c in cells)
    words = ", ".join(f"{counts[v]} {v}" for v in _ORDER if counts[v])
    return f"{len(cells)} published cells: {words}."


def _claims(claims: Sequence[Claim]) -> str:
    counts = Counter(c.verdict for c in claims)
    words = ", ".join(f"{counts[v]} {v}" for v in (HOLDS, FAILS, ABSENT) if counts[v])
    return f"Patterns: {words}." if words else ""


def _how(paper: Paper) -> str:
    if not paper.quick:
        return "Verdicts and tolerances are explained on the [index](index.md)."
    return "A **quick** run: few seeds, so wide tolerances (k = 5). See the [index](index.md)."


def _made(paper: Paper) -> str:
    quick = " --quick" if paper.quick else ""
    return f"`sfumato reproduce {paper.key}{quick} --seeds {paper.seeds}`, {paper.seconds:.0f} s."


def _bold(verdict: str) -> str:
    return f"**{verdict}**" if verdict in (NOT, FAILS, MISPRINT) else verdict


def _number(cell: Cell) -> str:
    """Ours with one digit more than was printed, where that says something."""
    if cell.ours is None or not math.isfinite(cell.ours):
        return "—" if cell.ours is None else "undefined"
    if ":" in cell.published:
        return f"{cell.ours:.3g} s"
    try:
        number(cell.published)
    except ValueError:
        return f"{cell.ours:.4g}"
    digits = len(cell.published.partition(".")[2].strip("%"))
    return f"{cell.ours:,.{digits + (1 if cell.error or digits else 0)}f}"


def _small(value: float) -> str:
    return f"{value:.2g}" if value < 1000 else f"{value:,.0f}"


def _text(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
