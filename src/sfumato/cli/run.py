"""``sfumato run PLAN --out DIR``."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.command import FAILED, OK, QUIET, print_json, progress, say
from sfumato.cli.engine import add_engine, chosen_engine

if TYPE_CHECKING:
    from sfumato.contract.engine import Engine
    from sfumato.draws import Seed
    from sfumato.plan.plan import Plan
    from sfumato.release.write import Release
    from sfumato.run.run import Run

HELP = "carry out a plan and write the release"
EXAMPLE = """  sfumato run people.toml --out release
  sfumato run people.toml --out release --save-seed people.seed   so that it can be run again
  sfumato run people.toml                                          a trial: nothing is written
  sfumato run census.toml --out release --engine stream            a file larger than memory"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", help="the plan (TOML)")
    parser.add_argument("--out", metavar="DIR", help="the release's folder; without it nothing is written")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing release")
    parser.add_argument("--seed-file", metavar="FILE", help="read the secret seed from a file")
    parser.add_argument("--save-seed", metavar="FILE", help="write the secret seed to a new file (mode 600)")
    parser.add_argument("--copies", type=int, default=1, metavar="K", help="make K independent releases")
    parser.add_argument(
        "--analysis", action="append", metavar="FORMULA", help='with --copies: do they agree on "Y ~ X + Z"?'
    )
    add_engine(parser)
    parser.add_argument("--despite-limits", action="store_true", help="release even where a limit fails")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.add_argument("--quiet", action="store_true", help=QUIET)


def run(args: argparse.Namespace) -> int:
    from sfumato.drawing import folded
    from sfumato.draws import Seed
    from sfumato.errors import ParameterError
    from sfumato.plan.plan import Plan

    if args.copies < 1:
        raise ParameterError("--copies must be at least 1")
    if args.analysis and args.copies < 2:
        raise ParameterError("--analysis compares copies", hint="say --copies 2")
    plan = Plan.load(args.plan)
    seed = Seed.from_file(args.seed_file) if args.seed_file else Seed.new()
    _refuse_existing(args, plan)
    if args.out and not (args.save_seed or args.seed_file or args.json):
        drawn = [i for i, s in zip(plan.step_ids(), plan.steps, strict=True) if not s.draws_nothing]
        if drawn:
            say(
                f"the seed of {folded(drawn)} will not be kept: this release can't be made again "
                "(say --save-seed FILE to keep it)"
            )
    engine = chosen_engine(args, plan)
    with engine:
        return _carried_out(args, plan, seed, engine)


def _carried_out(args: argparse.Namespace, plan: Plan, seed: Seed, engine: Engine) -> int:
    from sfumato.errors import SfumatoWarning

    data = plan.data(lazy=engine.name != "memory")
    with progress(args.quiet or args.json) as tell, warnings.catch_warnings():
        # The run collects its warnings; they are printed once, below.
        warnings.simplefilter("ignore", SfumatoWarning)
        seeds = [seed] + [seed.child(f"copy {k}") for k in range(2, args.copies + 1)]
        runs = [plan.run(data, seed=s, progress=tell, engine=engine) for s in seeds]
    if args.save_seed:
        # Before the release: one without its seed couldn't be made again.
        seed.save(args.save_seed)
    releases: list[Release] = []
    failed = [x for one in runs for x in one.limits if not x.ok]
    if args.out and (not failed or args.despite_limits):
        options = {"overwrite": args.overwrite, "despite_limits": args.despite_limits}
        with progress(args.quiet or args.json) as tell:
            for folder, one in zip(_folders(args), runs, strict=True):
                releases.append(one.release(folder, **options, progress=tell))
    agreement = [_agreement(formula, runs) for formula in args.analysis or ()]
    if releases and agreement:
        (Path(args.out) / "copies.txt").write_text("\n\n".join(agreement) + "\n", encoding="utf-8")
    if args.json:
        print_json({**_outcome(runs, releases), "copies": agreement})
    else:
        for number, one in enumerate(runs, start=1):
            if len(runs) > 1:
                say(f"copy {number} of {len(runs)}")
            _tell(one)
        say(*agreement)
        _tell_releases(args, releases, runs, failed=bool(failed), safe=all(one.verdict.safe for one in runs))
        if failed and not releases:
            say(*(f"  hint: {text}" for text in dict.fromkeys(h for one in runs for h in _ways_out(one))))
    return FAILED if failed else OK


