"""The tables of docs/methods/group-swap.md: overlap of intervals and re-identification on the paper's files.

``python benchmarks/group_swap.py`` runs this too. Tables are written between their marks in the page.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from sfumato.utility.overlap_table import overlap_table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "methods" / "group-swap.md"
REST = "BEDS + SEENCNT + EOYCNT"
NUMBERS = {"Titanic": ("Age", "Fare", "SibSp", "Parch"), "SMHO": ("EXPTOTAL", "BEDS", "SEENCNT", "EOYCNT")}
BINARY = {"Titanic": "Survived", "SMHO": "FINDIRCT"}
VARIANCE_RATIO = 0.15
# Averages and, for Reg1 at 40, intervals that don't overlap, of 500 (Oganian and Lesaja, tables 1 and 3).
PUBLISHED = {
    "conditional": {
        "Reg1": (".88", ".65"), "Reg2": (".85", ".79"), "Reg3": (".91", ".84"),
        "Reg4": (".94", ".92"), "Reg5": (".85", ".82"), "Reg6": (".81", ".73"),
    },
    "uniform": {
        "Reg1": (".52", ".16"), "Reg2": (".76", ".69"), "Reg3": (".72", ".64"),
        "Reg4": (".84", ".71"), "Reg5": (".64", ".47"), "Reg6": (".72", ".61"),
    },
}  # fmt: skip
APART = {"conditional": 51, "uniform": 106}
DRAWS: dict[str, dict[str, Any]] = {
    "conditional": {},
    "uniform": {"probabilities": "uniform"},
    "balanced, capacity": {"draw": "balanced"},
    "balanced, equal": {"draw": "balanced", "allocation": "equal"},
    "balanced, none twice": {"draw": "balanced", "move_again": False},
}


def titanic(folder: Path) -> sf.Microdata:
    frame = pl.read_csv(folder / "titanic_889.csv").with_columns(
        pl.col("Age").fill_null(pl.col("Age").mean())
    )
    return sf.Microdata(frame, {"variables": {"Pclass": {"kind": "categorical"}}})


def smho(folder: Path) -> sf.Microdata:
    frame = pl.read_csv(folder / "smho_n874.csv")
    return sf.Microdata(frame, {"variables": {"hosp_type": {"kind": "categorical"}}})


def files(folder: Path) -> dict[str, sf.Microdata]:
    return {"Titanic": titanic(folder), "SMHO": smho(folder)}


def settings(n_swap: int, **more: Any) -> dict[str, tuple[sf.GroupSwap, dict[str, sf.IntervalOverlap]]]:
    """The paper's two experiments: the mask and the regressions."""
    both = {"n_swap": n_swap, "centre": "half", **more}
    sex, kind = ["Pclass", "Sex"], ["hosp_type"]

    def logistic(formula: str, within: list[str] | None = None) -> sf.IntervalOverlap:
        return sf.IntervalOverlap(formula=formula, family="logistic", within=within or [])

    return {
        "Titanic": (
            sf.GroupSwap(strata=sex, formula="Survived * (Age + Fare + SibSp + Parch)", **both),
            {
                "Reg1": logistic("Survived ~ Pclass + Sex + Age"),
                "Reg2": logistic("Survived ~ Age + Fare", sex),
            },
        ),
        "SMHO": (
            sf.GroupSwap(
                strata=kind,
                formula=f"FINDIRCT * (EXPTOTAL + {REST})",
                distance_formula=f"FINDIRCT + EXPTOTAL + {REST}",
                **both,
            ),
            {
                "Reg3": logistic(f"FINDIRCT ~ EXPTOTAL + {REST} + hosp_type"),
                "Reg4": sf.IntervalOverlap(formula=f"EXPTOTAL ~ {REST} + FINDIRCT + hosp_type"),
                "Reg5": logistic(f"FINDIRCT ~ EXPTOTAL + {REST}", kind),
                "Reg6": sf.IntervalOverlap(formula=f"EXPTOTAL ~ {REST} + FINDIRCT", within=kind),
            },
        ),
    }


def overlaps(folder: Path, realisations: int) -> str:
    """J at 20 / 40 of every draw beside the published figures, as Markdown."""
    data = files(folder)
    rows: dict[tuple[str, str, int], dict[str, Any]] = {}
    of: dict[str, str] = {}
    for n_swap in (20, 40):
        for label, more in DRAWS.items():
            for name, (mask, analyses) in settings(n_swap, **more).items():
                made = mask.realisations(data[name], realisations, seed=1)
                for row in overlap_table(data[name], made, analyses).to_dicts():
                    rows[row["analysis"], label, n_swap] = row
                    of[row["analysis"]] = name
    heads = ["published, conditional", "conditional", "published, uniform", "uniform", *list(DRAWS)[2:]]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name, where in of.items():
        cells = []
        for head in heads:
            if head.startswith("published"):
                cells.append(" / ".join(PUBLISHED[head.split(", ")[1]][name]))
            else:
                cells.append(
                    " / ".join(f"{rows[name, head, n]['average']:.3f}".lstrip("0") for n in (20, 40))
                )
        lines.append(f"| {where} {name} | " + " | ".join(cells) + " |")
    error = max(r["standard_error"] for r in rows.values())
    apart = {label: rows["Reg1", label, 40] for label in DRAWS}
    beats = sum(
        rows[name, "conditional", n]["average"] > rows[name, "uniform", n]["average"]
        for name in of
        for n in (20, 40)
    )
    lost = {n: rows["Reg2", "conditional", n]["not_estimable"] / realisations for n in (20, 40)}
    lines += [
        "",
        f"{realisations} realisations; standard errors are at most {error:.3f}. Conditional beats uniform in "
        f"{beats} of {2 * len(of)} cells. Intervals that don't overlap at all in Reg1 at 40, of 500: "
        f"published {APART['conditional']} and {APART['uniform']}; "
        + ", ".join(
            f"{label} {500 * row['non_overlaps'] / row['intervals']:.0f}" for label, row in apart.items()
        )
        + f". In Reg2, {lost[20]:.2g} coefficients a realisation at 20 and {lost[40]:.2g} at 40 can't be "
        "estimated, since age and fare separate a stratum's survivors.",
    ]
    return "\n".join(lines)


