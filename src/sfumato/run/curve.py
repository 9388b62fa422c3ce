"""Risk as a curve over what the intruder knows."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from sfumato.contract.measure import Attack
from sfumato.data.microdata import Microdata, as_microdata
from sfumato.draws import Seed, as_seed
from sfumato.errors import ParameterError, suggesting
from sfumato.linkage.fields import known_columns


@suggesting
def known_curve(
    attack: Attack,
    original: Any,
    masked: Any,
    *,
    sizes: Sequence[int] | None = None,
    subsets: int = 6,
    seed: Seed | int | None = 0,
) -> pl.DataFrame:
    """The rate of an attack over the number of known variables: mean over random subsets, with its spread.

    For each size k the attack is run with ``subsets`` random sets of k known columns (all of them
    where there are no more). One row a size: ``known`` = k, the number of ``subsets``, the ``mean``,
    ``sd``, ``lowest`` and ``highest`` rate, and the columns of the worst set.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> from sfumato.run.curve import known_curve
    >>> people = pl.DataFrame(np.random.default_rng(0).lognormal(9, 1, (80, 3)), schema=list("ABC"))
    >>> curve = known_curve(sf.Linkage(known=list("ABC")), people, people * 1.1)
    >>> curve["known"].to_list(), curve["subsets"].to_list(), bool(curve["mean"].is_sorted())
    ([1, 2, 3], [3, 3, 1], True)
    """
    original, masked = as_microdata(original), as_microdata(masked)
    pool = attack_pool(attack, original, masked)
    if subsets < 1:
        raise ParameterError("`subsets` must be at least 1")
    wanted = range(1, len(pool) + 1) if sizes is None else sorted(set(sizes))
    wrong = [k for k in wanted if not 1 <= k <= len(pool)]
    if wrong:
        raise ParameterError(f"the intruder can't know {wrong[0]} of {len(pool)} columns")
    rows = []
    for k in wanted:
        chosen = _subsets(pool, k, subsets, as_seed(seed))
        rates = [with_known(attack, part, pool).measure(original, masked, seed=seed).value for part in chosen]
        rows.append(
            {
                "known": k,
                "subsets": len(chosen),
                "mean": float(np.mean(rates)),
                "sd": float(np.std(rates, ddof=1)) if len(rates) > 1 else 0.0,
                "lowest": float(min(rates)),
                "highest": float(max(rates)),
                "worst_set": ", ".join(chosen[int(np.argmax(rates))]),
            }
        )
    return pl.DataFrame(rows)


def attack_pool(attack: Attack, original: Microdata, masked: Microdata) -> tuple[str, ...]:
    """The columns that an attack uses when it knows all it may."""
    given = getattr(attack, "known", ()) or getattr(attack, "columns", ())
    return known_columns(original, masked, given, numbers=False)


def with_known(attack: Attack, part: Sequence[str], pool: Sequence[str]) -> Attack:
    """The same attack by an intruder who knows only these columns."""
    names = attack.parameters()
    if "known" not in names:
        raise ParameterError(f"{attack.name} has no `known` columns to choose from")
    changes: dict[str, Any] = {"known": tuple(part)}
    if "columns" in names and not getattr(attack, "columns", ()):
        changes["columns"] = tuple(pool)
    weights = getattr(attack, "weights", None)
    if isinstance(weights, dict):
        changes["weights"] = {c: weights[c] for c in part}
    return dataclasses.replace(attack, **changes)


def _subsets(pool: Sequence[str], k: int, number: int, seed: Seed) -> list[tuple[str, ...]]:
    """Random sets of k columns, each in the file's order; all of them where there are few."""
    if math.comb(len(pool), k) <= number:
        return list(itertools.combinations(pool, k))
    stream = seed.draws("known curve").stream(purpose=f"subsets of {k}").generator()
    found: dict[tuple[int, ...], None] = {}
    while len(found) < number:
        found.setdefault(tuple(sorted(stream.permutation(len(pool))[:k].tolist())))
    return [tuple(pool[i] for i in one) for one in found]
