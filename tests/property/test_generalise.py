"""The search for recodes against an obvious twin: every node of small random lattices, counted by hand."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.cells.generalise import (
    LOSSES,
    Both,
    Chain,
    Close,
    Diverse,
    KAnonymous,
    KMapped,
    Lattice,
    Model,
    Present,
    Tolerant,
    generalise,
)
from sfumato.errors import ParameterError, SchemaError

VALUES = 3


# -- the twin: dictionaries of records
# ------------------------------------------------------------------------


def groups_at(maps: list[Any], columns: list[Any]) -> list[tuple[int, ...]]:
    return [tuple(int(m[c]) for m, c in zip(maps, row, strict=True)) for row in zip(*columns, strict=True)]


def entropy(counts: list[float]) -> float:
    total = sum(counts)
    return -sum(c / total * math.log(c / total) for c in counts if c > 0)


def is_unsafe(
    model: Model, inside: list[int], sensitive: list[int], sizes: list[float], file: list[int]
) -> bool:
    """Whether a group is unsafe; ``inside`` are its places (population rows have file 0)."""
    records = [i for i in inside if file[i]]
    spread = Counter(sensitive[i] for i in records if sensitive[i] < VALUES)
    whole = Counter(s for s, f in zip(sensitive, file, strict=True) if f and s < VALUES)
    match model:
        case KAnonymous(k=k):
            return len(records) < k
        case KMapped(k=k):
            return sum(sizes[i] for i in inside) < k
        case Present(high=high, low=low):
            population = sum(sizes[i] for i in inside)
            return len(records) > high * population + 1e-9 or len(records) < low * population - 1e-9
        case Diverse(l=l, variant="distinct"):
            return len(spread) < l
        case Diverse(l=l, variant="entropy"):
            return not spread or math.exp(entropy([float(c) for c in spread.values()])) < l - 1e-9
        case Diverse(l=l, variant="recursive", c=c):
            ordered = sorted(spread.values(), reverse=True)
            return len(ordered) < l or not ordered[0] < c * sum(ordered[int(l) - 1 :])
        case Close(t=t, distance=distance):
            if not spread:
                return False
            n, all_ = sum(spread.values()), sum(whole.values())
            apart = [spread[v] / n - whole[v] / all_ for v in range(VALUES)]
            if distance == "equal":
                return 0.5 * sum(map(abs, apart)) > t + 1e-9
            return sum(map(abs, np.cumsum(apart))) / (VALUES - 1) > t + 1e-9
        case _:
            raise AssertionError(model)


def unsafe_records(
    model: Model, chains: list[Chain], levels: tuple[int, ...], columns: Any, rest: Any
) -> tuple[set[int], bool]:
    """The unsafe records of a node, and whether suppression can't mend it."""
    sensitive, sizes, file = rest
    maps = [c.maps[v] for c, v in zip(chains, levels, strict=True)]
    if isinstance(model, Both):
        found = [unsafe_records(m, chains, levels, columns, rest) for m in model.models]
        return set().union(*(f[0] for f in found)), any(f[1] for f in found)
    if isinstance(model, Tolerant):
        names = [c.key for c in chains]
        most = model.max_dimension or len(chains)
        sets = [s for d in range(1, most + 1) for s in itertools.combinations(range(len(chains)), d)]
        if model.key_sets:
            sets = [tuple(names.index(k) for k in s) for s in model.key_sets]
        out: set[int] = set()
        for one in sets:
            at = groups_at([maps[j] for j in one], [columns[j] for j in one])
            count = Counter(g for g, f in zip(at, file, strict=True) if f)
            out |= {i for i, g in enumerate(at) if file[i] and count[g] < model.tolerance}
        return out, False
    at = groups_at(maps, columns)
    out, never = set(), False
    for group in set(at):
        inside = [i for i, g in enumerate(at) if g == group]
        if is_unsafe(model, inside, sensitive, sizes, file):
            out |= {i for i in inside if file[i]}
            never |= not any(file[i] for i in inside)
    return out, never and isinstance(model, Present)


def separate(name: str, chains: list[Chain], levels: tuple[int, ...], columns: Any, file: list[int]) -> float:
    """Non-uniform entropy in bits and precision, by hand."""
    out = 0.0
    for chain, level, column in zip(chains, levels, columns, strict=True):
        if name == "precision":
            out += level / (len(chain) - 1) / len(chains)
            continue
        here = [int(c) for c, f in zip(column, file, strict=True) if f]
        before, after = Counter(here), Counter(int(chain.maps[level][c]) for c in here)
        for c in here:
            out -= math.log2(before[c] / after[int(chain.maps[level][c])]) / len(here)
    return out


def enumerated(
    chains: list[Chain], columns: Any, rest: Any, model: Model, loss: str, limit: float, price: float
) -> float:
    """The least cost over all nodes."""
    file = rest[2]
    n = sum(file)
    best = math.inf
    for levels in itertools.product(*(range(len(c)) for c in chains)):
        unsafe, never = unsafe_records(model, chains, levels, columns, rest)
        if never or len(unsafe) > limit * n + 1e-9:
            continue
        at = groups_at([c.maps[v] for c, v in zip(chains, levels, strict=True)], columns)
        safe = Counter(g for i, g in enumerate(at) if file[i] and i not in unsafe)
        if loss == "discernibility":
            own = (sum(c * c for c in safe.values()) + n * len(unsafe)) / n**2
        elif loss == "class_size":
            own = 1 / max(len(safe), 1)
        else:
            own = separate(loss, chains, levels, columns, file)
        best = min(best, own + price * len(unsafe) / n)
    return best


