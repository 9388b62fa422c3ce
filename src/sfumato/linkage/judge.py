"""Which weights are the better ones, judged by what they predict.

Take a field out, link by the others, and see how far the linked records agree on it: true pairs do.
Weights that find more true pairs predict the field better, and no true pair need be known.
"""

from __future__ import annotations

import numpy as np

from sfumato.data.microdata import FloatArray
from sfumato.draws import Draws
from sfumato.linkage.blocks import Blocks
from sfumato.linkage.fields import Fields

_PERSONS = 400


def predicted_agreement(
    fields: Fields, agree: FloatArray, disagree: FloatArray, blocks: Blocks, draws: Draws
) -> float:
    """The mean agreement on a field of records linked (nearest, ties shared) by the others' weights."""
    from sfumato.kernels.linkage_learn import held_out_agreement

    ordered = fields.take(blocks.left, blocks.right)
    left_sizes, _ = blocks.sizes
    low = np.repeat(blocks.right_starts[:-1], left_sizes)
    high = np.repeat(blocks.right_starts[1:], left_sizes)
    rows = np.sort(draws.stream(purpose="judged").permutation(len(low))[:_PERSONS])
    shares = []
    for j in range(len(fields)):
        a, d = agree.astype(np.float64).copy(), disagree.astype(np.float64).copy()
        a[j] = d[j] = 0.0
        shares.append(held_out_agreement(rows, low, high, ordered.weighted(a, d).arrays(), j))
    return float(np.mean(shares)) if shares else 0.0


def chance_of_agreement(fields: int) -> float:
    """What chance alone may make of the difference: a standard error of shares of the persons, by field."""
    return float(0.5 / np.sqrt(_PERSONS * max(fields, 1)))
