"""The mu-ARGUS demonstration file, parsed from its fixed columns, and its two recodes."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import sfumato as sf


def demodata(folder: Path) -> sf.Microdata:
    lines = (folder / "formats_argus" / "data" / "Demodata.asc").read_text("latin-1").splitlines()
    frame = pl.DataFrame(
        {
            "Region": [int(line[0:4]) for line in lines],
            "Sex": [int(line[4:5]) for line in lines],
            "Age": [int(line[5:7]) for line in lines],
            "Marstat": [int(line[7:8]) for line in lines],
            "Weight": [float(line[43:49]) for line in lines],
        }
    )
    return sf.Microdata(frame, sf.Schema(weight="Weight", keys=["Region", "Sex", "Age", "Marstat"]))


def age_classes(levels: list[int]) -> list[int]:
    """Age.grc: −20, 21-30, 31-40, 41-50, 51-60, 61−."""
    return [1 if a <= 20 else min((a - 1) // 10, 6) for a in levels]


def region_classes(levels: list[int]) -> list[int]:
    """Region.grc: 1-10, 11-20, …, 171−."""
    return [min((r - 1) // 10, 17) + 1 for r in levels]
