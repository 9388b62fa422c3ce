"""``sfumato attack --released FILE``: a release that another tool made."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.cli.command import FAILED, OK, print_json, progress, refuse_same, say

if TYPE_CHECKING:
    from sfumato.data.microdata import Microdata


def evaluated(args: argparse.Namespace, known: tuple[str, ...], block_on: tuple[str, ...] | None) -> int:
    from sfumato import report
    from sfumato.errors import InputError, SfumatoWarning
    from sfumato.foreign import evaluate
    from sfumato.plan.audience import audience

    limits = audience(args.audience).with_limits(rate=args.max_risk, group=args.k)
    if args.out and Path(args.out).exists() and not args.overwrite:
        raise InputError(f"{args.out} exists already", hint="choose another name, or say --overwrite")
    if args.out:
        for source in filter(None, (args.original, args.released, args.holdout, args.plan)):
            refuse_same(source, args.out)
    with progress(args.quiet or args.json) as tell, warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        found = evaluate(
            _original(args),
            args.released,
            id=args.id,
            synthetic=args.synthetic,
            holdout=args.holdout,
            known=known,
            block_on=block_on,
            for_=limits,
            keep=args.keep,
            progress=tell,
        )
    summary = found.summary()
    if args.out:
        Path(args.out).write_text(report.html(summary), encoding="utf-8")
    if args.json:
        print_json(found.to_dict())
    else:
        say(report.brief(summary))
        if args.out:
            say(f"report: {args.out}   (confidential: it shows the original file's distributions)")
    return OK if found.verdict.safe else FAILED


def _original(args: argparse.Namespace) -> Microdata:
    """The file as collected: the one named, with the plan's roles if there is one; else the plan's own."""
    from sfumato.errors import ParameterError
    from sfumato.io import read
    from sfumato.plan.plan import Plan

    if not args.plan and not args.original:
        raise ParameterError("what was the released file made from?", hint="name it: --original FILE")
    if not args.plan:
        return read(args.original)
    plan = Plan.load(args.plan)
    return plan.data() if not args.original else read(args.original, plan.schema)
