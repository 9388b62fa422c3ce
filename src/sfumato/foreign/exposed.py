"""What an intruder finds in somebody's release: links, nearness, what it tells of values, the least group."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata
from sfumato.draws import Seed, as_seed
from sfumato.errors import SfumatoError
from sfumato.foreign.files import Files
from sfumato.foreign.nearness import Nearness, nearness
from sfumato.foreign.reading import in_classes
from sfumato.plan.audience import BATTERY, Audience
from sfumato.risk.attribute import AttributeAttack
from sfumato.run.exposure import WHOLE, attack_some, gain_figures, least_group, told
from sfumato.run.gain import ColumnGain, Gain, gain_against
from sfumato.stats.worst import worst_of

Progress = Callable[[str, float, int], None]


def judged_by(
    files: Files,
    others: Microdata | None,
    columns: Sequence[str],
    *,
    synthetic: bool,
    known: Sequence[str],
    block_on: Sequence[str] | None,
    audience: Audience,
    seed: Seed | int | None,
    progress: Progress | None,
) -> tuple[Result, list[str]]:
    """The figures that limits on the battery name, as a run's, and what would let more be said."""
    notes: list[str] = []
    todo: list[str] = []
    rows: list[dict[str, object]] = []
    rate, interval, label = math.nan, None, ""
    figures: dict[str, float | str | bool] = {}
    if files.paired:
        drop = [c for c in (files.original.schema.id,) if c]
        battery, attacked = attack_some(
            files.original,
            files.released,
            (),
            list(columns),
            drop,
            WHOLE,
            seed,
            progress,
            known=known,
            block_on=block_on,
        )
        best = battery.strongest
        assert best.result is not None
        rate, interval, label = float(best.result.value), best.result.interval, best.label
        notes.append(f"the strongest attack, {label}, finds {rate:.1%}")
        if attacked < len(files.original):
            notes.append(f"attacked: {attacked:,} of {len(files.original):,} records")
        figures |= {"attacked": attacked}
        rows = battery.to_frame().to_dicts()
    near = _near(files, others, columns, seed)
    notes.append(near.text)
    rows.append(_row(near))
    # By nearness alone at least so many are recognised, whatever else is known; it counts where it is more,
    # and it is all there is where nobody knows whose record is whose.
    judged = near.share if synthetic else math.nan
    if synthetic or (
        not math.isnan(near.share) and near.interval[0] > max(audience.rate, rate if rate == rate else 0)
    ):
        judged = near.share
    if not files.paired or judged > rate:
        rate, interval, label = judged, near.interval, "nearness"
    if not files.paired and not synthetic:
        todo.append(
            "name the column that says whose record is whose (id), so that links can be counted; or, if the "
            "records are nobody's, say that the file is synthetic"
        )
        notes.append("whose record is whose isn't known, so nobody can count who is found")
    gain = _gain(files, others, columns, audience, seed, notes, todo)
    group, _, how = least_group(files.original, files.released, (), ())
    if not synthetic:
        notes.append(how)
        if not (files.original.schema.keys or files.original.schema.geography):
            group = 1
            notes.append("no key is named, so the least group can't be counted")
            todo.append("name the keys by which a person could be found (roles)")
        figures["group"] = group
    figures |= {
        "rate": rate,
        "measured": rate,
        "attack": label,
        **gain_figures(gain),
        "recognised": near.share,
        "proved": False,
    }
    result = Result(
        value=rate,
        unit="re-identified by the strongest attack" if files.paired else "recognised by nearness",
        interval=interval,
        breakdown=pl.DataFrame(rows, infer_schema_length=None),
        notes=tuple(notes),
        figures=figures,
        name=BATTERY,
        measure=BATTERY,
        bounds=(0.0, 1.0),
    )
    return result, todo


def _near(
    files: Files, others: Microdata | None, columns: Sequence[str], seed: Seed | int | None
) -> Nearness:
    own = in_classes(files.original, files.released, columns)
    theirs = None if others is None else in_classes(others, files.released, columns)
    return nearness(own, files.released, columns, as_seed(seed).draws("nearness"), theirs)


def _row(near: Nearness) -> dict[str, object]:
    return {
        "attack": "nearness",
        "finds": "members",
        "rate": near.share,
        "low": near.interval[0],
        "high": near.interval[1],
        "baseline": 0.0,
        "attacked": near.asked,
        "seconds": None,
        "knows": near.text,
    }


_UNKNOWN = Gain(math.nan, math.nan, math.nan, math.nan, (), 0)


def _gain(
    files: Files,
    others: Microdata | None,
    columns: Sequence[str],
    audience: Audience,
    seed: Seed | int | None,
    notes: list[str],
    todo: list[str],
) -> Gain:
    """Against the holdout; else, where pairs are known, against the release without the person's record."""
    lost = "the attribute gain couldn't be measured"
    try:
        if others is not None:
            own, theirs = (in_classes(d, files.released, columns) for d in (files.original, others))
            known = audience.numbers_known
            gain = gain_against(
                own, theirs, files.released, paired=files.paired, numbers_known=known, seed=seed
            )
        elif files.paired:
            gain = _without_himself(files, columns, seed)
            notes.append("without a holdout, the gain is over the release without the person's own record")
        else:
            todo.append("give a holdout: people of the same population whom the release never saw")
            notes.append(f"{lost}: there is nobody outside the file to compare with")
            return _UNKNOWN
    except SfumatoError as problem:
        notes.append(f"{lost}: {problem.message}")
        return _UNKNOWN
    notes.append(told(gain))
    return gain


def _without_himself(files: Files, columns: Sequence[str], seed: Seed | int | None) -> Gain:
    """Of a sample of pairs: each person's values guessed with and without his own released record."""
    n = len(files.original)
    rows = np.sort(as_seed(seed).draws("gain").stream(purpose="rows").permutation(n)[: 2 * WHOLE])
    one, two = (d.with_frame(d.frame[rows]) for d in (files.original, files.released))
    wanted = [c for c in one.schema.sensitive if c in columns] or [c for c in columns if one.is_numeric(c)]
    attack = AttributeAttack(
        known=tuple(columns),
        sensitive=tuple(wanted or columns),
        records=min(1_000, 6_000 // len(wanted or columns)),
    )
    found = attack.measure(one, two, seed=seed)
    assert found.breakdown is not None
    parts = [
        ColumnGain(
            r["column"], r["with_release"], r["other_people"], r["gain"], (r["high"] - r["low"]) / 3.92 + 1e-9
        )
        for r in found.breakdown.iter_rows(named=True)
    ]
    worst = worst_of([p.gain for p in parts], [p.error for p in parts])
    inside, outside = (float(np.mean([getattr(p, side) for p in parts])) for side in ("inside", "outside"))
    pooled = max(0.0, (inside - outside) / max(1.0 - outside, 0.01))
    first = parts[worst.at]
    rest = sorted((p for p in parts if p is not first), key=lambda p: -p.gain)
    people = int(found.figures["attacked"])
    return Gain(max(worst.value, pooled), worst.low, worst.high, pooled, (first, *rest), people)
