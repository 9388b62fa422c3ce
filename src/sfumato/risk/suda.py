"""SUDA: special uniques, found by their minimal sample uniques."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np
import polars as pl

from sfumato.cells.keys import MISSING_DOC, check_keys, chosen_keys, key_notes, key_table
from sfumato.contract.measure import RiskMeasure
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import FloatArray, Microdata
from sfumato.data.schema import Schema
from sfumato.draws import Draws
from sfumato.errors import Problem

SCORINGS: Final = ("sdcmicro", "ihsn")


@dataclass(frozen=True, kw_only=True)
class Suda(RiskMeasure):
    """Score the records that are unique on few keys (special uniques detection algorithm).

    A minimal sample unique (MSU) of a record is a set of keys on which it is unique, and on no part
    of which it is. The fewer keys an MSU has and the more MSUs there are, the riskier the record.
    With m keys, an MSU of s keys scores

    - ``scoring="sdcmicro"``: (m − s)!, after Elliot et al., as sdcMicro does by default; with
      ``max_size`` = M < m, (m − s)(m − s − 1)…(m − M);
    - ``"ihsn"``: (2^(m−s) − 1) · s! (m−s)! / m!, of the first implementation of SUDA2 in R.

    DIS-SUDA turns scores into chances: DIS = Uπ / (Uπ + P(1 − π)), with U uniques, P records in
    pairs and the sampling fraction π; a record with score c has 1 / (1 + (U/DIS − U) / (c^q A)),
    A = Σ c^(−q), q = 1 + (8 − m)/20.

    ``value`` is the number of records with an MSU; ``scores`` and ``dis_scores`` (confidential) are
    every record's in the scoring asked for (``scores_ihsn``, ``dis_scores_sdcmicro`` … in either),
    ``scorings`` has both side by side, ``contribution`` is each key's share in percent of the total
    score, and the breakdown counts MSUs by size.

    Reference: Elliot, M. J., Manning, A. M., Ford, R. W. (2002). A computational algorithm for handling
    the special uniques problem. IJUFKS 10, 493-509; Manning, A. M., Haglin, D. J., Keane, J. A. (2008). A
    recursive search algorithm for statistical disclosure assessment. DMKD 16, 165-196.

    >>> import polars as pl, sfumato as sf
    >>> data = sf.Microdata(pl.DataFrame({"A": [1, 1, 1, 2], "B": [1, 1, 2, 2], "C": [1, 1, 1, 1]}))
    >>> sf.measure(data, sf.Suda(keys=["A", "B", "C"]))[0].scores.tolist()
    [0.0, 0.0, 1.0, 2.0]
    """

    name: ClassVar[str] = "suda"
    files: ClassVar[Literal["both", "one"]] = "one"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    reference: ClassVar[str] = "Elliot et al. (2002); Manning et al. (2008)"
    per_record: ClassVar[str] = "dis_scores"
    assumes: ClassVar[str] = (
        "the file is a simple random sample of sampling_percent; the intruder may know any few of the "
        "keys, exactly"
    )

    keys: tuple[str, ...] = parameter((), doc="The keys an intruder can know.", columns="keys")
    max_size: int | None = parameter(
        None, doc="The largest set of keys looked at; all by default.", at_least=1
    )
    scoring: str = parameter("sdcmicro", doc="How an MSU is scored.", choices=SCORINGS)
    sampling_percent: float = parameter(
        1.0, doc="The sampling fraction that DIS-SUDA assumes.", above=0, below=100
    )
    missing: str = parameter("matches_anything", doc=MISSING_DOC, choices=("matches_anything", "category"))

    @classmethod
    def usual(cls, schema: Schema) -> Sequence[RiskMeasure]:
        return (cls(max_size=3),) if schema.keys else ()

    def check(self, schema: Schema, types: dict[str, pl.DataType]) -> list[Problem]:
        out = [*self.check_columns(types), *check_keys(self.keys, (), schema, types)]
        keys = chosen_keys(self.keys, (), schema)
        largest = min(self.max_size or len(keys), len(keys))
        sets = sum(math.comb(len(keys), d) for d in range(1, largest + 1))
        if len(keys) > 62 or sets > 2_000_000:
            out.append(
                Problem(
                    0,
                    f"{len(keys)} keys have {sets:,} combinations to search",
                    "set `max_size` (3 or 4 finds the special uniques), or take fewer keys",
                )
            )
        return out

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        from sfumato.cells.uniques import minimal_uniques

        table = key_table(masked, chosen_keys(self.keys, (), masked.schema), self.missing)
        m = len(table.keys)
        largest = min(self.max_size or m, m)
        points = {
            name: np.array([0.0, *(points_of(s, m, largest, name) for s in range(1, m + 1))])
            for name in SCORINGS
        }
        scored = {name: np.zeros(len(table)) for name in SCORINGS}
        part, sizes = np.zeros((len(table), m)), np.zeros(m + 1, np.int64)
        with_one = np.zeros(len(table), np.bool_)
        for mask, cells in minimal_uniques(table, largest):
            size = mask.bit_count()
            with_one[cells] = True
            sizes[size] += len(cells)
            for name in SCORINGS:
                scored[name][cells] += points[name][size]
            for j in range(m):
                if mask >> j & 1:
                    part[cells, j] += points[self.scoring][size]
        score = scored[self.scoring]
        frequency = table.frequencies()
        uniques = int(table.counts[frequency == 1].sum())
        pairs = int(table.counts[frequency == 2].sum())
        fraction = self.sampling_percent / 100
        by_name = {name: dis_suda(scored[name], uniques, pairs, fraction, m) for name in SCORINGS}
        dis, dis_scores = by_name[self.scoring]
        total = float(score.sum())
        share = 100 * part.sum(axis=0) / total if total else np.zeros(m)
        contribution = pl.DataFrame({"key": list(table.keys), "contribution_percent": share})
        at = table.record_cell
        return Result(
            value=int(with_one.sum()),
            unit="records",
            breakdown=pl.DataFrame(
                {"size": range(1, m + 1), "msus": sizes[1:], "points": points[self.scoring][1:]}
            ),
            notes=(f"scoring: {self.scoring}", *key_notes(table)),
            figures={
                "msus": int(sizes.sum()),
                "uniques": uniques,
                "pairs": pairs,
                "dis": dis,
                "maximum": float(score.max(initial=0.0)),
                "dis_maximum": float(dis_scores.max(initial=0.0)),
                "contribution": contribution.sort("contribution_percent", descending=True),
                "scorings": pl.DataFrame(
                    [
                        (name, float(scored[name].max(initial=0.0)), float(by_name[name][1].max(initial=0.0)))
                        for name in SCORINGS
                    ],
                    schema={"scoring": pl.String, "maximum": pl.Float64, "dis_maximum": pl.Float64},
                    orient="row",
                ),
            },
            confidential={
                "scores": score[at],
                "dis_scores": dis_scores[at],
                **{f"scores_{name}": scored[name][at] for name in SCORINGS},
                **{f"dis_scores_{name}": by_name[name][1][at] for name in SCORINGS},
                "contributions": part[at] / np.where(score[at] > 0, score[at], 1.0)[:, None],
            },
        )


def points_of(size: int, keys: int, largest: int, scoring: str) -> float:
    """What an MSU of ``size`` keys scores."""
    if scoring == "ihsn":
        rest = keys - size
        return float((2**rest - 1) / math.comb(keys, size))
    return float(math.prod(keys - i for i in range(size, min(largest, keys - 1) + 1)))


def dis_suda(
    score: FloatArray, uniques: int, pairs: int, fraction: float, keys: int
) -> tuple[float, FloatArray]:
    """DIS, and the DIS-SUDA score of each cell (0 where it has no MSU)."""
    weight = uniques * fraction
    dis = weight / (weight + pairs * (1 - fraction)) if uniques else 0.0
    out = np.zeros_like(score)
    scored = score > 0
    if not uniques or not scored.any():
        return dis, out
    power = score[scored] ** (1 + (8 - keys) / 20)
    out[scored] = 1 / (1 + (uniques / dis - uniques) / (power * (1 / power).sum()))
    return dis, out