def _folders(args: argparse.Namespace) -> list[Path]:
    """Where each copy goes."""
    out = Path(args.out)
    return [out] if args.copies == 1 else [out / f"copy-{k}" for k in range(1, args.copies + 1)]


def _refuse_existing(args: argparse.Namespace, plan: Plan) -> None:
    """Better before an hour's work than after it."""
    from sfumato.errors import ReleaseError
    from sfumato.io.replaceable import place_for

    if args.save_seed and Path(args.save_seed).exists():
        raise ReleaseError(
            f"{args.save_seed} exists already; a seed is never written over a file",
            hint="choose another name, or say --seed-file to use the seed in it",
        )
    if not args.out:
        return
    if Path(args.out).exists() and not args.overwrite:
        raise ReleaseError(
            f"{args.out} exists already; nothing was written",
            hint="choose another folder, or say --overwrite to replace the release in it",
        )
    inputs = [] if plan.data_path is None else [plan.data_file()]
    for folder in _folders(args):
        place_for(folder, overwrite=args.overwrite, inputs=inputs)


def _tell(one: Run) -> None:
    from sfumato import report

    say(report.brief(report.summary(one, public=False)))


def _tell_releases(
    args: argparse.Namespace, releases: list[Release], runs: list[Run], *, failed: bool, safe: bool
) -> None:
    from sfumato.release.dialect import how_written

    for release, one in zip(releases, runs, strict=False):
        say(f"release:  {release.public}   ({'for handing out' if safe else 'NOT cleared for handing out'})")
        written = how_written(one)
        if written:
            say(f"written:  {written}")
        say(f"internal: {release.internal}   (lock this away)")
        say(f"report:   {release.internal / 'report.html'}")
    if failed and not releases:
        say("nothing was released, because a limit of the plan fails")
    elif not args.out:
        say("a trial: nothing was written (say --out DIR to release)")


def _ways_out(one: Run) -> list[str]:
    """What can be done about the limits that fail."""
    out = []
    for outcome in one.limits:
        name, most = outcome.limit.measure, outcome.limit.at_most
        if outcome.ok or most is None or outcome.limit.figure not in ("rate", "value"):
            continue
        chance = one.results[name].figures.get("baseline")
        if isinstance(chance, (int, float)) and chance > most:
            out.append(
                f"{name}: guessing alone finds {chance:.3g}, above the limit of {most:g}, so no mask of the "
                "amounts can meet it: recode or drop the keys that the intruder blocks on"
            )
    return [*out, "mask more, recode keys, or change the limit; --despite-limits releases all the same"]


def _agreement(formula: str, runs: list[Run]) -> str:
    """Whether the copies agree on an analysis, from the masked files alone."""
    from sfumato.utility.copies import compare_copies

    check = compare_copies([one.masked for one in runs], formula)
    verdict = "plausible" if check.plausible else f"not plausible: {', '.join(check.flagged)}"
    rows = [
        "  ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row)
        for row in check.table.iter_rows()
    ]
    head = "  ".join(check.table.columns)
    return "\n".join([f"copies: {formula}: {verdict}", f"  {head}", *(f"  {r}" for r in rows), *check.notes])


def _outcome(runs: list[Run], releases: list[Release]) -> dict[str, Any]:
    from sfumato import report

    return {
        "ok": all(one.ok for one in runs),
        "verdict": (next((one for one in runs if not one.verdict.safe), runs[0])).verdict.to_dict(),
        "releases": [str(r.folder) for r in releases],
        "runs": [report.summary(one, public=False) for one in runs],
    }
