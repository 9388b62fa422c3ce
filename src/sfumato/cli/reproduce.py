"""``sfumato reproduce [PAPER]``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from sfumato.cli.command import OK, print_json, say

HELP = "rerun the tables of the papers, and write what was printed beside what we get"
EXAMPLE = """  sfumato reproduce                          all papers, the pages of docs/reproduce
  sfumato reproduce yancey --seeds 30        one paper
  sfumato reproduce --quick                  a minute; shows verdicts, writes no page"""


PAPERS = ("kim-winkler", "moore-edit", "moore-swapping", "oganian", "yancey")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paper", nargs="?", choices=PAPERS, help="one paper; by default all")
    parser.add_argument(
        "--quick", action="store_true", help="few seeds, wide tolerances; no pages unless --out is given"
    )
    parser.add_argument("--seeds", type=int, help="seeds a figure is averaged over (20; quick: 3)")
    parser.add_argument(
        "--jobs", type=int, help="papers rerun at once (by default one for each processor); changes no figure"
    )
    parser.add_argument("--data", help="the folder of the reference data (by default ../shared/data)")
    parser.add_argument("--out", help="where the pages go (by default docs/reproduce)")
    parser.add_argument("--json", action="store_true", help="print every cell and verdict as JSON")


def run(args: argparse.Namespace) -> int:
    from sfumato.errors import InputError

    find_papers()
    from papers import PAPERS, pages, rerun_all
    from papers.framework import ABSENT, FAILS, NOT, load, save

    if args.seeds is not None and args.seeds < 2:
        raise InputError(f"--seeds must be at least 2, not {args.seeds}")
    if args.jobs is not None and args.jobs < 1:
        raise InputError(f"--jobs must be at least 1, not {args.jobs}")
    found = rerun_all(
        [args.paper] if args.paper else list(PAPERS),
        seeds=args.seeds or (3 if args.quick else 20),
        quick=args.quick,
        data=find_data(args.data),
        tell=_silent if args.json else say,
        jobs=args.jobs or os.cpu_count() or 1,
    )
    out = None if args.quick and not args.out else Path(args.out) if args.out else default_out()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        together = {**{p.key: p for p in load(out)}, **{p.key: p for p in found}}
        papers = [together[key] for key in PAPERS if key in together]
        save(papers, out)
        written = pages.write(papers, out)
    if args.json:
        print_json({"papers": [p.to_json() for p in found]})
        return OK
    for p in found:
        say("", f"{p.title}: {pages.tally([c for _, c in p.cells()])}")
        say(*(f"  not reproduced: {t.title}: {c.row} {c.column}" for t, c in p.cells() if c.verdict == NOT))
        say(*(f"  fails: {t.title}: {c.sentence}" for t, c in p.claims() if c.verdict == FAILS))
        absent = {c.reason: None for _, c in p.cells() if c.verdict == ABSENT}
        say(*(f"  {how}" for how in absent))
    if out is not None:
        say("", *(f"wrote {path}" for path in written))
    return OK


def _silent(what: str) -> None:
    """Tell nothing of the progress."""


def checkout() -> Path | None:
    """The folder of our own checkout, where the package runs from one."""
    folder = Path(__file__).resolve().parents[3]
    return folder if (folder / "pyproject.toml").is_file() and (folder / "docs").is_dir() else None


def find_papers() -> None:
    """Make the package ``papers`` of our own checkout importable, or say where it is to be had."""
    from sfumato.errors import InputError

    home = checkout()
    if home is None or not (home / "papers" / "__init__.py").is_file():
        raise InputError(
            "the papers are rerun by a part of sfumato's repository that isn't installed with the package",
            hint="get the repository and run `make reproduce` there",
        )
    if str(home) not in sys.path:
        sys.path.insert(0, str(home))


def default_out() -> Path:
    home = checkout()
    return home / "docs" / "reproduce" if home else Path("reproduce")


def find_data(given: str | None) -> Path | None:
    """The folder of the reference data: as given, or ``../shared/data`` beside the checkout."""
    from sfumato.errors import InputError

    if given is not None:
        if not Path(given).is_dir():
            raise InputError(f"--data: there is no folder {given}")
        return Path(given)
    home = checkout()
    folder = home.parent / "shared" / "data" if home else None
    return folder if folder and folder.is_dir() else None
