"""``sfumato protect FILE --out DIR``."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.cli.command import FAILED, OK, QUIET, print_json, progress, say

if TYPE_CHECKING:
    from sfumato.contract.measure import RiskMeasure
    from sfumato.data.microdata import Microdata
    from sfumato.plan.audience import Audience
    from sfumato.plan.plan import Plan
    from sfumato.run.run import Run

HELP = "find the plan of least loss that meets limits, carry it out and write the release"
EXAMPLE = """  sfumato protect people.csv --out release
  sfumato protect people.csv --out release --for research
  sfumato protect people.csv --out release --max-risk 0.02 --k 20 --keep "WAGE ~ AGE + EDUC"
  sfumato protect people.csv --out release --condition "k_anonymity k=5" --condition "l_diversity l=3"
  sfumato protect people.toml --out release    takes data and roles from a plan, and finds its steps"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="the data, or a plan (.toml) whose data and roles are taken")
    parser.add_argument("--out", metavar="DIR", help="the release's folder; without it nothing is written")
    parser.add_argument(
        "--for",
        dest="audience",
        choices=("public", "research"),
        help="whose limits to meet: those of a public file (default) or of a research file",
    )
    parser.add_argument(
        "--max-risk", type=float, metavar="R", help="the largest share that an attack may find"
    )
    parser.add_argument("--k", type=int, metavar="K", help="the least group")
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="FORMULA",
        help='an analysis that must survive: "Y ~ X + Z"',
    )
    parser.add_argument(
        "--condition",
        action="append",
        default=[],
        metavar="MEASURE",
        help='what a board counts in the release: "k_anonymity k=5", "l_diversity l=3", "t_closeness t=0.2", '
        '"k_map k=5", "delta_presence highest=0.5", "tolerance tolerance=3"; keys are then recoded for it',
    )
    parser.add_argument(
        "--save-plan", metavar="PLAN", help="write the plan that was found, with what was tried"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing release or plan")
    parser.add_argument("--seed-file", metavar="FILE", help="read the secret seed from a file")
    parser.add_argument("--save-seed", metavar="FILE", help="write the secret seed to a new file (mode 600)")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.add_argument("--quiet", action="store_true", help=QUIET)


def run(args: argparse.Namespace) -> int:
    from sfumato import report
    from sfumato.draws import Seed
    from sfumato.errors import SfumatoWarning
    from sfumato.experiment.protect import protect
    from sfumato.plan.audience import audience

    _refuse_existing(args)
    conditions = [_condition(text) for text in args.condition]
    data, template, drop = _given(Path(args.file))
    whom = args.audience or (template.audience if template else None) or "public"
    limits = audience(whom).with_limits(rate=args.max_risk, group=args.k)
    seed = Seed.from_file(args.seed_file) if args.seed_file else Seed.new()
    with progress(args.quiet or args.json) as tell, warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        done = protect(
            data,
            limits,
            args.keep,
            conditions=conditions,
            drop=drop,
            template=template,
            seed=seed,
            progress=tell,
        )
    if args.save_seed:
        seed.save(args.save_seed)
    if args.save_plan:
        done.plan.save(args.save_plan, overwrite=args.overwrite)
    release = None
    if args.out and done.verdict.safe:
        release = done.release(args.out, overwrite=args.overwrite)
    if args.json:
        print_json(
            {
                "ok": done.verdict.safe,
                "verdict": done.verdict.to_dict(),
                "plan": done.plan.to_toml(),
                "release": None if release is None else str(release.folder),
                "run": report.summary(done, public=False),
            }
        )
        return OK if done.verdict.safe else FAILED
    say(report.brief(report.summary(done, public=False)), "", *_tried(done, limits))
    if release is not None:
        if (changed := _format_changed(Path(args.file))) is not None:
            say(f"format:   {changed}")
        say(f"release:  {release.public}   (for handing out)")
        say(f"internal: {release.internal}   (lock this away)")
        say(f"report:   {release.internal / 'report.html'}")
    elif args.out:
        say("nothing was released: no plan within reach meets the limits; this is the nearest that was found")
    else:
        say("a trial: nothing was written (say --out DIR to release)")
    return OK if done.verdict.safe else FAILED


def _format_changed(file: Path) -> str | None:
    """Why a release isn't in the format of the file, if it isn't."""
    from sfumato.plan.suggest.draft import release_format

    return None if file.suffix.casefold() == ".toml" else release_format(file)[1] or None


def _tried(done: Run, limits: Audience) -> list[str]:
    """What was tried, and whose limits these are."""
    head = [
        line.removeprefix("#").strip()
        for line in (done.plan.source or "").splitlines()
        if line.startswith("#")
    ]
    sources = [f"  {name}: {source}" for name, source in limits.sources.items() if name != "area"]
    return [
        *head,
        "",
        f"the limits are those of a {limits.name} file, against {limits.scenario}:",
        *sources,
        "",
    ]


def _given(file: Path) -> tuple[Microdata, Plan | None, tuple[str, ...]]:
    """The data with roles: as a plan says, or as suggested; and what is never released."""
    from dataclasses import replace

    from sfumato.io import read
    from sfumato.plan.parts import ReleaseOptions
    from sfumato.plan.plan import Plan
    from sfumato.plan.suggest.draft import release_format
    from sfumato.plan.suggest.roles import suggest

    if file.suffix.casefold() == ".toml":
        plan = Plan.load(file)
        return plan.data(), replace(plan, steps=(), source=None), plan.release.drop
    found = suggest(read(file))
    format_, _ = release_format(file)
    release = ReleaseOptions(format=format_)
    template = Plan(schema=found.schema, data_path=str(file.name), base=file.parent, release=release)
    return found.data, template, found.withheld


def _condition(text: str) -> RiskMeasure:
    """``"l_diversity l=3"`` as a measure."""
    import tomllib

    from sfumato import registry
    from sfumato.contract.measure import RiskMeasure
    from sfumato.errors import ParameterError

    name, *words = text.split()
    try:
        given = tomllib.loads("\n".join(words))
    except tomllib.TOMLDecodeError:
        raise ParameterError(
            f"--condition {text!r} isn't a measure with its parameters", hint='--condition "k_anonymity k=5"'
        ) from None
    one = registry.measure(name).from_dict(given)
    if not isinstance(one, RiskMeasure):
        raise ParameterError(f"--condition {name}: this isn't a measure of risk")
    return one


def _refuse_existing(args: argparse.Namespace) -> None:
    """Better before minutes of work than after them."""
    from sfumato.errors import ReleaseError
    from sfumato.io.replaceable import refuse_foreign

    for path, what in ((args.out, "--out"), (args.save_plan, "--save-plan"), (args.save_seed, "--save-seed")):
        if path and Path(path).exists() and (what == "--save-seed" or not args.overwrite):
            raise ReleaseError(
                f"{path} exists already; nothing was written",
                hint="choose another name" + ("" if what == "--save-seed" else ", or say --overwrite"),
            )
    if args.out:
        refuse_foreign(Path(args.out))
