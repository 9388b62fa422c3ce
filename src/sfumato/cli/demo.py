"""``sfumato demo``."""

from __future__ import annotations

import argparse
from pathlib import Path

from sfumato.cli.command import OK, progress, say

HELP = "make the housing deck, mask it, attack it, write a report"
EXAMPLE = """  sfumato demo
  sfumato demo --out my-demo --overwrite"""

PLAN = """\
# The housing deck of Moore's papers: 64,998 synthetic households, five amounts, four keys.
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

# What analysts lose …
[[measure]]
measure = "information_loss"
columns = ["INCOME", "HOME_VAL", "MORTGAGE", "MAINTAIN", "TAXES"]

# … and what an intruder finds, who has all five amounts and the keys of every household.
[[measure]]
measure = "linkage"
known = ["INCOME", "HOME_VAL", "MORTGAGE", "MAINTAIN", "TAXES"]
block_on = ["REGION", "BEDROOMS", "BATHS", "YR_BLT"]

[release]
drop = ["IDNUM"]
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="demo", metavar="DIR", help="the demo's folder (default: demo)")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing release of the demo")


def run(args: argparse.Namespace) -> int:
    import sfumato as sf
    from sfumato import report
    from sfumato.errors import InputError
    from sfumato.io.replaceable import refuse_foreign

    folder = Path(args.out)
    for name in ("housing.parquet", "plan.toml", "release"):
        if (folder / name).exists() and not args.overwrite:
            raise InputError(
                f"{folder / name} exists already; nothing was written",
                hint="choose another folder with --out, or say --overwrite",
            )
    if args.overwrite:
        refuse_foreign(folder / "release")
    folder.mkdir(parents=True, exist_ok=True)
    say(f"1  the housing deck → {folder / 'housing.parquet'}")
    sf.write(sf.decks.housing(), folder / "housing.parquet", overwrite=True)
    plan_path = folder / "plan.toml"
    plan_path.write_text(PLAN, encoding="utf-8")
    say(
        f"2  the plan → {plan_path}",
        "3  masking, measuring, attacking (the first run compiles the kernels) …",
    )
    with progress() as tell:
        run_ = sf.Plan.load(plan_path).run(progress=tell)
    say("", report.brief(report.summary(run_, public=False)))
    release = run_.release(folder / "release", overwrite=args.overwrite)
    found = run_.results["linkage"]
    say(
        f"What it means: who already has all five amounts and the keys finds {found.rate:.0%} of the",
        f"households (by chance {found.baseline:.0%}); this mask doesn't stop him. Lower `correlation`,",
        "recode the keys, or set a limit such as `linkage.rate = { at_most = 0.1 }`, and run the plan again.",
        "",
        f"release:  {release.public}   (this part is for handing out)",
        f"internal: {release.internal}   (this part is for the safe)",
        f"report:   {(release.internal / 'report.html').resolve()}",
    )
    return OK
