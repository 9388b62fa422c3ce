"""``sfumato compare PLAN…``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.command import FAILED, OK, print_json, progress, say
from sfumato.drawing.grid import grid

if TYPE_CHECKING:
    from sfumato.plan.plan import Plan

OVERLAPS = "overlaps.csv"
HELP = "run a plan over a grid of parameters and draw the risk-utility map"
EXAMPLE = """  sfumato compare people.toml --vary incomes.window_percent=2,5,10,15 --replicates 10
  sfumato compare people.toml --vary window_percent=1:15:1 --max-risk 0.1 --out maps/people
  sfumato compare people.toml --vary a.rate_percent=1:9:1 --vary b.window_percent=1:9:1 --search
  sfumato compare swap.toml noise.toml shuffle.toml --out maps/all    (several plans on one map)
  sfumato compare swap.toml noise.toml --search --for public         (least loss within limits)
  sfumato compare people.toml --masks --for public --save-plan best.toml   (over compositions of masks)
  sfumato compare swap.toml --vary n_swap=20,40 --replicates 100 --out tables   (J of its interval_overlap)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "plan",
        nargs="+",
        help="the plan (TOML), whose measures are the figures compared; several plans for one file are put "
        "on one map by analyst_loss and the quick intruder",
    )
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
        help="run only points where the frontier may be, instead of the whole grid",
    )
    parser.add_argument(
        "--budget-percent",
        type=float,
        default=35.0,
        help="of --search: at most so many of the grid's runs (35)",
    )
    parser.add_argument(
        "--for",
        dest="audience",
        choices=("public", "research"),
        help="of several plans, or with --masks: find the one of least loss within these limits",
    )
    parser.add_argument(
        "--masks",
        action="store_true",
        help="try compositions too: recode, suppress, then swap, noise or averages; and shuffles",
    )
    parser.add_argument(
        "--keep", action="append", default=[], metavar="FORMULA", help="an analysis that counts in the loss"
    )
    parser.add_argument("--save-plan", metavar="PLAN", help="of --for: write the plan that was found")
    parser.add_argument("--processes", type=int, help="how many processes (all cores)")
    parser.add_argument("--out", help="a folder for the runs (to go on later), the map and the table")
    parser.add_argument("--json", action="store_true", help="print the frontier as JSON")


def run(args: argparse.Namespace) -> int:
    from sfumato.errors import MeasureError
    from sfumato.experiment.grid import Experiment
    from sfumato.experiment.outcome import Outcome
    from sfumato.plan.plan import Plan

    vary = dict(parse_vary(word) for word in args.vary)
    if len(args.plan) > 1 or args.masks or args.audience:
        return _several(args, vary)
    args.plan = args.plan[0]
    plan = Plan.load(args.plan)
    experiment = Experiment(plan, vary, replicates=args.replicates)
    _refuse_half_a_map(args, plan)
    chosen = {"risk": args.risk, "loss": args.loss}
    found_by = None
    outcome: Outcome
    with progress(args.json) as tell:
        how = {"seed": args.seed, "folder": args.out, "processes": args.processes, "progress": tell}
        if args.search:
            from sfumato.experiment.search import search

            found_by = search(experiment, budget_percent=args.budget_percent, **chosen, **how)
            outcome = found_by.outcome
        else:
            outcome = experiment.run(**how)
    if outcome.frame["problem"].null_count() == 0:
        raise MeasureError(f"every run was refused: {outcome.problems()['problem'][0]}")
    overlaps = outcome.overlaps()
    wants_map = not overlaps.height or any(
        v is not None for v in (*chosen.values(), args.max_risk, args.max_loss)
    )
    try:
        found = outcome.points(**chosen)
    except MeasureError:
        if wants_map:
            raise
        found = {}  # analyses alone: their table is what was asked for
    best = None
    if args.max_risk is not None or args.max_loss is not None:
        best = outcome.best(max_risk=args.max_risk, max_loss=args.max_loss, **chosen)
    if args.out:
        if found:
            write_map(Path(args.out), plan.title or Path(args.plan).stem, found)
        if overlaps.height:
            overlaps.write_csv(Path(args.out) / OVERLAPS)
    if args.json:
        tables = {"overlaps": overlaps.to_dicts()} if overlaps.height else {}
        print_json({"ok": True, "runs": outcome.ran, **_saving(found_by), **found, "best": best, **tables})
        return OK
    if found:
        _show(found)
    if overlaps.height:
        _show_overlaps(overlaps)
    say(f"{outcome.ran} runs made now")
    for row in outcome.problems().unique("point", maintain_order=True).to_dicts():
        say(f"refused: {row['point']}: {row['problem']}")
    if found_by is not None:
        say(
            f"the search made {found_by.runs:,} of the grid's {found_by.grid_runs:,} runs "
            f"({100 * found_by.saved:.0f}% saved)"
            + ("" if found_by.settled else "; its budget ended it with places still in doubt (?)")
        )
    if best:
        say("", f"best: {best['point']} (risk {best['risk']:.4g}, loss {best['loss']:.4g})")
    if args.out:
        folder = Path(args.out)
        say("", f"table: {folder / 'experiment.parquet'}")
        if found:
            say(f"map: {folder / 'map.html'}")
        if overlaps.height:
            say(f"overlap of intervals: {folder / OVERLAPS}")
    return OK


