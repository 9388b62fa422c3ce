"""The propensity-score measure: can a model tell the masked file from the original?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np
import polars as pl

from sfumato.contract.measure import UtilityMeasure
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.parallel import threads
from sfumato.stats.design import Design, design_by_formula, formula_problem, main_effects
from sfumato.stats.pairing import twice

MOST_SWAPPED: Final = 20
"""Of more columns the products would be too many to take unasked."""
MOST_PRODUCTS = 1_000
"""And so would more terms than these: a fit costs their cube."""


def _only_swapped(original: Microdata, masked: Microdata, columns: Sequence[str]) -> bool:
    """Whether some column changed, and every one that did still holds the same values."""
    if len(original) != len(masked):
        return False
    moved = False
    for column in columns:
        one, two = original.column(column), masked.column(column)
        if one.dtype != two.dtype:
            return False
        if one.equals(two, null_equal=True):
            continue
        if not one.sort().equals(two.sort(), null_equal=True):
            return False
        moved = True
    return moved


@dataclass(frozen=True, kw_only=True)
class Propensity(UtilityMeasure):
    """U_p = (1/N) Σ (p̂_i − c)², p̂ the modelled probability that a record is from the masked file.

    The two files are stacked (N records, a share c of them masked) and a model of "is masked" is
    fitted to the columns: numbers as they are, categories as indicators, products by ``interactions``
    or by ``formula``. U_p = 0 means that the model can't tell the files apart; c(1−c) (¼ for files of
    the same length) that it always can. ``method="boosting"`` uses gradient-boosted trees, scored
    out of fold with a record and its masked twin in the same fold.

    How large is large? ``permutations`` shuffles the labels: ``null_mean`` and ``null_sd`` are what two
    samples of the same population would give, ``ratio`` = U_p / null_mean, ``p_value`` the share of the
    null at or above U_p. ``null="refit"`` fits the model to each shuffle; ``null="score"`` takes its
    first Newton step only, (1/N) |P(y − c)|² with P the projection on the terms, which is what a refit
    gives up to a share of order r/N (more where tails are very heavy). The default refits up to
    ``permutation_records`` stacked records and takes the score step beyond, on a sample of so many,
    scaled by 1/N. ``null_kind`` says which.
    For a logistic model the law is known for large N: U_p ~ c(1−c) χ²_r / N, r the rank of the terms;
    its mean is ``expected`` and ``p_value_law`` is the chance of U_p or more by it.

    A model of main effects sees only the columns' means: a swap keeps these, so U_p would be 0 however
    much was swapped. Where every column that changed still holds the same values, products of two
    columns are terms by default (``interactions=False`` leaves them out), and a note says so.

    References: Woo, Reiter, Oganian, Karr (2009); Oganian, Lesaja (2016), section 1; for the null
    distribution Snoke, Raab, Nowok, Dibben, Slavkovic (2018).

    >>> import polars as pl, sfumato as sf
    >>> x = pl.DataFrame({"A": [1.0, 2.0, 3.0, 4.0] * 25})
    >>> sf.Propensity().measure(x, x).value
    0.0
    >>> 0.2 < sf.Propensity().measure(x, x.select(pl.col("A") + 10)).value <= 0.25
    True
    """

    name: ClassVar[str] = "propensity"
    public_figures: ClassVar[tuple[str, ...]] = ("u_p", "null_mean", "ratio", "p_value")
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Woo, Reiter, Oganian, Karr (2009); Oganian, Lesaja (2016)"

    columns: tuple[str, ...] = parameter(
        (), doc="The columns of the model; by default all but ids, household and weight.", columns=True
    )
    formula: str | None = parameter(None, doc='Terms of the model, as in "AGE + SEX + AGE:SEX".')
    interactions: bool | None = parameter(
        None,
        doc="Whether all products of two columns are terms too; left out, where main effects can't see "
        "what was done, since columns were swapped (up to 20 columns).",
    )
    method: Literal["logistic", "boosting"] = parameter(
        "logistic", doc="The model.", choices=("logistic", "boosting")
    )
    permutations: int = parameter(20, doc="How many shuffles make the null distribution.", at_least=0)
    permutation_records: int = parameter(
        20_000, doc="At most so many stacked records are used for the null.", at_least=100
    )
    null: Literal["auto", "refit", "score"] = parameter(
        "auto",
        doc="How a shuffle is scored: by a refit, by the first Newton step, or by the file's size.",
        choices=("auto", "refit", "score"),
    )

    def _check(self) -> Sequence[Fault]:
        out: list[Fault] = [*twice(self.columns, "columns")]
        if self.formula is not None:
            problem = formula_problem(self.formula)
            if problem:
                out.append((problem, None))
            if self.columns:
                out.append(("give `columns` or `formula`, not both", None, "columns"))
        if self.null == "score" and self.method != "logistic":
            out.append(('`null = "score"` is for logistic models', 'set null = "refit"'))
        return out

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        if not len(original) or not len(masked):
            raise MeasureError("the files have no records")
        design = self._design(original, masked)
        n0, n1 = len(design.original), len(design.masked)
        if not design.names or not n0 or not n1:
            raise MeasureError("the model has no term that can be fitted", hint="name other columns")
        n, k = n0 + n1, len(design.names)
        c = n1 / n
        notes = [*design.notes]
        if design.identical():
            value = 0.0
        else:
            y = np.r_[np.zeros(n0), np.ones(n1)]
            pairs = np.r_[np.arange(n0), np.arange(n1)] if n0 == n1 else np.arange(n)
            value = self._distance(design.stacked, y, pairs, draws, notes)
        figures: dict[str, Any] = {
            "u_p": value,
            "share_masked": c,
            "largest_possible": c * (1 - c),
            "terms": k,
        }
        sample, Q, rank = self._sample(design, draws)
        if self.method == "logistic":
            figures |= {"expected": rank * c * (1 - c) / n, "p_value_law": _law(value, n, c, rank)}
        breakdown = None
        if self.permutations:
            null, kind = self._null(sample, Q, c, n, draws)
            if Q.shape[1]:  # a rare category may be missing from the sample
                null *= rank / Q.shape[1]
            mean, sd = float(null.mean()), float(null.std(ddof=1)) if len(null) > 1 else math.nan
            figures |= {
                "null_mean": mean,
                "null_sd": sd,
                "null_kind": kind,
                "ratio": value / mean if mean > 0 else math.nan,
                "p_value": float((1 + (null >= value).sum()) / (1 + len(null))),
            }
            breakdown = pl.DataFrame({"null": null})
            notes.append(
                f"two samples of one population would give {mean:.3g} on average (at most "
                f"{null.max():.3g} in {len(null)} shuffles, each {kind})"
            )
        if self.method == "logistic" and not self.interactions and not set(":*") & set(self.formula or ""):
            if any(":" in name for name in design.names):
                notes.append("columns were swapped, which main effects can't see: products of two are terms")
            else:
                notes.append(
                    "main effects see means only: a swap keeps these; set interactions to see relations"
                )
        return Result(
            value=value,
            unit="mean squared distance from c",
            breakdown=breakdown,
            notes=tuple(dict.fromkeys(notes)),
            figures=figures,
        )

    def _design(self, original: Microdata, masked: Microdata) -> Design:
        if self.formula is not None:
            return design_by_formula(self.formula, original, masked)
        schema = original.schema
        off = {schema.id, schema.household, schema.weight}
        columns = self.columns or tuple(c for c in original.columns if c in masked.columns and c not in off)
        products = self.interactions
        if products is None:
            products = (
                1 < len(columns) <= MOST_SWAPPED
                and _products(original, columns) <= MOST_PRODUCTS
                and _only_swapped(original, masked, columns)
            )
        return main_effects(original, masked, columns, interactions=products)

    def _distance(
        self, X: FloatArray, y: FloatArray, pairs: Any, draws: Draws, notes: list[str] | None = None
    ) -> float:
        if self.method == "boosting":
            return _boosted(X, y, pairs, draws)
        from sfumato.kernels.logistic import fit_logistic

        fit = fit_logistic(X, y)
        if notes is not None and not fit.converged:
            notes.append(f"the fit didn't converge in {fit.iterations} steps; U_p is a lower bound")
        c = float(y.mean())
        return min(fit.distance(y), c * (1 - c))

    def _sample(self, design: Design, draws: Draws) -> tuple[FloatArray, FloatArray, int]:
        """The records that the null is made of, what spans their terms, and the rank of the file's."""
        X, n = design.stacked, len(design.stacked)
        if n > self.permutation_records:
            random = draws.stream(purpose="null sample").generator()
            X = X[np.sort(random.choice(n, self.permutation_records, replace=False, shuffle=False))]
        if self.method != "logistic":
            return X, np.empty((len(X), 0)), 0
        from sfumato.stats.shuffled import basis

        Q = basis(X)
        lost = 0
        if len(X) < n:
            lost = sum(np.ptp(X[:, j]) == 0 < np.ptp(design.stacked[:, j]) for j in range(X.shape[1]))
        return X, Q, Q.shape[1] + int(lost)

    def _null(self, X: FloatArray, Q: FloatArray, c: float, n: int, draws: Draws) -> tuple[FloatArray, str]:
        """U_p of each shuffle, scaled to the file, and in words how it was got."""
        size = len(X)
        where = f" on a sample of {size:,} records, scaled to all" if size < n else ""
        ones = max(1, min(size - 1, round(size * c)))
        if self.null == "score" or (self.null == "auto" and self.method == "logistic" and size < n):
            from sfumato.stats.shuffled import score_null

            return score_null(Q, ones, self.permutations, draws) * size / n, f"by its score step{where}"
        labels = np.zeros(size)
        labels[:ones] = 1.0
        out = np.empty(self.permutations)
        for r in range(self.permutations):
            order = draws.stream(stratum=str(r), purpose="null").permutation(size)
            out[r] = self._distance(X, labels[order], np.arange(size), draws)
        return out * size / n, f"fitted anew{where}"


