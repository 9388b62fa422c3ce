"""The pages of a reproduction: one a paper, and an index that counts the verdicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from papers.framework import (
    ABSENT,
    ARITHMETIC,
    CONSISTENT,
    FAILS,
    FITTED,
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

_ORDER = (REPRODUCED, CONSISTENT, MISPRINT, NOT, STAND_IN, SHOWN, ABSENT)


def write(papers: Sequence[Paper], folder: Path) -> list[Path]:
    """Write the index, a page for each paper and the page of times; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    texts = {"index": index(papers), **{p.key: page(p) for p in papers}, "times": times(papers)}
    for name, text in texts.items():
        path = folder / f"{name}.md"
        path.write_text(text, encoding="utf-8")
        out.append(path)
    return out


def page(paper: Paper) -> str:
    """A paper's page: its claims and tables, each figure with its verdict."""
    steady = [t for t in paper.tables if not t.timing]
    lines = [f"# {paper.title}", "", paper.reference, "", paper.about, "", _how(paper), ""]
    cells = [c for t in steady for c in t.cells]
    lines += [f"In all {tally(cells)} {basis(cells)} {_claims([c for t in steady for c in t.claims])}", ""]
    if len(steady) < len(paper.tables):
        lines += ["Processing times, the paper's and ours, are [on a page of their own](times.md).", ""]
    for table in steady:
        lines += _table(table)
    lines += [f"Made by {_command(paper)}.", ""]
    return "\n".join(lines)


def times(papers: Sequence[Paper]) -> str:
    """What differs from run to run: processing times."""
    lines = [
        "# The papers' processing times, and ours",
        "",
        "Everything on this page is a time, or rests on one, and so differs from run to run and from machine "
        "to machine; the other pages of a second run are the same to the byte.",
        "",
    ]
    for p in papers:
        for table in p.tables:
            if table.timing:
                lines += [f"## {p.title}", "", *_table(table, level=3)]
    lines += ["## How long this took", "", "| paper | command | seconds |", "|---|---|---|"]
    lines += [f"| {p.title} | {_command(p)} | {p.seconds:.0f} |" for p in papers]
    return "\n".join([*lines, ""])


def index(papers: Sequence[Paper]) -> str:
    """The summary over all papers."""
    every = [c for p in papers for _, c in p.cells()]
    claims = Counter(c.verdict for p in papers for t, c in p.claims() if not t.timing)
    counts = Counter(c.verdict for c in every)
    judged = counts[REPRODUCED] + counts[CONSISTENT] + counts[MISPRINT] + counts[NOT]
    lines = [
        "# The papers, rerun",
        "",
        "Every table and worked example that can be rerun, beside what was printed. The pages are written "
        "by `sfumato reproduce` (or `make reproduce`): published figures are data, ours and every verdict "
        "are computed.",
        "",
        f"**{len(every):,} published cells.** The digits of {judged:,} can be judged: "
        f"{counts[REPRODUCED]:,} are reproduced within tolerance, {counts[CONSISTENT]:,} are consistent with "
        "what was printed and say little (the tolerance is more than half of the figure), "
        f"{counts[MISPRINT]:,} are misprints whose right figure is reproduced, and {counts[NOT]:,} are not "
        "reproduced. The other "
        f"{len(every) - judged:,} are shown: {_words(counts, (STAND_IN, SHOWN, ABSENT))}. Of "
        f"{claims[HOLDS] + claims[FAILS]:,} patterns (what a paper claims, as a sentence that a run can "
        f"refute, and what we claim) {claims[HOLDS]:,} hold and {claims[FAILS]:,} fail.",
        "",
        f"Not every agreement proves as much. {basis(every)}",
        "",
        "| paper | cells | " + " | ".join(_ORDER) + " | patterns hold | fail |",
        "|---" * (len(_ORDER) + 4) + "|",
    ]
    for p in papers:
        own = Counter(c.verdict for _, c in p.cells())
        said = Counter(c.verdict for t, c in p.claims() if not t.timing)
        row = [len(p.cells()), *(own[v] for v in _ORDER), said[HOLDS], said[FAILS]]
        lines.append(f"| [{p.title}]({p.key}.md) | " + " | ".join(map(str, row)) + " |")
    row = [len(every), *(counts[v] for v in _ORDER), claims[HOLDS], claims[FAILS]]
    lines += ["| **all** | " + " | ".join(f"**{v}**" for v in row) + " |", ""]
    lines += [
        "Contents: [what the verdicts mean](#what-the-verdicts-mean), [tolerances](#tolerances), "
        "[not reproduced, and why](#not-reproduced-and-why), [patterns that fail](#patterns-that-fail), "
        "[misprints](#misprints), [processing times](times.md).",
        "",
        "## What the verdicts mean",
        "",
        *(f"- **{v}**: {meaning}." for v, meaning in VERDICTS.items()),
        "",
        "## Tolerances",
        "",
        "The tolerance of a cell is half a unit of the last printed digit, plus k·s·√(1/runs + 1/seeds), "
        "plus an allowance: s is the standard deviation of the figure over our seeds, *runs* how many runs "
        "the published figure averages (one where the paper doesn't say), and k Student's quantile that "
        "chance exceeds 27 times in 10,000 (3.5 for 20 seeds, 4.1 for 10, at most 5). A published figure of "
        "one random run can't be known better than that, and with about a thousand cells a few are outside "
        "by chance. The allowances, and where each comes from:",
        "",
        *_tolerances(papers),
        "",
    ]
    lines += _failures(papers) + _misprints(papers)
    lines += ["## Made how", "", *(f"- {p.title}: {_command(p)}" for p in papers), ""]
    return "\n".join(lines)