def _refuse_half_a_map(args: argparse.Namespace, plan: Plan) -> None:
    """Better before the runs than after them. Analyses alone have a table of their own, and need no map."""
    from sfumato.contract.measure import Measure
    from sfumato.errors import ParameterError

    tables = [m for m in plan.measures if type(m).table_of_runs is not Measure.table_of_runs]
    offered = {"risk": "linkage", "utility": "analyst_loss"}
    for side, asked in (("risk", args.risk), ("utility", args.loss)):
        if asked is None and not tables and all(m.side != side for m in plan.measures):
            raise ParameterError(
                f"the plan has no measure of {side}, and a map shows risk against loss",
                hint=f'add one under [[measure]], such as measure = "{offered[side]}"',
            )


def _several(args: argparse.Namespace, vary: dict[str, list[Any]]) -> int:
    """Several plans for one file on one map; what varies is varied in the plans that have it."""
    from sfumato import registry
    from sfumato.errors import ParameterError
    from sfumato.experiment.grid import Experiment
    from sfumato.experiment.side_by_side import points, side_by_side
    from sfumato.plan.plan import Plan

    if args.risk or args.loss or (args.search and not args.audience):
        raise ParameterError(
            "several plans are compared by one loss and one intruder",
            hint="--risk and --loss go with one plan; --search of several needs limits: --for public",
        )
    plans: dict[str, Plan] = {}
    used: set[str] = set()
    for path in args.plan:
        plan = Plan.load(path)
        mine = {name: values for name, values in vary.items() if _has(plan, name)}
        used |= set(mine)
        grid = Experiment(plan, mine, measures=[registry.measure("analyst_loss").from_dict({})])
        for point in grid.points:
            label = Path(path).stem + (f": {point.label}" if point.values else "")
            plans[label if label not in plans else f"{label} ({path})"] = point.plan
    strange = sorted(set(vary) - used)
    if strange:
        raise ParameterError(f"--vary {strange[0]}: none of the plans has such a step and parameter")
    files = {p.data_file().resolve() for p in plans.values()}
    if len(files) > 1:
        raise ParameterError("the plans are for different files", hint="a map compares plans for one file")
    first = next(iter(plans.values()))
    data = first.data()
    if args.masks:
        from sfumato.experiment.least_loss import compositions

        plans = {label: p for label, p in plans.items() if p.steps} | compositions(first, data)
    chosen = None
    with progress(args.json) as tell:
        if args.audience:
            from sfumato.experiment.least_loss import least_loss
            from sfumato.plan.audience import audience

            chosen = least_loss(
                plans,
                data,
                audience(args.audience).limits(),
                keep=args.keep,
                audience=args.audience,
                seed=args.seed,
                progress=tell,
            )
            placed = list(chosen.placed)
        else:
            placed = side_by_side(
                plans, data, keep=args.keep, replicates=args.replicates, seed=args.seed, progress=tell
            )
    found = points(placed)
    if chosen is not None and chosen.run is not None and args.save_plan:
        chosen.run.plan.save(args.save_plan)
    if args.out:
        Path(args.out).mkdir(parents=True, exist_ok=True)
        write_map(Path(args.out), "Several plans", found)
    if args.json:
        refused = {p.label: p.problem for p in placed if p.problem}
        told = {} if chosen is None else {"best": chosen.best, "tried": [vars(t) for t in chosen.tried]}
        print_json({"ok": chosen is None or chosen.best is not None, **found, "refused": refused, **told})
        return OK if chosen is None or chosen.best is not None else FAILED
    _show(found)
    for one in placed:
        if one.problem:
            say(f"refused: {one.label}: {one.problem}")
    say("(the quick intruder puts plans side by side; the battery of `sfumato attack` finds more on swaps)")
    if args.out:
        say(f"map: {Path(args.out) / 'map.html'}")
    return OK if chosen is None else _say_best(chosen, args)


