"""Every attack that fits a masked file, one after another; the strongest is the file's risk."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sfumato.contract.guarantees import changed
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Attack
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata, as_microdata
from sfumato.draws import Seed, as_seed
from sfumato.errors import MeasureError, SfumatoError
from sfumato.linkage.blocks import make_blocks
from sfumato.linkage.fields import is_number
from sfumato.masks.rank_swap.rank_swap import RankSwap
from sfumato.risk.distance import DistanceLinkage, SelfTrainedLinkage
from sfumato.risk.intruder import IntruderTest
from sfumato.risk.linkage import Linkage
from sfumato.risk.noise_attack import NoiseAttack
from sfumato.risk.rank_attack import RankAttack
from sfumato.risk.supervised import SupervisedLinkage

MOST_PAIRS = 5_000_000_000
"""Attacks that would compare more pairs than this aren't run; blocking makes them fewer."""


@dataclass(frozen=True)
class Tried:
    """One attack of the battery: what it found and what it cost, or why it wasn't run."""

    attack: Attack
    result: Result | None
    seconds: float
    reason: str = ""

    @property
    def label(self) -> str:
        """The attack's name with what sets it apart (``linkage l``, ``distance_linkage rank``)."""
        for parameter in ("metric", "form"):
            word = getattr(self.attack, parameter, None)
            if isinstance(word, str):
                return f"{self.attack.name} {word}"
        return self.attack.id or self.attack.name


