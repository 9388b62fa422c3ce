"""t-closeness: no group of people differs too much from everybody in a sensitive column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from sfumato.cells.attributes import judged
from sfumato.cells.closeness import equal_distance, hierarchical_distance, ordered_distance
from sfumato.cells.diversity import ValueCounts
from sfumato.cells.generalise.models import Close, Model
from sfumato.cells.keys import MISSING_DOC, check_keys, check_sensitive, chosen_keys, key_notes, key_table
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.hierarchy import Hierarchy
from sfumato.data.microdata import BoolArray, FloatArray, Microdata
from sfumato.data.schema import Schema, Variable
from sfumato.draws import Draws
from sfumato.errors import Problem


@dataclass(frozen=True, kw_only=True)
class TCloseness(RiskMeasure):
    """Count the records whose peers' sensitive values are too far from everybody's.

    The peers of a record are those who share its keys. With p the shares of the values among them
    and q those in the file, the distance is the earth mover's, with a ground distance that is

    - ``distance="equal"``: 1 between any two values, so ½ Σ |p − q|;
    - ``"ordered"``: |i − j| / (m − 1) between the i-th and the j-th of m values in order, so
      Σ_i |Σ_{j≤i} (p_j − q_j)| / (m − 1); numbers are in their order, categories in the schema's
      ``order``, else in that of their names;
    - ``"hierarchical"``: the level of their lowest common class in the schema's ``hierarchy`` over
      that of the class in which all meet;
    - by default ``"ordered"`` for numbers and ordinal columns, ``"equal"`` for categories.

    ``value`` is the number of records whose distance is above ``t`` in some sensitive column;
    ``closeness`` is the largest distance: the t that the file has. Missing values are left out.

    Reference: Li, N., Li, T., Venkatasubramanian, S. (2007). t-closeness: privacy beyond k-anonymity and
    l-diversity. ICDE 2007, 106-115.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"AGE": [3, 3, 4, 4], "ILL": ["a", "a", "a", "b"]}))
    >>> found = sf.measure(data, sf.TCloseness(keys=["AGE"], sensitive=["ILL"], t=0.2))[0]
    >>> found.value, found.closeness
    (4, 0.25)
    """

    name: ClassVar[str] = "t_closeness"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Li, Li, Venkatasubramanian (2007)"
    setting: ClassVar[Literal["file", "population", "attribute", "values"]] = "attribute"
    per_record: ClassVar[str] = "flags"
    assumes: ClassVar[str] = (
        "the intruder knows all keys exactly and that the person is in the file; what he could know of "
        "everybody is the file's own distribution"
    )

    t: float = parameter(0.2, doc="The largest distance that a group may have.", at_least=0, at_most=1)
    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    sensitive: tuple[str, ...] = parameter((), doc="The sensitive columns.", columns="sensitive")
    distance: str | None = parameter(
        None, doc="How far two values are from each other.", choices=("equal", "ordered", "hierarchical")
    )
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))

    def as_condition(self, data: Microdata) -> Model | None:
        names = self.sensitive or data.schema.sensitive
        distance = self.distance_of(data, names[0]) if names else "equal"
        return None if distance == "hierarchical" else Close(self.t, distance)  # type: ignore[arg-type]

    @classmethod
    def usual(cls, schema: Schema) -> Sequence[RiskMeasure]:
        return (cls(),) if schema.keys and schema.sensitive else ()

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = [
            *self.check_columns(types),
            *check_keys(self.keys, (), schema, types),
            *check_sensitive(self.keys, self.sensitive, schema),
        ]
        if self.distance == "hierarchical":
            out += [
                Problem(
                    0,
                    f"the hierarchical distance of {name} needs a hierarchy",
                    f"name its file under [variables.{name}] hierarchy, or take another distance",
                )
                for name in self.sensitive or schema.sensitive
                if schema[name].hierarchy is None
            ]
        return out

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        table = key_table(masked, chosen_keys(self.keys, (), masked.schema), self.missing)
        names = self.sensitive or masked.schema.sensitive
        used = {name: self.distance_of(masked, name) for name in names}

        def judge(name: str, counts: ValueCounts) -> tuple[FloatArray, BoolArray]:
            found = distances(counts, used[name], masked.schema[name], self.context.base)
            return found, np.asarray(found > self.t + 1e-12)

        found = judged(table, masked, names, judge)
        words = ", ".join(f"{name} {how}" for name, how in used.items())
        return Result(
            value=found.violations,
            unit="records",
            breakdown=found.rows.with_columns(pl.Series("distance", list(used.values()))),
            notes=(f"distance: {words}", *key_notes(table)),
            figures=found.figures("closeness"),
            confidential=found.confidential("distances"),
        )

    def distance_of(self, data: Microdata, name: str) -> str:
        """The distance asked for, else the one that fits the column's kind."""
        if self.distance is not None:
            return self.distance
        return "equal" if data.kind(name) == "categorical" else "ordered"


def distances(counts: ValueCounts, distance: str, variable: Variable, base: Path = Path()) -> FloatArray:
    """Each cell's distance from the file, by the name of the ground distance."""
    if distance == "equal":
        return equal_distance(counts)
    if distance == "ordered":
        return ordered_distance(counts, variable.order)
    assert variable.hierarchy is not None  # checked before
    return hierarchical_distance(counts, Hierarchy.read(variable.hierarchy, base))
