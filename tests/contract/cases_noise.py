"""Examples of the noise family for the contract suite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import sfumato as sf
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Measure
from sfumato.data.microdata import Microdata


def _distortion(data: Microdata) -> Mask:
    columns = ["WAGE", "RENT", "WEALTH"]
    whole = np.flatnonzero(np.isfinite(data.matrix(columns)).all(axis=1))
    return sf.ControlledDistortion(records=[int(whole[4])], shift={"WAGE": -500.0}, columns=columns)


CASES: dict[str, Callable[[Microdata], Mask | Measure]] = {
    "controlled_distortion": _distortion,
    "linkage_swap": lambda data: sf.LinkageSwap(
        attack=sf.DistanceLinkage(known=["WAGE", "RENT"], block_on=["SEX"]),
        columns=["WAGE", "RENT"],
        cells=["SEX", "RACE"],
        rate_percent=50,
    ),
}
