"""``sfumato warm``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sfumato.cli.command import OK, say

if TYPE_CHECKING:
    from sfumato.data.microdata import Microdata

HELP = "compile every kernel now, so that no later command waits for the compiler"
EXAMPLE = """  sfumato warm
  sfumato warm --quiet"""

_RECORDS = 1_300  # more than 1.5 million pairs: attacks go the way of large files
_MANY = 20_000  # long columns are sorted by kernels of their own


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="say nothing")


def run(args: argparse.Namespace) -> int:
    import logging
    import warnings

    from sfumato.errors import SfumatoError, SfumatoWarning

    began = time.perf_counter()
    logging.getLogger("sfumato").setLevel(logging.ERROR)  # what made records warn of concerns nobody
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        for label, work in tasks().items():
            if not args.quiet:
                say(f"compiling what {label} need …")
            try:
                work()
            except SfumatoError as problem:  # a kernel more or less; the command that needs it compiles it
                say(f"  left for later: {problem.message}")
    if not args.quiet:
        say(f"all kernels are ready ({time.perf_counter() - began:.0f} s)")
    return OK


def tasks() -> dict[str, Callable[[], object]]:
    """Work on a few made records that calls every kernel with the types it is called with."""
    import sfumato as sf
    from sfumato.run.battery import run_battery

    deck = sf.decks.housing()
    amounts, keys = list(deck.schema.sensitive), list(deck.schema.keys)
    many = deck.with_frame(deck.frame.select(amounts[:2]).head(_MANY))
    some = deck.with_frame(deck.frame.head(_RECORDS).fill_null(0))
    few = some.slice(0, 300)
    floats = _as_floats(some, amounts)

    def masks() -> None:
        for mask in (
            sf.AdditiveNoise(columns=amounts, variance_ratio=0.1),
            sf.MixtureNoise(columns=amounts, variance_ratio=0.1),
            sf.Microaggregate(columns=amounts[:2], k=3),
            sf.Microaggregate(columns=amounts[:1], k=3),
            sf.Pram(columns=keys[:1], keep_probability=0.9),
            sf.LocalSuppress(keys=keys, tolerance=2),
            sf.RandomSwap(columns=keys[:1], rate_percent=5),
            sf.TOrderSwap(keys=keys[:2], rate_percent=5),
            sf.ConfidentialityEdit2000(keys=keys, swap="geography", tolerance=2),
            sf.ConfidentialityEdit1990(match_on=keys[1:2], swap=amounts[:1], within=keys[:1], rate_percent=5),
            sf.Synthesise(columns=amounts[:2]),
        ):
            _tried(mask, few)

    def swaps() -> None:
        for data in (many, _as_floats(many, amounts[:2])):
            for mask in (
                sf.RankSwap(columns=amounts[:1], window_percent=5),
                sf.RankSwap(columns=amounts[:2], correlation=0.95, far_values="code"),
                sf.RankSwap(columns=amounts[:1], correlation=0.95, interval="ranks", far_values="code"),
            ):
                _tried(mask, data)

    def measures() -> None:
        noisy = sf.AdditiveNoise(columns=amounts, variance_ratio=0.1).mask(floats, seed=1)
        for measure in (
            sf.Tolerance(keys=keys),
            sf.KAnonymity(keys=keys),
            sf.Suda(keys=keys),
            sf.IndividualRisk(keys=keys),
            sf.InformationLoss(columns=amounts),
            sf.Propensity(columns=amounts),
            sf.IntervalDisclosure(columns=amounts),
        ):
            sf.measure(floats, noisy, measure)

    def attacks() -> None:
        steps = [
            sf.RankSwap(columns=amounts, window_percent=15),
            sf.AdditiveNoise(columns=amounts, variance_ratio=0.1),
            sf.ClusterShuffle(columns=amounts, smallest=20),
        ]
        for step in steps:
            masked = step.mask(floats, seed=1)
            run_battery(floats, masked, [step], block_on=[])
            run_battery(floats, masked, [step])

    def search() -> None:
        sf.protect(some, "public", drop=["IDNUM"])

    return {"rank swaps": swaps, "other masks": masks, "measures": measures, "attacks": attacks,
            "searches for a plan": search}  # fmt: skip


def _tried(mask: object, data: Microdata) -> None:
    """One mask on these records; one that they don't suit is left out."""
    from sfumato.errors import SfumatoError

    try:
        mask.mask(data, seed=1)  # type: ignore[attr-defined]
    except SfumatoError:
        return


def _as_floats(data: Microdata, columns: list[str]) -> Microdata:
    import polars as pl

    return data.with_frame(data.frame.with_columns(pl.col(columns).cast(pl.Float64)))
