"""Re-identify, then swap: cells, slot and string risk, limits, sums, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.contract.mask import Notes
from sfumato.draws import Seed
from sfumato.errors import MaskError, ParameterError
from sfumato.masks._cells import collapse
from sfumato.masks.linkage_swap import exchange


def people(n: int = 900, seed: int = 0) -> sf.Microdata:
    rng = np.random.default_rng(seed)
    wage, rent = rng.gamma(2, 9000, n).round(), rng.gamma(1, 900, n).round()
    return sf.Microdata(
        pl.DataFrame(
            {
                "SEX": rng.integers(0, 2, n),
                "AGE": rng.integers(18, 90, n),
                "STATE": rng.integers(0, 9, n),
                "WAGE": wage.astype(int),
                "RENT": rent.astype(int),
                "TOTAL": (wage + rent).astype(int),
            }
        ),
        sf.Schema(sensitive=["WAGE", "RENT"], variables={"TOTAL": {"sum_of": ["WAGE", "RENT"]}}),
    )


ATTACK = {"measure": "distance_linkage", "known": ["WAGE", "RENT"], "block_on": ["SEX", "STATE"]}


def make(**more: Any) -> sf.LinkageSwap:
    given_ = {
        "attack": ATTACK,
        "columns": ["WAGE", "RENT"],
        "cells": ["SEX", "AGE"],
        "class_width": {"AGE": 10},
    }
    return sf.LinkageSwap(**{**given_, **more})


@pytest.fixture(scope="module")
def files() -> tuple[sf.Microdata, sf.Microdata]:
    data = people()
    return data, sf.AdditiveNoise(columns=["WAGE", "RENT"], variance_ratio=0.01).mask(data, seed=1)


def run(
    mask: sf.LinkageSwap, original: sf.Microdata, masked: sf.Microdata, seed: int = 1
) -> tuple[sf.Microdata, Notes]:
    out, notes, checks = mask.knowing(original).carry_out(masked, Seed.from_int(seed).draws(mask.name))
    assert all(c.ok for c in checks)
    return out, notes


# -- cells ----------------------------------------------------------------------------------------


def test_small_cells_lose_their_last_column_first() -> None:
    data = sf.Microdata(
        pl.DataFrame(
            {
                "SEX": [1, 1, 1, 1, 1, 2, 2, 2, 3],
                "AGE": [20, 20, 20, 30, 40, 20, 20, 20, 20],
            }
        )
    )
    cells, levels = collapse(data, ["SEX", "AGE"], {}, 2)
    # (1,20) and (2,20) are large enough; (1,30) and (1,40) become "SEX 1, other age"; SEX 3 is alone
    # and joins the largest cell.
    assert levels == {"SEX × AGE": 6, "SEX": 2, "the largest cell": 1}
    assert cells[0] == cells[1] == cells[2] == cells[8]
    assert cells[3] == cells[4] != cells[0]
    assert cells[5] == cells[6] == cells[7]


def test_classes_of_a_number() -> None:
    data = sf.Microdata(pl.DataFrame({"AGE": [20, 29, 30, 39, None, None]}))
    cells, _ = collapse(data, ["AGE"], {"AGE": 10}, 2)
    assert cells.tolist() == [1, 1, 2, 2, 0, 0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=4, max_size=60), st.integers(2, 6))
def test_every_cell_has_enough_candidates(rows: list[tuple[int, int]], least: int) -> None:
    data = sf.Microdata(pl.DataFrame(rows, schema=["A", "B"], orient="row"))
    cells, levels = collapse(data, ["A", "B"], {}, least)
    assert sum(levels.values()) == len(rows)
    sizes = np.bincount(cells)
    assert (sizes[sizes > 0] >= min(least, len(rows))).all()


@given(st.integers(0, 10_000), st.integers(2, 40))
def test_exchanges_are_disjoint_pairs_within_cells(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    cells, movable = rng.integers(0, 4, n), rng.random(n) < 0.8
    chosen = rng.permutation(n)[: n // 2]
    source, without = exchange(chosen, cells, movable, Seed.from_int(seed).draws("s").stream("x"))
    assert (source[source] == np.arange(n)).all()
    assert (cells[source] == cells).all()
    moved = source != np.arange(n)
    assert not moved[~movable].any()
    stayed = chosen[~moved[chosen]]
    assert without == len(stayed)
    for i in stayed[movable[stayed]]:  # it stayed because nobody free was left in its cell
        others = (cells == cells[i]) & movable & ~moved
        assert others.sum() == 1


# -- the swap -------------------------------------------------------------------------------------


def test_strings_stay_in_their_cells_with_all_their_moments(files: tuple[sf.Microdata, sf.Microdata]) -> None:
    data, noisy = files
    swapped, notes = run(make(), data, noisy)
    cells, _ = collapse(noisy, ["SEX", "AGE"], {"AGE": 10}, 10)
    columns = ["WAGE", "RENT", "TOTAL"]
    x, z = (f.frame.select(columns).to_numpy().astype(float) for f in (noisy, swapped))
    assert (x != z).any(axis=1).sum() == pytest.approx(notes.figures["records_swapped"], abs=2)
    for c in np.unique(cells):
        here = cells == c
        np.testing.assert_allclose(z[here].mean(axis=0), x[here].mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(np.cov(z[here].T), np.cov(x[here].T), rtol=1e-10)
    np.testing.assert_allclose(np.cov(z.T), np.cov(x.T), rtol=1e-10)
    assert (z[:, 2] == z[:, 0] + z[:, 1]).all()  # the total travels with its parts
    for c in ("SEX", "AGE", "STATE"):
        assert swapped.frame[c].equals(data.frame[c])


def test_slot_risk_falls_and_string_risk_does_not(files: tuple[sf.Microdata, sf.Microdata]) -> None:
    data, noisy = files
    mask = make()
    swapped, notes = run(mask, data, noisy)
    figures = notes.figures
    assert figures["slot_rate_before"] == pytest.approx(mask.attack.measure(data, noisy).value)
    assert figures["slot_rate"] == pytest.approx(mask.attack.measure(data, swapped).value)
    assert figures["slot_rate"] < 0.5 * figures["slot_rate_before"]
    # FORMULAS: blocked on the cell alone, the intruder links strings as before (.1053 → .1053).
    assert figures["string_rate_cells_only"] == pytest.approx(
        figures["string_rate_cells_only_before"], abs=0.01
    )
    assert figures["string_rate_cells_only"] > 0.2
    assert any("doesn't hide a string" in w for w in notes.warnings)
    assert notes.log is not None
    moved = notes.log["record"].to_numpy()
    assert (
        swapped.frame["WAGE"].to_numpy()[moved] == noisy.frame["WAGE"].to_numpy()[notes.log["string_of"]]
    ).all()


def test_a_share_of_the_re_identified_is_swapped(files: tuple[sf.Microdata, sf.Microdata]) -> None:
    data, noisy = files
    links = make().attack.measure(data, noisy).links
    found = int((links["original"] == links["masked"]).sum())
    _, notes = run(make(rate_percent=20), data, noisy)
    # Each of the chosen has one partner; a partner may itself be chosen.
    assert 0.2 * found - 1 <= notes.figures["records_swapped"] <= 2 * (0.2 * found + 1)
    none, notes = run(make(rate_percent=0), data, noisy)
    assert none.frame.equals(noisy.frame)


def test_it_repeats_until_the_limit_is_met(files: tuple[sf.Microdata, sf.Microdata]) -> None:
    data, noisy = files
    once = run(make(rate_percent=60), data, noisy)[1].figures["slot_rate"]
    limit = 50 * once  # half of what one round leaves, in percent
    _, notes = run(make(rate_percent=60, limit_percent=limit, max_rounds=20), data, noisy)
    assert notes.figures["rounds"] > 1
    assert 100 * notes.figures["slot_rate"] <= limit
    _, notes = run(make(limit_percent=0, max_rounds=1), data, noisy)
    assert any("wasn't met" in w for w in notes.warnings)
    untouched, notes = run(make(limit_percent=100), data, noisy)
    assert notes.figures["rounds"] == 0
    assert untouched.frame.equals(noisy.frame)


def test_missing_values_stay_where_they_are(files: tuple[sf.Microdata, sf.Microdata]) -> None:
    data, noisy = files
    holes = noisy.with_columns({"RENT": noisy.column("RENT").scatter(list(range(0, 900, 3)), None)})
    gone = holes.frame["RENT"].is_null()
    swapped, _ = run(make(attack={**ATTACK, "known": ["WAGE"]}), data, holes)
    assert swapped.frame["RENT"].is_null().equals(gone)
    assert swapped.frame["WAGE"].filter(gone).equals(noisy.frame["WAGE"].filter(gone))


def test_the_attack_goes_through_a_plan() -> None:
    mask = make()
    again = sf.LinkageSwap.from_dict(mask.to_dict())
    assert again == mask
    assert isinstance(again.attack, sf.DistanceLinkage)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"attack": {"known": ["WAGE"]}}, "must name its measure"),
        ({"attack": {"measure": "linkages"}}, "linkage"),
        ({"attack": "linkage"}, "must be an attack"),
        ({"attack": {"measure": "information_loss"}}, "must be an attack"),
        ({"columns": []}, "at least one"),
        ({"cells": ["WAGE"], "class_width": {}}, "cells of itself"),
        ({"class_width": {"STATE": 2}}, "isn't in `cells`"),
        ({"min_candidates": 1}, "min_candidates"),
        ({"rate_percent": 101}, "rate_percent"),
    ],
)
def test_bad_parameters(more: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        make(**more)


def test_bad_requests(files: tuple[sf.Microdata, sf.Microdata]) -> None:
    data, noisy = files
    with pytest.raises(MaskError, match="900 records and the masked file 899"):
        make().knowing(data).mask(noisy.slice(0, 899), seed=1)
    with pytest.raises(MaskError, match=r"attack: .*'WAGES'"):
        make(attack={**ATTACK, "known": ["WAGES"]}).mask(data, seed=1)
    with pytest.raises(MaskError, match="part of a sum"):
        make(columns=["WAGE"], cells=["RENT"], class_width={}).mask(data, seed=1)
