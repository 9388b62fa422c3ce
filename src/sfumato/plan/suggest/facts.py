"""What the values of a column look like, whatever it is called.

Everything is computed on a sample of the file and kept, so that the rules that ask for it again pay
once.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data.schema import Variable
from sfumato.plan.suggest import lexicon, words

Floats = npt.NDArray[np.float64]

_TEXTS: Final = 3_000
"""How many distinct texts are looked at."""
_MOST_CODES: Final = 4
_EMAIL: Final = r"[^@\s]+@[^@\s]+\.[a-zA-Z]{2,}"
_PHONE: Final = r"^\s*(\+|00)?[\d\s().\-/]{7,20}$"
_DATE: Final = r"^\s*(\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./-]\d{1,2}[./-]\d{1,2})"
_WORD: Final = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")


class Facts:
    """The facts of one column; ``series`` is the sample, ``own`` what the file's metadata say."""

    def __init__(self, series: pl.Series, own: Variable) -> None:
        self.name, self.own, self.dtype = series.name, own, series.dtype
        self.known = series.drop_nulls()
        if self.dtype.is_float():
            self.known = self.known.filter(self.known.is_finite())
        self.n = len(series)
        self.filled = len(self.known)
        self.distinct = self.known.n_unique() if self.filled else 0

    # -- kinds of column --------------------------------------------------------------------------

    @property
    def is_text(self) -> bool:
        return self.dtype in (pl.String, pl.Categorical, pl.Enum)

    @property
    def is_date(self) -> bool:
        return self.dtype == pl.Date or isinstance(self.dtype, pl.Datetime) or self.date_texts

    @cached_property
    def date_texts(self) -> bool:
        return bool(self.is_text and self.filled and self._share(_DATE) > 0.9)

    @cached_property
    def split_texts(self) -> tuple[Floats, tuple[str, ...]]:
        """A text column's numbers, and the few words among them ("N", "not stated"), if it is one."""
        if not self.is_text or not self.filled:
            return np.empty(0), ()
        # Most files have thousands of records of a few hundred texts: the distinct ones decide.
        text = self.texts
        bare = text.str.strip_chars().str.replace(",", ".", literal=True)
        numbers = bare.cast(pl.Float64, strict=False)
        rest = text.filter(numbers.is_null())
        zeros = bool(bare.filter(numbers.is_not_null()).str.contains(r"^0\d").any())
        zeros = zeros and not self.measures
        if len(rest) > _MOST_CODES or numbers.count() < 5 or zeros or not len(rest):
            return np.empty(0), ()
        if any(len(t) > 40 or any(c.isdigit() for c in t) for t in rest.to_list()):  # 2A is a code as 2 is
            return np.empty(0), ()
        every = self.known.cast(pl.String).str.strip_chars().str.replace(",", ".", literal=True)
        return every.cast(pl.Float64, strict=False).drop_nulls().to_numpy(), tuple(sorted(rest.to_list()))

    @cached_property
    def measures(self) -> bool:
        """Whether name or label speak of something counted or measured: money, hours, ages."""
        said = [self.name, *([self.own.label] if self.own.label else [])]
        return any(words.is_money(s) or words.is_hours(s) or words.key_topic(s) == "age" for s in said)

    @cached_property
    def padded(self) -> bool:
        """Amounts by their name, filled up with zeros ("00125"): text by their form alone."""
        if not self.is_text or not self.measures or self.own.labels or not len(self.texts):
            return False
        return bool(self.texts.str.strip_chars().str.contains(r"^\d{2,15}$").all())

    @property
    def broken_by(self) -> tuple[str, ...]:
        """The words that break a column of numbers, which is text only because of them."""
        return self.split_texts[1]

    @property
    def is_number(self) -> bool:
        return self.dtype.is_numeric() or bool(self.broken_by)

    @cached_property
    def numbers(self) -> Floats:
        if self.broken_by:
            return self.split_texts[0]
        return self.known.cast(pl.Float64).to_numpy() if self.dtype.is_numeric() else np.empty(0)

    @cached_property
    def counted(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """The distinct numbers in order, and how often each occurs."""
        values, counts = np.unique(self.numbers, return_counts=True)
        return values, counts

    @cached_property
    def whole(self) -> bool:
        """Whether the column has numbers and all of them are whole."""
        v = self.numbers
        return bool(len(v)) and bool(np.all(v == np.floor(v)) and np.all(np.abs(v) < 2**53))

    @property
    def is_code(self) -> bool:
        """Something that can be a code: text, whole numbers, true/false."""
        return self.whole or self.is_text or self.dtype == pl.Boolean

    @property
    def share_distinct(self) -> float:
        return self.distinct / self.filled if self.filled else 0.0

    @cached_property
    def digits(self) -> tuple[int, int]:
        """The least and the most digits of whole numbers of the column."""
        v = np.abs(self.counted[0])
        if not self.whole or not len(v):
            return 0, 0
        low, high = (len(str(int(x))) for x in (v.min(), v.max()))
        return low, high

    # -- texts ------------------------------------------------------------------------------------

    @cached_property
    def texts(self) -> pl.Series:
        """Distinct texts, at most some thousand, spread over the file."""
        if not self.is_text:
            return pl.Series(self.name, [], pl.String)
        unique = self.known.cast(pl.String).unique(maintain_order=True)
        return unique.gather_every(max(1, len(unique) // _TEXTS))

    @cached_property
    def plain_texts(self) -> list[str]:
        return [words.plain(t).strip() for t in self.texts.to_list()]

    def _share(self, pattern: str) -> float:
        return float(self.texts.str.contains(pattern).mean() or 0.0) if len(self.texts) else 0.0  # type: ignore[arg-type]

    @cached_property
    def emails(self) -> float:
        return self._share(_EMAIL)

    @cached_property
    def phones(self) -> float:
        if not len(self.texts):
            return 0.0
        digits = self.texts.str.count_matches(r"\d")
        dated = self.texts.str.contains(_DATE)
        return float((self.texts.str.contains(_PHONE) & (digits >= 7) & (digits <= 15) & ~dated).mean() or 0)  # type: ignore[arg-type]

    @cached_property
    def given_names(self) -> float:
        """The share of distinct texts in which a word is a usual given name."""
        found = [bool(lexicon.GIVEN_NAMES.intersection(_WORD.findall(t))) for t in self.plain_texts]
        return float(np.mean(found)) if found else 0.0

    @cached_property
    def people(self) -> float:
        """The share of distinct texts with a given name beside another name, or a title before one."""
        return (
            float(np.mean([_speaks_of_person(t) for t in self.texts.to_list()])) if len(self.texts) else 0.0
        )

    @cached_property
    def words_each(self) -> float:
        """How many words a text has on average."""
        counts = [len(_WORD.findall(t)) for t in self.plain_texts]
        return float(np.mean(counts)) if counts else 0.0

    @cached_property
    def letters(self) -> float:
        """The share of texts that are letters (with blanks, dots, hyphens and apostrophes) only."""
        return self._share(r"^[\p{L}\s.'’\-,]+$")

    @cached_property
    def longest_digits(self) -> float:
        """The share of texts with eight digits or more in a row (dots and hyphens aside)."""
        bare = self.texts.str.replace_all(r"[\s.\-/]", "")
        return float(bare.str.contains(r"\d{8,}").mean() or 0) if len(bare) else 0.0  # type: ignore[arg-type]

    # -- numbers ----------------------------------------------------------------------------------

    @cached_property
    def zeros(self) -> float:
        return float(np.mean(self.numbers == 0)) if len(self.numbers) else 0.0

    @cached_property
    def heap(self) -> float:
        """The share of the commonest value."""
        _, counts = self.counted
        return float(counts.max() / counts.sum()) if len(counts) else 0.0

    @cached_property
    def smooth(self) -> float:
        """How much the counts of neighbouring whole numbers are alike (correlation at lag 1)."""
        values, counts = self.counted
        if not self.whole or len(values) < 10 or values[-1] - values[0] > 400:
            return 0.0
        full = np.zeros(int(values[-1] - values[0]) + 1)
        full[(values - values[0]).astype(np.int64)] = counts
        one, two = full[:-1], full[1:]
        if one.std() == 0 or two.std() == 0:
            return 0.0
        return float(np.corrcoef(one, two)[0, 1])

    @cached_property
    def rough(self) -> float:
        """How far the counts of whole numbers stray from their neighbours', as a ratio to mere chance
        (about 1 of people counted one by one, far above it where numbers are heaped)."""
        values, counts = self.counted
        if not self.whole or len(values) < 30 or values[-1] - values[0] > 400:
            return np.inf
        full = np.zeros(int(values[-1] - values[0]) + 1)
        full[(values - values[0]).astype(np.int64)] = counts
        around = np.convolve(full, np.array([1, 1, 1, 0, 1, 1, 1]) / 6, "valid")
        strays = (full[3:-3] - around) ** 2 / np.maximum(around * 7 / 6, 0.5)
        return float(strays.mean())

    @cached_property
    def round_share(self) -> float:
        """The share of whole numbers that end in 0 or 5; one in five of numbers that nobody rounds."""
        v = self.numbers[self.numbers != 0]
        return float(np.mean(v % 5 == 0)) if len(v) and self.whole else 0.0

    @cached_property
    def even_spread(self) -> float:
        """The distance (Kolmogorov) of the values from an even spread between their ends."""
        v = np.sort(self.numbers)
        if len(v) < 5 or v[0] == v[-1]:
            return 1.0
        place = (v - v[0]) / (v[-1] - v[0])
        return float(np.abs(place - np.arange(len(v)) / (len(v) - 1)).max())

    @cached_property
    def decimals(self) -> int:
        """How many decimals most values need, up to 6 (0 for whole numbers)."""
        v = self.numbers[:2000]
        for places in range(7):
            scaled = v * 10.0**places
            if np.mean(np.abs(scaled - np.rint(scaled)) < 1e-6 * np.maximum(1, np.abs(scaled))) > 0.95:
                return places
        return 7

    @cached_property
    def ascending(self) -> bool:
        """Whether the records stand in the order of this column, never falling."""
        if self.dtype.is_numeric():
            return bool(len(self.numbers) > 5 and np.all(np.diff(self.numbers) >= 0))
        text = self.known.cast(pl.String) if self.is_text else self.known
        return bool(len(text) > 5 and text.is_sorted())

    @property
    def looks_like_year(self) -> bool:
        v = self.counted[0]
        return self.whole and len(v) > 0 and v[0] >= 1850 and v[-1] <= 2035

    @cached_property
    def looks_like_day(self) -> bool:
        """Days written as whole numbers: 19640229, many of them, none impossible."""
        v = self.counted[0]
        if not self.whole or len(v) < 12 or v[0] < 1850_01_01 or v[-1] > 2035_12_31:
            return False
        month, day = v // 100 % 100, v % 100
        return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).mean() > 0.99)

    @cached_property
    def looks_like_age(self) -> bool:
        """Whole years from below 20 to above 60, many of them, no large heap, neighbours alike."""
        v, _ = self.counted
        if not self.whole or len(v) < 40 or v[0] < 0 or v[-1] > 120 or v[-1] < 60 or v[0] > 25:
            return False
        spread = float(self.numbers.std())  # hours of work, which are never so far apart
        lean = float(np.mean((self.numbers - self.numbers.mean()) ** 3)) / max(spread, 1e-9) ** 3
        if words.is_hours(self.name) or words.has(self.name, words.MEASURE):
            return False
        even = self.heap < 0.06 and self.zeros < 0.05 and (self.smooth > 0.5 or self.rough < 1.6)
        return even and spread > 14 and abs(lean) < 0.8

    def matches(self, pattern: re.Pattern[str]) -> float:
        """The share of distinct texts (or labels of codes) in which the pattern is found."""
        said = self.said
        return sum(bool(pattern.search(t)) for t in said) / len(said) if said else 0.0

    @cached_property
    def said(self) -> list[str]:
        """What the values say in words: the texts, or the labels of the codes; missing ones aside."""
        if self.own.labels:
            listed = [words.plain(label) for label in self.own.labels.values()]
        else:
            listed = self.plain_texts
        return [t for t in listed if t and not lexicon.is_missing_text(t)]


def _speaks_of_person(text: str) -> bool:
    """A given name next to another capitalised word, or a title before one."""
    found = _WORD.findall(text)
    for one, two in itertools.pairwise(found):
        if not (one[:1].isupper() and two[:1].isupper()):
            continue
        first, second = words.plain(one), words.plain(two)
        if first in lexicon.TITLES or first in lexicon.GIVEN_NAMES or second in lexicon.GIVEN_NAMES:
            return True
    return False


def constant_within(frame: pl.DataFrame, group: str, columns: Sequence[str]) -> set[str]:
    """The columns that have one value in each group."""
    if not columns:
        return set()
    heads = frame.lazy().group_by(group).agg([pl.col(c).n_unique().alias(c) for c in columns])
    most: dict[str, Any] = heads.select(pl.all().exclude(group).max()).collect().row(0, named=True)
    return {c for c, n in most.items() if n == 1}
