"""A quick intruder: some persons against the whole release, so that a look costs seconds at 1e5 records.

He knows keys and numbers exactly, in the release's own classes; he learns from his own links how far numbers
moved and how often keys agree, and takes the nearest row. He is there to rank plans and to judge what a
release tells of values; the battery, whose 1-1 assignments are stronger on swaps and noise, has the last
word on links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.special import ndtri

from sfumato.data.microdata import FloatArray, IntArray, Microdata
from sfumato.draws import Draws
from sfumato.kernels.nearest_rows import nearest_rows

CodeArray = npt.NDArray[np.int32]
Space = Literal["rank", "log", "plain"]
SPACES: Final[tuple[Space, ...]] = ("rank", "log", "plain")
_CERTAIN = 1e6  # what a key that is released as it was costs where it differs


@dataclass(frozen=True)
class Known:
    """What somebody knows of persons, or what a release holds, in one coding: numbers (NaN: missing),
    keys."""

    numbers: FloatArray
    keys: CodeArray

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: IntArray) -> Known:
        return Known(self.numbers[rows], self.keys[rows])

    def without(self, number: int | None = None, key: int | None = None) -> Known:
        return Known(
            self.numbers if number is None else np.delete(self.numbers, number, axis=1),
            self.keys if key is None else np.delete(self.keys, key, axis=1),
        )


def coded(files: Sequence[Microdata], numbers: Sequence[str], keys: Sequence[str]) -> list[Known]:
    """Several files in one coding; a missing key has a code of its own."""
    out_numbers = [np.column_stack([f.numbers(c) for c in numbers]) if numbers else _none(f) for f in files]
    columns: list[list[CodeArray]] = [[] for _ in files]
    for key in keys:
        texts = [_texts(f, key) for f in files]
        codes = pl.concat(texts).rank("dense").fill_null(0).to_numpy().astype(np.int32)
        at = 0
        for file, text in zip(columns, texts, strict=True):
            file.append(codes[at : at + len(text)])
            at += len(text)
    out_keys = [
        np.ascontiguousarray(np.column_stack(c), np.int32) if c else np.zeros((len(f), 0), np.int32)
        for c, f in zip(columns, files, strict=True)
    ]
    return [Known(a, b) for a, b in zip(out_numbers, out_keys, strict=True)]


def _none(file: Microdata) -> FloatArray:
    return np.zeros((len(file), 0))


def _texts(data: Microdata, column: str) -> pl.Series:
    series, gone = data.column(column), pl.Series(data.missing(column))
    if series.dtype.is_float():
        whole = series.cast(pl.Int64, strict=False)
        if (whole.cast(pl.Float64) == series).fill_null(True).all():
            series = whole
    frame = series.cast(pl.String).to_frame("v").with_columns(gone.alias("gone"))
    return frame.select(pl.when(~pl.col("gone")).then(pl.col("v")).alias("v")).to_series()


def unchanged(own: Known, released: Known) -> npt.NDArray[np.bool_]:
    """Which keys a release of these records has as they were (or blank, code 0): the intruder trusts them."""
    same = (own.keys == released.keys) | (released.keys == 0)
    out: npt.NDArray[np.bool_] = same.all(axis=0) & (own.keys == released.keys).any(axis=0)
    return out


@dataclass
class Intruder:
    """Finds the rows nearest to persons, learning as he goes."""

    released: Known
    trusted: npt.NDArray[np.bool_]
    """Which keys are released as they were."""
    draws: Draws
    rounds: int = 2

    def find(self, persons: Known, space: Space = "rank", most: int = 1) -> tuple[CodeArray, FloatArray]:
        """The ``most`` nearest rows of each person, ties in random order, and their distances."""
        A, gone_a = _placed(persons.numbers, self.released.numbers, space)
        B, gone_b = _placed(self.released.numbers, self.released.numbers, space)
        # A number that is missing on one side only is a disagreement of its own.
        holes = np.flatnonzero(gone_a.any(axis=0) | gone_b.any(axis=0))
        ours = np.ascontiguousarray(np.column_stack([persons.keys, gone_a[:, holes]]), np.int32)
        theirs = np.ascontiguousarray(np.column_stack([self.released.keys, gone_b[:, holes]]), np.int32)
        certain = np.append(self.trusted, np.zeros(len(holes), np.bool_))
        price = np.where(
            certain, _CERTAIN, np.append(np.full(len(self.trusted), 2.0), np.full(len(holes), 4.0))
        )
        chance = np.array([_chance(theirs[:, q]) for q in range(theirs.shape[1])])
        order = np.argsort(self.draws.stream(purpose="ties").uniform(0, len(B)), kind="stable")
        W = np.eye(A.shape[1])
        for left in range(self.rounds - 1, -1, -1):
            found, far = nearest_rows(
                np.ascontiguousarray(A @ W, np.float32),
                np.ascontiguousarray(B @ W, np.float32),
                ours,
                theirs,
                price.astype(np.float32),
                order,
                most,
            )
            if not left:
                break
            best = found[:, 0]
            if A.shape[1]:
                W = _whitening(B[best] - A)
            agree = (ours == theirs[best]).mean(axis=0) if len(best) else chance
            price = np.where(certain, _CERTAIN, _odds(agree, chance))
        return found, far.astype(np.float64)

    def rate(self, persons: Known, rows: IntArray) -> float:
        """The share of persons whose own row is the nearest, in the best of three spaces."""
        spaces: Sequence[Space] = SPACES if persons.numbers.shape[1] else ("rank",)
        return max(float((self.find(persons, s)[0][:, 0] == rows).mean()) for s in spaces)


def _placed(
    values: FloatArray, reference: FloatArray, space: Space
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Each number's place: normal score of its rank in the release, logarithm, or plain value, in unit
    scale."""
    out, gone = np.zeros(values.shape), np.isnan(values)
    for j in range(values.shape[1]):
        there = np.sort(reference[~np.isnan(reference[:, j]), j])
        if not len(there):
            continue
        x = values[:, j]
        if space == "rank":
            ends = np.searchsorted(there, x, "left") + np.searchsorted(there, x, "right") + 1
            placed = ndtri(np.clip(ends / 2 / (len(there) + 1), 1e-4, 1 - 1e-4))
        else:
            placed = _turned(x, space) / (_turned(there, space).std() or 1.0)
        out[:, j] = np.where(gone[:, j], 0.0, placed)
    return out, gone


def _turned(values: FloatArray, space: Space) -> FloatArray:
    return np.sign(values) * np.log1p(np.abs(values)) if space == "log" else values


def _whitening(moved: FloatArray) -> FloatArray:
    C = moved.T @ moved / max(len(moved), 1)
    C += np.eye(len(C)) * (1e-3 * np.trace(C) / len(C) + 1e-6)
    w, U = np.linalg.eigh(C)
    out: FloatArray = U / np.sqrt(w)
    return out


def _chance(codes: CodeArray) -> float:
    share = np.bincount(codes) / max(len(codes), 1)
    return float(np.clip((share**2).sum(), 0.02, 0.98))


def _odds(agree: FloatArray, chance: FloatArray) -> FloatArray:
    """2 ln of how much likelier agreement is for the right row than for any: what a difference costs."""
    agree = np.minimum(agree, 0.999)
    ratio = agree * (1 - chance) / np.maximum((1 - agree) * chance, 1e-6)
    return 2 * np.log(np.maximum(ratio, 1.0))
