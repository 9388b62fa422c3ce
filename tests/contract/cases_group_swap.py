"""Examples of group swapping for the contract suite."""

from __future__ import annotations

from collections.abc import Callable

import sfumato as sf
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Measure
from sfumato.data.microdata import Microdata

CASES: dict[str, Callable[[Microdata], Mask | Measure]] = {
    "group_swap": lambda data: sf.GroupSwap(
        strata=["SEX", "AGEGRP"],
        rate_percent=20,
        covariates=["WAGE", "INCOME", "WEALTH", "RACE"],
        draw="balanced",
        allocation="equal",
    ),
}
