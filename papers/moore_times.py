"""Moore (1996), what both papers say of processing time, and our own beside it."""

from __future__ import annotations

import math
import time

import numpy as np

import sfumato as sf
from papers.framework import ARITHMETIC, SHOWN, Context, Table, number
from sfumato.draws import Seed


def cpu_formula() -> Table:
    """The CPU formula against the paper's own times."""
    from papers.moore_swapping import SETTINGS, TABLE_1, TABLE_4, theorem

    table = Table(
        "Section XI. The CPU formula",
        "The paper's law, in seconds on a VAX: N(P/4 + 1/3000), P a fraction. Our own times and cost law are "
        "on the [page of times](times.md).",
    )
    table.add("INCOME, K0 = 0.10", "CPU, in the text", "2:17", number("3:07"), corrected="3:07",
              reason="Table 4 and the text's own sum have 3:07", basis=ARITHMETIC)  # fmt: skip
    total = sum(number(rows[3][1]) for rows in TABLE_4.values())
    table.add("all fields, K0 = 0.10", "CPU, in the text", "18:26", total, basis=ARITHMETIC)
    paper = [number(row[1]) for rows in TABLE_4.values() for row in rows]
    formula = [number(TABLE_1[f][0]) * (theorem(f, s)[0] / 400 + 1 / 3000) for f in TABLE_4 for s in SETTINGS]
    errors = {f"{f}, {s}": a / b - 1 for (f, s), a, b in zip(
        ((f, s) for f in TABLE_4 for s in SETTINGS), paper, formula, strict=True)}  # fmt: skip
    worst = max(errors, key=lambda k: abs(errors[k]))
    work = np.array(
        [[(n := number(TABLE_1[f][0])) ** 2 * theorem(f, s)[0] / 100, n] for f in TABLE_4 for s in SETTINGS]
    )
    times = np.array(paper)
    law, *_ = np.linalg.lstsq(work / times[:, None], np.ones(len(times)))
    error = float(np.abs(work @ law / times - 1).max())
    table.claim(
        "the formula gives the paper's 20 times to within a third",
        max(abs(e) for e in errors.values()) < 1 / 3,
        f"largest error {max(abs(e) for e in errors.values()):.0%}, for {worst}; "
        f"{sum(abs(e) < 1 / 3 for e in errors.values())} of 20 are within a third",
        reason="a window of P percent holds P·N ranks and is searched for each record, so the work grows "
        f"with P·N², not with P·N: a·P·N² + b·N is off by at most {error:.0%}",
    )
    table.claim(
        "a·P·N² + b·N gives the paper's times better than its own formula",
        error < max(abs(e) for e in errors.values()),
        f"a = {1e6 * law[0]:.1f} μs, b = {1e6 * law[1]:.0f} μs: largest error {error:.0%}",
        ours=True,
    )
    return table


def cpu(context: Context) -> Table:
    """Our cost beside the paper's."""
    from papers.moore_swapping import SETTINGS, TABLE_1, TABLE_4, swapped, theorem

    table = Table(
        "Table 4 and section XI. CPU time",
        "Ours is the CPU time of the whole step in this run, in seconds (sort, pairing, writing, and "
        "checking every guarantee), best of the seeds. Seconds on two machines can't be judged; the law can.",
        improved="the paper's formula, s",
        timing=True,
    )
    ours: dict[tuple[str, str], float] = {}
    for name, rows in TABLE_4.items():
        for setting, row in zip(SETTINGS, rows, strict=True):
            runs = swapped(context, setting, "theorem")
            ours[name, setting] = min(r[f"cpu {name}"] for r in runs)
            n, p = number(TABLE_1[name][0]), theorem(name, setting)[0] / 100
            table.add(f"{name}, {setting}", "CPU", row[1], ours[name, setting], standing=SHOWN,
                      improved=f"{n * (p / 4 + 1 / 3000):.0f}")  # fmt: skip
    wide, narrow = (sum(ours[f, s] for f in TABLE_4) for s in ("R0 = 0.900", "R0 = 0.975"))
    each = np.array([[number(TABLE_1[f][0]), 1.0] for f in TABLE_4 for _ in SETTINGS])
    law, *_ = np.linalg.lstsq(each, np.array([ours[f, s] for f in TABLE_4 for s in SETTINGS]))
    table.claim(
        "our cost doesn't grow with the window: one twice as wide costs less than 1.5 times as much",
        wide / narrow < 1.5,
        f"{wide / narrow:.2f} times as much for all five fields (by the paper's formula up to 1.8 times); "
        f"our law, fitted to these 20 times: {1e3 * law[1]:.1f} ms + {1e9 * law[0]:.0f} ns a value, "
        "whatever P",
        ours=True,
        reason="times of a few milliseconds on a busy machine are unsteady",
    )
    return table


def edit_times(context: Context) -> Table:
    """The processing times."""
    from papers.moore_edit import ORDERS, TIMES, deck

    table = Table(
        "Section XIII. Processing time",
        "CPU seconds on a VAX 9000 for 65,000 records. Ours doesn't sort: one representative of each class "
        "is enough, and the steps are one; the CPU time of the whole edit in this run, checks of its "
        "guarantees included.",
        timing=True,
    )
    data = deck(context)
    mask = sf.ConfidentialityEdit2000(tolerance=2, order=list(ORDERS[0]))
    best = math.inf
    for seed in range(3):
        cpu = time.process_time()
        mask.carry_out(data, Seed.from_int(seed).draws("time"))
        best = min(best, time.process_time() - cpu)
    for step, text in TIMES.items():
        table.add(step, "CPU s", text, best if step == "total" else None, standing=SHOWN)
    parts = sum(number(v) for k, v in TIMES.items() if k != "total")
    table.claim(
        "the printed steps don't add up to the printed total",
        abs(parts - number(TIMES["total"])) > 0.005 * len(TIMES),
        f"{parts:.2f} s, printed {TIMES['total']}",
        ours=True,
    )
    return table
