"""A plan tried out on its data, with nothing kept: what only the data can tell is found before the run.

A stratum may have too few records for a step, members of a household may disagree on what they should
share, a tolerance may need more swaps than the rate allows. Neither the schema nor the types say so.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Final

from sfumato.data.microdata import Microdata
from sfumato.errors import Problem, SfumatoError, SfumatoWarning
from sfumato.plan.plan import Plan
from sfumato.plan.source import Path as Place
from sfumato.plan.source import line_of
from sfumato.run.run import Progress, carry_out

REHEARSED: Final = 20_000
"""A file of at most so many records is rehearsed by ``sfumato check`` unless told otherwise."""


def rehearsed(
    plan: Plan,
    data: Microdata,
    lines: Mapping[Place, int],
    progress: Progress | None = None,
) -> list[Problem]:
    """What a step refuses on these data, at its line: the first, since the next would see its outcome."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SfumatoWarning)
            carry_out(plan, data, 0, measure=False, progress=progress)
    except SfumatoError as problem:
        place: Place = () if problem.step is None else ("step", problem.step)
        return [Problem(line_of(lines, place), problem.message, problem.hint)]
    return []
