"""The law of a rank swap: how far a record moves, in windows (FORMULAS: density ln 2 · 2^u on [0, 1])."""

from __future__ import annotations

import math

_LN2 = math.log(2.0)
MEAN_POOL = 1.0 / (2.0 * _LN2)
"""Mean share of a window that is still unswapped when its turn comes: 0.72135 (Table B.4: 0.72)."""
MEAN_SHIFT = 2.0 - 1.0 / _LN2
"""E u, u = displacement / window: 0.55730."""
MEAN_SQUARE_SHIFT = 2.0 - 4.0 / _LN2 + 2.0 / _LN2**2
"""E u²: 0.39196 (the paper's 7/18 = 0.38889)."""
# The geometric law has density 2 ln 2 · e^−v · 2^(−e^−v) of v = displacement / scale; its mean square:
_GEOMETRIC_SQUARE = 2 * _LN2 * sum((-_LN2) ** m / math.factorial(m) * 2 / (m + 1) ** 3 for m in range(20))
MEAN_GEOMETRIC_SHIFT = -2.0 * sum((-_LN2) ** m / (math.factorial(m) * m) for m in range(1, 20))
"""E v, v = displacement / scale of geometric partners: 1.1787."""
SCALE_PER_WINDOW = math.sqrt(MEAN_SQUARE_SHIFT / _GEOMETRIC_SQUARE)
"""The geometric scale whose mean square displacement is that of a uniform window of one rank."""