@st.composite
def files(draw: st.DrawFn) -> Any:
    """Three keys with chains, a sensitive column (3 is missing), sizes, and which rows are of the file."""
    n = draw(st.integers(6, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    chains, columns = [], []
    for j in range(3):
        size = int(rng.integers(2, 6))
        classes, level = [], np.arange(size)
        for _ in range(int(rng.integers(0, 3))):
            joined = rng.integers(0, max(2, len(np.unique(level)) - 1), size=size)
            level = joined[level % size]
            classes.append(level.tolist())
        chains.append(Chain.of(f"K{j}", classes, [f"l{i}" for i in range(len(classes))], size=size))
        columns.append(rng.integers(0, size + 1, size=n))  # `size` is missing
    sensitive = rng.integers(0, VALUES + 1, size=n)
    file = (rng.random(n) < 0.8).astype(int)
    file[0] = 1
    sizes = rng.integers(1, 4, size=n).astype(float)
    return chains, columns, (sensitive.tolist(), sizes.tolist(), file.tolist())


MODELS = [
    KAnonymous(3),
    KMapped(5.0),
    Present(0.6),
    Present(0.7, 0.1),
    Diverse(2),
    Diverse(2, "entropy"),
    Diverse(1.7, "entropy"),
    Diverse(2, "recursive", 1.5),
    Close(0.2),
    Close(0.25, "ordered"),
    Tolerant(3, 2),
    Tolerant(3, None, (("K0", "K2"), ("K1",))),
    Both((KAnonymous(2), Diverse(2), Tolerant(3, 1))),
]


def lattice_of(file: Any) -> Lattice:
    chains, columns, (sensitive, sizes, inside) = file
    return Lattice(
        chains,
        columns,
        np.array(inside),
        sensitive=np.array(sensitive),
        values=VALUES,
        sizes=np.array(sizes),
    )


@pytest.mark.parametrize("model", MODELS, ids=str)
@given(
    file=files(),
    loss=st.sampled_from(("entropy", "precision", "discernibility", "class_size")),
    limit=st.sampled_from((0.0, 0.1, 0.3)),
    price=st.sampled_from((0.0, 0.7)),
)
@settings(max_examples=25)
def test_the_optimum_is_that_of_all_nodes(
    model: Model, file: Any, loss: str, limit: float, price: float
) -> None:
    chains, columns, rest = file
    expected = enumerated(chains, columns, rest, model, loss, limit, price)
    lattice = lattice_of(file)
    if not math.isfinite(expected):
        with pytest.raises(ParameterError, match="no recode meets"):
            generalise(lattice, model, loss=loss, suppress_at_most=limit, price=price)
        return
    found = generalise(lattice, model, loss=loss, suppress_at_most=limit, price=price)
    assert found.proved
    assert found.cost == pytest.approx(expected, abs=1e-9)
    levels = tuple(found.levels[c.key] for c in chains)
    unsafe, never = unsafe_records(model, chains, levels, columns, rest)
    assert (found.unsafe, never) == (len(unsafe), False)
    assert found.unsafe_share <= limit + 1e-12


@given(file=files(), seed=st.integers(0, 1000))
def test_the_default_loss_never_falls_along_a_chain_and_drops_cost_one(file: Any, seed: int) -> None:
    from sfumato.cells.generalise import loss_for

    made = loss_for(lattice_of(file))
    for table in made.tables:
        assert table[0] == 0
        assert (np.diff(table) >= 0).all()
        assert table[-1] in (pytest.approx(1.0), pytest.approx(0.25))  # a quarter: the key has one value only


@given(file=files(), most=st.integers(1, 12), loss=st.sampled_from(LOSSES))
def test_a_search_that_is_cut_off_states_a_bound_that_holds(file: Any, most: int, loss: str) -> None:
    lattice = lattice_of(file)
    whole = generalise(lattice, KAnonymous(2), loss=loss)
    assert whole.proved
    try:
        cut = generalise(lattice, KAnonymous(2), loss=loss, most_nodes=most)
    except ParameterError:
        return
    assert cut.bound <= whole.cost + 1e-9
    assert cut.cost >= whole.cost - 1e-9
    assert cut.gap == pytest.approx(max(0.0, cut.cost - cut.bound))


def test_a_chain_that_does_not_nest_is_refused() -> None:
    with pytest.raises(SchemaError, match="levels of K don't nest"):
        Chain.of("K", [["a", "a", "b"], ["x", "y", "y"]], ["one", "two"])


def test_levels_that_join_nothing_are_left_out() -> None:
    chain = Chain.of("K", [["a", "b", "c"], ["x", "x", "c"], ["x", "x", "c"], ["*", "*", "*"]], list("1234"))
    assert chain.names == ("as it is", "2", "dropped")
    assert chain.of_level == (-1, 1, -2)
