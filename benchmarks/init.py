"""How well ``init`` sees: precision and recall of every role on the labelled corpus and the reference data.

    python benchmarks/init.py            all files
    python benchmarks/init.py --wrong    names every column that was judged otherwise

Ids count all columns that would be dropped; the areas among the keys aren't judged (of a nested
geography one is a key). Missing codes are judged code by code, sums and ratios as a whole.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from corpus import Labelled, corpus
from corpus_offices import offices
from corpus_reference import reference
from sfumato.plan.suggest.roles import Suggestion, suggest

ROLES = ("id", "household", "weight", "geography", "key", "sensitive")
WHAT = (*ROLES, "missing code", "top code", "sum", "ratio")
Pairs = set[tuple[str, ...]]


def truth(file: Labelled) -> dict[str, Pairs]:
    """What should be found, as sets of column (and code or parts)."""
    out: dict[str, Pairs] = {r: {(c,) for c, role in file.roles.items() if role == r} for r in ROLES}
    out["missing code"] = {(c, str(code)) for c, codes in file.missing.items() for code in codes}
    out["top code"] = {(c, str(float(code))) for c, code in file.top.items()}
    out["sum"] = {(t, *sorted(parts)) for t, parts in file.sums.items()}
    out["ratio"] = {(c, *pair) for c, pair in file.ratios.items()}
    return out


def found_in(file: Labelled, found: Suggestion) -> dict[str, Pairs]:
    schema = found.schema
    out: dict[str, Pairs] = {
        "id": {(c,) for c in {*found.drop, *([schema.id] if schema.id else [])}},
        "household": {(schema.household,)} if schema.household else set(),
        "weight": {(schema.weight,)} if schema.weight else set(),
        "geography": {(c,) for c in schema.geography},
        "key": {(c,) for c in schema.keys if file.roles.get(c) != "geography" and c not in schema.geography},
        "sensitive": {(c,) for c in schema.sensitive},
    }
    for group in file.either:
        for role in ("weight", "id"):
            if out[role] & {(c,) for c in group}:
                out[role] = {(group[0],) if c[0] in group else c for c in out[role]}
    out["missing code"] = {(c, str(code)) for c, v in schema.variables.items() for code in v.missing}
    out["top code"] = {(c, str(float(v.top))) for c, v in schema.variables.items() if v.top is not None}
    out["sum"] = {(t, *sorted(parts)) for t, parts in schema.sums.items()}
    out["ratio"] = {(c, *parts) for c, parts in schema.ratios.items()}
    return out


def score(files: list[Labelled], *, wrong: bool = False) -> dict[str, tuple[int, int, int]]:
    """For each role: how many are right, how many were found, how many there are."""
    total: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for file in files:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = suggest(file.data)
        said, true = found_in(file, found), truth(file)
        for side in (said, true):
            for what in ROLES:
                side[what] = {one for one in side[what] if one[0] not in file.doubtful}
        for what in WHAT:
            if what in file.unjudged:
                continue
            right = said[what] & true[what]
            for at, n in enumerate((len(right), len(said[what]), len(true[what]))):
                total[what][at] += n
            if wrong and said[what] != true[what]:
                more, less = sorted(said[what] - true[what]), sorted(true[what] - said[what])
                print(f"{file.name:22} {what:13} too many {more}  missed {less}")
    return {what: (a, b, c) for what, (a, b, c) in total.items()}


def show(title: str, figures: dict[str, tuple[int, int, int]]) -> None:
    print(f"\n{title}\n{'':14}{'precision':>10}{'recall':>8}{'found':>7}{'there':>7}")
    for what in WHAT:
        right, said, there = figures.get(what, (0, 0, 0))
        precision = f"{right / said:.2f}" if said else "-"
        recall = f"{right / there:.2f}" if there else "-"
        print(f"{what:14}{precision:>10}{recall:>8}{said:7d}{there:7d}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--only", choices=["first", "second", "offices", "reference"])
    args = parser.parse_args()
    began = time.process_time()
    for half in ("first", "second"):
        if args.only in (None, half):
            show(f"corpus, {half} half", score(corpus(half), wrong=args.wrong))
    if args.only in (None, "offices"):
        show("files of statistical offices", score(offices(), wrong=args.wrong))
    if args.only in (None, "reference"):
        files = reference()
        show(f"reference data ({len(files)} files)", score(files, wrong=args.wrong))
    print(f"\n{time.process_time() - began:.1f} CPU seconds")


if __name__ == "__main__":
    main()