def basis(cells: Sequence[Cell]) -> str:
    """How many of the reproduced cells were measured, computed from other cells, or fitted."""
    own = Counter(c.basis for c in cells if c.verdict == REPRODUCED)
    if not own:
        return ""
    words = f"Of the {own.total():,} reproduced, {own['']:,} are rerun"
    if own[ARITHMETIC]:
        words += (
            f", {own[ARITHMETIC]:,} follow by the paper's own formulas from other printed figures (that "
            "checks the print, not the method)"
        )
    if own[FITTED]:
        words += (
            f", and {own[FITTED]:,} are figures that the synthetic deck was fitted to: their agreement says "
            "only that the deck is what it claims to be"
        )
    return words + "."


def _tolerances(papers: Sequence[Paper]) -> list[str]:
    out = ["| paper | table | allowance, and where it comes from |", "|---|---|---|"]
    rows: dict[tuple[str, str], list[str]] = {}
    for p in papers:
        for t in p.tables:
            if t.tolerance:
                rows.setdefault((p.title, t.tolerance), []).append(t.title.partition(". ")[0])
    out += [
        f"| {paper} | {_text(', '.join(dict.fromkeys(titles)))} | {_text(why)} |"
        for (paper, why), titles in rows.items()
    ]
    return out


def _failures(papers: Sequence[Paper]) -> list[str]:
    rows = [(p, t, c) for p in papers for t, c in p.cells() if c.verdict == NOT]
    lines = ["## Not reproduced, and why", ""]
    if rows:
        lines += ["| table | cell | printed | ours | tolerance | why |", "|---" * 6 + "|"]
        lines += [
            f"| [{p.title}]({p.key}.md), {_text(t.title.partition('. ')[0])} | {_text(c.row)}: "
            f"{_text(c.column)} | {c.published} | {_number(c)} | {_small(c.tolerance)} | "
            f"{_text(c.reason or 'unexplained')} |"
            for p, t, c in rows
        ]
    else:
        lines.append("Every cell whose digits can be judged is reproduced.")
    failed = [(p, t, c) for p in papers for t, c in p.claims() if c.verdict == FAILS and not t.timing]
    lines += ["", "## Patterns that fail", ""]
    if not failed:
        return [*lines, "None.", ""]
    lines += ["| table | pattern | found | why |", "|---" * 4 + "|"]
    lines += [
        f"| [{p.title}]({p.key}.md), {_text(t.title.partition('. ')[0])} | {_text(c.sentence)} "
        f"({'ours' if c.ours else 'the paper’s'}) | {_text(c.detail)} | {_text(c.reason)} |"
        for p, t, c in failed
    ]
    return [*lines, ""]


