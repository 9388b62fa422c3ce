"""Addressed randomness: every draw has an address, so nothing else can change it.

The key of a stream is BLAKE2b(secret seed, step id, column, stratum, purpose); the position in the
stream is the record's place in the file. NumPy's Philox, advanced to that position, gives the bits.
Chunks, threads, engines, the order of columns and other steps therefore leave every draw as it is.

The seed of a release is bound to the file's records and its draws to what the step says
(:meth:`Seed.bound`, :meth:`Seed.draws`): one seed used on two files, or at two strengths on one file,
must not give the same noise, pairs or order, else one of them undoes the other. Orders are sorts by
addressed bits, never a sequential permutation.

This is the only module that may touch ``numpy.random``.

>>> stream = Seed.from_int(7).draws("incomes").stream("INCOME")
>>> whole = stream.uniform(0, 10)
>>> bool((stream.uniform(4, 6) == whole[4:]).all())
True
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sfumato.errors import SeedError, SfumatoWarning, as_path

_SEED_BYTES: Final = 32


class Seed:
    """The secret that a run's draws come from. Whoever has it can undo the mask.

    It never shows itself: ``repr`` and ``str`` say only that it is there, and pickling is refused
    unless it is written on purpose with :meth:`save`.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if not 8 <= len(secret) <= 64:  # BLAKE2b takes no longer key; what is cut off would be ignored
            raise SeedError("a seed needs 8 to 64 bytes", hint="use Seed.new()")
        self._secret = bytes(secret)

    @classmethod
    def new(cls) -> Seed:
        """A fresh seed from the operating system."""
        return cls(os.urandom(_SEED_BYTES))

    @classmethod
    def from_int(cls, number: int) -> Seed:
        """A seed from a number, for tests and experiments; too guessable for a real release."""
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise SeedError("a seed must be a whole number, a Seed or None")
        text = b"sfumato int seed " + str(int(number)).encode()
        return cls(hashlib.blake2b(text, digest_size=_SEED_BYTES).digest())

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Seed:
        """The seed that :meth:`save` wrote. Warns where others may read the file."""
        path = as_path(path)
        try:
            text = path.read_text(encoding="ascii").strip()
            mode = path.stat().st_mode
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
            raise SeedError(
                f"the seed file {path} can't be read: {reason}",
                hint="`sfumato run` writes one with --save-seed, or Seed.new().save(path)",
            ) from None
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            warnings.warn(
                f"the seed file {path} can be read by others; run: chmod 600 {path}",
                SfumatoWarning,
                stacklevel=2,
            )
        try:
            secret = bytes.fromhex(text)
        except ValueError:
            raise SeedError(
                f"the seed file {path} doesn't hold a seed (64 hexadecimal digits)",
                hint="the file's content isn't shown, since it may be a secret",
            ) from None
        return cls(secret)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the seed to a new file that only its owner can read; an old file is never replaced."""
        try:
            handle = os.open(as_path(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise SeedError(f"{path} exists already; a seed is never written over a file") from None
        except OSError as problem:
            raise SeedError(f"the seed can't be written to {path}: {problem.strerror}") from None
        with os.fdopen(handle, "w") as file:
            file.write(self._secret.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())

    def commitment(self, salt: bytes) -> str:
        """A digest that binds to this seed without telling it; kept in ``internal/`` only."""
        return hashlib.blake2b(self._secret, salt=salt[:16], person=b"sfumato commit").hexdigest()

    def key(self, name: str) -> bytes:
        """A key for a named use, from which neither the seed nor another key follows."""
        return _digest(self._secret, ("key", name))

    def child(self, name: str) -> Seed:
        """An independent seed for a named part (a copy, a replicate, a grid point)."""
        return Seed(_digest(self._secret, ("child", name)))

    def bound(self, digest: bytes) -> Seed:
        """The seed for one file: draws from it tell nothing of those for a file of another digest."""
        return Seed(_digest(self._secret, ("file", digest.hex())))

    def draws(self, step: str, says: str = "") -> Draws:
        """The draws of one step of a plan; ``says`` binds them to the step's parameters."""
        return Draws(self, step, says)

    def __repr__(self) -> str:
        return "Seed(secret)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seed) and other._secret == self._secret

    def __hash__(self) -> int:
        return hash(self._secret)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Seed isn't pickled by accident; pass Seed.save(path) or child seeds on purpose")


