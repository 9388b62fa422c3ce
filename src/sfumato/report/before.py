"""Risk before masking, so that a steward sees what the mask achieved.

A measure of one file is simply taken on the original. For an attack that links records, "before" is
the attack on an exact copy of the file: who has these columns finds a record up to those that are
identical in them, so the expected share found is the number of different combinations ÷ the number of
records. That costs one pass, where running each attack again would double the time of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.contract.measure import Attack
from sfumato.contract.parameters import flat_names

if TYPE_CHECKING:
    from sfumato.contract.measure import Measure
    from sfumato.run.run import Run

SAME = "the same measure of the file as collected"
COPY = (
    "the share that is found in an exact copy of the file: different combinations of these columns ÷ records"
)
ITSELF = "each value of an exact copy lies within its own interval"
MOST_TRIED = 50_000


def risk_before(measure: Measure, run: Run) -> tuple[float, str] | None:
    """The risk before masking and what it is; None where nothing sensible can be said cheaply."""
    if measure.side != "risk":
        return None
    if measure.files == "one":
        return measure.measure(run.original).value, SAME
    if measure.name == "interval_disclosure":
        return 1.0, ITSELF
    if measure.name == "intruder_test":
        # Its targets are few records of its own choice, so only the test itself can say.
        if len(run.original) > MOST_TRIED:
            return None
        return measure.measure(run.original, run.original).value, SAME
    columns = known_to(measure, run)
    if not isinstance(measure, Attack) or not columns or not len(run.original):
        return None
    there = [c for c in columns if c in run.original.columns]
    classes = run.original.select(there).hash_rows(seed=1).n_unique()
    return classes / len(run.original), COPY


def known_to(measure: Any, run: Run) -> list[str]:
    """The columns that an attack's intruder has: those named, else the default of all attacks."""
    if not isinstance(measure, Attack):
        return []
    from sfumato.linkage.fields import known_columns

    named = tuple(flat_names(getattr(measure, "known", ()) or getattr(measure, "columns", ()) or ()))
    blocks = flat_names(getattr(measure, "block_on", ()) or ())
    known = named or known_columns(run.original, run.masked, (), numbers=False)
    return list(dict.fromkeys([*blocks, *known]))
