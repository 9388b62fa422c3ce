"""Count-preserving swaps (Dalenius and Reiss 1982)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from sfumato.contract.disclosure import Fact, Kept
from sfumato.contract.engine import Locality
from sfumato.contract.guarantees import Guarantee, SameTable
from sfumato.contract.mask import Notes
from sfumato.contract.parameters import Fault, parameter
from sfumato.contract.per_household import PerHousehold
from sfumato.data.codes import joint
from sfumato.data.microdata import BoolArray, IntArray, Microdata
from sfumato.draws import Draws


@dataclass(frozen=True, kw_only=True)
class TOrderSwap(PerHousehold):
    """Swap keys so that every count of their t-way table stays.

    For each of the t keys in turn, records that agree on the other t−1 keys form a class (with the
    keys as they are by then), and the key's values are exchanged at random among
    ``rate_percent`` of the class: at least two records, rounded to the nearest number, each
    receiving the value of another. A record keeps its other keys, so the multiset of key tuples,
    and with it the t-way table and every smaller one, stays exactly. What the keys have to do with
    other variables changes. With ``within``, nothing crosses the strata, and the table of keys and
    strata stays as well. Records with a missing key stay as they are.

    Reference: Dalenius, T. and Reiss, S. P. (1982). Data-swapping: a technique for disclosure
    control. Journal of Statistical Planning and Inference 6, 73-85.

    >>> import polars as pl, sfumato as sf
    >>> race, occupation = list("WWBBBBWW"), ["Clerk"] * 4 + ["Exec"] * 4
    >>> data = sf.Microdata(pl.DataFrame({"RACE": race, "OCCUPATION": occupation}))
    >>> masked = sf.TOrderSwap(keys=["RACE", "OCCUPATION"], rate_percent=100).mask(data, seed=1)
    >>> sorted(masked.frame.rows()) == sorted(data.frame.rows())
    True
    """

    name: ClassVar[str] = "t_order_swap"
    reference: ClassVar[str] = "Dalenius and Reiss (1982)"

    keys: tuple[str, ...] = parameter(doc="The t keys whose table stays.", columns="keys", public=True)
    rate_percent: float = parameter(
        100.0,
        doc="How many percent of each class exchange their values.",
        at_least=0,
        at_most=100,
        public=True,
    )
    within: tuple[str, ...] = parameter(
        (), doc="Nothing crosses the strata of these columns.", columns=True, public=True
    )

    def _check(self) -> Sequence[Fault]:
        if not self.keys:
            return [("`keys` must name at least one column", None, "keys")]
        twice = sorted({k for k in self.keys if self.keys.count(k) > 1})
        out: list[Fault] = [(f"`keys` names {k} twice", None, "keys") for k in twice]
        both = [k for k in self.keys if k in self.within]
        out += [(f"{k} can't be swapped within itself", "take it out of `within`") for k in both]
        return out

    @property
    def locality(self) -> Locality:
        return "keys"

    def changes(self, data: Microdata) -> Sequence[str]:
        return self.keys

    def discloses(self, data: Microdata) -> Sequence[Fact]:
        stays = 1 - self.rate_percent / 100
        return [Kept(columns=self.keys, within=self.within, keep=dict.fromkeys(self.keys, stays))]

    def keeps(self, data: Microdata) -> Sequence[Guarantee]:
        return [SameTable((*self.keys, *self.within))]

    def _apply(self, data: Microdata, draws: Draws, notes: Notes) -> Microdata:
        complete: BoolArray = ~np.logical_or.reduce([data.missing(key) for key in self.keys])
        rows = np.flatnonzero(complete)
        # Where each record's value of each key comes from, and the codes of those values.
        sources = {key: np.arange(len(data), dtype=np.int64) for key in self.keys}
        codes = {key: data.codes(key)[0] for key in self.keys}
        strata = data.codes(self.within)[0] if self.within else None
        for key in self.keys:
            others = [codes[k] for k in self.keys if k != key]
            parts = [c[rows] for c in ([strata] if strata is not None else []) + others]
            classes, n = joint([(c, int(c.max(initial=-1)) + 1) for c in parts], len(rows))
            source = self._exchange(key, classes, n, draws)
            came = rows[source]
            sources[key][rows], codes[key][rows] = sources[key][came], codes[key][came]
            notes.figure("records_moved", int((source != np.arange(len(rows))).sum()), key)
            sizes = np.bincount(classes, minlength=n)
            notes.figure("classes", int((sizes > 0).sum()), key)
            notes.figure("alone", int((sizes == 1).sum()), key)
        moved = np.zeros(len(data), dtype=np.bool_)
        new = {}
        for key in self.keys:
            old = data.column(key)
            new[key] = old.gather(pl.Series(sources[key]))
            moved |= old.ne_missing(new[key]).to_numpy()
        notes.figure("records_changed", int(moved.sum()))
        notes.figure("records_with_missing_key", int(len(data) - len(rows)))
        if len(rows) and self.rate_percent > 0 and not moved.any():
            notes.warn(
                "no key changed: every class holds one record, or one value; take fewer or coarser keys"
            )
        return data.with_columns(new)

    def _exchange(self, key: str, classes: IntArray, n: int, draws: Draws) -> IntArray:
        from sfumato.kernels.t_order import exchange_within

        source = np.arange(len(classes), dtype=np.int64)
        if self.rate_percent > 0 and len(classes):
            generator = draws.stream(key, purpose="exchange").generator()
            exchange_within(classes, n, self.rate_percent / 100.0, generator, source)
        return source
