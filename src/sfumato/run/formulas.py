"""Text that a spreadsheet would run: cells of a CSV file that begin like a formula.

A spreadsheet takes ``=…``, ``+…``, ``-…`` and ``@…`` for formulas, quoted or not. They are released as
they are, since another text would be another value; whoever hands the file out is told.

>>> import polars as pl, sfumato as sf
>>> data = sf.Microdata(pl.DataFrame({"NOTE": ["=1+1", "fine"], "CHANGE": ["-5", "+3"]}))
>>> print(formulas(data, data.columns, "csv")[0])
NOTE has text in 1 record that a spreadsheet takes for a formula: release parquet, or recode it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.errors import counted

_READ_BY_SPREADSHEETS: Final = ("csv", "tsv")
_FORMULA: Final = r"^[ ]*(?:[=@\t\r]|[+\-][^\d.,]|[+\-][\d.,]+[^\d.,%\s])"


def formulas(masked: Microdata, released: Sequence[str], format: str) -> list[str]:
    """A sentence for each released column (and name) that a spreadsheet would run."""
    if format not in _READ_BY_SPREADSHEETS:
        return []
    out = []
    for column in released:
        if pl.Series([column]).str.contains(_FORMULA)[0]:
            out.append(f"the column name {column!r} is one that a spreadsheet takes for a formula: rename it")
        if masked.dtype(column) in (pl.String, pl.Categorical, pl.Enum):
            text = masked.column(column).cast(pl.String)
            n = int(text.str.contains(_FORMULA).fill_null(False).sum())
            if n:
                out.append(
                    f"{column} has text in {counted(n, 'record')} that a spreadsheet takes for a formula: "
                    "release parquet, or recode it"
                )
    return out
