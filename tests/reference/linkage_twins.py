"""Slow, obvious twins of the linkage kernels, and masks made independently of sfumato's own."""

from __future__ import annotations

import itertools
import math

import numpy as np


def pair_weight(a, b, metric="l", t=0.2, agree=1.0, disagree=0.0):
    """Yancey, Winkler and Creecy's interpolated weight of one pair of numbers, as printed."""
    if metric == "d":
        rel = abs(a - b) / max(abs(a), 0.1)
    elif a == 0 or b == 0:
        rel = 0.0 if a == b else math.inf
    elif (a > 0) != (b > 0):
        rel = math.inf
    else:
        rel = abs(math.log(abs(a)) - math.log(abs(b))) / max(abs(math.log(abs(a))), 0.1)
    return max(agree - (agree - disagree) * rel / t, disagree)


def weight_matrix(X, Z, metric="l", t=0.2, agree=None, disagree=None):
    m = X.shape[1]
    agree = [1.0] * m if agree is None else agree
    disagree = [0.0] * m if disagree is None else disagree
    out = np.zeros((len(X), len(Z)))
    for i, k, j in itertools.product(range(len(X)), range(len(Z)), range(m)):
        if not (math.isnan(X[i, j]) or math.isnan(Z[k, j])):
            out[i, k] += pair_weight(X[i, j], Z[k, j], metric, t, agree[j], disagree[j])
    return out


def best_assignment(weights):
    """The greatest total weight of a 1-1 assignment, by trying them all."""
    n, m = weights.shape
    if n > m:
        return best_assignment(weights.T)
    return max(
        sum(weights[i, k] for i, k in enumerate(choice)) for choice in itertools.permutations(range(m), n)
    )


def rank_swap(X, share, rng):
    """Moore's rank swap, literally: partner uniform among the unswapped ranks within the window."""
    n, m = X.shape
    Z = X.copy()
    w = math.ceil(share * n) - 1
    for j in range(m):
        order = np.lexsort((rng.random(n), X[:, j]))
        free = np.ones(n, bool)
        partner = np.arange(n)
        for i in range(n):
            if not free[i]:
                continue
            free[i] = False
            options = np.flatnonzero(free[i + 1 : i + 1 + w])
            if len(options):
                other = i + 1 + options[rng.integers(len(options))]
                free[other] = False
                partner[i], partner[other] = other, i
        Z[order, j] = X[order[partner], j]
    return Z


def normal_noise(X, d, rng):
    values, vectors = np.linalg.eigh(np.cov(X, rowvar=False))
    root = vectors * np.sqrt(np.clip(values, 0, None))
    return X + math.sqrt(d) * rng.standard_normal(X.shape) @ root.T


def mixture_noise(X, d, rng, variance=0.025):
    """½N(θ, σ²) + ½N(−θ, σ²) in every white component, coloured by the principal-component root."""
    values, vectors = np.linalg.eigh(np.cov(X, rowvar=False))
    root = vectors * np.sqrt(np.clip(values, 0, None))
    centre = math.sqrt(1 - variance)
    white = np.where(rng.random(X.shape) < 0.5, centre, -centre)
    white = white + math.sqrt(variance) * rng.standard_normal(X.shape)
    return X + math.sqrt(d) * white @ root.T


def zone(weights, correct, share=0.2):
    """The true links at or above the lowest weight T at which the links are at least ``share`` true."""
    best = 0
    for threshold in sorted(set(weights), reverse=True):
        above = [c for w, c in zip(weights, correct, strict=True) if w >= threshold]
        if sum(above) >= share * len(above):
            best = sum(above)
    return best
