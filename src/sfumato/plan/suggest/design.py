"""The survey's design: weights and their replicates, strata, clusters, waves, implicates, households.

Values and names decide together. A weight is never missing or negative; replicate weights are a
numbered family; a household's records stand together and share what households have; a person's
number begins anew in each household.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

import numpy as np
import polars as pl

from sfumato.plan.suggest import codebooks, words
from sfumato.plan.suggest.facts import constant_within
from sfumato.plan.suggest.look import Look

_FAMILY: Final = re.compile(r"^(.*?\D)_?0*(\d{1,3})$")
_FEWEST_REPLICATES: Final = 4
REPLICATES: Final = "replicate weights"
_LARGEST_HOUSEHOLD: Final = 30
_MOST_COMPARED: Final = 40


def find_weight(look: Look) -> str | None:
    """The sampling weight; other weights and replicate weights are noted as parts of the design."""
    families = _families(look)
    found = [c for c in look.free() if _may_be_weight(look, c) and words.is_weight(look.label(c))]
    main = [c for c in found if not any(c in f for f in families)]
    if not main and not found:
        main = _weight_by_values(look)
    families += [f for c in main if (f := _named_after(look, c)) and f not in families]
    for family in families:
        like = [c for c in family if c in found or _moves_with(look, c, main) or _replicates(look, c, main)]
        if len(like) >= _FEWEST_REPLICATES:
            for c in like:
                look.design_of(REPLICATES, c, "a replicate weight: one of a numbered family")
    main = [c for c in main or found if c not in look.taken]
    if not main:
        return None
    # Where there are several, one that varies, a person's or final one before others, the first.
    best = min(main, key=lambda c: (look.facts[c].distinct <= 1, _rank(c), main.index(c)))
    look.say(best, "a sampling weight: never missing or negative", take=True)
    for c in main:
        if c != best:
            look.design_of("other weights", c, f"another weight beside {best}")
    return best


def _rank(name: str) -> int:
    listed = words.words(name)
    if listed[0] in ("db090", "hb090", "v1027", "wgtp", "hhwt", "hwtfinl") or any(
        w in ("base", "design", "base_weight", "initial", "dweight", "household", "hh") for w in listed
    ):
        return 1
    return 0


def _families(look: Look) -> list[list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for c in look.free():
        match = _FAMILY.match(c)
        if match and look.facts[c].dtype.is_numeric():
            groups[match[1].casefold()].append(c)
    return [g for g in groups.values() if len(g) >= _FEWEST_REPLICATES]


def _named_after(look: Look, weight: str) -> list[str]:
    """Numbered columns that begin with the weight's own name: V1028001 … V1028200."""
    begins = re.compile(re.escape(weight) + r"_?(rep|r|w|b)?_?\d{1,4}", re.IGNORECASE)
    family = [c for c in look.free() if begins.fullmatch(c) and look.facts[c].dtype.is_numeric()]
    return family if len(family) >= _FEWEST_REPLICATES else []


def _replicates(look: Look, column: str, main: list[str]) -> bool:
    """Whether a column named after a weight has its size on average; of a bootstrap a third may be 0."""
    for weight in main:
        if column.casefold().startswith(weight.casefold()) and look.facts[column].filled:
            one, two = look.facts[weight].numbers.mean(), look.facts[column].numbers.mean()
            return bool(0.5 * one < two < 2 * one)
    return False


def _may_be_weight(look: Look, column: str) -> bool:
    facts = look.facts[column]
    if not facts.dtype.is_numeric() or facts.own.labels or not facts.filled:
        return False
    label = facts.own.label or ""
    if words.has(label, words.NOT_A_WEIGHT):
        return False
    v = facts.numbers
    if facts.filled < 0.9 * facts.n or float(v.min()) < 0 or facts.zeros > 0.2:
        return False
    # A code (1, 2, 3) or an amount full of zeros is no weight, whatever its name.
    if facts.distinct > 1 and facts.whole and facts.distinct <= 12 and v.max() <= 20:
        return False
    data = look.data
    return not data.missing(column).all() and data.column(column).null_count() <= 0.1 * len(data)


def _moves_with(look: Look, column: str, main: list[str]) -> bool:
    if not main or not _may_be_weight(look, column):
        return False
    one = look.sample[main[0]].cast(pl.Float64).fill_null(0).to_numpy()
    two = look.sample[column].cast(pl.Float64).fill_null(0).to_numpy()
    if one.std() == 0 or two.std() == 0:
        return False
    return bool(np.corrcoef(one, two)[0, 1] > 0.4)


