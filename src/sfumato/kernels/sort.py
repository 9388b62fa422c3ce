"""Sorting records by a value: faster than ``np.argsort``, because key and place travel in one word.

The order-preserving bits of a value are cut to what room the place of the record leaves in 64 bits;
``[key | place]`` is one unsigned integer. Three radix passes put the words in the order of their
leading bits, which is nearly all of it, and an insertion pass does the rest. Where the cut lost bits,
the few words whose keys collide are put in order by the whole values.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

_SIGN = np.uint64(1 << 63)
_ONE = np.uint64(1)
_PASSES = 3
_MOST_DIGIT = 10  # bits of a digit: more buckets than 1,024 fall out of the first caches
_MANY = 1 << 14  # fewer words are left to ``np.sort``
_MOVES = 4  # moves a record after which the insertion pass gives up
_BLOCK = 512  # random words drawn at a time
HALF_BITS = 26
"""Bits of one draw: a random double is worth two of them."""
HALF = 1 << HALF_BITS
_WORD = float(1 << (2 * HALF_BITS))

Array = npt.NDArray[Any]


def sorted_with_places(values: Array) -> tuple[Array, Array, bool]:
    """The values in ascending order, the place each came from (equal values in file order), and
    whether no two of them are equal.

    ``values`` are float64 or int64, in one piece. −0.0 counts as 0.0; NaN stands at the ends. Places
    are uint32 below 2**32 values.

    >>> values, places, distinct = sorted_with_places(np.array([30.0, -1.5, 30.0, 7.0]))
    >>> values.tolist(), places.tolist(), distinct
    ([-1.5, 7.0, 30.0, 30.0], [1, 3, 0, 2], False)
    """
    n = len(values)
    place_type = np.uint32 if n < 2**32 else np.uint64
    if n < 2:
        return values.copy(), np.zeros(n, dtype=place_type), True
    floating = values.dtype == np.float64
    raw = values.view(np.uint64)
    low, high, varying = _key_span(raw, floating)
    room = 64 - (n - 1).bit_length()
    # Low bits that no two keys differ in carry nothing: whole dollars in a float leave many of them.
    idle = (int(varying) & -int(varying)).bit_length() - 1 if varying else 0
    width = int(high - low).bit_length()
    lossless = width - idle <= room
    cut = np.uint64(idle if lossless else width - room)
    bits = np.uint64(64 - room)
    low = np.uint64(low)  # a kernel's uint64 arrives as an int, which may not fit an int64 again
    packed, spare = _sorted_words(raw, floating, low, cut, int(bits), width - int(cut))
    if lossless:
        spare = None  # before places are asked for: at size the peak is here
    places = np.empty(n, dtype=place_type)
    if lossless:
        equal = _unpack(packed, floating, low, cut, bits, places)
        return packed.view(values.dtype), places, equal == 0
    marks = np.empty(n // 64 + 64, dtype=np.int64)
    ordered = np.empty(n, dtype=np.uint64) if spare is None else spare
    marked = _fetch(packed, raw, bits, places, ordered, marks)
    if marked > len(marks):  # too many to list, as with a value that many share
        marks, marked = np.empty(0, dtype=np.int64), n - 1
    equal = _mend(ordered, floating, places, marks, marked)
    if equal < 0:  # a few far values took the bits that tell the others apart
        order = _order_by_halves(raw, floating)
        return values[order], order.astype(place_type), False
    return ordered.view(values.dtype), places, equal == 0


def _order_by_halves(raw: Array, floating: bool) -> Array:
    """The places in order of the whole keys: by their lower half, then stably by their upper one."""
    keys, half = np.empty(len(raw), dtype=np.uint64), np.uint64(32)
    _keys(raw, floating, keys)
    if len(raw) >= 2**32:
        return np.argsort(keys, kind="stable")
    words = (keys << half) | np.arange(len(raw), dtype=np.uint64)
    words.sort()
    first = words.astype(np.uint32)
    words = ((keys[first] >> half) << half) | np.arange(len(raw), dtype=np.uint64)
    words.sort()
    return np.asarray(first[words.astype(np.uint32)])


def _sorted_words(
    raw: Array, floating: bool, low: np.uint64, cut: np.uint64, bits: int, width: int
) -> tuple[Array, Array | None]:
    """The words [key | place] in order, and another array of their size if one was needed."""
    n = len(raw)
    packed = np.empty(n, dtype=np.uint64)
    digit = min(_MOST_DIGIT, -(-width // _PASSES)) if n >= _MANY else 0
    shift = max(bits, bits + width - _PASSES * digit)
    counts = np.zeros((_PASSES, 1 << digit), dtype=np.int64)
    _pack(raw, floating, low, cut, np.uint64(bits), packed, np.uint64(shift), np.uint64(digit), counts)
    if digit == 0:
        packed.sort()
        return packed, None
    spare = np.empty(n, dtype=np.uint64)
    for one in range(_PASSES):
        _scatter(packed, spare, np.uint64(shift + one * digit), counts[one])
        packed, spare = spare, packed
    if not _insert(packed, _MOVES * n):
        packed.sort()
    return packed, spare


@nb.njit(nogil=True, cache=True, inline="always")
def _key(word, floating):  # type: ignore[no-untyped-def]
    """Bits that order as the value does; −0.0 is 0.0."""
    if not floating:
        return word ^ _SIGN
    if word == _SIGN:
        word = np.uint64(0)
    return ~word if word & _SIGN else word | _SIGN


@nb.njit(nogil=True, cache=True, inline="always")
def _word(key, floating):  # type: ignore[no-untyped-def]
    """The inverse of ``_key``."""
    if not floating:
        return key ^ _SIGN
    return key ^ _SIGN if key & _SIGN else ~key


@nb.njit(nogil=True, cache=True)
def _keys(raw, floating, out):  # type: ignore[no-untyped-def]
    for i in range(raw.size):
        out[i] = _key(raw[i], floating)


@nb.njit(nogil=True, cache=True)
def _key_span(raw, floating):  # type: ignore[no-untyped-def]
    first = _key(raw[0], floating)
    low = first
    high = first
    varying = np.uint64(0)
    for i in range(raw.size):
        key = _key(raw[i], floating)
        low = min(low, key)
        high = max(high, key)
        varying |= key ^ first
    return low, high, varying


@nb.njit(nogil=True, cache=True)
def _pack(raw, floating, low, cut, bits, packed, shift, digit, counts):  # type: ignore[no-untyped-def]
    """Make the words, and count the digits of all radix passes on the way."""
    if digit == 0:
        for i in range(raw.size):
            packed[i] = (((_key(raw[i], floating) - low) >> cut) << bits) | np.uint64(i)
        return
    last = (_ONE << digit) - _ONE
    first, second, third = counts[0], counts[1], counts[2]
    for i in range(raw.size):
        word = (((_key(raw[i], floating) - low) >> cut) << bits) | np.uint64(i)
        packed[i] = word
        word >>= shift
        first[word & last] += 1
        word >>= digit
        second[word & last] += 1
        third[word >> digit] += 1


@nb.njit(nogil=True, cache=True)
def _scatter(words, out, shift, counts):  # type: ignore[no-untyped-def]
    """One radix pass: stably into the buckets of a digit."""
    last = np.uint64(counts.size - 1)
    place = np.empty(counts.size, np.int64)
    total = 0
    for d in range(counts.size):
        place[d] = total
        total += counts[d]
    for i in range(words.size):
        word = words[i]
        d = (word >> shift) & last
        out[place[d]] = word
        place[d] += 1


@nb.njit(nogil=True, cache=True)
def _insert(words, most):  # type: ignore[no-untyped-def]
    """Sort words that are nearly in order; False if they aren't."""
    moves = 0
    for i in range(1, words.size):
        word = words[i]
        if words[i - 1] > word:
            y = i - 1
            while y >= 0 and words[y] > word:
                words[y + 1] = words[y]
                y -= 1
            words[y + 1] = word
            moves += i - 1 - y
            if moves > most:
                return False
    return True


