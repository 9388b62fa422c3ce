"""What the limits on the battery are judged by: the strongest attack, the attribute gain, the least group.

>>> import polars as pl, sfumato as sf
>>> data = sf.Microdata(pl.DataFrame({"A": list(range(40)), "B": [i * i % 41 for i in range(40)]}))
>>> plan = sf.Plan(limits={"battery.rate": {"at_most": 0.05}})
>>> plan.run(data).limits[0].ok
False
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np

from sfumato.cells import CellTable
from sfumato.contract.disclosure import Grouped, of_kind
from sfumato.contract.known import is_comparable
from sfumato.contract.mask import Mask, Notes
from sfumato.contract.result import Result
from sfumato.data.microdata import IntArray, Microdata
from sfumato.draws import Seed, as_seed
from sfumato.errors import MeasureError, SfumatoError
from sfumato.plan.audience import BATTERY
from sfumato.run.battery import Battery, run_battery
from sfumato.run.gain import Again, Gain, attribute_gain, by_column_frame
from sfumato.run.scenario import known_columns, smallest_area

WHOLE: Final = 2_000
"""Of a larger file, whole groups of about as many records are attacked by the battery."""

KNOWN: Final = "the intruder knows "
"""How the note begins that says what a scenario gives him."""
_SHOWN: Final = 6

Progress = Callable[[str, float, int], None]


def released_columns(data: Microdata, masked: Microdata, drop: Sequence[str]) -> list[str]:
    """The columns of a release that say something of people."""
    schema = data.schema
    apart = {schema.id, schema.household, *drop}
    return [c for c in masked.columns if c not in apart]


def exposure(
    data: Microdata,
    masked: Microdata,
    steps: Sequence[tuple[Mask, Notes]],
    again: Again,
    *,
    drop: Sequence[str] = (),
    wanted: Sequence[str] = ("rate", "gain", "group"),
    people: int = 1_000,
    records: int = WHOLE,
    numbers_known: int | None = None,
    seed: Seed | int | None = 0,
    progress: Progress | None = None,
) -> Result:
    """The figures that limits on the battery name, as one result called ``battery``.

    With ``numbers_known`` the intruder has the keys and so many numbers; without, everything.
    """
    masks = [m for m, _ in steps]
    columns = released_columns(data, masked, drop)
    group, proved, how = least_group(data, masked, steps, drop)
    figures: dict[str, float | str | bool] = {"group": group}
    notes = [how]
    rate, breakdown, interval = math.nan, None, None
    if "rate" in wanted or "value" in wanted:
        shown = known_columns(data, [c for c in columns if c in data.columns], numbers_known)
        battery, attacked = attack_some(data, masked, steps, shown, drop, records, seed, progress)
        if numbers_known is not None:
            notes.append(f"{KNOWN}{', '.join(shown)}")
        rate, measured, said = judged_rate(battery, group if proved else None)
        notes.append(said)
        if attacked < len(data):
            notes.append(
                f"attacked: {attacked:,} of {len(data):,} records; among fewer records a person is found "
                "more easily"
            )
        strongest = battery.strongest
        interval = strongest.result.interval if strongest.result else None
        figures |= {"rate": rate, "measured": measured, "attack": strongest.label, "attacked": attacked}
        breakdown = battery.to_frame()
        figures |= price_of_parameters(battery)
    if "gain" in wanted:
        gain, why = _gain(data, again, masks, drop, people, numbers_known, seed)
        figures |= gain_figures(gain)
        notes.append(why)
        if breakdown is None:
            breakdown = by_column_frame(gain)
    if "area" in wanted:
        figures["area"], where = smallest_area(data, masked, drop)
        notes.append(where)
    figures["proved"] = proved
    value = rate if not math.isnan(rate) else 0.0
    return Result(
        value=value,
        unit="re-identified by the strongest attack",
        interval=interval,
        breakdown=breakdown,
        notes=tuple(notes),
        figures=figures,
        name=BATTERY,
        measure=BATTERY,
        bounds=(0.0, 1.0),
    )


def judged_rate(battery: Battery, group: int | None) -> tuple[float, float, str]:
    """The rate to judge by, the rate measured, and a sentence.

    Where it is proved that nobody is found with a chance above 1/group, a rate above that by no more than
    three standard errors is the luck of one sample, and the proof counts.
    """
    strongest = battery.strongest
    assert strongest.result is not None
    measured = float(strongest.result.value)
    said = f"the strongest attack, {strongest.label}, finds {100 * measured:.1f}%"
    if group is None:
        return measured, measured, said
    bound = 1.0 / max(group, 1)
    tried = max(int(strongest.result.figures.get("attacked", 1) or 1), 1)
    luck = 3 * math.sqrt(bound * (1 - bound) / tried)
    if measured <= bound:
        return measured, measured, f"{said}; no attack can find more than {100 * bound:.3g}% on average"
    if measured <= bound + luck:
        return bound, measured, f"{said}, within the sampling error of the {100 * bound:.3g}% that is proved"
    return measured, measured, f"{said}, more than the {100 * bound:.3g}% that the mask promises"


def price_of_parameters(battery: Battery) -> dict[str, float | str]:
    """The strongest rates of attacks that use parameters of the steps, and of those that use none."""
    out: dict[str, float | str] = {}
    for which, told in (("with", True), ("without", False)):
        best = battery.strongest_of(told=told)
        if best is not None and best.result is not None:
            out |= {
                f"rate_{which}_parameters": float(best.result.value),
                f"attack_{which}_parameters": best.label,
            }
    return out


def price(found: Result) -> str:
    """What it costs to publish the parameters, in words."""
    figures = found.figures
    without = figures.get("rate_without_parameters", 0.0)
    if "rate_with_parameters" not in figures:
        return f"no attack here uses them; without them {100 * without:.1f}% are found"
    told = figures["rate_with_parameters"]
    who = (
        f"whoever uses them finds {100 * told:.1f}% ({figures['attack_with_parameters']}), "
        f"whoever hasn't got them {100 * without:.1f}%"
    )
    if "attack_without_parameters" in figures:
        who += f" ({figures['attack_without_parameters']})"
    return who


def _gain(
    data: Microdata,
    again: Again,
    masks: Sequence[Mask],
    drop: Sequence[str],
    people: int,
    numbers_known: int | None,
    seed: Seed | int | None,
) -> tuple[Gain, str]:
    try:
        gain = attribute_gain(
            data, again, masks, drop=drop, people=people, numbers_known=numbers_known, seed=seed
        )
    except SfumatoError as problem:
        # What can't be measured doesn't hold.
        lost = Gain(math.nan, math.nan, math.nan, math.nan, (), 0)
        return lost, f"the attribute gain couldn't be measured: {problem.message}"
    return gain, told(gain)


def gain_figures(gain: Gain) -> dict[str, float | str | bool]:
    """What a limit on the gain, and the verdict, are told of it."""
    return {
        "gain": gain.value,
        "gain_low": gain.low,
        "gain_high": gain.high,
        "gain_pooled": gain.pooled,
        "gain_column": gain.worst,
        "people": gain.people,
    }


def told(gain: Gain) -> str:
    """The gain in words: the worst columns first."""
    if not gain.columns:
        return "no column is released that could tell of a person"
    shown = "; ".join(
        f"{c.column} {c.gain:.3f} ± {2 * c.error:.3f} ({c.inside:.2f} guessed of those inside, "
        f"{c.outside:.2f} of others)"
        for c in gain.columns[:_SHOWN]
    )
    more = f"; and {len(gain.columns) - _SHOWN} columns with less" if len(gain.columns) > _SHOWN else ""
    return f"attribute gain {gain.value:.3f}, pooled {gain.pooled:.3f}; by column: {shown}{more}"


def least_group(
    data: Microdata, masked: Microdata, steps: Sequence[tuple[Mask, Notes]], drop: Sequence[str]
) -> tuple[int, bool, str]:
    """The least number of records among whom a person can be, whether that is proved, and in words.

    Proved: one step dealt every released column (or every column but those that it stayed within) among
    groups, and later steps only coarsen. Else the records that share all keys are counted.
    """
    columns = set(released_columns(data, masked, drop))
    dealt = dealt_group(data, columns, steps)
    if dealt is not None:
        return dealt[1], True, f"everything was dealt among {dealt[1]} records or more"
    keys = [k for k in dict.fromkeys([*data.schema.keys, *data.schema.geography]) if k in columns]
    if not keys:
        return len(masked), False, "no key is released: records can't be told apart by keys"
    table = CellTable.of(masked, keys)
    frequency = table.frequencies()
    least = int(frequency.min()) if len(frequency) else 0
    few = int(table.counts[frequency < 3].sum())
    return (
        least,
        False,
        (
            f"the least number of records that share all {len(keys)} keys is {least}; "
            f"{100 * few / max(len(masked), 1):.1f}% of the records share theirs with fewer than 3"
        ),
    )


def dealt_group(
    data: Microdata, columns: Collection[str], steps: Sequence[tuple[Mask, Notes]]
) -> tuple[int, int] | None:
    """The place of the step that dealt every one of these columns (or all but those that it stayed within)
    among groups, later steps only coarsening, and the least size of its groups."""
    weight = data.schema.weight
    for at, (mask, notes) in enumerate(steps):
        later = {c for m, _ in steps[at + 1 :] for c in m.changes(data) if c in columns}
        for fact in of_kind(Grouped, mask.discloses(data)):
            changed = set(mask.changes(data))
            held = set(columns) - changed - set(fact.within) - later
            if fact.deals and not held - ({weight} if weight else set()):
                return at, int(notes.figures.get("smallest_cluster", fact.smallest))
    return None


def attack_some(
    data: Microdata,
    masked: Microdata,
    steps: Sequence[tuple[Mask, Notes]],
    columns: Sequence[str],
    drop: Sequence[str] = (),
    records: int = WHOLE,
    seed: Seed | int | None = 0,
    progress: Progress | None = None,
    *,
    known: Sequence[str] = (),
    block_on: Sequence[str] | None = None,
) -> tuple[Battery, int]:
    """The battery on the file, or on whole groups of a large one, and how many records it met.

    The intruder knows all of ``columns``, unless it is said what he knows.
    """
    rows = _some(data, steps, records, seed)
    one, two = data, masked.with_frame(masked.frame.drop([c for c in drop if c in masked.columns]))
    if len(rows) < len(data):
        one, two = (d.with_frame(d.frame[rows]) for d in (one, two))
    weight = data.schema.weight
    shown = [c for c in columns if c in data.columns and c != weight and is_comparable(two, c)]
    keys = {*data.schema.keys, *data.schema.geography}
    same = [c for c in shown if c in keys and one.column(c).equals(two.column(c), null_equal=True)]
    same = same if block_on is None else list(block_on)
    known = list(known) or [c for c in shown if c not in same]
    if not known and not same:
        raise MeasureError("no column of the release can be compared with the original")
    masks = [m for m, _ in steps]
    battery = run_battery(
        one, two, masks, known=known, block_on=same, seed=seed, finds="records", progress=progress
    )
    return battery, len(one)


def _some(
    data: Microdata, steps: Sequence[tuple[Mask, Notes]], records: int, seed: Seed | int | None
) -> IntArray:
    """All records; of a large file whole groups that are near each other, or else a random part of the
    records."""
    n = len(data)
    if n <= records:
        return np.arange(n)
    draws = as_seed(seed).draws("battery sample")
    for _, notes in steps:
        log = notes.log
        if log is not None and "cluster" in log.columns and log.height == n:
            label = log["cluster"].to_numpy().astype(np.int64)
            groups = int(label.max()) + 1
            wanted = max(1, round(groups * records / n))
            # Neighbouring labels are neighbouring groups where the partition numbers them in order.
            first = int(draws.stream(purpose="groups").uniform(0, 1)[0] * max(groups - wanted, 1))
            return np.flatnonzero((label >= first) & (label < first + wanted))
    return np.sort(draws.stream(purpose="records").permutation(n)[:records])


def described(figures: Mapping[str, object]) -> str:
    """The figures in one line."""
    return ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items())