@dataclass(frozen=True)
class Battery:
    """The outcome of all attacks, strongest first."""

    tried: tuple[Tried, ...]
    known: tuple[str, ...]
    block_on: tuple[str, ...]

    @property
    def strongest(self) -> Tried:
        """The attack with the highest rate among all records (Moore's test looks at targets only)."""
        ran = [t for t in self.tried if t.result is not None]
        if not ran:
            reasons = "; ".join(f"{t.label}: {t.reason}" for t in self.tried) or "no attack fits this file"
            raise MeasureError(f"no attack could be run ({reasons})")
        whole = [t for t in ran if not isinstance(t.attack, IntruderTest)]
        return max(whole or ran, key=lambda t: t.result.value if t.result else -1.0)

    def to_frame(self) -> pl.DataFrame:
        """One row an attack."""
        rows = []
        for t in self.tried:
            r = t.result
            rows.append(
                {
                    "attack": t.label,
                    "rate": r.value if r else None,
                    "low": r.interval[0] if r and r.interval else None,
                    "high": r.interval[1] if r and r.interval else None,
                    "baseline": r.figures["baseline"] if r else None,
                    "attacked": r.figures["attacked"] if r else None,
                    "seconds": t.seconds,
                    "knows": "; ".join(r.notes) if r else t.reason,
                }
            )
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the confidential part, as plain values."""
        best = self.strongest
        return {
            "strongest": {"attack": best.label, "rate": best.result.value if best.result else None},
            "known": list(self.known),
            "block_on": list(self.block_on),
            "attacks": [
                {
                    "attack": t.label,
                    "parameters": t.attack.to_dict(),
                    "seconds": round(t.seconds, 3),
                    "result": t.result.to_dict() if t.result else None,
                    "reason": t.reason,
                }
                for t in self.tried
            ],
        }


def fitting_attacks(
    original: Microdata,
    masked: Microdata,
    steps: Sequence[Mask] = (),
    *,
    known: Sequence[str] = (),
    block_on: Sequence[str] | None = None,
    share_known: float = 0.1,
) -> tuple[list[Attack], tuple[str, ...], tuple[str, ...]]:
    """The attacks that fit these files and these steps, what the intruder knows, and his blocks.

    He knows the sensitive numbers (else all numbers that the mask changed) and blocks on the keys
    that the mask left alone. For each rank swap and each noise step there is an intruder who knows
    the method and its parameters.
    """
    touched = _touched(original, masked)
    values = tuple(known) or _default_known(original, masked, touched)
    if block_on is None:
        keys = dict.fromkeys([*original.schema.keys, *original.schema.geography])
        block_on = [c for c in keys if c in masked.columns and c not in touched and c not in values]
    on = tuple(block_on)
    numbers = tuple(c for c in values if is_number(original, c) and is_number(masked, c))
    out: list[Attack] = []
    if values:
        out += [Linkage(known=values, block_on=on, metric="l")]
    if numbers:
        out += [Linkage(known=values, block_on=on, metric="d")]
    if values:
        out += [
            DistanceLinkage(known=values, block_on=on, metric=metric)
            for metric in (("standardised", "mahalanobis", "rank") if numbers else ("standardised",))
        ]
        out += [
            SelfTrainedLinkage(known=values, block_on=on),
            SupervisedLinkage(known=values, block_on=on, share_known=share_known),
        ]
    for step in steps:
        out += _against(step, original, numbers, on)
    if original.schema.keys and values:
        out += [IntruderTest(block_on=original.schema.keys, known=values)]
    return out, values, on


def _against(step: Mask, original: Microdata, numbers: tuple[str, ...], on: tuple[str, ...]) -> list[Attack]:
    """The intruder who knows this step."""
    swapped: tuple[str, ...] = getattr(step, "columns", ())
    mine = tuple(c for c in swapped if c in numbers)
    if not mine:
        return []
    within = tuple(getattr(step, "within", ()))
    blocks = tuple(c for c in on if c not in swapped)
    if isinstance(step, RankSwap):
        # A swap keeps each column's values, so he who knows its parameters works out the windows. A
        # total is made anew from its swapped parts: its own ranks weren't swapped.
        windows = {c: w for c, w in step.windows(original).items() if c in numbers and w > 0}
        if not windows:
            return []
        same = len(set(windows.values())) == 1
        return [
            RankAttack(
                columns=tuple(windows),
                block_on=blocks,
                window_percent=next(iter(windows.values())) if same else windows,
                within=within,
                partner=step.partner,
            )
        ]
    if step.name in ("additive_noise", "mixture_noise"):
        mixture = step.name == "mixture_noise"
        return [
            NoiseAttack(
                columns=swapped if set(swapped) <= set(numbers) else mine,
                block_on=blocks,
                within=within,
                form="mixture" if mixture else "normal",
                variance_ratio=getattr(step, "variance_ratio", None),
                component_variance=getattr(step, "component_variance", 0.025),
                root=getattr(step, "root", "auto") if mixture else "auto",
                rescaled=bool(getattr(step, "rescale", False)),
                independent=bool(getattr(step, "independent", False)),
            )
        ]
    return []


def run_battery(
    original: Any,
    masked: Any,
    steps: Sequence[Mask] = (),
    *,
    known: Sequence[str] = (),
    block_on: Sequence[str] | None = None,
    share_known: float = 0.1,
    seed: Seed | int | None = 0,
    most_pairs: int = MOST_PAIRS,
    progress: Callable[[str, int, int], None] | None = None,
) -> Battery:
    """Run every attack that fits; one that can't be run is listed with the reason.

    >>> import polars as pl, sfumato as sf
    >>> from sfumato.run.battery import run_battery
    >>> people = sf.Microdata(pl.DataFrame({"A": [1.0, 5.0, 9.0], "B": [2.0, 8.0, 4.0]}))
    >>> outcome = run_battery(people, people)
    >>> outcome.strongest.result.value
    1.0
    """
    first, second = as_microdata(original), as_microdata(masked)
    attacks, values, on = fitting_attacks(
        first, second, steps, known=known, block_on=block_on, share_known=share_known
    )
    pairs = make_blocks(first, second, on, as_seed(seed).draws("battery")).pairs
    tried = []
    for number, attack in enumerate(attacks):
        if progress is not None:
            progress(attack.name, number, len(attacks))
        if pairs > most_pairs and not isinstance(attack, (IntruderTest, RankAttack)):
            tried.append(
                Tried(attack, None, 0.0, f"it would compare {pairs:,} pairs; name columns to block on")
            )
            continue
        begin = time.perf_counter()
        try:
            result, reason = attack.measure(first, second, seed=seed), ""
        except SfumatoError as problem:
            result, reason = None, problem.message
        tried.append(Tried(attack, result, time.perf_counter() - begin, reason))
    tried.sort(key=lambda t: -(t.result.value if t.result else -1.0))
    return Battery(tuple(tried), values, on)


def _touched(original: Microdata, masked: Microdata) -> set[str]:
    """The columns whose values differ between the files."""
    shared = [c for c in original.columns if c in masked.columns]
    if len(original) != len(masked):
        return set(shared)
    return {
        c
        for c in shared
        if original.dtype(c) != masked.dtype(c) or changed(original.column(c), masked.column(c))
    }


def _default_known(original: Microdata, masked: Microdata, touched: set[str]) -> tuple[str, ...]:
    shared = [c for c in original.columns if c in masked.columns]
    sensitive = tuple(c for c in original.schema.sensitive if c in shared)
    if sensitive:
        return sensitive
    apart = {original.schema.id, original.schema.household, original.schema.weight}
    numbers = [c for c in shared if is_number(original, c) and is_number(masked, c) and c not in apart]
    return tuple([c for c in numbers if c in touched] or numbers or [c for c in shared if c in touched])
