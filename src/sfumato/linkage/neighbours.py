"""Each person's nearest released records, with and without his own."""

from __future__ import annotations

import numpy as np

from sfumato.data.microdata import BoolArray, FloatArray, IntArray
from sfumato.linkage.blocks import Blocks
from sfumato.linkage.fields import Fields
from sfumato.linkage.sparse import Scan


def nearest_records(fields: Fields, blocks: Blocks, k: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Persons, their k heaviest released records (−1: no more) and the weights, heaviest first."""
    scan = Scan(fields, blocks, np.full(fields.left_records, -1, dtype=np.int64))
    scan.best(k)
    places, weights, sizes = scan.lists
    here = np.arange(places.shape[1])[None, :] < sizes[:, None]
    weights = np.where(here, weights, -np.inf)
    order = np.argsort(-weights, axis=1, kind="stable")
    places = np.take_along_axis(np.where(here, places, 0), order, axis=1)
    weights = np.take_along_axis(weights, order, axis=1)
    found = np.where(np.isfinite(weights), blocks.right[places], -1)
    return blocks.left[scan.places], found, weights


def without(found: IntArray, out: BoolArray, k: int) -> IntArray:
    """Each row's first k places that aren't to be left out; −1 stands for records that there aren't."""
    order = np.argsort(out, axis=1, kind="stable")[:, :k]
    return np.where(np.take_along_axis(out, order, axis=1), -1, order)
