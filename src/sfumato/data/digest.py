"""A keyed digest of a file's records, the same in whatever order and pieces they come.

The values of a record are mixed with a key for each column and added up, the sum is mixed again, and
the records' numbers are added up: order of records, order of columns, chunks and engines don't matter,
any changed, added or left-out value does. Two 64-bit sums under two keys make the digest.

>>> import polars as pl
>>> one = Microdata(pl.DataFrame({"A": [1, 2, None], "B": ["x", "y", "z"]}))
>>> two = Microdata(pl.DataFrame({"B": ["z", "x", "y"], "A": [None, 1, 2]}))
>>> records_digest(one, b"key") == records_digest(two, b"key")
True
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.microdata import Microdata

Words = npt.NDArray[np.uint64]
_MISSING: Final = np.uint64(0x9E3779B97F4A7C15)
_FEW: Final = 50_000


def records_digest(data: Microdata, key: bytes) -> bytes:
    """16 bytes that depend on the multiset of records and on the key."""
    sums = np.zeros(2, np.uint64)
    for part in data.aggregate(lambda block, _: multiset_sums(block.frame, key)):
        sums += part
    count = len(data).to_bytes(8, "little")
    return hashlib.blake2b(sums.tobytes() + count, key=key[:64], digest_size=16).digest()


def multiset_sums(frame: pl.DataFrame, key: bytes) -> Words:
    """Two sums of the hashes of a frame's rows: equal for equal multisets of rows, under one secret key.

    >>> one, two = pl.DataFrame({"A": [1, 2, 2]}), pl.DataFrame({"A": [2, 1, 2]})
    >>> bool((multiset_sums(one, b"key") == multiset_sums(two, b"key")).all())
    True
    """
    keys = {c: _word(key, f"column {c}") for c in frame.columns}
    sums = _few if frame.height <= _FEW else _sums
    return sums(frame, keys, _word(key, "first sum"), _word(key, "second sum"))


def keyed_words(series: pl.Series, key: bytes) -> Words:
    """A hash of each value under a secret key."""
    return _mixed(_words(series) ^ _word(key, "values"))


def _few(part: pl.DataFrame, keys: dict[str, np.uint64], first: np.uint64, second: np.uint64) -> Words:
    """The two sums in plain NumPy: for so few records no kernel need be compiled."""
    row = np.zeros(part.height, np.uint64)
    for column in part.columns:
        row += _mixed(_words(part.get_column(column)) ^ keys[column])
    return np.array([_mixed(row ^ word).sum(dtype=np.uint64) for word in (first, second)], np.uint64)


def _sums(part: pl.DataFrame, keys: dict[str, np.uint64], first: np.uint64, second: np.uint64) -> Words:
    """The same in one pass over each column."""
    from sfumato.kernels.digest import add_column, sum_records

    row = np.zeros(part.height, np.uint64)
    for column in part.columns:
        series = part.get_column(column)
        plain = series.dtype in (pl.Float64, pl.Int64, pl.UInt64) and not series.null_count()
        # As they lie in memory, where nothing need be filled in or brought to one form first.
        words = series.to_numpy().view(np.uint64) if plain else _words(series)
        add_column(words, keys[column], plain and series.dtype == pl.Float64, row)
    return np.array(sum_records(row, first, second), np.uint64)


def _word(key: bytes, name: str) -> np.uint64:
    digest = hashlib.blake2b(name.encode(), key=key[:64], digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def _mixed(x: Words) -> Words:
    """The finaliser of SplitMix64: every bit of the input moves every bit of the output."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _words(series: pl.Series) -> Words:
    """A number for each value, equal for equal values; nulls and NaN have one of their own."""
    dtype = series.dtype
    gone = series.is_null().to_numpy() if series.null_count() else None
    if dtype == pl.Null:
        return np.full(len(series), _MISSING)
    if dtype.is_temporal():
        series, dtype = series.to_physical(), series.to_physical().dtype
    if dtype == pl.Boolean or dtype.is_integer():
        wide = pl.UInt64 if dtype == pl.UInt64 else pl.Int64
        out = series.cast(wide, strict=False).fill_null(0).to_numpy().astype(np.uint64, copy=True)
    elif dtype.is_float():
        # −0 is 0, and every NaN is one NaN.
        values = series.cast(pl.Float64).fill_null(0.0).to_numpy().astype(np.float64, copy=True) + 0.0
        values[np.isnan(values)] = np.nan
        out = values.view(np.uint64).copy()
    else:
        out = _texts(series)
    if gone is not None:
        out[gone] = _MISSING
    return out


def _texts(series: pl.Series) -> Words:
    from sfumato.kernels.digest import hash_texts

    if series.dtype.is_nested() or series.dtype == pl.Object:
        series = pl.Series([None if v is None else repr(v) for v in series.to_list()], dtype=pl.String)
    elif series.dtype == pl.Binary:
        series = series.bin.encode("hex")
    array = series.cast(pl.String).fill_null("").rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, content = array.buffers()
    starts = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    letters = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    out = np.empty(len(series), np.uint64)
    hash_texts(starts, letters, out)
    return out
