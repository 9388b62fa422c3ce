"""``sfumato demo``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from sfumato.cli.command import FAILED, OK, progress, say

HELP = "attack the housing deck as it is, as the paper masks it, and as protect finds it"
EXAMPLE = """  sfumato demo
  sfumato demo --out my-demo --overwrite"""

PLAN = """\
# The housing deck of Moore's papers: synthetic households, five amounts, four keys.
# Edit this plan and run it again:  sfumato run plan.toml --out another-release
format = 1
title = "Housing deck, rank swapped"
data = "housing.parquet"

[roles]
id = "IDNUM"
keys = ["REGION", "BEDROOMS", "BATHS", "YR_BLT"]
sensitive = ["INCOME", "HOME_VAL", "MORTGAGE", "MAINTAIN", "TAXES"]
geography = ["REGION"]

# Values at the top and bottom codes stay where they are; null means not reported.
[variables]
REGION = { kind = "categorical" }
BEDROOMS = { kind = "ordinal" }
BATHS = { kind = "ordinal" }
YR_BLT = { kind = "ordinal" }
INCOME = { top = 100_000, bottom = 0 }
HOME_VAL = { top = 350_000, bottom = 0 }
MORTGAGE = { top = 1_800, bottom = 0 }
MAINTAIN = { top = 9_000, bottom = 0 }
TAXES = { top = 62, bottom = 0 }

# Correlations between two swapped amounts may shrink to 0.975 of what they were, no further.
[[step]]
id = "amounts"
mask = "rank_swap"
columns = ["INCOME", "HOME_VAL", "MORTGAGE", "MAINTAIN", "TAXES"]
correlation = 0.975
far_values = "code"

[release]
drop = ["IDNUM"]
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="demo", metavar="DIR", help="the demo's folder (default: demo)")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing release of the demo")
    parser.add_argument(
        "--records",
        type=int,
        default=5_000,
        metavar="N",
        help="households of the deck to take (default: 5,000)",
    )


def run(args: argparse.Namespace) -> int:
    import warnings

    import sfumato as sf
    from sfumato import report
    from sfumato.cli.compare import write_map
    from sfumato.errors import InputError, SfumatoWarning
    from sfumato.experiment.side_by_side import points, side_by_side
    from sfumato.io.replaceable import refuse_foreign

    folder = Path(args.out)
    for name in ("housing.parquet", "plan.toml", "protected.toml", "map.html", "release"):
        if (folder / name).exists() and not args.overwrite:
            raise InputError(
                f"{folder / name} exists already; nothing was written",
                hint="choose another folder with --out, or say --overwrite",
            )
    if args.overwrite:
        refuse_foreign(folder / "release")
    folder.mkdir(parents=True, exist_ok=True)
    deck = sf.decks.housing()
    deck = deck.with_frame(deck.frame.head(args.records))
    say(f"1  {len(deck):,} households of the housing deck → {folder / 'housing.parquet'}")
    sf.write(deck, folder / "housing.parquet", overwrite=True)
    plan_path = folder / "plan.toml"
    plan_path.write_text(PLAN, encoding="utf-8")
    paper = sf.Plan.load(plan_path)
    data = paper.data()
    say(
        f"2  the paper's mask, a rank swap → {plan_path}",
        "3  looking for a plan that meets the limits of a public file (the first run compiles kernels) …",
    )
    with progress() as tell, warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        bare = replace(paper, steps=(), source=None, title="Housing deck, protected")
        run_ = sf.protect(data, "public", drop=["IDNUM"], template=bare, progress=tell)
        plans = {"as collected": bare, "the paper's mask": paper, "found by protect": run_.plan}
        placed = side_by_side(plans, data, progress=tell)
    run_.plan.save(folder / "protected.toml", overwrite=True)
    write_map(folder, "Housing deck", points(placed))
    say("", report.brief(report.summary(run_, public=False)), "", "side by side (quick intruder):")
    for one in placed:
        say(f"  {one.label:<18} finds {one.risk:6.1%} of the households, loss {one.loss:.3f}")
    say(
        "",
        f"plan:     {folder / 'protected.toml'}   (with what was tried)",
        f"map:      {folder / 'map.html'}",
    )
    if not run_.verdict.safe:
        say("nothing was released: " + run_.verdict.text)
        return FAILED
    release = run_.release(folder / "release", overwrite=args.overwrite)
    say(
        f"release:  {release.public}   (for handing out)",
        f"internal: {release.internal}   (lock this away)",
        f"report:   {(release.internal / 'report.html').resolve()}",
    )
    return OK
