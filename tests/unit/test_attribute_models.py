"""t-closeness and its kin: ARX's solutions for the Adult file, examples by hand, bad input."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.cells import closeness
from sfumato.cells.diversity import ValueCounts
from sfumato.data.hierarchy import Hierarchy
from sfumato.errors import MeasureError

# -- ARX ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adult(reference_data):
    folder = reference_data / "formats_arx"
    frame = pl.read_csv(folder / "adult.csv", separator=";", infer_schema_length=0)
    return frame, {c: Hierarchy.read(folder / f"adult_hierarchy_{c}.csv") for c in frame.columns}


class Node:
    """The Adult file generalised to some levels of its keys' hierarchies; occupation is sensitive."""

    def __init__(self, adult, levels):
        frame, trees = adult
        keys = [c for c in frame.columns if c != "occupation"]
        new = [trees[k].class_of(frame[k], h).alias(k) for k, h in zip(keys, levels, strict=True)]
        self.data = sf.Microdata(frame.with_columns(new)).with_roles(keys=keys, sensitive=["occupation"])
        self.tree = trees["occupation"]
        self.cells = self.data.cells()
        self.values = ValueCounts.of(self.cells, self.data, "occupation")

    @property
    def discernibility(self) -> int:
        return int((self.cells.counts**2).sum())


def below(levels):
    """The nodes one level finer."""
    return [[*levels[:j], h - 1, *levels[j + 1 :]] for j, h in enumerate(levels) if h]


def equal(t):
    return lambda node: closeness.equal_distance(node.values).max() <= t


def ordered(t):
    return lambda node: closeness.ordered_distance(node.values).max() <= t


def hierarchical(t):
    return lambda node: closeness.hierarchical_distance(node.values, node.tree).max() <= t


def entropy(size):
    return lambda node: node.values.entropy.min() >= size


def enhanced(beta):
    return lambda node: (
        closeness.gains(node.values)[1].max() <= beta and closeness.gains(node.values)[2].max() <= 1
    )


# ARX's test suite: the optimum without suppression, by discernibility where its value is given here.
ARX = [
    (equal(0.2), 100, [1, 4, 1, 1, 3, 2, 2, 1], 456_853_172),
    (ordered(0.1), 5, [1, 1, 1, 2, 3, 2, 2, 1], 97_868_020),
    (ordered(0.2), 100, [1, 4, 1, 1, 1, 2, 2, 1], 162_312_130),
    (hierarchical(0.2), 100, [0, 4, 1, 1, 3, 2, 2, 1], None),
    (entropy(5), 2, [1, 1, 1, 1, 3, 2, 2, 1], None),
    (enhanced(2), 2, [1, 4, 1, 1, 3, 2, 2, 0], None),
]


@pytest.mark.parametrize(
    ("holds", "k", "levels", "loss"), ARX, ids=["equal", "ordered", "wide", "tree", "entropy", "beta"]
)
def test_arx_s_solutions_hold_and_finer_ones_don_t(adult, holds, k, levels, loss):
    node = Node(adult, levels)
    assert holds(node)
    assert node.cells.counts.min() >= k
    if loss is not None:
        assert node.discernibility == loss
        # It is ARX's optimum: what is finer loses less, so it can't hold.
        for finer in below(levels):
            other = Node(adult, finer)
            assert not (holds(other) and other.cells.counts.min() >= k), finer


def test_the_measures_say_what_the_functions_do(adult):
    node = Node(adult, [1, 4, 1, 0, 3, 2, 2, 1])
    data = node.data.with_variable("occupation", hierarchy="unused")
    near, beta, wide = sf.measure(
        data,
        sf.TCloseness(t=0.2),
        sf.BetaLikeness(beta=2, variant="basic"),
        sf.LDiversity(variant="entropy", l=5),
    )
    found = closeness.equal_distance(node.values)
    assert near.closeness == pytest.approx(found.max())
    assert near.value == node.cells.counts[found > 0.2].sum() > 0
    gain = closeness.gains(node.values)[1]
    assert beta.value == node.cells.counts[gain > 2].sum() > 0
    assert wide.confidential["l"].min() == pytest.approx(node.values.entropy.min())


# -- by hand --------------------------------------------------------------------------------------------


@pytest.fixture
def clinic():
    """Six records in two groups; a: flu, flu, flu; b: flu, cold, hiv. q = 4/6, 1/6, 1/6."""
    frame = pl.DataFrame({"KEY": list("aaabbb"), "ILL": ["flu", "flu", "flu", "flu", "cold", "hiv"]})
    return sf.Microdata(frame).with_roles(keys=["KEY"], sensitive=["ILL"])


def test_t_closeness_by_hand(clinic):
    found = sf.measure(clinic, sf.TCloseness(t=0.3))[0]
    # Group a lacks 2/6; group b has 1/3 of flu where everybody has 2/3.
    assert found.confidential["distances"].tolist() == pytest.approx([1 / 3] * 6)
    assert found.value == 6
    assert sf.measure(clinic, sf.TCloseness(t=1 / 3))[0].value == 0