@nb.njit(nogil=True, cache=True)
def _unpack(packed, floating, low, cut, bits, places):  # type: ignore[no-untyped-def]
    """Words to values in place; how many are equal to the one before."""
    here = (_ONE << bits) - _ONE
    equal = 0
    before = ~(packed[0] >> bits)
    for j in range(packed.size):
        word = packed[j]
        short = word >> bits
        equal += short == before
        before = short
        places[j] = word & here
        packed[j] = _word((short << cut) + low, floating)
    return equal


@nb.njit(nogil=True, cache=True)
def _fetch(packed, raw, bits, places, ordered, marks):  # type: ignore[no-untyped-def]
    """Whole values in the order of the cut keys; ``marks`` lists the first of those whose key collides
    with the one before. Returns how many there are."""
    here = (_ONE << bits) - _ONE
    marked = 0
    before = ~(packed[0] >> bits)
    for j in range(packed.size):
        word = packed[j]
        place = word & here
        places[j] = place
        ordered[j] = raw[place]
        short = word >> bits
        if short == before:
            if marked < marks.size:
                marks[marked] = j
            marked += 1
        before = short
    return marked


@nb.njit(nogil=True, cache=True)
def _mend(words, floating, places, marks, marked):  # type: ignore[no-untyped-def]
    """Put values whose cut keys collided in the order of their whole keys, stably.

    Without ``marks`` all values are looked at. Returns how many equal the one before, or −1 if it
    would take long.
    """
    moves = 0
    for m in range(marked):
        x = marks[m] if marks.size else m + 1
        word, place = words[x], places[x]
        key = _key(word, floating)
        y = x - 1
        while y >= 0 and _key(words[y], floating) > key:
            words[y + 1], places[y + 1] = words[y], places[y]
            y -= 1
        words[y + 1], places[y + 1] = word, place
        moves += x - 1 - y
        if moves > _MOVES * words.size:
            return -1
    equal = 0
    for m in range(marked):
        x = marks[m] if marks.size else m + 1
        equal += _key(words[x], floating) == _key(words[x - 1], floating)
    return equal


