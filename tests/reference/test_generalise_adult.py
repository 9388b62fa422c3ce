"""The optima that ARX publishes for Adult, and full enumeration of its lattice of 12,960 nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sfumato.cells.generalise import Chain, Diverse, KAnonymous, Lattice, Model, generalise, loss_for
from sfumato.cells.generalise.search import _Walk

Adult = tuple[pl.DataFrame, dict[str, Chain], dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def adult(reference_data: Path) -> Adult:
    folder = reference_data / "formats_arx"
    frame = pl.read_csv(folder / "adult.csv", separator=";", infer_schema=False)
    chains, codes = {}, {}
    for name in frame.columns:
        values = frame[name].unique().sort().to_list()
        lines = (folder / f"adult_hierarchy_{name}.csv").read_text().splitlines()
        rows = {line.split(";")[0]: line.split(";") for line in lines if line.strip()}
        height = len(rows[values[0]])
        classes = [[rows[v][level] for v in values] for level in range(1, height)]
        chains[name] = Chain.of(name, classes, [f"level {v}" for v in range(1, height)])
        codes[name] = frame[name].replace_strict(values, range(len(values))).to_numpy()
    return frame, chains, codes


def whole(adult: Adult, sensitive: str | None = None) -> Lattice:
    frame, chains, codes = adult
    keys = [c for c in frame.columns if c != sensitive]
    return Lattice(
        [chains[k] for k in keys],
        [codes[k] for k in keys],
        sensitive=None if sensitive is None else codes[sensitive],
        values=0 if sensitive is None else int(codes[sensitive].max()) + 1,
    )


# ARX, TestAnonymizationKAnonymity: monotone non-uniform entropy, levels in the order of the file's columns.
PUBLISHED = [
    (5, 0.04, 255559.85455731067, (1, 0, 1, 1, 3, 2, 2, 0, 1)),
    (100, 0.04, 379417.3460570988, (1, 1, 1, 1, 3, 2, 2, 1, 1)),
    (5, 0.0, 407289.5388925293, (1, 2, 1, 1, 3, 2, 2, 1, 1)),
    (100, 0.0, 453196.8932458743, (0, 4, 1, 1, 3, 2, 2, 1, 1)),
]


@pytest.mark.parametrize(("k", "limit", "entropy", "levels"), PUBLISHED)
def test_the_optima_that_arx_publishes(
    adult: Adult, k: int, limit: float, entropy: float, levels: tuple[int, ...]
) -> None:
    found = generalise(whole(adult), KAnonymous(k), loss="entropy", price=0.0, suppress_at_most=limit)
    frame = adult[0]
    assert found.proved
    assert found.lattice == 12_960
    assert tuple(found.levels[c] for c in frame.columns) == levels
    assert found.loss * frame.height == pytest.approx(entropy, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "loss", "sensitive"),
    [
        (KAnonymous(5), "detail", None),
        (Diverse(4, "entropy"), "detail", "occupation"),
        (KAnonymous(10), "discernibility", "occupation"),
    ],
    ids=["k-anonymity, 12,960 nodes", "entropy l-diversity, 4,320 nodes", "discernibility, 4,320 nodes"],
)
def test_no_node_of_the_whole_lattice_is_better(
    adult: Adult, model: Model, loss: str, sensitive: str | None
) -> None:
    lattice = whole(adult, sensitive)
    found = generalise(lattice, model, loss=loss)
    walk = _Walk(lattice, model, loss_for(lattice, loss), 0.05)
    best = min(walk.leaf(node)[0] for node in lattice.nodes())
    assert found.proved
    assert found.nodes < len(lattice)
    assert found.cost == pytest.approx(best, abs=1e-12)


def test_the_classes_of_the_optimum_are_counted_by_polars(adult: Adult) -> None:
    """The condition by an independent count of the recoded file."""
    frame, chains, codes = adult
    found = generalise(whole(adult), KAnonymous(5))
    recoded = pl.DataFrame({c: chains[c].maps[found.levels[c]][codes[c]] for c in frame.columns})
    sizes = recoded.group_by(frame.columns).len()["len"]
    assert int(sizes.filter(sizes < 5).sum()) == found.unsafe
    assert 0 < found.unsafe <= 0.05 * frame.height
