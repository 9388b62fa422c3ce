"""``sfumato check PLAN``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sfumato.cli.command import BAD, OK, print_json, progress, say
from sfumato.cli.engine import ENGINES

if TYPE_CHECKING:
    from sfumato.errors import Problem
    from sfumato.plan.partly import PartlyRead
    from sfumato.plan.plan import Plan
    from sfumato.run.where import Where

HELP = "find every mistake in a plan without running it"
EXAMPLE = """  sfumato check people.toml
  sfumato check people.toml --no-data      when the data aren't at hand
  sfumato check people.toml --rehearse     try every step on a large file, too, and keep nothing
  sfumato check people.toml --engine spark   where each part would be carried out on a cluster
  sfumato check --schema > plan.schema.json   for an editor that completes and checks as you type"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", nargs="?", help="the plan (TOML)")
    parser.add_argument("--no-data", action="store_true", help="check the plan alone, not against its data")
    parser.add_argument(
        "--rehearse",
        action=argparse.BooleanOptionalAction,
        help="carry every step out in memory and keep nothing: some mistakes only the data tell (by default "
        "where the file has at most 20,000 records)",
    )
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="also say where each step, each measure and the release would be carried out, and how many "
        "bytes come to one place",
    )
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of plans and stop")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    if args.schema:
        from sfumato.plan.json_schema import plan_schema

        print_json(plan_schema())
        return OK
    if args.plan is None:
        say("sfumato check: name a plan, or say --schema")
        return BAD
    from pathlib import Path

    from sfumato.errors import Problem
    from sfumato.plan.partly import read_partly
    from sfumato.plan.source import read_text

    path = Path(args.plan)
    read = read_partly(read_text(path), base=path.parent)
    plan, problems = read.plan, read.problems
    if plan is not None and not args.no_data:
        problems = sorted([*problems, *_of_data(plan), *read.check()])
    if plan is not None and plan.data_path is None:
        message = "the plan names no data"
        problems.append(Problem(0, message, 'add a line such as: data = "people.csv"', "warning"))
    if plan is not None and not plan.steps and not any(p.severity == "error" for p in problems):
        problems.append(Problem(0, "the plan has no steps: nothing would be masked", None, "warning"))
    errors = [p for p in problems if p.severity == "error"]
    tried: str | None = None
    if plan is not None and not errors and not args.no_data:
        found, tried = _rehearsed(args, read, plan)
        errors, problems = found, sorted([*problems, *found])
    where = [] if args.engine is None or plan is None or errors else _whereabouts(plan, args.engine)
    refused = [w for w in where if not w.can]
    if args.json:
        content = [vars(p) for p in problems]
        found_ = {
            "ok": not (errors or refused),
            "plan": str(path),
            "rehearsed": tried == "",
            "problems": content,
        }
        print_json(found_ | ({"where": [vars(w) for w in where]} if args.engine else {}))
    else:
        for one in problems:
            place = f"{path}:{one.line}" if one.line else str(path)
            tail = f"\n    hint: {one.hint}" if one.hint else ""
            say(f"{place}: {one.severity}: {one.message}{tail}")
        if not errors:
            steps = len(plan.steps) if plan is not None else 0
            count = f"{steps} step{'s' if steps != 1 else ''}"
            say(f"{path}: no mistakes found ({count}, plan {plan.hash() if plan else ''})")
            say(*([tried] if tried else []))
        if where:
            say(f"on --engine {args.engine}:", *(f"  {w}" for w in where))
    return BAD if errors or refused else OK


def _whereabouts(plan: Plan, engine: str) -> list[Where]:
    from sfumato.io.arrow import is_parquet
    from sfumato.run.where import whereabouts

    if plan.data_path is None:
        return []
    return whereabouts(plan, plan.data(lazy=True), engine, parquet=is_parquet(plan.data_file()))


def _rehearsed(args: argparse.Namespace, read: PartlyRead, plan: Plan) -> tuple[list[Problem], str | None]:
    """What only the data can tell, and why it was left open ("" where it wasn't, None without a file)."""
    from sfumato.run.rehearsal import REHEARSED, rehearsed

    if plan.data_path is None:
        return [], None
    records = len(plan.data(lazy=True))
    if args.rehearse is False or (args.rehearse is None and records > REHEARSED):
        open_ = f"what the steps meet in its {records:,} records is left open"
        return [], f"{open_}; `--rehearse` tries them and keeps nothing"
    with progress(args.json) as tell:
        return rehearsed(plan, plan.data(), read.lines, tell), ""


def _of_data(plan: Plan) -> list[Problem]:
    """What a run would refuse before it masks anything: sums that don't add up, text among numbers,
    columns that name people."""
    from sfumato.errors import SfumatoError
    from sfumato.plan.check import data_problems
    from sfumato.plan.identifying import would_identify

    if plan.data_path is None:
        return []
    try:
        data = plan.data(lazy=True)
        return [*data_problems(data), *would_identify(data, plan.release)]
    except SfumatoError:  # the file or the schema is wrong, which Plan.check says with its line
        return []
