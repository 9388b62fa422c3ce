"""Scores that weigh what analysts lose against what an intruder finds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sfumato.contract.measure import Measure, UtilityMeasure, measure_from
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import MeasureError, ParameterError, Problem
from sfumato.stats.pairing import numeric_columns


@dataclass(frozen=True, kw_only=True)
class Score(UtilityMeasure):
    """A-, D- and S-score: the mean of an information loss and a re-identification rate, times 100.

    A = 100 (s0 + rate)/2, D = 100 (s1 + rate)/2, S = 100 (s2 + rate)/2, with s0, s1, s2 of
    :class:`InformationLoss` and the rate of any attack. Lower is better; 50 is what an untouched,
    fully linkable file and a useless, unlinkable one both get, so a score alone is no verdict: look
    at ``rate`` and ``loss`` too. ``value`` is the A-score.

    ``attack`` is an attack (``sf.Linkage(known=[…])``), its name in a plan, or a plan's table such
    as ``{ attack = "linkage", known = ["INCOME"] }``; by default record linkage on the same columns.
    ``loss`` may be any other utility measure: then ``value`` = 100 (loss + rate)/2 from its value
    (or 1 − value, where higher is better).

    Reference: Yancey, Winkler, Creecy (2002), section 3.5.

    An untouched file whose every record is found loses nothing and scores 100 (0 + 1)/2:

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"X": [1.0, 5.0, 20.0, 90.0]}))
    >>> sf.measure(data, data, sf.Score(attack=sf.Linkage(known=["X"]), columns=["X"]))[0].a_score
    50.0
    """

    name: ClassVar[str] = "score"
    public_figures: ClassVar[tuple[str, ...]] = ("rate", "a_score", "d_score", "s_score", "s0", "s1", "s2")
    bounds: ClassVar[tuple[float, float]] = (0.0, math.inf)
    reference: ClassVar[str] = "Yancey, Winkler, Creecy (2002), section 3.5"

    attack: Measure | str | Mapping[str, Any] | None = parameter(  # noqa: RUF009
        None, doc="The attack: its name, or a table with its parameters."
    )
    columns: tuple[str, ...] = parameter(
        (), doc="The numeric columns; by default the sensitive ones.", columns="sensitive", numeric=True
    )
    loss: Measure | str | Mapping[str, Any] | None = parameter(  # noqa: RUF009
        None, doc="Another utility measure instead of the information loss."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for place, side in (("attack", "risk"), ("loss", "utility")):
            given = getattr(self, place)
            if given is None:
                continue
            made = measure_from(given, place)
            if made.side != side:
                raise ParameterError(f"score: `{place}` can't be {made.name!r}, which measures {made.side}")
            object.__setattr__(self, place, made)

    def _parts(self) -> list[Measure]:
        return [m for m in (self.attack, self.loss) if isinstance(m, Measure)]

    def check(self, schema: Schema, types: dict[str, Any]) -> list[Problem]:
        return [*super().check(schema, types), *(p for m in self._parts() for p in m.check(schema, types))]

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        columns = numeric_columns(original, self.columns)
        attack = measure_from(self.attack or {"measure": "linkage", "known": list(columns)}, "attack")
        found = attack.measure(original, masked, seed=draws.seed)
        rate = float(found.figures.get("rate", found.value))
        if not 0 <= rate <= 1:
            raise MeasureError(
                f"the score needs a rate between 0 and 1, and {attack.name} gave {rate:g}",
                hint="use an attack, or a risk measure that is a share",
            )
        figures: dict[str, Any] = {"rate": rate, "attack": attack.name}
        notes = [f"attack: {attack.name}, rate {rate:.4g}", *found.notes]
        if isinstance(self.loss, Measure):
            lost = self.loss.measure(original, masked, seed=draws.seed)
            loss = float(lost.value if self.loss.direction == "lower" else 1.0 - lost.value)
            value = 100.0 * (loss + rate) / 2
            return Result(
                value=value,
                unit="score",
                notes=tuple(notes),
                figures={**figures, "loss": loss, "score": value},
            )
        from sfumato.utility.information_loss import InformationLoss

        lost = InformationLoss(columns=columns).measure(original, masked, seed=draws.seed)
        for score, summary in (("a_score", "s0"), ("d_score", "s1"), ("s_score", "s2")):
            figures[summary] = getattr(lost, summary)
            figures[score] = 100.0 * (figures[summary] + rate) / 2
        figures["loss"] = figures["s0"]
        return Result(
            value=figures["a_score"],
            unit="score",
            breakdown=lost.breakdown,
            notes=(*notes, *lost.notes),
            figures=figures,
        )