def _misprints(papers: Sequence[Paper]) -> list[str]:
    rows = [(p, t, c) for p in papers for t, c in p.cells() if c.verdict == MISPRINT]
    if not rows:
        return []
    lines = ["## Misprints", "", "| table | cell | printed | should be | why |", "|---" * 5 + "|"]
    lines += [
        f"| [{p.title}]({p.key}.md), {_text(t.title.partition('. ')[0])} | {_text(c.row)}: {_text(c.column)} "
        f"| {c.published} | {c.corrected} | {_text(c.reason)} |"
        for p, t, c in rows
    ]
    return [*lines, ""]


def _table(table: Table, level: int = 2) -> list[str]:
    lines = [f"{'#' * level} {table.title}", "", table.about.strip()]
    if table.timing:
        lines += ["", "*Times: these differ from run to run.*"]
    fitted = sum(c.basis == FITTED for c in table.cells)
    if fitted:
        lines += [
            "",
            f"*The deck was fitted to {fitted} of these figures (marked “fitted”): their agreement says that "
            "the fit is good, and nothing of the method.*",
        ]
    if table.tolerance:
        lines += ["", f"Tolerance, beyond rounding and chance: {table.tolerance}."]
    if table.seeds:
        lines += ["", f"Ours: over {table.seeds} seeds."]
    if table.claims:
        lines += ["", "| pattern | whose | found | verdict |", "|---|---|---|---|"]
        for claim in table.claims:
            why = f" **Why:** {_text(claim.reason)}." if claim.reason and claim.verdict == FAILS else ""
            whose = "ours" if claim.ours else "the paper's"
            found = f"{_text(claim.detail)}{why}"
            lines.append(f"| {_text(claim.sentence)} | {whose} | {found} | {_bold(claim.verdict)} |")
    if table.cells:
        lines += ["", tally(table.cells), ""]
        judged = any(c.verdict in (REPRODUCED, CONSISTENT, MISPRINT, NOT) for c in table.cells)
        heads = ["row", "column", "published", "ours"]
        heads += ["s.e."] if any(c.error for c in table.cells) else []
        heads += ["tolerance"] if judged else []
        heads += ["verdict"]
        heads += [table.improved] if table.improved else []
        lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        for c in table.cells:
            row = {
                "row": _unbroken(c.row, 24),
                "column": _unbroken(c.column, 12),
                "published": c.published,
                "ours": _number(c),
                "s.e.": _small(c.error) if c.error else "",
                "tolerance": _small(c.tolerance)
                if c.verdict in (REPRODUCED, CONSISTENT, MISPRINT, NOT)
                else "",
                "verdict": _bold(c.verdict) + _note(c),
                table.improved: _text(c.improved),
            }
            lines.append("| " + " | ".join(row[h] for h in heads) + " |")
    return [*lines, ""]


def _note(cell: Cell) -> str:
    if cell.verdict == MISPRINT:
        return f": should be {cell.corrected}, {_text(cell.reason)}"
    if cell.verdict == NOT:
        return f": {_text(cell.reason)}"
    return {FITTED: ", fitted", ARITHMETIC: ", by arithmetic"}.get(cell.basis, "")


def tally(cells: Sequence[Cell]) -> str:
    """How many cells have which verdict, as a sentence."""
    if not cells:
        return "no cells."
    counts = Counter(c.verdict for c in cells)
    return f"{len(cells):,} published cells: {_words(counts, _ORDER)}."


def _words(counts: Counter[str], verdicts: Sequence[str]) -> str:
    return ", ".join(f"{counts[v]:,} {v}" for v in verdicts if counts[v])


def _claims(claims: Sequence[Claim]) -> str:
    counts = Counter(c.verdict for c in claims)
    told = {HOLDS: "hold", FAILS: "fail", ABSENT: ABSENT}
    words = ", ".join(f"{counts[v]} {word}" for v, word in told.items() if counts[v])
    return f"Patterns: {words}." if words else ""


def _how(paper: Paper) -> str:
    if not paper.quick:
        return "Verdicts and tolerances are explained on the [index](index.md)."
    return "A **quick** run: few seeds, so wide tolerances (k = 5). See the [index](index.md)."


def _command(paper: Paper) -> str:
    quick = " --quick" if paper.quick else ""
    return f"`sfumato reproduce {paper.key}{quick} --seeds {paper.seeds}`"


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


def _unbroken(text: str, most: int) -> str:
    """A short label that keeps to one line, so that a long table stays readable."""
    return _text(text.replace(" ", "\N{NO-BREAK SPACE}") if len(text) <= most else text)


def _text(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