@nb.njit(nogil=True, cache=True, inline="always")
def draw_halves(rng, halves):  # type: ignore[no-untyped-def]
    """Fill an array of even length with random whole numbers of 26 bits, two from each double."""
    for i in range(0, halves.size, 2):
        word = np.int64(rng.random() * _WORD)
        halves[i] = word >> HALF_BITS
        halves[i + 1] = word & (HALF - 1)


@nb.njit(nogil=True, cache=True)
def _insert_by_bits(places, bits, start, stop):  # type: ignore[no-untyped-def]
    """Sort a few places by their bits."""
    for last in range(start + 1, stop):
        place = places[last]
        at = last
        while at > start and bits[places[at - 1]] > bits[place]:
            places[at] = places[at - 1]
            at -= 1
        places[at] = place


@nb.njit(nogil=True, cache=True)
def order_equals(values, places, starts, bits):  # type: ignore[no-untyped-def]
    """Put the places of equal values in the order of their bits, run by run (none crosses a stratum).

    Random bits spread evenly, so a run of m places falls into m buckets of about one each by its
    leading bits, and sorting costs O(m).
    """
    few = 24
    for stratum in range(starts.size - 1):
        start = starts[stratum]
        stop = starts[stratum + 1]
        while start < stop:
            end = start + 1
            while end < stop and values[end] == values[start]:
                end += 1
            m = end - start
            if m > few:
                cursor = np.zeros(m + 1, np.int64)
                held = places[start:end].copy()
                for i in range(m):
                    cursor[
                        ((bits[held[i]] >> np.uint64(32)) * np.uint64(m) >> np.uint64(32)) + np.uint64(1)
                    ] += 1
                for b in range(m):
                    cursor[b + 1] += cursor[b]
                for i in range(m):
                    b = (bits[held[i]] >> np.uint64(32)) * np.uint64(m) >> np.uint64(32)
                    places[start + cursor[b]] = held[i]
                    cursor[b] += 1
            # What a bucket holds is next to its place already.
            _insert_by_bits(places, bits, start, end)
            start = end


@nb.njit(nogil=True, cache=True)
def gather_strata(values, places, strata, starts, values_out, places_out):  # type: ignore[no-untyped-def]
    """Stably move sorted values and places into strata: those of stratum s from ``starts[s]`` on."""
    cursor = starts[:-1].copy()
    for j in range(places.size):
        s = strata[places[j]]
        values_out[cursor[s]] = values[j]
        places_out[cursor[s]] = places[j]
        cursor[s] += 1