def _products(data: Microdata, columns: Sequence[str]) -> int:
    """How many terms the products of two columns make: a category has one for each level but one."""
    terms = [1 if data.is_numeric(c) else max(data.column(c).n_unique() - 1, 1) for c in columns]
    return (sum(terms) ** 2 - sum(k * k for k in terms)) // 2


def _law(value: float, n: int, c: float, rank: int) -> float:
    """P(c(1−c) χ²_r / N ≥ U_p)."""
    from scipy.special import chdtrc

    return float(chdtrc(rank, value * n / (c * (1 - c)))) if rank else 1.0


def _boosted(X: FloatArray, y: FloatArray, pairs: Any, draws: Draws) -> float:
    """U_p of boosted trees, each record scored by trees that saw neither it nor its twin."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        raise MeasureError(
            "gradient boosting needs scikit-learn", hint="pip install 'sfumato[boosting]'"
        ) from None
    from threadpoolctl import threadpool_limits  # type: ignore[import-not-found,import-untyped,unused-ignore]

    count = int(pairs.max()) + 1
    folds = (draws.stream(purpose="folds").uniform(0, count) * 5).astype(np.int64)[pairs]
    prob = np.full(len(y), y.mean())
    # OpenMP threads that spin for each other cost far more than they save on small files.
    with threadpool_limits(limits=1 if len(y) < 100_000 else threads()):
        for fold in np.unique(folds):
            out = folds == fold
            if len(np.unique(y[~out])) < 2:
                raise MeasureError("too few records for boosted trees", hint='use method = "logistic"')
            trees = HistGradientBoostingClassifier(
                max_iter=60, max_leaf_nodes=15, random_state=0, early_stopping=False
            )
            prob[out] = trees.fit(X[~out], y[~out]).predict_proba(X[out])[:, 1]
    return float(np.square(prob - y.mean()).mean())
