"""``sfumato init FILE``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.command import OK, QUIET, print_json, progress, refuse_same, say

if TYPE_CHECKING:
    from sfumato.plan.suggest.roles import Suggestion
    from sfumato.run.verdict import Verdict

HELP = "write a first, commented plan for a data file"
_ATTACKED = 600
"""Records that the battery attacks to judge the first plan; `run` attacks more."""
EXAMPLE = """  sfumato init people.csv                    writes people.toml, with steps that meet limits
  sfumato init people.csv --for research     the limits of a research file
  sfumato init people.csv --no-search        roles and a first step only, in seconds
  sfumato init people.csv --out plans/people.toml
  sfumato init people.sav --force            replaces people.toml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", help="the data (csv, tsv, parquet, arrow, sav, por, dta, sas7bdat, xpt, xlsx, ods, rds, asc)"
    )
    parser.add_argument("--out", metavar="PLAN", help="the plan's name (default: the data's name with .toml)")
    parser.add_argument(
        "--for",
        dest="audience",
        choices=("public", "research"),
        default="public",
        help="whose limits the plan shall meet (default: public)",
    )
    parser.add_argument("--no-search", action="store_true", help="don't look for steps that meet the limits")
    parser.add_argument("--quiet", action="store_true", help=QUIET)
    parser.add_argument("--force", action="store_true", help="replace an existing plan")
    parser.add_argument("--json", action="store_true", help="print the suggestions as JSON")


def run(args: argparse.Namespace) -> int:
    from sfumato.io import read
    from sfumato.io.files import replacing
    from sfumato.plan.suggest.roles import plan_text, suggest

    file = Path(args.file)
    out = Path(args.out) if args.out else Path(_stem(file) + ".toml")
    refuse_same(args.file, str(out))
    _refuse_existing(out, args.force)
    found = suggest(read(file))
    work, drop, verdict = _protected(args, found)
    whom = None if args.no_search else args.audience
    text = plan_text(_from(out, file), found, work=work, drop=drop, audience=whom)
    with replacing(out, overwrite=args.force) as part:
        part.write_text(text, encoding="utf-8")
    if args.json:
        told = {} if verdict is None else {"verdict": verdict.to_dict()}
        print_json({"ok": True, "data": str(file), "plan": str(out), **found.to_dict(), **told})
    else:
        if verdict is not None:
            say(f"with the steps in it: {verdict.text}", "")
        _tell(found, out)
    return OK


def _protected(
    args: argparse.Namespace, found: Suggestion
) -> tuple[list[str] | None, tuple[str, ...], Verdict | None]:
    """The steps, measures and limits that a search found, what they drop, and the verdict on them."""
    if args.no_search:
        return None, (), None
    import warnings

    from sfumato.errors import SfumatoError, SfumatoWarning
    from sfumato.experiment.protect import limits_alone, protect, work_lines

    with progress(args.quiet or args.json) as tell, warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        try:
            run_ = protect(found.data, args.audience, drop=found.withheld, attacked=_ATTACKED, progress=tell)
        except SfumatoError as problem:
            if not args.json:
                say(f"no plan that meets the limits of a {args.audience} file was found: {problem.message}")
            return limits_alone(args.audience, problem.message), (), None
    return work_lines(run_.plan), run_.plan.release.drop, run_.verdict


def _stem(file: Path) -> str:
    """The name without its suffix, and without a suffix before .gz."""
    name = file.name
    for suffix in reversed(file.suffixes[-2:] if file.suffix.casefold() == ".gz" else file.suffixes[-1:]):
        name = name.removesuffix(suffix)
    return name or "plan"


def _refuse_existing(out: Path, force: bool) -> None:
    from sfumato.errors import InputError

    if out.exists() and not force:
        raise InputError(
            f"{out} exists already; nothing was written",
            hint="choose another name with --out, or say --force",
        )


def _from(plan: Path, file: Path) -> str:
    """The data's path as the plan will read it: relative to the plan's folder where possible."""
    try:
        return Path(os.path.relpath(file.resolve(), plan.resolve().parent)).as_posix()
    except ValueError:  # another drive
        return file.resolve().as_posix()


def _tell(found: Suggestion, out: Path) -> None:
    from sfumato.plan.suggest.draft import comment, together

    roles: dict[str, Any] = found.schema.to_dict()["roles"]
    many = [(found.records, "record"), (len(found.types), "column")]
    say(", ".join(f"{n:,} {word}{'s' if n != 1 else ''}" for n, word in many))
    for role, columns in roles.items():
        say(f"  {role + ':':11} {comment(', '.join([columns] if isinstance(columns, str) else columns))}")
    for column, variable in found.schema.variables.items():
        said = []
        if variable.missing:
            said.append("missing codes")
        said += [f"{end} code" for end in ("top", "bottom") if getattr(variable, end) is not None]
        if variable.sum_of:
            said.append(f"the sum of {', '.join(variable.sum_of)}")
        if said:
            say(f"  {comment(column)}: {comment('; '.join(said))}")
    if found.drop:
        say(f"  not released: {comment(', '.join(found.drop))}")
    for note in found.notes:
        say(f"  {comment(note)}")
    if found.no_role:
        say(f"  no role:    {comment(together(found.no_role))}")
    say(f"wrote {out}: read it, mend it, then `sfumato check {out}` and `sfumato run {out} --out DIR`")
