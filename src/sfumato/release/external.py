"""Sort records that don't fit into memory: first by ranges of their key into files, then file by file.

The keys are random bits (or random places), so that ranges of the same width hold about as many records each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.io.atomic import explained
from sfumato.parallel import in_turn

Keys = list[npt.NDArray[np.uint64]]
_PER_FILE: Final = 1 << 20
_MOST_FILES: Final = 400
_PIECE: Final = 1 << 18
_KEY: Final = "\x1fkey "


def sorted_frames(
    keyed: Callable[[int, int], tuple[pl.DataFrame, Keys]],
    records: int,
    folder: Path,
    chunk: int,
    top: int | None = None,
    piece: int = _PIECE,
    spread: Callable[[int], None] = lambda _records: None,
) -> Iterator[pl.DataFrame]:
    """The records in the order of their keys, then of their places, in frames of ``chunk``.

    ``keyed(start, length)`` gives some records and their keys, the first of which lies below ``top``
    (2⁶⁴ by default). At least one frame comes, were it empty. ``spread`` is told how many records are in
    their files, which is the first half of the work.
    """
    files = max(1, min(_MOST_FILES, -(-records // _PER_FILE)))
    with explained(folder):
        folder.mkdir(mode=0o700)
        keys = _spread(keyed, records, folder, files, top, piece, spread)
        yield from _cut((_whole(folder, number, keys) for number in range(files)), chunk)


def _spread(
    keyed: Callable[[int, int], tuple[pl.DataFrame, Keys]],
    records: int,
    folder: Path,
    files: int,
    top: int | None,
    piece: int,
    spread: Callable[[int], None],
) -> list[str]:
    """Write every record into the file of its key's range; the names of the keys."""
    import pyarrow as pa

    def made(start: int) -> pl.DataFrame:
        frame, keys = keyed(start, piece)
        if top is None:  # the upper 32 bits say enough of 2^64
            which = (keys[0] >> np.uint64(32)) * np.uint64(files) >> np.uint64(32)
        else:
            which = keys[0] * np.uint64(files) // np.uint64(max(top, 1))
        named = [pl.Series(f"{_KEY}{j}", key) for j, key in enumerate(keys)]
        return frame.with_columns(*named, pl.Series("\x1ffile", which.astype(np.int64)))

    writers: dict[int, Any] = {}
    names: list[str] = []
    done = 0
    try:
        for frame in in_turn(made, range(0, max(records, 1), piece)):
            done += frame.height
            spread(done)
            names = [c for c in frame.columns if c.startswith(_KEY)]
            frame = frame.sort("\x1ffile", maintain_order=True)
            which = frame["\x1ffile"].to_numpy()
            table = frame.drop("\x1ffile").to_arrow(compat_level=pl.CompatLevel.oldest())
            ends = np.searchsorted(which, np.arange(files + 1))
            for number in range(files):
                if number not in writers:
                    sink = pa.OSFile(str(_name(folder, number)), "wb")
                    writers[number] = (sink, pa.ipc.new_stream(sink, table.schema))
                low, high = int(ends[number]), int(ends[number + 1])
                if low < high:
                    writers[number][1].write_table(table.slice(low, high - low))
    finally:
        for sink, writer in writers.values():
            writer.close()
            sink.close()
    return names


def _whole(folder: Path, number: int, keys: list[str]) -> pl.DataFrame:
    """The records of one file in their order; the file is gone then."""
    path = _name(folder, number)
    frame = pl.read_ipc_stream(path)
    path.unlink()
    return frame.sort(keys, maintain_order=True).drop(keys)


def _cut(frames: Iterator[pl.DataFrame], chunk: int) -> Iterator[pl.DataFrame]:
    """The same records in frames of ``chunk``, the last of fewer."""
    waiting: list[pl.DataFrame] = []
    held = 0
    first = True
    for frame in frames:
        waiting.append(frame)
        held += frame.height
        while held >= chunk:
            whole = pl.concat(waiting)
            yield whole.slice(0, chunk).rechunk()
            first = False
            waiting = [whole.slice(chunk)]
            held -= chunk
    if held or first:
        yield pl.concat(waiting, rechunk=True)


def _name(folder: Path, number: int) -> Path:
    return folder / f"{number:04d}.arrow"
