"""What measures look at: the whole file, or of a held one that is large a stated sample of its records.

Whole households are drawn, by a keyed hash of the household (of a record's place, where there are none), so
that the sample is the same on every engine. Among fewer records a person is found more easily and fewer share
his keys: what a sample says of risk is rather too high than too low.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sfumato.contract.engine import Held
from sfumato.data.digest import keyed_words
from sfumato.data.microdata import IntArray, Microdata
from sfumato.draws import Seed

MOST: Final = 500_000
"""About how many records of a larger held file are looked at."""


def looked_at(
    original: Microdata, masked: Microdata, seed: Seed, most: int = MOST
) -> tuple[Microdata, Microdata]:
    """The two files as measures get them, in memory where they are small enough."""
    if not isinstance(original, Held):
        return original, masked
    if len(original) <= most:
        return tuple(Microdata(d.frame, d.schema) for d in (original, masked))  # type: ignore[return-value]
    rows = _sample(original, seed, most / len(original))
    return original.take(rows), masked.take(rows)


def _sample(data: Microdata, seed: Seed, share: float) -> IntArray:
    draws, household = seed.draws("looked at"), data.schema.household
    key, stream = seed.key("looked at"), draws.stream()
    below = np.uint64(share * 2.0**64)

    def chosen(block: Microdata, start: int) -> IntArray:
        if household is None:
            bits = stream.bits(start, len(block))
        else:
            # Who has no household is one of his own.
            bits = keyed_words(block.column(household), key)
            alone = block.missing(household)
            bits[alone] = stream.bits(start, len(block))[alone]
        return start + np.flatnonzero(bits < below)

    columns = [household] if household is not None else data.columns[:1]
    parts = data.aggregate(chosen, columns)
    return np.concatenate(parts).astype(np.int64)