def test_beta_likeness_by_hand(clinic):
    basic = sf.measure(clinic, sf.BetaLikeness(beta=0.9, variant="basic"))[0]
    # a: (1 − 2/3)/(2/3) = ½; b: cold from 1/6 to 1/3, a gain of 1.
    assert basic.confidential["gains"].tolist() == pytest.approx([0.5] * 3 + [1.0] * 3)
    assert (basic.value, basic.likeness) == (3, pytest.approx(1.0))
    # Enhanced: −ln(2/3) = 0.405 is less than the gain of ½, so group a fails too.
    assert sf.measure(clinic, sf.BetaLikeness(beta=0.9))[0].value == 6
    assert sf.measure(clinic, sf.BetaLikeness(beta=1.0, variant="basic"))[0].value == 0


def test_delta_disclosure_by_hand(clinic):
    strict, arx = sf.measure(
        clinic, sf.DeltaDisclosure(delta=1.2), sf.DeltaDisclosure(delta=1.2, absent="ignored", id="arx")
    )
    assert (strict.value, arx.value) == (3, 0)
    assert strict.absent_violations == 3
    assert strict.disclosure == pytest.approx(1.0)  # flu: log₂(½); cold: log₂ 2
    assert arx.confidential["logs"].tolist() == pytest.approx([math.log2(1.5)] * 3 + [1.0] * 3)
    assert sf.measure(clinic, sf.DeltaDisclosure(delta=1.0, absent="ignored"))[0].value == 3


def test_alpha_k_by_hand(clinic):
    both = sf.measure(clinic, sf.AlphaKAnonymity(alpha=0.5, k=3))[0]
    assert (both.value, both.few, both.frequent, both.share) == (3, 0, 3, 1.0)
    assert sf.measure(clinic, sf.AlphaKAnonymity(alpha=0.5, k=3, values=["hiv"]))[0].value == 0
    assert sf.measure(clinic, sf.AlphaKAnonymity(alpha=0.3, k=3, values=["hiv"]))[0].value == 3
    assert sf.measure(clinic, sf.AlphaKAnonymity(alpha=1.0, k=4))[0].value == 6


def test_recursive_diversity_and_each_record_s_own_l(clinic):
    # a: 1 < c·0 never; b: 1/3 < c·(1/3 + 1/3) for c > ½.
    found = sf.measure(clinic, sf.LDiversity(variant="recursive", l=2, c=0.6))[0]
    assert found.confidential["flags"].tolist() == [True] * 3 + [False] * 3
    assert sf.measure(clinic, sf.LDiversity(l=2))[0].confidential["l"].tolist() == [1, 1, 1, 3, 3, 3]


def test_the_distance_follows_the_kind_and_the_schema(tmp_path, clinic):
    tree = tmp_path / "ill.csv"
    tree.write_text("flu;infection;*\nhiv;infection;*\ncold;mild;*\n")
    ordinal = clinic.with_variable("ILL", kind="ordinal", order=["cold", "flu", "hiv"], hierarchy=str(tree))
    near, far = sf.measure(ordinal, sf.TCloseness(), sf.TCloseness(distance="hierarchical", id="tree"))
    assert near.breakdown["distance"].to_list() == ["ordered"]
    # cold 1/6, flu 4/6, hiv 1/6: group a is (|0 − 1/6| + |1 − 5/6|)/2 off, b (1/6 + |2/3 − 5/6|)/2.
    assert near.confidential["distances"].tolist() == pytest.approx([1 / 6] * 6)
    # a: 1/6 of flu comes from cold (at the root, cost 1), 1/6 from hiv (cost ½): ¼. b the same way back.
    assert far.confidential["distances"].tolist() == pytest.approx([0.25] * 6)
    assert sf.measure(clinic, sf.TCloseness())[0].breakdown["distance"].to_list() == ["equal"]
    with pytest.raises(MeasureError, match="needs a hierarchy"):
        sf.measure(clinic, sf.TCloseness(distance="hierarchical"))


def test_a_household_is_at_risk_if_a_member_is(clinic):
    data = clinic.with_columns({"HOME": pl.Series([1, 2, 3, 3, 4, 5])}).with_roles(household="HOME")
    for measure in (sf.DeltaDisclosure(delta=1.2), sf.AlphaKAnonymity(alpha=0.5, k=3), sf.LDiversity(l=2)):
        found = sf.measure(data, measure)[0]
        # Group a fails: homes 1, 2, 3, the last with a member of group b.
        assert (found.value, found.households, found.households_at_risk) == (3, 5, 3)
        assert found.household_records_at_risk == 4
        assert found.household_rate == pytest.approx(0.6)


def test_key_columns_can_t_be_sensitive(clinic):
    for cls in (sf.TCloseness, sf.BetaLikeness, sf.DeltaDisclosure, sf.AlphaKAnonymity):
        with pytest.raises(MeasureError, match="at once"):
            sf.measure(clinic, cls(keys=["KEY"], sensitive=["KEY"]))
        with pytest.raises(MeasureError, match="no sensitive column"):
            sf.measure(clinic.with_roles(sensitive=[]), cls())


def test_a_file_in_which_all_is_missing_tells_nothing():
    frame = pl.DataFrame({"KEY": [1, 2], "ILL": pl.Series([None, None], dtype=pl.String)})
    data = sf.Microdata(frame).with_roles(keys=["KEY"], sensitive=["ILL"])
    for cls in (sf.TCloseness, sf.BetaLikeness, sf.DeltaDisclosure):
        assert sf.measure(data, cls())[0].value == 0
    assert np.isinf(sf.measure(data, sf.LDiversity())[0].confidential["l"]).sum() == 0
