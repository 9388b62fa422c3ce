"""Households dealt whole: shapes stay, members stay together, edits hold, totals are rebuilt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.contract.mask import Notes
from sfumato.data.microdata import Microdata
from sfumato.errors import MaskError
from sfumato.masks.cluster_shuffle import rebuilt
from sfumato.masks.cluster_shuffle.blocks import beside, bundles
from sfumato.masks.cluster_shuffle.members import CHILD, OTHER, PARTNER, REFERENCE, members
from sfumato.stats.levels import levels_of

EUSILC = Path("../shared/data/census/eusilc_laeken.csv")


def families(n: int = 400, seed: int = 0) -> Microdata:
    """Households of 1 to 4: a head, perhaps a partner, up to two children; their ages and incomes tied."""
    rng = np.random.default_rng(seed)
    rows = []
    for home in range(n):
        head = int(rng.integers(25, 70))
        kind = int(rng.integers(0, 4))
        people = [(1, head, int(rng.integers(1, 3)))]
        if kind > 0:
            people.append((2, max(20, head + int(rng.integers(-5, 6))), 3 - people[0][2]))
        young = min(a for _, a, _ in people)
        people += [(3, int(rng.integers(max(0, young - 45), young - 17)), 1) for _ in range(max(kind - 1, 0))]
        area, rent = int(rng.integers(0, 3)), float(np.rint(rng.lognormal(6, 0.3)))
        for relation, age, sex in people:
            wage = (
                float(np.rint(rng.lognormal(7, 0.4) * (1 + head / 50)))
                if 16 <= age < 65 and rng.random() < 0.7
                else 0.0
            )
            pension = float(np.rint(rng.lognormal(6.5, 0.2))) if age >= 60 else 0.0
            status = 1 if wage else (3 if pension else 2)
            rows.append((home, relation, age, sex, status, wage, pension, area, rent, len(people)))
    names = ["HOME", "RELATION", "AGE", "SEX", "STATUS", "WAGE", "PENSION", "AREA", "RENT", "SIZE"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    of = frame["HOME"].to_numpy()
    grown = np.bincount(of, frame["AGE"].to_numpy() >= 14)
    scale = 1 + 0.5 * (grown - 1) + 0.3 * (np.bincount(of) - grown)
    total = np.bincount(of, frame["WAGE"].to_numpy() + frame["PENSION"].to_numpy())
    frame = frame.with_columns(
        EQ=pl.Series(scale[of]), INCOME=pl.Series((total[of] - frame["RENT"].to_numpy()) / scale[of])
    )
    variables = {c: {"kind": "categorical"} for c in ("RELATION", "SEX", "STATUS", "AREA")}
    return Microdata(frame, sf.Schema(household="HOME", sensitive=["WAGE", "PENSION"], variables=variables))


COLUMNS = ("RELATION", "AGE", "SEX", "STATUS", "WAGE", "PENSION", "AREA", "RENT", "SIZE", "EQ", "INCOME")


def mask(**more: object) -> sf.ClusterShuffle:
    told = {"columns": COLUMNS, "unit": "HOME", "smallest": 10, "blind": (), "certain_percent": 100} | more
    return sf.ClusterShuffle(**told)  # type: ignore[arg-type]


def carried(step: sf.ClusterShuffle, data: Microdata, seed: int = 1) -> tuple[Microdata, Notes]:
    out, notes, checks = step.carry_out(data, sf.Seed.from_int(seed).draws("shuffle"))
    assert all(c.ok for c in checks)
    return out, notes


@pytest.fixture(scope="module")
def made() -> tuple[Microdata, Microdata, Notes]:
    data = families()
    return data, *carried(mask(), data)


def test_what_a_household_shares_stays_shared(made: tuple[Microdata, Microdata, Notes]) -> None:
    data, out, _ = made
    for column in ("AREA", "RENT", "SIZE", "EQ", "INCOME"):
        assert out.frame.group_by("HOME").agg(pl.col(column).n_unique())[column].max() == 1
    assert out.frame["HOME"].equals(data.frame["HOME"])
    assert (out.frame.group_by("HOME").agg((pl.col("RELATION") == 1).sum())["RELATION"] == 1).all()


def test_values_of_a_cluster_stay_in_it(made: tuple[Microdata, Microdata, Notes]) -> None:
    data, out, notes = made
    assert notes.log is not None
    cluster = notes.log["cluster"]
    for column in ("SEX", "STATUS", "RELATION"):
        sides = [
            pl.DataFrame({"g": cluster, "v": d.frame[column]}).group_by("g", "v").len().sort("g", "v")
            for d in (data, out)
        ]
        assert sides[0].equals(sides[1])


def test_totals_and_scales_are_rebuilt(made: tuple[Microdata, Microdata, Notes]) -> None:
    _, out, notes = made
    frame = out.frame
    of = frame["HOME"].to_numpy()
    grown = np.bincount(of, frame["AGE"].to_numpy() >= 14)
    scale = 1 + 0.5 * (grown - 1) + 0.3 * (np.bincount(of) - grown)
    total = np.bincount(of, frame["WAGE"].to_numpy() + frame["PENSION"].to_numpy())
    assert np.allclose(frame["EQ"].to_numpy(), scale[of])
    assert np.allclose(frame["INCOME"].to_numpy(), (total[of] - frame["RENT"].to_numpy()) / scale[of])
    assert len(notes.figures["rebuilt"]) == 3


def test_a_child_stays_as_much_younger_as_the_file_has_it(made: tuple[Microdata, Microdata, Notes]) -> None:
    data, out, notes = made

    def gaps(d: Microdata) -> tuple[int, int]:
        parents = d.frame.filter(pl.col("RELATION") < 3).group_by("HOME").agg(low=pl.col("AGE").min())
        child = d.frame.filter(pl.col("RELATION") == 3).join(parents, on="HOME")
        gap = child["low"] - child["AGE"]
        return int(gap.min()), int(gap.max())  # type: ignore[arg-type]

    assert gaps(out)[0] >= gaps(data)[0]
    assert gaps(out)[1] <= gaps(data)[1]
    assert notes.figures["edits_broken_by_the_deal"] > 0  # or the test says nothing


def test_status_goes_with_its_amounts(made: tuple[Microdata, Microdata, Notes]) -> None:
    """STATUS 1 has a wage, 3 a pension and no wage, in every record before and after."""
    _, out, _ = made
    status, wage, pension = (out.frame[c].to_numpy() for c in ("STATUS", "WAGE", "PENSION"))
    assert ((status == 1) == (wage > 0)).all()
    assert ((status == 3) == ((wage == 0) & (pension > 0))).all()


def test_exchanging_households_of_a_cluster_changes_nothing() -> None:
    data = families(300)
    step = mask(smallest=8)
    out, notes = carried(step, data)
    assert notes.log is not None
    frame, log = data.frame, notes.log
    info = pl.DataFrame(
        {"i": np.arange(len(frame)), "home": frame["HOME"], "g": log["cluster"], "s": log["slot"]}
    )
    by_home = (
        info.group_by("home")
        .agg(pl.col("g").first(), pl.col("s").sort().implode(), pl.col("i").sort_by("s"))
        .sort("home")
    )
    groups: dict[tuple[int, tuple[int, ...]], list[list[int]]] = {}
    for row in by_home.iter_rows(named=True):
        groups.setdefault((row["g"], tuple(np.ravel(row["s"]).tolist())), []).append(row["i"])
    take = np.arange(len(frame))
    rng = np.random.default_rng(5)
    for homes in groups.values():
        for old, new in zip(homes, [homes[j] for j in rng.permutation(len(homes))], strict=True):
            take[old] = new
    assert (take != np.arange(len(frame))).sum() > 300
    moved = data.with_columns([frame[c][take.tolist()] for c in COLUMNS])
    again, _ = carried(step, moved)
    assert again.frame.equals(out.frame)


def test_the_shape_bound_is_counted_by_hand(made: tuple[Microdata, Microdata, Notes]) -> None:
    data, _, notes = made
    assert notes.log is not None
    frame = data.frame.with_columns(g=notes.log["cluster"])
    homes = frame.group_by("HOME").agg(
        pl.col("g").first(),
        ((pl.col("RELATION") == 2).any()).alias("p"),
        ((pl.col("RELATION") == 3) & (pl.col("AGE") >= 16)).sum().alias("a"),
        ((pl.col("RELATION") == 3) & (pl.col("AGE") < 16)).sum().alias("k"),
        pl.len().alias("n"),
    )
    homes = homes.with_columns(bound=1 / pl.len().over("g", "p", "a", "k"))
    assert notes.figures["shape_bound"] == pytest.approx(homes["bound"].mean())
    assert notes.figures["worst_shape_bound"] == pytest.approx(homes["bound"].max())
    assert notes.figures["alone_in_shape"] == pytest.approx((homes["bound"] == 1).mean())
    by_size = dict(homes.group_by("n").agg(pl.col("bound").mean()).iter_rows())
    for size, value in notes.figures["shape_bound_by_size"].items():
        assert value == pytest.approx(by_size[int(size)])


def with_one_large_household(n: int = 200) -> Microdata:
    data = families(n)
    ages = [50, 48, 20, 18, 10, 8, 6, 4, 2]
    large = pl.DataFrame(
        {
            "HOME": [n] * 9, "RELATION": [1, 2] + [3] * 7, "AGE": ages, "SEX": [1, 2] * 4 + [1],
            "STATUS": [2] * 9, "WAGE": [0.0] * 9, "PENSION": [0.0] * 9, "AREA": [0] * 9, "RENT": [500.0] * 9,
            "SIZE": [9] * 9, "EQ": [1 + 0.5 * 3 + 0.3 * 5] * 9, "INCOME": [-500.0 / 4] * 9,
        }
    )  # fmt: skip
    return Microdata(pl.concat([data.frame, large.cast(dict(data.frame.schema))]), data.schema)


def test_rare_shapes_are_refused_unless_accepted() -> None:
    data = with_one_large_household()
    with pytest.raises(MaskError, match=r"of 9 members.* fewer than 3 households have"):
        mask().mask(data, seed=1)
    _, notes = carried(mask(rare_shapes="accept"), data)
    assert notes.figures["worst_shape_bound"] == 1.0
    assert notes.figures["shape_bound_by_size"]["9"] == 1.0
    assert any("whoever knows it finds their row" in w for w in notes.warnings)


def test_persons_one_by_one_are_found_by_their_household_and_households_are_not() -> None:
    data = families(400, seed=2)
    known = ["AGE", "SEX", "WAGE", "PENSION", "AREA", "RENT"]
    attack = sf.CompositionAttack(household="HOME", known=known)
    whole, notes = carried(mask(keep="none"), data, seed=3)
    bound, n = notes.figures["shape_bound"], 400
    rate = attack.measure(data, whole).value
    assert rate <= bound + 3 * np.sqrt(bound * (1 - bound) / n)
    apart = sf.ClusterShuffle(columns=known, smallest=10, blind=[], certain_percent=100)
    assert attack.measure(data, apart.mask(data, seed=3)).value > 5 * rate


def test_members_are_read_by_relation_or_guessed() -> None:
    frame = pl.DataFrame(
        {
            "H": [1, 1, 1, 1, 2, 3, 3],
            "AGE": [40, 38, 12, 70, 30, 50, 20],
            "SEX": [1, 2, 1, 2, 2, 1, 2],
            "R": [1, 2, 3, 4, 1, 1, 3],
        }
    )
    data = Microdata(frame, sf.Schema(household="H"))
    digest = np.arange(7)
    told = members(data, "H", age="AGE", sex="SEX", relation="R", adult=16, digest=digest)
    assert told.relation.tolist() == [REFERENCE, PARTNER, CHILD, OTHER, REFERENCE, REFERENCE, CHILD]
    assert told.who.tolist() == [[0, 1, 3, 2], [4, -1, -1, -1], [5, -1, 6, -1]]
    guessed = members(data, "H", age="AGE", sex="SEX", relation=None, adult=16, digest=digest)
    # The oldest leads; the man of 40 is thirty years younger, and the household has no couple around her.
    assert guessed.relation[3] == REFERENCE
    assert guessed.relation[2] == CHILD
    assert guessed.relation[5] == REFERENCE
    assert guessed.relation[6] == CHILD


def test_identities_that_hold_in_most_households_are_not_rebuilt() -> None:
    data = families(100)
    of, first = data.frame["HOME"].to_numpy(), np.unique(data.frame["HOME"].to_numpy(), return_index=True)[1]
    numbers = ["WAGE", "PENSION", "RENT", "INCOME"]
    found = rebuilt.find(data, ["RENT", "INCOME", "EQ", "SIZE"], [*numbers, "EQ", "SIZE"], of, first, "AGE")
    assert {f.name: f.scale for f in found} == {
        "EQ": "modified OECD scale", "SIZE": "household size", "INCOME": "modified OECD scale",
    }  # fmt: skip
    assert dict(next(f.parts for f in found if f.name == "INCOME")) == {"WAGE": 1, "PENSION": 1, "RENT": -1}
    income = data.frame["INCOME"].to_numpy().copy()
    income[of == 7] += 5.0
    off = data.with_columns([pl.Series("INCOME", income)])
    assert "INCOME" not in {f.name for f in rebuilt.find(off, ["INCOME"], numbers, of, first, "AGE")}


def test_a_status_is_bundled_with_amounts_that_it_tells_of() -> None:
    data = families(200)
    own = [levels_of(data, c) for c in ("STATUS", "WAGE", "PENSION", "AREA")]
    assert bundles(own) == [("STATUS", "WAGE", "PENSION"), ("AREA",)]
    tax = data.with_columns([pl.Series("TAX", data.frame["WAGE"].to_numpy() * 0.3)])
    amounts = [levels_of(tax, c) for c in ("WAGE", "TAX", "PENSION")]
    assert beside(amounts) >= {"WAGE", "TAX"}


def test_bad_households_are_refused_in_words() -> None:
    data = families(100)
    with pytest.raises(MaskError, match="more than one stratum"):
        mask(columns=("AGE", "WAGE"), within=("SEX",)).mask(data, seed=1)
    with pytest.raises(MaskError, match="fewer than k = 90 households"):
        mask(columns=("AGE", "WAGE"), within=("AREA",), smallest=90, rare_shapes="accept").mask(data, seed=1)


def test_files_without_ages_or_relations_are_dealt_too() -> None:
    data = families(200)
    out, notes = carried(mask(columns=("SEX", "WAGE", "RENT"), age=None), data)
    assert notes.figures["edits_broken_before"] == 0
    assert out.frame.group_by("HOME").agg(pl.col("RENT").n_unique())["RENT"].max() == 1


def test_members_apart_deals_persons() -> None:
    _, notes = carried(mask(columns=("AGE", "WAGE"), members="apart"), families(100))
    assert "shape_bound" not in notes.figures


@pytest.mark.skipif(not EUSILC.exists(), reason="the reference data aren't here")
def test_households_of_eusilc() -> None:
    """HOUSEHOLDS.md, on a quarter of the file: couples' ages, income inequality and edits survive."""
    frame = pl.read_csv(EUSILC, infer_schema_length=None).drop("rb030").filter(pl.col("db030") <= 1500)
    amounts = [c for c in frame.columns if c.startswith(("py", "hy"))]
    data = Microdata(frame, sf.Schema(household="db030", weight="db090", sensitive=amounts))
    step = sf.ClusterShuffle(
        columns=[c for c in frame.columns if c != "db030"], unit="db030", sex="rb090", blind=(),
        rare_shapes="accept", certain_percent=100,
    )  # fmt: skip
    out, notes = carried(step, data)
    assert notes.figures["shape_bound"] < 0.08
    assert [f.split(" =")[0] for f in notes.figures["rebuilt"]] == ["hsize", "eqSS", "eqIncome"]
    assert out.frame["rb050"].equals(out.frame["db090"].rename("rb050"))
    ginis = [_gini(d.frame) for d in (data, out)]
    assert abs(ginis[0] - ginis[1]) < 0.01
    assert notes.log is not None
    found = members(
        data, "db030", age="age", sex="rb090", relation=None, adult=16, digest=np.arange(len(frame))
    )
    slot = np.full(len(frame), 9)
    for one in (0, 1):
        slot[found.who[found.who[:, one] >= 0, one]] = one
    was, now = _spouses(frame, pl.Series(slot)), _spouses(out.frame, notes.log["slot"])
    assert abs(was - now) < 0.01


def _gini(frame: pl.DataFrame) -> float:
    x = np.sort(frame["eqIncome"].to_numpy())
    n = len(x)
    return float(2 * (np.arange(1, n + 1) * x).sum() / (n * x.sum()) - (n + 1) / n)


def _spouses(frame: pl.DataFrame, slot: pl.Series) -> float:
    one, two = (frame.with_columns(s=slot).filter(pl.col("s") == s).select("db030", "age") for s in (0, 1))
    both = one.join(two, on="db030")
    return float(np.corrcoef(both["age"], both["age_right"])[0, 1])
