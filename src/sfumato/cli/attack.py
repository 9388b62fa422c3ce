"""``sfumato attack PLAN``."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.cli.command import OK, print_json, progress, say

if TYPE_CHECKING:
    from sfumato.run.battery import Battery

HELP = "attack the masked file as an intruder would"
EXAMPLE = """  sfumato attack people.toml
  sfumato attack people.toml --known INCOME,TAXES --block-on REGION,SEX
  sfumato attack people.toml --curve     the strongest attack over the number of known variables"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", help="the plan (TOML)")
    parser.add_argument(
        "--known", metavar="A,B", help="the columns that the intruder knows (else the sensitive)"
    )
    parser.add_argument(
        "--block-on", metavar="A,B", help="the keys that he knows exactly (else the unmasked keys)"
    )
    parser.add_argument(
        "--share-known",
        type=float,
        default=0.1,
        metavar="S",
        help="the share of true pairs a learner has (0.1)",
    )
    parser.add_argument(
        "--curve", action="store_true", help="run the strongest over the number of known columns"
    )
    parser.add_argument("--seed-file", metavar="FILE", help="mask with the secret seed of a file")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    from sfumato.draws import Seed
    from sfumato.errors import SfumatoWarning
    from sfumato.plan.plan import Plan
    from sfumato.run.battery import run_battery
    from sfumato.run.curve import known_curve

    # The plan's own measures and limits aren't asked for here.
    plan = replace(Plan.load(args.plan), measures=(), limits=())
    seed = Seed.from_file(args.seed_file) if args.seed_file else Seed.new()
    with progress(args.quiet or args.json) as tell, warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        done = plan.run(plan.data(), seed=seed, progress=tell)
        there = [c for c in plan.release.drop if c in done.masked.columns]
        released = done.masked.with_frame(done.masked.frame.drop(there))
        battery = run_battery(
            done.original,
            released,
            plan.steps,
            known=_names(args.known) or (),
            block_on=_names(args.block_on),
            share_known=args.share_known,
            progress=tell,
        )
        best = battery.strongest
        curve = known_curve(best.attack, done.original, released) if args.curve else None
    if args.json:
        content: dict[str, Any] = battery.to_dict()
        if curve is not None:
            content["curve"] = curve.to_dicts()
        print_json(content)
        return OK
    _tell(battery)
    if curve is not None:
        say("", f"{best.label} over the number of known columns (mean of random sets):")
        for row in curve.iter_rows(named=True):
            say(
                f"  {row['known']:>3}  {row['mean']:6.1%}  from {row['lowest']:6.1%} to {row['highest']:6.1%}"
            )
    return OK


def _names(words: str | None) -> tuple[str, ...] | None:
    return None if words is None else tuple(w.strip() for w in words.split(",") if w.strip())


def _tell(battery: Battery) -> None:
    say(f"the intruder knows {', '.join(battery.known)}")
    if battery.block_on:
        say(f"and, exactly, {', '.join(battery.block_on)}")
    width = max(len(t.label) for t in battery.tried)
    say("", f"{'attack':<{width}}    rate   95% interval    by chance   seconds")
    for tried in battery.tried:
        result = tried.result
        if result is None:
            say(f"{tried.label:<{width}}  not run: {tried.reason}")
            continue
        low, high = result.interval or (float("nan"), float("nan"))
        say(
            f"{tried.label:<{width}}  {result.value:6.1%}  {low:6.1%} - {high:6.1%}"
            f"  {result.figures['baseline']:9.2%}  {tried.seconds:8.2f}"
        )
    best = battery.strongest
    assert best.result is not None
    unit = best.result.unit.removeprefix("share of ")
    say("", f"strongest: {best.label}, {best.result.value:.1%} of {unit}")
    for note in best.result.notes:
        say(f"  {note}")
    for word, what in (("values", "values learnt"), ("members", "membership")):
        for tried in (t for t in battery.tried if t.attack.finds == word and t.result is not None):
            assert tried.result is not None
            say("", f"{what}: {tried.result.value:.3g} ({tried.result.unit})")
            for note in tried.result.notes:
                say(f"  {note}")