def as_seed(seed: Seed | int | None) -> Seed:
    """A :class:`Seed` from what a person may give: a Seed, a number, or None for a new one."""
    if seed is None:
        return Seed.new()
    return seed if isinstance(seed, Seed) else Seed.from_int(seed)


def _digest(secret: bytes, parts: tuple[str, ...]) -> bytes:
    """BLAKE2b keyed by the secret; lengths are hashed too, so that ("ab","c") isn't ("a","bc")."""
    state = hashlib.blake2b(key=secret, digest_size=_SEED_BYTES, person=b"sfumato draws")
    for part in parts:
        raw = part.encode()
        state.update(len(raw).to_bytes(8, "little"))
        state.update(raw)
    return state.digest()


@dataclass(frozen=True)
class Draws:
    """All streams of one step."""

    seed: Seed
    step: str
    says: str = ""

    def stream(self, column: str = "", stratum: str = "", purpose: str = "") -> Stream:
        """The stream of one column (and stratum, and purpose) of this step."""
        said = (self.says,) if self.says else ()
        digest = _digest(self.seed._secret, (self.step, column, stratum, purpose, *said))
        return Stream((int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")))

    def __reduce__(self) -> tuple[object, ...]:
        """Where a step is carried out elsewhere, it asks for the keys of single streams; the seed stays."""
        if not _OFFICES:
            raise TypeError("draws aren't pickled by accident; an engine hands out the keys of their streams")
        return _OFFICES[-1](self)


_OFFICES: list[Callable[[Draws], tuple[object, ...]]] = []


@contextmanager
def handed_out(office: Callable[[Draws], tuple[object, ...]]) -> Iterator[None]:
    """Meanwhile pickled draws become what ``office`` makes of them (a function and its arguments)."""
    _OFFICES.append(office)
    try:
        yield
    finally:
        _OFFICES.remove(office)


@dataclass(frozen=True)
class Stream:
    """One addressed stream: ``method(start, n)`` gives the draws of records start … start+n−1."""

    key: tuple[int, int]

    def __repr__(self) -> str:
        return "Stream(secret)"

    def generator(self, start: int = 0) -> np.random.Generator:
        """A sequential generator, for algorithms that draw an unknown number of times."""
        bits = np.random.Philox(key=np.array(self.key, dtype=np.uint64))
        if start:
            bits.advance(start)
        return np.random.Generator(bits)

    def bits(self, start: int, n: int) -> npt.NDArray[np.uint64]:
        """64 random bits a record."""
        bits = np.random.Philox(key=np.array(self.key, dtype=np.uint64))
        # Philox makes four words per counter step, so the record's word is (start // 4, start % 4).
        skip = start % 4
        if start // 4:
            bits.advance(start // 4)
        return np.asarray(bits.random_raw(n + skip), dtype=np.uint64)[skip:]

    def uniform(self, start: int, n: int) -> npt.NDArray[np.float64]:
        """Uniform draws in the open interval (0, 1), 52 bits each (53 would round up to 1)."""
        return ((self.bits(start, n) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    def normal(self, start: int, n: int) -> npt.NDArray[np.float64]:
        """Standard normal draws by the inverse distribution function."""
        from scipy.special import ndtri

        return np.asarray(ndtri(self.uniform(start, n)), dtype=np.float64)

    def permutation(self, n: int) -> npt.NDArray[np.int64]:
        """A uniform random order of n things: sorted by the bits of each, whoever holds which of them."""
        return np.argsort(self.bits(0, n), kind="stable").astype(np.int64, copy=False)