def _say_best(chosen: Any, args: argparse.Namespace) -> int:
    """What was carried out with the full battery, in the order of loss, and what holds."""
    say("", f"with the full battery, by the limits of a {args.audience} file, least loss first:")
    for one in chosen.tried:
        figures = ", ".join(f"{k} {v:.3g}" for k, v in one.figures.items())
        outcome = f"refused: {one.problem}" if one.problem else f"{figures}: misses {', '.join(one.misses)}"
        if not one.problem and not one.misses:
            outcome = f"{figures}: holds"
        say(f"  {one.label} (loss {one.loss:.3f}): {outcome}")
    if chosen.best is None:
        left = "" if chosen.settled else ", and those of more loss weren't tried"
        say(f"none of the plans meets the limits{left}; `sfumato protect` looks further")
        return FAILED
    say(f"best: {chosen.best}" + (f" (written to {args.save_plan})" if args.save_plan else ""))
    return OK


def _has(plan: Any, name: str) -> bool:
    step, _, parameter = name.rpartition(".")
    labelled = zip(plan.step_ids(), plan.steps, strict=True)
    return any((not step or step == i) and parameter in type(m).parameters() for i, m in labelled)


def _saving(found: Any) -> dict[str, Any]:
    """What a search made and spared, for a program; ``saved`` is null where the whole grid was run."""
    if found is None:
        return {"saved": None}
    keys = ("saved", "runs_needed", "grid_runs", "settled")
    return dict(zip(keys, (found.saved, found.runs, found.grid_runs, found.settled), strict=True))


def _show(found: dict[str, Any]) -> None:
    rows, unseen = [], False
    for p in found["points"]:
        risk, loss = (f"{p[k]:.4g} ± {p[k + '_error'] or 0:.2g}" for k in ("y", "x"))
        unseen = unseen or not p["runs"]
        marks = ("*" if p["frontier"] else "", "" if p["runs"] else "~", "?" if p["doubtful"] else "")
        rows.append([p["label"], risk, loss, " ".join(m for m in marks if m)])
    say(*grid(["point", found["risk"], found["loss"], ""], rows, [False, True, True, False], ""))
    said = "* on the frontier, ? within two standard errors of changing"
    say("", said + (", ~ not run: by its neighbours" if unseen else ""), "")


def _show_overlaps(table: Any) -> None:
    """The paper's table: J over replicates and coefficients, a block for each analysis."""
    for (name,), part in table.group_by("analysis", maintain_order=True):
        rows = part.to_dicts()
        say(f"{name}: overlap J of intervals, {rows[0]['family']}: {rows[0]['formula']}")
        listed = []
        for r in rows:
            mean = f"{r['average']:.3f} ± " + (f"{r['standard_error']:.3f}" if r["realisations"] > 1 else "?")
            spread = f"[{r['low']:.3f}, {r['high']:.3f}]"
            apart = f"{r['non_overlaps']:,} of {r['intervals']:,} ({r['non_overlaps_per_run']:.2f})"
            listed.append(
                [r["point"], str(r["realisations"]), mean, spread, apart, f"{r['not_estimable']:,}"]
            )
        heads = ["point", "runs", "J mean ± error", "central 90%", "apart (a run)", "not estimated"]
        say(*grid(heads, listed, indent=""), "")


def write_map(folder: Path, title: str, found: dict[str, Any]) -> None:
    """The map as a page of its own."""
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
