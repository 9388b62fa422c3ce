"""A name that no file can have is refused in a sentence, wherever a name may be given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError

NUL = "x\0y"
FRAME = pl.DataFrame({"A": [1, 2, 3, 4], "K": ["a", "b", "a", "b"]})

PLACES: dict[str, Callable[[], object]] = {
    "read": lambda: sf.read(NUL + ".csv"),
    "write": lambda: sf.write(sf.Microdata(FRAME), NUL + ".csv"),
    "plan": lambda: sf.Plan.load(NUL),
    "saved plan": lambda: sf.Plan().save(NUL),
    "hierarchy": lambda: sf.Recode(column="K", hierarchy=NUL, level=1).mask(FRAME),
    "mapping": lambda: sf.Recode(column="K", mapping=NUL + ".grc").mask(FRAME),
    "seed": lambda: sf.Seed.from_file(NUL),
    "saved seed": lambda: sf.Seed.new().save(NUL),
    "release": lambda: (
        sf.Plan(steps=[sf.RandomSwap(columns=["A"], rate_percent=50)])
        .run(FRAME, seed=1, measure=False)
        .release(NUL)
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", PLACES)
def test_a_nul_in_a_name(place: str) -> None:
    with pytest.raises(SfumatoError, match=r"no file can be called|can't be opened"):
        PLACES[place]()


def test_a_plan_saved_where_nothing_can_be(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match=r"the plan can't be written to .*: No such file or directory"):
        sf.Plan().save(tmp_path / "nowhere" / "plan.toml")
