"""Numbers in the steps that a column is given in, as somebody would write them.

>>> import numpy as np
>>> 138511 * 0.01, snapped(np.array([1385.1114]), 0.01).tolist()
(1385.1100000000001, [1385.11])
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sfumato.data.microdata import FloatArray

_MOST: int = 9


def snapped(values: FloatArray, step: float) -> FloatArray:
    """The nearest whole multiples of the step, halves upwards, without dust: 1385.1100000000001
    in a release would tell that the value was computed."""
    return plainly(np.floor(values / step + 0.5) * step, step)


def plainly(values: FloatArray, step: float | None) -> FloatArray:
    """Multiples of a step with a few decimals, each the number that is written with these decimals."""
    places = None if step is None else _places(step)
    return values if places is None else np.round(values, places)


@lru_cache(maxsize=256)
def _places(step: float) -> int | None:
    """How many decimals a step has; None where no few decimals write it."""
    for places in range(_MOST + 1):
        scaled = step * 10.0**places
        if abs(scaled - round(scaled)) < 1e-9 * max(scaled, 1.0) and round(scaled):
            return places
    return None
