"""``sfumato check PLAN``."""

from __future__ import annotations

import argparse

from sfumato.cli.frame import BAD, OK, print_json, say

HELP = "find every mistake in a plan without running it"
EXAMPLE = """  sfumato check people.toml
  sfumato check people.toml --no-data      when the data aren't at hand
  sfumato check --schema > plan.schema.json   for an editor that completes and checks as you type"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", nargs="?", help="the plan (TOML)")
    parser.add_argument("--no-data", action="store_true", help="check the plan alone, not against its data")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of plans and stop")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    if args.schema:
        from sfumato.plan_schema import plan_schema

        print_json(plan_schema())
        return OK
    if args.plan is None:
        say("sfumato check: name a plan, or say --schema")
        return BAD
    from pathlib import Path

    from sfumato.errors import InputError
    from sfumato.plan_reader import read_plan

    path = Path(args.plan)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} isn't UTF-8 text", hint="save the plan as UTF-8") from None
    except OSError as problem:
        raise InputError(f"the plan {path} can't be read: {problem.strerror}") from None
    plan, problems = read_plan(text, base=path.parent)
    if plan is not None and not args.no_data:
        problems = sorted([*problems, *plan.check()])
    errors = [p for p in problems if p.severity == "error"]
    if args.json:
        found = [vars(p) for p in problems]
        print_json({"ok": not errors, "plan": str(path), "problems": found})
    else:
        for one in problems:
            place = f"{path}:{one.line}" if one.line else str(path)
            tail = f"\n    hint: {one.hint}" if one.hint else ""
            say(f"{place}: {one.severity}: {one.message}{tail}")
        if not errors:
            steps = len(plan.steps) if plan is not None else 0
            count = f"{steps} step{'s' if steps != 1 else ''}"
            say(f"{path}: no mistakes found ({count}, plan {plan.hash() if plan else ''})")
    return BAD if errors else OK
