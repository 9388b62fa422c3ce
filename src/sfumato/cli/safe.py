"""``sfumato safe FILE --tolerance N``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.command import OK, print_json, refuse_same, say

if TYPE_CHECKING:
    from sfumato.data.microdata import Microdata
    from sfumato.tables import SafeTable

HELP = "make a table safe: every cell empty or large enough"
EXAMPLE = """  sfumato safe people.csv --keys REGION,EDUCATION --tolerance 5
  sfumato safe counts.csv --count N --tolerance 5 --out safe.csv --report safe.html
  sfumato safe people.csv --keys A,B,C --tolerance 3 --margins two_way --realise masked.parquet"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="records, or a table of counts (with --count)")
    parser.add_argument("--tolerance", type=int, required=True, help="the smallest count a cell may have")
    parser.add_argument("--keys", help="the keys, separated by commas (of counts: all other columns)")
    parser.add_argument("--count", metavar="COLUMN", help="the file is a table; this column has its counts")
    parser.add_argument(
        "--margins",
        default="one_way",
        help="one_way, two_way, or key sets such as A+B,C (default: one_way)",
    )
    parser.add_argument("--objective", choices=["l1", "l2", "max"], default="l1", help="what is kept small")
    parser.add_argument("--fill-zeros", action="store_true", help="empty cells may be filled")
    parser.add_argument(
        "--time-limit", type=float, default=60.0, metavar="S", help="in seconds (default: 60)"
    )
    parser.add_argument("--out", metavar="FILE", help="write the safe table (CSV or Parquet)")
    parser.add_argument("--realise", metavar="FILE", help="write the records, changed to give the safe table")
    parser.add_argument("--seed-file", metavar="FILE", help="read the secret seed for --realise from a file")
    parser.add_argument("--report", metavar="FILE", help="write both tables side by side (internal)")
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def run(args: argparse.Namespace) -> int:
    import sfumato as sf
    from sfumato.draws import Seed
    from sfumato.errors import InputError
    from sfumato.tables.build import from_frame

    refuse_same(args.file, args.out, args.realise, args.report)
    for path in (args.out, args.realise, args.report):
        if path and Path(path).exists() and not args.overwrite:
            raise InputError(f"{path} exists already", hint="choose another name, or say --overwrite")
    data = sf.read(args.file)
    keys = [k.strip() for k in args.keys.split(",")] if args.keys else None
    table: Any = data
    if args.count:
        if args.realise:
            raise InputError("--realise needs records, not a table of counts")
        table = from_frame(data.frame, keys, args.count)
    elif keys is None:
        raise InputError("name the keys of the table", hint="--keys A,B (or --count if the file is a table)")
    safe = sf.safe_table(
        table,
        args.tolerance,
        keys=keys,
        margins=_margins(args.margins),
        objective=args.objective,
        structural_zeros=not args.fill_zeros,
        time_limit=args.time_limit,
    )
    moved = None
    if args.realise:
        seed = Seed.from_file(args.seed_file) if args.seed_file else Seed.new()
        moved = _realise(data, safe, Path(args.realise), seed, args.overwrite)
    if args.out:
        frame = safe.to_frame()
        released = frame.filter(frame["safe"] > 0).select(*safe.keys, count="safe")
        sf.write(sf.Microdata(released), args.out, overwrite=args.overwrite)
    if args.report:
        from sfumato.tables.page import page

        Path(args.report).write_text(page(safe), encoding="utf-8")
    if args.json:
        print_json(_outcome(safe, moved))
    else:
        _tell(args, safe, moved)
    return OK


def _margins(text: str) -> Any:
    if text in ("one_way", "two_way"):
        return text
    return [tuple(part.split("+")) for part in text.split(",")]


def _realise(data: Microdata, safe: SafeTable, path: Path, seed: Any, overwrite: bool) -> int:
    import numpy as np

    import sfumato as sf

    out = sf.realise(data, safe, seed=seed)
    sf.write(out, path, overwrite=overwrite)
    differ = [data.column(k).ne_missing(out.column(k)).to_numpy() for k in safe.keys]
    return int(np.logical_or.reduce(differ).sum())


def _outcome(safe: SafeTable, moved: int | None) -> dict[str, Any]:
    return {
        "ok": True,
        "keys": list(safe.keys),
        "cells": int(safe.counts.size),
        "tolerance": safe.tolerance,
        "margins": [list(m) for m in safe.margins],
        "objective": safe.objective,
        "distance": safe.distance,
        "bound": safe.bound,
        "gap": safe.gap,
        "proved_least": safe.optimal,
        "cells_changed": safe.cells_changed,
        "largest_change": safe.largest_change,
        "dissimilarity": safe.dissimilarity,
        "records_changed": moved,
    }


def _tell(args: argparse.Namespace, safe: SafeTable, moved: int | None) -> None:
    proof = "proved to be the least" if safe.optimal else f"bound {safe.bound:g}, gap {safe.gap:.2%}"
    say(
        f"{' × '.join(safe.keys)}: {safe.counts.size:,} cells, every one empty or at least {safe.tolerance}",
        f"margins kept: {', '.join(' × '.join(m) or 'the total' for m in safe.margins)}",
        f"distance ({safe.objective}): {safe.distance:g} ({proof})",
        f"cells changed: {safe.cells_changed:,}; largest change {safe.largest_change}; "
        f"D = {safe.dissimilarity:.5f}",
    )
    if moved is not None:
        say(f"records changed: {moved:,} → {args.realise}")
    if args.out:
        say(f"table:  {args.out}")
    if args.report:
        say(f"report: {args.report}   (internal: it shows the original counts)")