def _weight_by_values(look: Look) -> list[str]:
    """A column of many decimals, never zero or missing, that no name explains: 1 on average, or alike
    in all records of a group and far above 1."""
    out = []
    for c in look.free():
        facts = look.facts[c]
        if not _may_be_weight(look, c) or facts.n < 50 or facts.decimals < 3 or facts.zeros:
            continue
        if words.is_money(look.label(c)) or words.key_topic(c) or words.has(c, words.MEASURE):
            continue
        v = facts.numbers
        spread = float(v.std() / v.mean())
        if not 0.05 < spread < 2 or v.min() <= 0 or v.max() > 200 * v.min():
            continue
        if abs(float(v.mean()) - 1) < 0.005 or (
            facts.share_distinct < 0.7 and v.mean() > 20 and v.min() >= 1
        ):
            out.append(c)
    return out if len(out) == 1 else []


# -- households -----------------------------------------------------------------------------------


def find_household(look: Look, weight: str | None) -> str | None:
    """The column whose value the records of one household share."""
    best: tuple[float, str, str] | None = None
    for c in look.free():
        facts = look.facts[c]
        if not facts.is_code or facts.distinct < 3 or facts.filled < facts.n or facts.own.labels:
            continue
        size = facts.n / facts.distinct
        if not 1.02 < size <= _LARGEST_HOUSEHOLD or facts.looks_like_age:
            continue
        score = _household_score(look, c, size, weight)
        if score > 1 and (best is None or score > best[0]):
            best = (score, c, f"a household: {facts.distinct:,} values, {size:.2g} records each on average")
    if best is None:
        return None
    look.say(best[1], best[2], take=True)
    return best[1]


def _household_score(look: Look, column: str, size: float, weight: str | None) -> float:
    name, facts = column, look.facts[column]
    said = words.words(name)
    known = codebooks.topic(said)
    if known not in (None, "household") or words.is_weight(name):
        return 0.0
    if known is None and (words.has(name, words.COUNT) and not words.has(name, words.ID)):
        return 0.0
    if words.is_money(name) or (words.is_area(name) and not words.has(name, words.HOUSEHOLD)):
        return 0.0
    named = known == "household" or words.has(name, words.HOUSEHOLD)
    # The records of a household stand together, apart from few.
    runs = int((look.sample[name] != look.sample[name].shift(1)).fill_null(True).sum())
    together = runs <= 1.02 * facts.distinct
    if facts.is_number and not facts.whole:
        return 0.0
    if named and (
        words.key_topic(name) in (None, "family", "marital status", "housing") or words.has(name, words.ID)
    ):
        return 3.0 + together
    if size > 12 or not together or facts.distinct < 20:
        return 0.0
    others = [c for c in look.data.columns if c != name and look.facts[c].distinct > 1][:_MOST_COMPARED]
    same = constant_within(look.sample, name, others)
    if weight is not None and weight in same:
        same.add(weight)
    varying = [c for c in others if c not in same and look.facts[c].distinct > 1]
    if size < 1.15 or len(same) < 2 or len(varying) < 2:
        return 0.0
    sexes = [c for c in others if words.key_topic(c) in ("sex", "birth")]
    if sexes and all(c in same for c in sexes):
        return 0.0  # the records of one person over time
    return 1.0 + min(len(same) / len(others), 0.9)


def note_person_number(look: Look, household: str | None) -> None:
    """Small numbers that tell the members of a household apart: no role of their own."""
    if household is None:
        return
    for c in look.free():
        facts = look.facts[c]
        if not facts.whole or facts.distinct > 40 or facts.counted[0][-1] > 99 or facts.distinct < 2:
            continue
        if words.key_topic(c) in ("age", "sex", "birth", "education") or facts.filled < facts.n:
            continue
        small = look.sample.select([household, c])
        if small.n_unique() == small.height:
            look.design_of("person number", c, f"it tells the members of one {household} apart; no role")


def note_parts(look: Look, identity: str | None) -> None:
    """Strata, clusters, waves and implicates, by their names and few values."""
    if identity is not None and look.facts[identity].share_distinct < 0.95:
        for c in look.free():
            if look.facts[c].is_code and 2 <= look.facts[c].distinct <= 60 and look.unique([identity, c]):
                look.design_of("waves", c, f"it tells the records of one {identity} apart: a wave; no role")
    for c in look.free():
        facts = look.facts[c]
        if not facts.is_code or facts.distinct > 0.5 * facts.n:
            continue
        known = codebooks.topic(words.words(c))
        if known in ("strata", "cluster", "wave", "person"):
            part = {"strata": "strata", "cluster": "clusters", "wave": "waves", "person": "person number"}[
                known
            ]
            look.design_of(part, c, f"{part} of the survey's design; no role")
        elif (
            known is None
            and words.has(c, words.DESIGN)
            and words.key_topic(c) is None
            and not words.is_money(c)
        ):
            stratum = any(w.startswith(("strat", "estrat", "schicht", "warstw")) for w in words.words(c))
            part = "strata" if stratum else "clusters and numbers"
            look.design_of(part, c, "a number of the design or of a person within it; no role")
        elif known is None and words.has(c, words.WAVE) and facts.distinct <= 60 and not words.is_money(c):
            look.design_of("waves", c, "a wave, an implicate or a period of the survey; no role")
