"""``sfumato report DIR``."""

from __future__ import annotations

import argparse
from pathlib import Path

from sfumato.cli.command import OK, print_json, say

HELP = "write the report of a release again"
EXAMPLE = """  sfumato report releases/people
  sfumato report releases/people --text"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", help="a release folder (the one that holds internal/)")
    parser.add_argument("--text", action="store_true", help="print the report as text")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--out", help="write the HTML here instead of internal/report.html")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file (with --out)")


def run(args: argparse.Namespace) -> int:
    import json

    from sfumato import report
    from sfumato.errors import InputError

    folder = Path(args.folder)
    source = folder / "internal" / "run.json"
    try:
        summary = json.loads(source.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InputError(
            f"{source} can't be read: {problem.strerror}",
            hint="name the folder that `sfumato run --out` wrote",
        ) from None
    except ValueError:
        raise InputError(f"{source} isn't the summary of a run") from None
    if not isinstance(summary, dict) or "report" not in summary or "file" not in summary:
        raise InputError(f"{source} isn't the summary of a run")
    if args.json:
        print_json(summary)
    elif args.text:
        say(report.text(summary))
    else:
        path = Path(args.out) if args.out else folder / "internal" / "report.html"
        if args.out and path.exists() and not args.overwrite:
            raise InputError(f"{path} exists already", hint="choose another name, or say --overwrite")
        path.write_text(report.html(summary), encoding="utf-8")
        say(f"report: {path}")
    return OK
