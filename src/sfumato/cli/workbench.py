"""``sfumato workbench [PLAN or FILE]``."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from sfumato.cli.command import OK, say

HELP = "open the workbench in the browser"
EXAMPLE = """  sfumato workbench people.csv     suggests roles, looks for a first plan, and shows both
  sfumato workbench people.toml    goes on with a plan
  sfumato workbench --no-open --port 8765"""
_NEEDED = ("starlette", "uvicorn")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", help="a data file, or a plan (.toml)")
    parser.add_argument("--port", type=int, default=0, help="the port (by default a free one)")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on (by default this machine alone; another shows confidential data to "
        "whoever reaches it and has the token)",
    )
    parser.add_argument(
        "--for",
        dest="audience",
        choices=("public", "research"),
        default="public",
        help="whose limits the first proposal shall meet (default: public)",
    )
    parser.add_argument("--no-proposal", action="store_true", help="don't look for a first plan")
    parser.add_argument(
        "--no-open", "--no-browser", dest="no_open", action="store_true", help="don't open the browser"
    )


def run(args: argparse.Namespace) -> int:
    from sfumato.errors import InputError

    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"the workbench needs {' and '.join(missing)}, which isn't installed",
            hint="pip install 'sfumato[workbench]'",
        )
    from sfumato.workbench.serve import serve

    if args.host not in _LOOPBACK:
        say(
            f"warning: listening on {args.host}, not on this machine alone. The page shows original values "
            "to whoever reaches it and has the token, and nothing on the way is encrypted."
        )
    serve(
        args.file,
        folder=Path.cwd(),
        host=args.host,
        port=args.port,
        audience=args.audience,
        propose=not args.no_proposal,
        browser=not args.no_open,
        tell=say,
    )
    return OK