INTRUDERS = (
    "one number, the stratum and a two-valued column (mean over the four numbers)",
    "all four numbers, the stratum and the two-valued column",
    "the four numbers, the stratum, and the law of the noise (`NoiseAttack`)",
    "all of it, the strata's own covariances, and that the stratum may be swapped",
)

# -- risk -----------------------------------------------------------------------------------------


def knows_the_law(data: sf.Microdata, release: sf.Microdata, name: str, strata: list[str]) -> float:
    """The share linked by the likelihood of the noise, from the strata's own covariances.

    For original record i and released record j: log N(z_j − x_i; 0, dΣ) with Σ the covariance of j's
    stratum, less log 20 where the strata differ (swaps are doubted, not excluded), and nothing where
    the binary variable differs. Ties are shared out.
    """
    x, z = (d.matrix(list(NUMBERS[name])) for d in (data, release))
    binary = [d.numbers(BINARY[name]) for d in (data, release)]
    frames = [d.frame.select(pl.concat_str(strata, separator="|").alias("s"))["s"] for d in (data, release)]
    before, after = (f.to_numpy() for f in frames)
    cost = np.empty((len(x), len(z)))
    for s in np.unique(after):
        j = np.flatnonzero(after == s)
        sigma = np.cov(x[before == s].T)
        scale = np.sqrt(np.diag(sigma))
        root = np.linalg.cholesky(VARIANCE_RATIO * sigma / np.outer(scale, scale) + 1e-9 * np.eye(len(sigma)))
        a, b = (np.linalg.solve(root, (v / scale).T).T for v in (x, z[j]))
        square = (a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * a @ b.T
        cost[:, j] = square + 2 * np.log(np.diag(root)).sum() + 2 * np.log(scale).sum()
    cost += 2 * np.log(20) * (before[:, None] != after[None])
    cost[binary[0][:, None] != binary[1][None]] = np.inf
    best = cost.min(axis=1)
    tied = cost <= best[:, None] + 1e-9
    return float((np.diag(tied) / tied.sum(axis=1)).mean())


def risk(folder: Path, seeds: int) -> str:
    """Shares linked after swap and noise, at 0 / 20 / 40, as Markdown."""
    found: dict[tuple[str, str, str, int], list[float]] = {}
    for name, given in files(folder).items():
        numbers = list(NUMBERS[name])
        data = given.with_columns({c: given.frame[c].cast(pl.Float64) for c in numbers})
        for draw in ("successive", "balanced"):
            for n in (0, 20, 40):
                if n == 0 and draw == "balanced":
                    continue
                mask = settings(n, draw=draw)[name][0]
                strata = list(mask.strata)
                noise = sf.AdditiveNoise(columns=numbers, variance_ratio=VARIANCE_RATIO, within=strata)
                for seed in range(seeds):
                    out = sf.Plan(steps=[mask, noise]).run(data, seed=seed).masked
                    blocks = [*strata, BINARY[name]]
                    single = [
                        sf.DistanceLinkage(known=[c], block_on=blocks).measure(data, out) for c in numbers
                    ]
                    every = sf.DistanceLinkage(known=numbers, block_on=blocks).measure(data, out)
                    aware = sf.NoiseAttack(columns=numbers, within=strata).measure(data, out)
                    rates = (
                        np.mean([one.value for one in single]),
                        every.value,
                        aware.value,
                        knows_the_law(data, out, name, strata),
                    )
                    for who, rate in zip(INTRUDERS, rates, strict=True):
                        found.setdefault((who, name, draw, n), []).append(float(rate))
    lines = [
        "| intruder knows | Titanic | Titanic, balanced | SMHO | SMHO, balanced |",
        "|---|---|---|---|---|",
    ]
    for who in INTRUDERS:
        cells = []
        for name in NUMBERS:
            for draw in ("successive", "balanced"):
                at = [n for n in (0, 20, 40) if (who, name, draw, n) in found]
                means = [np.mean(found[who, name, draw, n]) for n in at]
                cells.append(" / ".join(f"{m:.3f}".lstrip("0") for m in means))
        lines.append(f"| {who} | " + " | ".join(cells) + " |")
    error = max(np.std(v, ddof=1) / np.sqrt(len(v)) for v in found.values()) if seeds > 1 else float("nan")
    return "\n".join([*lines, "", f"Means over {seeds} seeds; standard errors are at most {error:.3f}."])


def between(name: str, text: str) -> None:
    """Write a table between its marks in the page."""
    start, end = f"<!-- {name}: made by benchmarks/group_swap.py -->", f"<!-- end of {name} -->"
    page = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(start) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"{PAGE.name} has no place for the table {name!r}")
    PAGE.write_text(pattern.sub(lambda _: f"{start}\n\n{text}\n\n{end}", page), encoding="utf-8")


def write_tables(folder: Path, *, quick: bool) -> list[str]:
    """Make both tables; written to the page unless quick."""
    made = {"overlaps": overlaps(folder, 5 if quick else 100), "risk": risk(folder, 1 if quick else 5)}
    for name, text in made.items():
        print(text, flush=True)
        if not quick:
            between(name, text)
    return list(made.values())
