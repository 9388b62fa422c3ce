"""The swaps of Oganian and Lesaja (2016), by the reading taken and by the others that the text allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np
import polars as pl

import sfumato as sf
from papers.framework import Context, Mean
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.draws import Seed
from sfumato.stats.overlaps import Analysis

TITANIC: Final = "titanic_889.csv"
SMHO: Final = "smho_n874.csv"
NUMBERS: Final = {TITANIC: ("Age", "Fare", "SibSp", "Parch"), SMHO: ("EXPTOTAL", "BEDS", "SEENCNT", "EOYCNT")}
STRATA: Final = {TITANIC: ("Pclass", "Sex"), SMHO: ("hosp_type",)}
BINARY: Final = {TITANIC: "Survived", SMHO: "FINDIRCT"}
BATCHES: Final = 10


def read(context: Context, name: str) -> Microdata:
    path = context.file(name)
    assert path is not None
    frame = pl.read_csv(path)
    if name == TITANIC:
        data = Microdata(
            frame.with_columns(pl.col("Age").fill_null(pl.col("Age").mean())).drop("PassengerId")
        )
        return data.with_variable("Pclass", kind="categorical")
    return Microdata(frame.drop("id")).with_variable("hosp_type", kind="categorical")


def swap(name: str, n: int, **more: Any) -> Any:
    """The mask of the paper, with its models."""
    numbers = " + ".join(NUMBERS[name])
    formulas = {"formula": f"{BINARY[name]} * ({numbers})"}
    if name == SMHO:
        formulas["distance_formula"] = f"{BINARY[name]} + {numbers}"
    return sf.GroupSwap(strata=list(STRATA[name]), n_swap=n, centre="half", **{**formulas, **more})


def analyses(name: str) -> dict[str, Any]:
    logistic = partial(sf.IntervalOverlap, family="logistic")
    if name == TITANIC:
        return {
            "Reg1": logistic(formula="Survived ~ Pclass + Sex + Age"),
            "Reg2": logistic(formula="Survived ~ Age + Fare", within=["Pclass", "Sex"]),
        }
    rest = "BEDS + SEENCNT + EOYCNT"
    return {
        "Reg3": logistic(formula=f"FINDIRCT ~ EXPTOTAL + {rest} + hosp_type"),
        "Reg4": sf.IntervalOverlap(formula=f"EXPTOTAL ~ {rest} + FINDIRCT + hosp_type"),
        "Reg5": logistic(formula=f"FINDIRCT ~ EXPTOTAL + {rest}", within=["hosp_type"]),
        "Reg6": sf.IntervalOverlap(formula=f"EXPTOTAL ~ {rest} + FINDIRCT", within=["hosp_type"]),
    }


def realisations(context: Context, name: str, n: int, **more: Any) -> list[Microdata]:
    """As many as the paper's hundred in a full run."""
    key = ("group swap", name, n, str(more))
    made: list[Microdata] = context.once(
        key,
        lambda: list(swap(name, n, **more).realisations(read(context, name), runs(context), seed=1)),
    )
    return made


def runs(context: Context) -> int:
    """How many realisations: with 20 seeds as many as the paper's."""
    return 8 if context.quick else 5 * context.seeds


# -- figures with their standard errors -----------------------------------------------------------


