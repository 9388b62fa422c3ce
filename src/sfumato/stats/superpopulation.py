"""Superpopulation models: how many people are unique in the population, from a sample's class sizes alone.

Each takes ``sizes`` and ``number`` (there are ``number[i]`` combinations that ``sizes[i]`` sample records
have) and the population's size N; n is the sample's, π = n/N, u the number of combinations, c_i those of
size i. They return the expected number of unique people in the population, or NaN where the model has no
solution.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def pitman_parameters(sizes: IntArray, number: IntArray) -> tuple[float, float]:
    """θ and α of Pitman's sampling formula by maximum likelihood, 0 < α < 1 and θ > −α.

    log L = Σ_{i<u} ln(θ + iα) − Σ_{i<n} ln(θ + i) + Σ_j c_j Σ_{i<j} ln(i − α), its sums as gamma
    functions. NaN where the likelihood has no maximum inside.
    """
    from scipy.optimize import minimize
    from scipy.special import gammaln

    n, u = int((sizes * number).sum()), int(number.sum())
    many = sizes > 1
    size, count = sizes[many].astype(np.float64), number[many].astype(np.float64)

    def loss(free: FloatArray) -> float:
        alpha = 1 / (1 + math.exp(-float(free[0])))
        theta = math.exp(float(free[1])) - alpha
        at = theta / alpha
        joined = (u - 1) * math.log(alpha) + gammaln(u + at) - gammaln(1 + at)
        drawn = gammaln(theta + n) - gammaln(theta + 1)
        within = float((count * (gammaln(size - alpha) - gammaln(1 - alpha))).sum())
        return -float(joined - drawn + within) / n

    if u < 2 or u == n:
        return math.nan, math.nan
    best = None
    for alpha in (0.2, 0.5, 0.8):
        for theta in (1.0, math.sqrt(n), float(n)):
            start = np.array([math.log(alpha / (1 - alpha)), math.log(theta + alpha)])
            found = minimize(
                loss, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 4000}
            )
            if best is None or found.fun < best.fun:
                best = found
    assert best is not None
    alpha = 1 / (1 + math.exp(-float(best.x[0])))
    theta = math.exp(float(best.x[1])) - alpha
    if not 1e-6 < alpha < 1 - 1e-6:
        return math.nan, math.nan
    return theta, alpha


def pitman(sizes: IntArray, number: IntArray, population: float) -> float:
    """Γ(θ + 1) / Γ(θ + α) · N^α (Hoshino 2001, the limit of large N).

    Reference: Hoshino, N. (2001). Applying Pitman's sampling formula to microdata disclosure risk
    assessment. Journal of Official Statistics 17, 499-520.
    """
    theta, alpha = pitman_parameters(sizes, number)
    if math.isnan(alpha):
        return math.nan
    out = math.exp(math.lgamma(theta + 1) - math.lgamma(theta + alpha) + alpha * math.log(population))
    return out if out <= population else math.nan


def zayatz(sizes: IntArray, number: IntArray, population: float) -> float:
    """c_1 · P(population unique | sample unique) / π.

    The classes' sizes in the population are taken to be distributed as in the sample, and
    hypergeometric sampling turns them around: P = (c_1/u) h_1 / Σ_i (c_i/u) h_i, with h_i the chance
    that a class of i people has one in the sample.

    Reference: Zayatz, L. (1991). Estimation of the number of unique population elements using a sample.
    ASA Proceedings of the Section on Survey Research Methods, 369-373.
    """
    from scipy.stats import hypergeom

    n = int((sizes * number).sum())
    alone = float(number[sizes == 1].sum())
    if not alone:
        return 0.0
    whole = max(round(population), n)
    one = hypergeom.pmf(1, whole, sizes, n)
    share = alone * (n / whole) / float((number * one).sum())
    return alone * share * population / n


def shlosser(sizes: IntArray, number: IntArray, fraction: float) -> float:
    """How many classes the population has, by the modified estimator of Shlosser.

    u + c_1 · [Σ i π²(1−π²)^(i−1) c_i / Σ (1−π)^i ((1+π)^i − 1) c_i] · [Σ (1−π)^i c_i / Σ iπ(1−π)^(i−1) c_i]²

    Reference: Haas, P. J., Stokes, L. (1998). Estimating the number of classes in a finite population.
    JASA 93, 1475-1487.
    """
    i, c, f = sizes.astype(np.float64), number.astype(np.float64), fraction
    alone = float(number[sizes == 1].sum())
    up = float((i * f**2 * (1 - f**2) ** (i - 1) * c).sum())
    # (1−π)^i ((1+π)^i − 1) = (1−π²)^i − (1−π)^i, which doesn't overflow in large classes.
    down = float((((1 - f**2) ** i - (1 - f) ** i) * c).sum())
    left = float(((1 - f) ** i * c).sum())
    seen = float((i * f * (1 - f) ** (i - 1) * c).sum())
    if not down or not seen:
        return float(number.sum())
    return float(number.sum()) + alone * (up / down) * (left / seen) ** 2


def slide_negative_binomial(sizes: IntArray, number: IntArray, population: float) -> float:
    """K β^α: class sizes are 1 + a negative binomial number (Chen, Keller-McNulty 1998).

    K is Shlosser's estimate; α and β solve, with D = (1 − π)(1 − β),

        c_1 = K π (β/(1−D))^α (1 + αD/(1−D)),
        c_2 = K α β^α π² (1−β) (2 − (1−α)D) / (2 (1−D)^(α+2)).

    (ARX's implementation multiplies by (1−D)^(α+2) in the second: its figures differ.)

    Reference: Chen, G., Keller-McNulty, S. (1998). Estimation of identification disclosure risk in
    microdata. Journal of Official Statistics 14, 79-95.
    """
    from scipy.optimize import least_squares

    n = int((sizes * number).sum())
    fraction = n / population
    alone, pairs = float(number[sizes == 1].sum()), float(number[sizes == 2].sum())
    if not alone:
        return 0.0
    if not pairs or fraction >= 1:
        return alone if fraction >= 1 else math.nan
    classes = shlosser(sizes, number, fraction)

    def off(free: FloatArray) -> list[float]:
        alpha = math.exp(float(free[0]))
        beta = 1 / (1 + math.exp(-float(free[1])))
        d = (1 - fraction) * (1 - beta)
        body = alpha * (math.log(beta) - math.log1p(-d))
        one = math.log(classes * fraction) + body + math.log1p(alpha * d / (1 - d))
        two = (
            math.log(classes * fraction**2 / 2)
            + math.log(alpha) + math.log1p(-beta) + body - 2 * math.log1p(-d) + math.log(2 - (1 - alpha) * d)
        )  # fmt: skip
        return [one - math.log(alone), two - math.log(pairs)]

    limits = ([-14.0, -14.0], [14.0, 14.0])
    for start in ((0.0, 0.0), (-1.0, -3.0), (-2.0, 2.0), (1.0, -2.0), (-4.0, -6.0)):
        found = least_squares(off, start, bounds=limits, xtol=1e-14, ftol=1e-14, gtol=1e-14)
        if found.cost < 1e-14:
            alpha, beta = math.exp(float(found.x[0])), 1 / (1 + math.exp(-float(found.x[1])))
            return classes * math.exp(alpha * math.log(beta))
    return math.nan


def dankar(sizes: IntArray, number: IntArray, population: float) -> tuple[float, str]:
    """The estimate that the decision rule of Dankar et al. takes, and which model it is.

    π ≤ 0.1: Pitman, or Zayatz where Pitman has no solution. π > 0.1: the lower of Zayatz and the
    slide negative binomial (Zayatz where that has no solution).

    Reference: Dankar, F. K. et al. (2012). Estimating the re-identification risk of clinical data sets.
    BMC Medical Informatics and Decision Making 12, 66.
    """
    fraction = float((sizes * number).sum()) / population
    other = zayatz(sizes, number, population)
    if fraction <= 0.1:
        first = pitman(sizes, number, population)
        return (other, "zayatz") if math.isnan(first) else (first, "pitman")
    second = slide_negative_binomial(sizes, number, population)
    return (second, "snb") if second < other else (other, "zayatz")
