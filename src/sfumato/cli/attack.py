"""``sfumato attack PLAN``, and ``sfumato attack --original A --released B`` for anybody's release."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.cli.command import OK, QUIET, print_json, progress, say
from sfumato.drawing.grid import grid

if TYPE_CHECKING:
    from sfumato.run.battery import Battery

HELP = "attack the masked file as an intruder would"
EXAMPLE = """  sfumato attack people.toml
  sfumato attack people.toml --known INCOME,TAXES --block-on REGION,SEX
  sfumato attack people.toml --curve     the strongest attack over the number of known variables
  sfumato attack --original people.csv --released masked.csv --id ID    a file that another tool made
  sfumato attack people.toml --released masked.csv                      the same; a plan's data and roles
  sfumato attack --original people.csv --released made.csv --synthetic --holdout others.csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "plan", nargs="?", help="the plan (TOML); with --released, its data and roles are taken"
    )
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
    made = parser.add_argument_group("a release made elsewhere (any tool's, or by hand)")
    made.add_argument("--original", metavar="FILE", help="the file as collected")
    made.add_argument("--released", metavar="FILE", help="the masked or synthetic file")
    made.add_argument("--id", metavar="COLUMN", help="the column that says whose record is whose")
    made.add_argument("--synthetic", action="store_true", help="released records are nobody's in particular")
    made.add_argument("--holdout", metavar="FILE", help="people of the same population, never in the release")
    made.add_argument(
        "--for",
        dest="audience",
        choices=("public", "research"),
        default="public",
        help="whose limits judge it: those of a public file (default) or of a research file",
    )
    made.add_argument("--max-risk", type=float, metavar="R", help="the largest share that an attack may find")
    made.add_argument("--k", type=int, metavar="K", help="the least group")
    made.add_argument(
        "--keep", action="append", default=[], metavar="FORMULA", help='an analysis to compare: "Y ~ X + Z"'
    )
    made.add_argument("--out", metavar="REPORT", help="write the report (HTML) to a new file")
    made.add_argument("--overwrite", action="store_true", help="replace an existing report")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.add_argument("--quiet", action="store_true", help=QUIET)


def run(args: argparse.Namespace) -> int:
    from sfumato.draws import Seed
    from sfumato.errors import ParameterError, SfumatoWarning
    from sfumato.plan.plan import Plan
    from sfumato.run.battery import run_battery
    from sfumato.run.curve import known_curve

    if args.released:
        from sfumato.cli.elsewhere import evaluated

        return evaluated(args, _names(args.known) or (), _names(args.block_on))
    if not args.plan:
        raise ParameterError(
            "there is nothing to attack", hint="name a plan, or --original FILE and --released FILE"
        )
    strange = [
        f"--{w}" for w in ("original", "id", "synthetic", "holdout", "keep", "out") if getattr(args, w)
    ]
    if strange:
        raise ParameterError(
            f"{strange[0]} belongs to a release made elsewhere", hint="say --released FILE too"
        )
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
    from sfumato.drawing import folded

    say(f"the intruder knows {folded(battery.known)}")
    if battery.block_on:
        say(f"and, exactly, {folded(battery.block_on)}")
    rows: list[list[str]] = []
    for tried in battery.tried:
        result = tried.result
        if result is None:
            rows.append([tried.label, f"not run: {tried.reason}"])
            continue
        low, high = result.interval or (float("nan"), float("nan"))
        span, chance = f"{low:.1%} - {high:.1%}", f"{result.figures['baseline']:.2%}"
        rows.append([tried.label, f"{result.value:.1%}", span, chance, f"{tried.seconds:.2f}"])
    say("", *grid(["attack", "rate", "95% interval", "by chance", "seconds"], rows, indent=""))
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
