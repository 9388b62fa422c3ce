"""``sfumato compare PLAN``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sfumato.cli.frame import OK, print_json, progress, say

HELP = "run a plan over a grid of parameters and draw the risk-utility map"
EXAMPLE = """  sfumato compare people.toml --vary incomes.window_percent=2,5,10,15 --replicates 10
  sfumato compare people.toml --vary window_percent=1:15:1 --max-risk 0.1 --out maps/people
  sfumato compare people.toml --vary a.rate_percent=1:9:1 --vary b.window_percent=1:9:1 --search"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", help="the plan (TOML); its measures are the figures compared")
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="STEP.PARAM=VALUES",
        help="values a,b,c or from:to:by; may be given several times (all combinations are run)",
    )
    parser.add_argument("--replicates", type=int, default=5, help="runs of each point (5)")
    parser.add_argument("--seed", type=int, default=0, help="the experiment's seed, not a release's (0)")
    parser.add_argument("--risk", help="the figure of risk, as measure.figure")
    parser.add_argument("--loss", help="the figure of loss, as measure.figure")
    parser.add_argument("--max-risk", type=float, help="name the best point of at most this risk")
    parser.add_argument("--max-loss", type=float, help="name the best point of at most this loss")
    parser.add_argument(
        "--search",
        action="store_true",
        help="drop points that are clearly dominated, instead of the whole grid",
    )
    parser.add_argument("--processes", type=int, help="how many processes (all cores)")
    parser.add_argument("--out", help="a folder for the runs (to go on later), the map and the table")
    parser.add_argument("--json", action="store_true", help="print the frontier as JSON")


def run(args: argparse.Namespace) -> int:
    from sfumato.experiment import Experiment
    from sfumato.plan import Plan

    plan = Plan.load(args.plan)
    vary = dict(parse_vary(word) for word in args.vary)
    experiment = Experiment(plan, vary, replicates=args.replicates)
    chosen = {"risk": args.risk, "loss": args.loss}
    saved = None
    with progress(args.json) as tell:
        how = {"seed": args.seed, "folder": args.out, "processes": args.processes, "progress": tell}
        if args.search:
            from sfumato.search import search

            found_by = search(experiment, **chosen, **how)
            outcome, saved = found_by.outcome, found_by.saved
        else:
            outcome = experiment.run(**how)
    found = outcome.points(**chosen)
    best = None
    if args.max_risk is not None or args.max_loss is not None:
        best = outcome.best(max_risk=args.max_risk, max_loss=args.max_loss, **chosen)
    if args.out:
        _write_map(Path(args.out), plan.title or Path(args.plan).stem, found)
    if args.json:
        print_json({"ok": True, "runs": outcome.ran, "saved": saved, **found, "best": best})
        return OK
    _show(found, outcome)
    if saved is not None:
        say(f"the search saved {100 * saved:.0f}% of the grid's runs")
    if best:
        say("", f"best: {best['point']} (risk {best['risk']:.4g}, loss {best['loss']:.4g})")
    if args.out:
        say("", f"map: {Path(args.out) / 'map.html'}", f"table: {Path(args.out) / 'experiment.parquet'}")
    return OK


def _show(found: dict[str, Any], outcome: Any) -> None:
    width = max(len(p["label"]) for p in found["points"])
    say(f"{'point':<{width}}  {found['risk']:>28}  {found['loss']:>28}")
    for p in found["points"]:
        risk, loss = (f"{p[k]:.4g} ± {p[k + '_error'] or 0:.2g}" for k in ("y", "x"))
        mark = " *" if p["frontier"] else ""
        say(f"{p['label']:<{width}}  {risk:>28}  {loss:>28}{mark}{' ?' if p['doubtful'] else ''}")
    say("", f"* on the frontier, ? within two standard errors of changing; {outcome.ran} runs made now")
    for row in outcome.problems().unique("point", maintain_order=True).to_dicts():
        say(f"refused: {row['point']}: {row['problem']}")


def _write_map(folder: Path, title: str, found: dict[str, Any]) -> None:
    from datetime import UTC, datetime

    from sfumato import __version__, report

    content = {
        "title": f"{title}: plans compared",
        "report": "internal",
        "sfumato": __version__,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "experiment": found,
    }
    (folder / "map.html").write_text(report.html(content), encoding="utf-8")


def parse_vary(word: str) -> tuple[str, list[Any]]:
    """``step.param=1,2,3`` or ``step.param=1:9:2``.

    >>> parse_vary("incomes.window_percent=5,10")
    ('incomes.window_percent', [5, 10])
    >>> parse_vary("d=0.1:0.3:0.1")
    ('d', [0.1, 0.2, 0.3])
    """
    from sfumato.errors import ParameterError

    name, sign, text = word.partition("=")
    if not sign or not name.strip() or not text.strip():
        raise ParameterError(f"--vary {word!r} isn't STEP.PARAM=VALUES", hint="--vary window_percent=5,10,15")
    ends = text.split(":")
    if len(ends) == 3:
        try:
            low, high, by = (float(e) for e in ends)
        except ValueError:
            raise ParameterError(f"--vary {word!r}: from:to:by needs three numbers") from None
        if by <= 0 or high < low:
            raise ParameterError(f"--vary {word!r}: `by` must be above 0 and `to` not below `from`")
        count = int((high - low) / by + 1e-9) + 1
        if count > 10_000:
            raise ParameterError(f"--vary {word!r} has {count:,} values; that is too many")
        return name.strip(), [_value(f"{low + k * by:.12g}") for k in range(count)]
    return name.strip(), [_value(part.strip()) for part in text.split(",")]


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("\"'")
