"""Addressed randomness: nothing but the address decides a draw."""

from __future__ import annotations

import os
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sfumato.draws import Seed, as_seed
from sfumato.errors import SeedError, SfumatoWarning


@given(st.integers(0, 200), st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_chunks_do_not_change_a_draw(start: int, sizes: list[int]) -> None:
    stream = Seed.from_int(3).draws("step").stream("INCOME", "north")
    whole = stream.bits(start, sum(sizes))
    parts, at = [], start
    for size in sizes:
        parts.append(stream.bits(at, size))
        at += size
    assert np.array_equal(np.concatenate(parts), whole)


def test_every_part_of_the_address_matters() -> None:
    seed = Seed.from_int(1)
    addresses = [
        (step, column, stratum, purpose)
        for step in ("a", "b", "ab")
        for column in ("", "x", "xy")
        for stratum in ("", "1", "y1")
        for purpose in ("", "p")
    ]
    first = {address: tuple(seed.draws(address[0]).stream(*address[1:]).bits(0, 2)) for address in addresses}
    assert len(set(first.values())) == len(addresses)


def test_parts_of_an_address_do_not_run_together() -> None:
    draws = Seed.from_int(1).draws("s")
    assert draws.stream("ab", "c") != draws.stream("a", "bc")
    assert draws.stream("a\0b", "c") != draws.stream("a", "b\0c")


@given(st.text(max_size=8), st.text(max_size=8))
def test_two_step_ids_never_share_a_stream(one: str, two: str) -> None:
    seed = Seed.from_int(5)
    assert (seed.draws(one).stream("x") == seed.draws(two).stream("x")) == (one == two)


def test_uniform_draws_are_uniform_and_open() -> None:
    stream = Seed.from_int(11).draws("s").stream("x")
    draws = stream.uniform(0, 200_000)
    assert draws.min() > 0
    assert draws.max() < 1
    assert stats.kstest(draws, "uniform").pvalue > 1e-4


def test_normal_draws_are_normal() -> None:
    draws = Seed.from_int(12).draws("s").stream("x").normal(0, 200_000)
    assert stats.kstest(draws, "norm").pvalue > 1e-4


def test_the_largest_bits_stay_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Seed.from_int(1).draws("s").stream("x")
    top = np.array([2**64 - 1, 0], dtype=np.uint64)
    monkeypatch.setattr(type(stream), "bits", lambda self, start, n: top)
    assert 0 < stream.uniform(0, 2)[1] < stream.uniform(0, 2)[0] < 1


def test_a_seed_never_shows_itself(tmp_path) -> None:
    seed = Seed.new()
    path = tmp_path / "seed"
    seed.save(path)
    secret = path.read_text().strip()
    assert secret not in repr(seed) + str(seed) + f"{seed}"
    assert secret not in repr(seed.draws("s")) + repr(seed.draws("s").stream("x"))
    assert str(seed.draws("s").stream("x").key[0]) not in repr(seed.draws("s").stream("x"))
    with pytest.raises(TypeError):
        seed.__reduce__()


def test_a_seed_survives_its_file(tmp_path) -> None:
    seed = Seed.new()
    seed.save(tmp_path / "seed")
    assert stat.S_IMODE(os.stat(tmp_path / "seed").st_mode) == 0o600
    assert Seed.from_file(tmp_path / "seed") == seed
    with pytest.raises(SeedError, match="exists already"):
        Seed.new().save(tmp_path / "seed")


def test_a_seed_that_others_can_read_is_warned_of(tmp_path) -> None:
    Seed.new().save(tmp_path / "seed")
    (tmp_path / "seed").chmod(0o644)
    with pytest.warns(SfumatoWarning, match="can be read by others"):
        Seed.from_file(tmp_path / "seed")


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff\xfe", b"12zz" * 16])
def test_a_bad_seed_file_is_an_error_that_does_not_quote_it(tmp_path, content: bytes) -> None:
    path = tmp_path / "seed"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(SeedError) as caught:
        Seed.from_file(path)
    if content.strip():
        assert content.decode(errors="replace") not in str(caught.value)


def test_what_may_be_a_seed() -> None:
    assert as_seed(4) == Seed.from_int(4)
    assert as_seed(None) != as_seed(None)
    for bad in (True, 1.5, "x"):
        with pytest.raises(SeedError):
            as_seed(bad)  # type: ignore[arg-type]


def test_children_are_independent() -> None:
    seed = Seed.from_int(1)
    assert len({seed, seed.child("copy 2"), seed.child("copy 3"), seed.child("copy 2").child("copy 3")}) == 4


def test_a_seed_longer_than_its_key_is_refused() -> None:
    assert Seed(b"a" * 64).draws("s").stream("x").key
    with pytest.raises(SeedError, match="8 to 64"):
        Seed(b"a" * 65)
