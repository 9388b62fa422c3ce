"""One release a file: what a second one, with other clusters of the same people, would give away.

Whoever has two releases looks for a person in the records that are in the person's cluster of both. The
cluster log in ``internal/`` says who was where; this compares two of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.microdata import IntArray, Microdata
from sfumato.errors import InputError

PERSON, CLUSTER = "person", "cluster"


def people(data: Microdata) -> npt.NDArray[np.uint64]:
    """A number for each record that its id decides, or all its values where it has none.

    It is the same in every file, so that people can be met again.
    """
    mark = data.schema.id
    names = [mark] if mark is not None else sorted(data.columns)
    out = np.zeros(len(data), np.uint64)
    for name in names:
        out += _digests(name, data.column(name))
    return out


def _digests(name: str, series: pl.Series) -> npt.NDArray[np.uint64]:
    """A number for each value of a column that its name and the value decide."""
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    salt = np.uint64(_text_digest(name))
    if series.dtype.is_numeric() or series.dtype.is_temporal():
        # 3 in one file may be 3.0 in another, and a missing value NaN or null.
        plain = series.to_physical().cast(pl.Float64).fill_null(np.nan).to_numpy() + 0.0
        words = np.where(np.isnan(plain), np.nan, plain).view(np.uint64) ^ salt
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(words ^ (words >> np.uint64(31)))
    text = series.cast(pl.String, strict=False)
    levels = text.unique()
    made = [_text_digest(f"{name}\x00{v}" if v is not None else f"{name}\x01") for v in levels.to_list()]
    told = pl.DataFrame({"v": levels, "d": pl.Series(made, dtype=pl.UInt64)})
    joined = pl.DataFrame({"v": text}).join(told, on="v", how="left", nulls_equal=True, maintain_order="left")
    return joined["d"].to_numpy()


def _text_digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Overlap:
    """What two releases of some of the same people say together."""

    both: int
    """People who are in both."""
    same: bool
    """Whether they are in the same clusters, so that the second says nothing new of them."""
    mean_bound: float
    """The mean over people in both of 1/(people in both their clusters)."""
    smallest: int
    """The smallest number of people who share both clusters."""
    newcomers: int
    newcomer_smallest: int
    """The smallest number of newcomers of one cluster: who knows the others sees these alone."""

    def harms(self, k: int) -> bool:
        """Whether somebody hides among fewer than k once both releases are out."""
        few_new = self.newcomers > 0 and self.newcomer_smallest < k
        return self.both > 0 and ((not self.same and self.smallest < k) or few_new)

    def __str__(self) -> str:
        text = (
            f"{self.both:,} people are in an earlier release too; together they hide among {self.smallest:,} "
            f"at least (mean bound {self.mean_bound:.2f})"
        )
        if self.newcomers:
            text += f"; {self.newcomers:,} newcomers hide among {self.newcomer_smallest:,} at least"
        return text


def overlap(log: pl.DataFrame, earlier: pl.DataFrame) -> Overlap:
    """Two cluster logs compared. People of whom there are several records count once."""
    one, two = (x.select(PERSON, CLUSTER).unique(PERSON) for x in (log, earlier))
    joined = one.join(two, on=PERSON, suffix="_then")
    left = one.height - joined.height
    pairs = joined.group_by(CLUSTER, f"{CLUSTER}_then").len()["len"].to_numpy().astype(np.int64)
    now, then = (joined.group_by(c).len().height for c in (CLUSTER, f"{CLUSTER}_then"))
    fresh: IntArray = (
        one.join(two, on=PERSON, how="anti").group_by(CLUSTER).len()["len"].to_numpy().astype(np.int64)
    )
    total = int(pairs.sum())
    return Overlap(
        both=joined.height,
        same=len(pairs) == now == then,
        mean_bound=len(pairs) / total if total else 0.0,
        smallest=int(pairs.min(initial=total)) if total else 0,
        newcomers=left,
        newcomer_smallest=int(fresh.min()) if len(fresh) else 0,
    )


def logs_in(place: Path) -> Iterable[pl.DataFrame]:
    """The cluster logs of an earlier release: its folder, its ``internal/``, or a log itself."""
    if place.is_file():
        paths = [place]
    else:
        paths = sorted([*place.glob("internal/log/*.parquet"), *place.glob("log/*.parquet")])
    if not paths:
        raise InputError(
            f"there is no cluster log in {place}",
            hint="name the folder of an earlier release, or internal/log/….parquet in it",
        )
    for path in paths:
        try:
            log = pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError):
            raise InputError(f"the log {path} can't be read") from None
        if {PERSON, CLUSTER} <= set(log.columns):
            yield log
