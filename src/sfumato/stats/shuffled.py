"""What U_p of a logistic model is when the labels say nothing: its score step, and its law.

With the labels y shuffled, the model's coefficients are near 0 and its first Newton step from there is
the linear regression of y on the terms: p̂ − c = P(y − c), P the projection on the centred terms. So

    U_p ≈ (1/N) |P(y − c)|²,   with mean exactly r c(1−c)/(N−1) over all shuffles

(r the rank of the terms), and N U_p / (c(1−c)) is near χ² with r degrees of freedom. The steps after
the first change it by a share of order r/N; where the terms are the cells of a table by nothing.
"""

from __future__ import annotations

import numpy as np

from sfumato.data.microdata import FloatArray
from sfumato.draws import Draws

RANK_TOLERANCE = 1e-9
"""An eigenvalue of the terms' correlations below this share of the largest counts as 0."""


def basis(X: FloatArray) -> FloatArray:
    """Orthonormal columns that span the centred columns of X; as many as their rank."""
    Z = X - X.mean(axis=0)
    scale = np.sqrt(np.einsum("ij,ij->j", Z, Z))
    largest = np.abs(X).max(axis=0, initial=0.0)
    varies = scale > 1e-12 * largest * np.sqrt(len(X))
    Z = Z[:, varies] / scale[varies]
    if not Z.shape[1]:
        return np.empty((len(X), 0))
    values, vectors = np.linalg.eigh(Z.T @ Z)
    keep = values > RANK_TOLERANCE * values[-1]
    return np.asarray(Z @ (vectors[:, keep] / np.sqrt(values[keep])))


def score_null(Q: FloatArray, ones: int, shuffles: int, draws: Draws) -> FloatArray:
    """U_p of shuffled labels (so many ones) by the score step, for the terms that ``Q`` spans."""
    size = len(Q)
    labels = np.zeros(size)
    labels[:ones] = 1.0
    labels -= ones / size
    out = np.empty(shuffles)
    for r in range(shuffles):
        order = draws.stream(stratum=str(r), purpose="null").permutation(size)
        # The same shuffles as a refit would get, one at a time: no matrix of labels.
        out[r] = np.square(labels[order] @ Q).sum() / size
    return out
