"""The intruder who knows the whole plan, and only the seed he doesn't know."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sfumato.contract.disclosure import Fact, Kept, of_kind
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Attack, Intruder
from sfumato.data.microdata import Microdata, as_microdata
from sfumato.draws import Draws, Seed
from sfumato.errors import SfumatoError
from sfumato.linkage.blocks import Blocks
from sfumato.linkage.laws import laws_of
from sfumato.linkage.learn import Learnt, kinds_of, learn
from sfumato.risk.agreement import AgreementAttack


@dataclass(frozen=True, kw_only=True)
class PlanAttack(AgreementAttack):
    """Re-identify records by all that the steps of a plan say together, 1-1.

    Each step has its attack; a release has them all. A pair's weight is the sum of what every step says of
    its columns: the law of exchanged ranks, the density of the noise, the probability that a key stayed. Of
    the rest he learns how often it stayed and how far it moved (:class:`AgreementAttack`).

    What needs no seed has no secret: groups of similar records, or the combinations that are too rare, he
    finds as the mask did. Steps that draw nothing are carried out on his own list (which has the order of
    the file: ties fall as they fell), and he compares the means and the blanks that come out. Of the other
    steps he does to his list what the release shows (``Mask.own_list``).

    Without ``steps`` (a battery has them) this is an :class:`AgreementAttack`. The rate is that of the best
    form of his weights, as an upper bound may have it.

    Reference: ours; that groups made without a secret are made again by an intruder, as in Winkler, W. E.
    (2002). Single-ranking micro-aggregation and re-identification. Statistical Research Report 2002-08.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> people = pl.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), schema=["PAY", "RENT"])
    >>> step = sf.Microaggregate(columns=["PAY", "RENT"], k=3)
    >>> attack = sf.PlanAttack(known=["PAY", "RENT"])
    >>> round(attack.measure(people, step.mask(people), steps=[step]).nearest_rate, 6)  # 1/k
    0.333333
    """

    name: ClassVar[str] = "plan_attack"
    reference: ClassVar[str] = "after Winkler (2002)"
    masks_again: ClassVar[bool] = True

    _facts: ClassVar[tuple[Fact, ...]] = ()

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        return ()

    @classmethod
    def against(cls, step: Mask, data: Microdata, intruder: Intruder) -> Sequence[Attack]:
        """One who knows all steps, whichever is asked about."""
        return [cls(known=intruder.values, block_on=intruder.block_on)] if intruder.values else ()

    def measure(
        self,
        original: Any,
        masked: Any = None,
        *,
        seed: Seed | int | None = 0,
        steps: Sequence[Mask] = (),
    ) -> Any:
        """The result on an original and a masked file, by the steps that made it."""
        if original is None or masked is None or not steps:
            return super().measure(original, masked, seed=seed, steps=steps)
        mine, facts = replayed(as_microdata(original), steps)
        keep: dict[str, float] = {}
        for fact in of_kind(Kept, facts):
            for column, stays in fact.keep.items():
                if not self.known or column in self.known:
                    keep[column] = keep.get(column, 1.0) * stays
        told = replace(self, keep={**keep, **self.keep})
        object.__setattr__(told, "_facts", facts)
        return super(PlanAttack, told).measure(mine, masked, seed=seed)

    def _forms(
        self, original: Microdata, masked: Microdata, known: Sequence[str], blocks: Blocks, draws: Draws
    ) -> dict[str, Learnt]:
        laws = laws_of(original, masked, known, self._facts)
        forms = {"laws": learn(original, masked, known, blocks, draws, self.keep, laws=laws)}
        if kinds_of(original, masked, known):
            forms["laws, kinds apart"] = learn(
                original, masked, known, blocks, draws, self.keep, kinds=True, laws=laws
            )
        if laws.fields is None:
            forms["agreement"] = learn(original, masked, known, blocks, draws, self.keep, moves=False)
        return forms


def replayed(data: Microdata, steps: Sequence[Mask]) -> tuple[Microdata, tuple[Fact, ...]]:
    """The list after all that needs no seed was done to it, and what the other steps disclose."""
    mine, log = data, logging.getLogger("sfumato")
    before = log.level
    log.setLevel(logging.ERROR)  # what a step says of the file has been said
    facts: list[Fact] = []
    try:
        for step in steps:
            try:
                if step.draws_nothing:
                    mine = step.mask(mine, seed=0)
                else:
                    facts += step.discloses(mine)
                    mine = step.own_list(mine)
            except SfumatoError:
                continue  # a value that a step before left to another
    finally:
        log.setLevel(before)
    return mine, tuple(facts)