@dataclass(frozen=True)
class Batched(Mean):
    """A figure of all realisations (a quantile, a count), with its values in batches of them."""

    whole: float = 0.0
    size: float = 10.0
    """Realisations in a batch."""

    @property
    def value(self) -> float:
        return self.whole

    @classmethod
    def of(cls, figure: Callable[[slice], float], count: int) -> Batched:
        """A figure of a slice of realisations, of all and of ten batches (fewer where there are few)."""
        many = min(BATCHES, max(2, count // 2))
        ends = np.linspace(0, count, many + 1).astype(int)
        parts = tuple(figure(slice(a, b)) for a, b in pairwise(ends))
        return cls(parts, figure(slice(0, count)), count / many)


def workers(context: Context, name: str) -> dict[str, Analysis]:
    """The analyses of a file, with what the original gives kept."""
    found: dict[str, Analysis] = context.once(
        ("analyses", name), lambda: {k: Analysis(read(context, name), m) for k, m in analyses(name).items()}
    )
    return found


def summary(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Average, central 90 percent and non-overlaps (for each realisation) of J_k."""
    j = np.concatenate([list(p.values()) for p in parts])
    low, high = np.quantile(j, [0.05, 0.95]).tolist()
    return {
        "average": float(j.mean()),
        "low": low,
        "high": high,
        "non_overlaps": float((j < 0).sum()) / len(parts),
    }


@dataclass(frozen=True)
class Overlap:
    """J_k of an analysis, a dictionary for each realisation."""

    parts: tuple[dict[str, float], ...]
    not_estimable: int

    def __getitem__(self, figure: str) -> Batched:
        return Batched.of(lambda part: summary(self.parts[part])[figure], len(self.parts))

    def of(self, coefficient: str) -> FloatArray:
        """J of one coefficient, one a realisation."""
        return np.array([next(v for k, v in p.items() if k.startswith(coefficient)) for p in self.parts])


def overlaps(context: Context, name: str, releases: Sequence[Microdata]) -> dict[str, Overlap]:
    """How intervals of the releases overlap those of the original, by analysis."""
    out = {}
    for label, worker in workers(context, name).items():
        found = [worker.overlaps(r) for r in releases]
        out[label] = Overlap(tuple(j for j, _ in found), sum(lost for _, lost in found))
    return out


@dataclass(frozen=True)
class Moments:
    """Ratios of moments, original over masked: realisation × stratum × column (× column)."""

    strata: tuple[str, ...]
    columns: tuple[str, ...]
    means: FloatArray
    covariances: FloatArray
    correlations: FloatArray
    """Of the original, stratum × column × column."""

    def of(self, kind: str) -> FloatArray:
        return self.means if kind == "mean" else self.covariances

    def quantile(self, kind: str, q: float) -> Batched:
        """A quantile over realisations, strata and entries."""
        return self._figure(self.of(kind), lambda known: float(np.quantile(known, q)))

    def average(self, kind: str) -> Batched:
        return self._figure(self.of(kind), lambda known: float(known.mean()))

    def signs(self) -> Batched:
        """Covariances that change their sign, for each realisation."""
        each = (self.covariances < 0).reshape(len(self.covariances), -1).sum(axis=1)
        return Batched.of(lambda part: float(each[part].mean()), len(each))

    def _figure(self, values: FloatArray, figure: Callable[[FloatArray], float]) -> Batched:
        def one(part: slice) -> float:
            known = values[part]
            return figure(known[np.isfinite(known)])

        return Batched.of(one, len(values))

    def beyond(self, end: float, *, above: bool) -> str:
        """Which entry most of the ratios beyond an end belong to."""
        out = self.covariances > end if above else self.covariances < end
        count = out.sum(axis=0)
        count = count + np.triu(count.transpose(0, 2, 1), 1) - np.tril(count, -1)  # each pair once
        s, i, j = np.unravel_index(int(count.argmax()), count.shape)
        share = count[s, i, j] / max(1, count.sum())
        names = self.columns[i] if i == j else f"{self.columns[i]} × {self.columns[j]}"
        return (
            f"{share:.0%} of our ratios {'above' if above else 'below'} {end:g} are of {names} in "
            f"{self.strata[s]}, where the correlation is {self.correlations[s, i, j]:.2f}"
        )


def moments(data: Microdata, releases: Sequence[Microdata], name: str) -> Moments:
    """Ratios of means and of full covariance matrices within strata."""
    strata, columns = list(STRATA[name]), list(NUMBERS[name])
    x = data.matrix(columns)
    codes, k = data.codes(strata)
    labels = [" ".join(str(v) for v in data.frame[int((codes == s).argmax())].select(strata).row(0))
              for s in range(k)]  # fmt: skip

    def parts(one: Microdata) -> tuple[FloatArray, FloatArray]:
        own = one.codes(strata)[0]
        groups = [x[own == s] for s in range(k)]
        return np.array([g.mean(axis=0) for g in groups]), np.array([np.cov(g.T) for g in groups])

    mean, cov = parts(data)
    sd = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    with np.errstate(divide="ignore", invalid="ignore"):
        pairs = [parts(r) for r in releases]
        return Moments(
            tuple(labels),
            tuple(columns),
            np.array([mean / m for m, _ in pairs]),
            np.array([cov / c for _, c in pairs]),
            np.asarray(cov / (sd[:, :, None] * sd[:, None, :])),
        )


# -- other readings -------------------------------------------------------------------------------


def models(context: Context, name: str, n: int) -> dict[str, tuple[dict[str, Any], Moments]]:
    """Overlaps and moments of conditional swaps by other propensity models, the pairs as they are."""
    main = f"{BINARY[name]} + {' + '.join(NUMBERS[name])}"
    products = [f"poly({c}, degree=2)" for c in NUMBERS[name]]  # its linear part is aliased and drops out
    products += [f"{a}:{b}" for a, b in combinations(NUMBERS[name], 2)]
    own = swap(name, n)
    forms = {
        "main effects only": main,
        "squares and products added": f"{own.formula} + {' + '.join(products)}",
    }
    data, out = read(context, name), {}
    for label, formula in forms.items():
        mask = swap(name, n, formula=formula, distance_formula=own.distance_formula or own.formula)
        made = list(mask.realisations(data, context.count(2.0), seed=1))
        out[label] = overlaps(context, name, made), moments(data, made, name)
    return out


def every_pairing(strata: int) -> list[tuple[tuple[int, int], ...]]:
    """Every way to pair an odd number of strata (here five): two pairs, and the odd one with any other.

    >>> len(every_pairing(5))
    60
    """
    out = []
    for odd in range(strata):
        first, *others = [s for s in range(strata) if s != odd]
        for partner in others:
            pair = tuple(s for s in others if s != partner)
            out += [((first, partner), pair, (odd, last)) for last in (first, *others)]
    return out  # type: ignore[return-value]


@dataclass(frozen=True)
class Pairings:
    """Averages, ranges and counts of uniform swaps under every pairing of the strata."""

    found: dict[tuple[str, int], tuple[dict[str, float], ...]]
    """(Analysis or kind of ratio, number swapped): for each pairing, the figures."""

    def reason(self, cell: tuple[str, int, str], printed: float, near: float, targets: Any) -> str:
        """What the search says of a cell: whether any pairing gives it, and what else it would break."""
        analysis, n, figure = cell
        values = np.array([f[figure] for f in self.found[analysis, n]])
        many = len(values)
        digits = 0 if figure == "non_overlaps" else 2
        close = np.flatnonzero(np.abs(values - printed) <= near)
        if not len(close):
            return (
                f"no pairing of the five types gives it: over all {many} pairings it lies between "
                f"{values.min():.{digits}f} and {values.max():.{digits}f}"
            )
        if not targets:
            return f"{len(close)} of all {many} pairings of the five types give it"
        wrong = np.array([
            [abs(f["average"] - v) > tolerance for f in self.found[key]]
            for key, (v, tolerance) in targets.items()
        ])  # fmt: skip
        best = int(close[np.argmin(wrong[:, close].sum(axis=0))])
        missed = [f"{a} at {m}" for (a, m), bad in zip(targets, wrong[:, best], strict=True) if bad]
        return (
            f"the paper doesn't print the pairs: {len(close)} of all {many} pairings give this figure, but "
            f"even the best of these misses the uniform averages of {', '.join(missed) or 'none'}"
        )


def pairings(context: Context, rates: Sequence[int]) -> Pairings:
    """Uniform swaps of the five types of hospital under every pairing; these need no propensity model."""
    data = read(context, SMHO)
    codes, k = data.codes(["hosp_type"])
    heads = [data.column("hosp_type")[int((codes == s).argmax())] for s in range(k)]
    times = 3 if context.quick else 8
    draws = Seed.from_int(1).draws("reproduce pairings")
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    lists = every_pairing(k)[:: 15 if context.quick else 1]
    for number_, pairs in enumerate(lists):
        for n in rates:
            rng = draws.stream(f"{n}", str(number_)).generator()
            made = []
            for _ in range(times):
                now = codes.copy()
                for a, b in pairs:
                    one, two = (rng.choice(np.flatnonzero(now == s), n, replace=False) for s in (a, b))
                    now[one], now[two] = b, a
                column = pl.Series([heads[c] for c in now], dtype=data.dtype("hosp_type"))
                made.append(data.with_columns({"hosp_type": column}))
            for label, overlap in overlaps(context, SMHO, made).items():
                row = summary(overlap.parts)
                found.setdefault((label, n), []).append(row | {"non_overlaps": 100 * row["non_overlaps"]})
            ratios = moments(data, made, SMHO)
            for kind in ("mean", "covariance"):
                low, high = (ratios.quantile(kind, q).value for q in (0.05, 0.95))
                row = {"average": ratios.average(kind).value, "low": low, "high": high}
                found.setdefault((kind, n), []).append(row | {"non_overlaps": 100 * ratios.signs().value})
    return Pairings({key: tuple(rows) for key, rows in found.items()})
