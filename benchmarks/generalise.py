"""The search for recodes: nodes looked at, time a node, and the proof, on Adult and on CPS tax units."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

sys.path.insert(0, str(Path(__file__).parent))
import sfumato as sf
from harness import Table, arguments, time_it
from sfumato.cells import CellTable
from sfumato.cells.generalise import (
    Chain,
    Close,
    Diverse,
    KAnonymous,
    Lattice,
    Model,
    Tolerant,
    generalise,
)
from sfumato.experiment.recodes import KeyLadders

ABOUT = """The recode of least loss, proved or with its gap. A node's CPU time is the search's over the
nodes that it looked at. The yardstick of the same run is one node by a Polars group-by of the recoded columns
(whole records, columns recoded already), and the ratio is that of CPU times: below 1, a node costs less
than a group-by. `nodes` counts partial choices too, so that it can exceed the lattice's share."""

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def adult() -> tuple[pl.DataFrame, dict[str, Chain], dict[str, object]]:
    folder = SHARED / "formats_arx"
    frame = pl.read_csv(folder / "adult.csv", separator=";", infer_schema=False)
    chains, codes = {}, {}
    for name in frame.columns:
        values = frame[name].unique().sort().to_list()
        lines = (folder / f"adult_hierarchy_{name}.csv").read_text().splitlines()
        rows = {line.split(";")[0]: line.split(";") for line in lines if line.strip()}
        classes = [[rows[v][at] for v in values] for at in range(1, len(rows[values[0]]))]
        chains[name] = Chain.of(name, classes, [f"level {at + 1}" for at in range(len(classes))])
        codes[name] = frame[name].replace_strict(values, range(len(values))).to_numpy()
    return frame, chains, codes


def line(table: Table, what: str, lattice: Lattice, model: Model, loss: str, frame: pl.DataFrame) -> None:
    keys = [c.key for c in lattice.chains]
    found = time_it(lambda: generalise(lattice, model, loss=loss), repeat=1)
    yard = time_it(lambda: frame.group_by(keys).len().filter(pl.col("len") < 5)["len"].sum(), repeat=3)
    best = found.value
    node = found.cpu_seconds / max(best.nodes, 1)
    table.add(
        file=what,
        model=str(model),
        loss=loss,
        cells=len(lattice.counts),
        lattice=best.lattice,
        nodes=best.nodes,
        proved="yes" if best.proved else f"gap {best.gap:.3g}",
        cpu_s=found.cpu_seconds,
        ms_a_node=1e3 * node,
        of_a_group_by=node / max(yard.cpu_seconds, 1e-9),
    )


def main() -> None:
    quick = arguments(__doc__ or "").quick
    table = Table("generalise", "Optimal recoding", ABOUT)
    frame, chains, codes = adult()
    whole = Lattice(list(chains.values()), list(codes.values()))
    for k in (5, 100):
        line(table, "Adult", whole, KAnonymous(k), "detail", frame)
    line(table, "Adult", whole, KAnonymous(5), "entropy", frame)
    line(table, "Adult", whole, KAnonymous(5), "discernibility", frame)
    line(table, "Adult", whole, Tolerant(5, 2), "detail", frame)
    keys = [c for c in frame.columns if c != "occupation"]
    told = Lattice(
        [chains[c] for c in keys],
        [codes[c] for c in keys],
        sensitive=codes["occupation"],
        values=int(codes["occupation"].max()) + 1,
    )
    for model in (Diverse(5), Diverse(5, "entropy"), Close(0.2)):
        line(table, "Adult", told, model, "detail", frame)
    if not quick:
        units = sf.read(SHARED / "income" / "cps_taxunits_2013.csv")
        named = ["state_fips", "marital_filing", "n_persons", "age_head", "age_spouse", "n_under18"]
        units = units.with_variable("state_fips", kind="categorical")
        ladders = KeyLadders.of(units, named)
        lattice = Lattice([ladders.chains[c] for c in named], [ladders.codes[c] for c in named])
        cells = CellTable.of(units, named)
        assert len(cells) == len(lattice.counts)
        for k in (3, 10):
            line(table, "CPS tax units", lattice, KAnonymous(k), "detail", units.frame)
        table.save()


if __name__ == "__main__":
    main()
