"""``--engine``: where a plan is carried out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.cli.command import say

if TYPE_CHECKING:
    from sfumato.contract.engine import Engine
    from sfumato.plan.plan import Plan

ENGINES = ("memory", "stream", "spark")


def add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="in memory, from disk to disk (by itself for a Parquet file of more than a quarter of the "
        "memory), or on a Spark cluster; the records that come out are the same",
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="of --engine spark: spark://HOST:PORT, yarn, k8s://…, local[*] (by default what Spark's own "
        "configuration says)",
    )
    parser.add_argument(
        "--scratch",
        metavar="DIR",
        help="where --engine stream and spark work (beside the release by default); of spark, on a disk that "
        "all its machines see",
    )


def chosen_engine(args: argparse.Namespace, plan: Plan) -> Engine:
    """The engine that was asked for, or the one that fits the file."""
    from sfumato.engines.choice import engine_named, too_large
    from sfumato.errors import ParameterError

    name = args.engine
    if name is None:
        large = too_large(plan.data_file()) if plan.data_path is not None else None
        name = "memory" if large is None else "stream"
        if large is not None and not (args.quiet or args.json):
            say(f"{large}: carried out from disk to disk (--engine stream; --engine memory to insist)")
    beside = Path(args.scratch) if args.scratch else Path(args.out).absolute().parent if args.out else None
    data = plan.data_file() if plan.data_path is not None else None
    if args.master is not None and name != "spark":
        raise ParameterError("--master is for --engine spark", hint="say --engine spark")
    if name == "spark" and plan.release.format != "parquet":
        raise ParameterError(
            f"--engine spark releases Parquet, and the plan says format = {plan.release.format!r}",
            hint='say format = "parquet" under [release]',
        )
    return engine_named(name, data, scratch=beside, master=args.master)
