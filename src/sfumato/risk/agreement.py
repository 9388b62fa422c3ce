"""The intruder who weighs what agrees by how rare it is, and by how often the mask left it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sfumato.contract.disclosure import Kept, of_kind
from sfumato.contract.known import is_number
from sfumato.contract.mask import Mask
from sfumato.contract.measure import Attack, Intruder
from sfumato.contract.parameters import parameter
from sfumato.contract.result import Result
from sfumato.data.microdata import Microdata
from sfumato.draws import Draws
from sfumato.errors import MeasureError
from sfumato.linkage.blocks import Blocks
from sfumato.linkage.learn import Learnt, kinds_of, learn
from sfumato.linkage.points import PointAttack

_MOVED = 1e-4  # hardly a value stayed


@dataclass(frozen=True, kw_only=True)
class AgreementAttack(PointAttack):
    """Re-identify records by what still agrees, 1-1: rare values, and keys that a mask seldom touched.

    A released value b of a person whose value is a is still a with probability m, and else
    another's: P(b | a) = m·[a = b] + (1 − m)·g. Agreement weighs ln(m/f_a + 1 − m), f_a the share of
    the release that has a, disagreement ln(1 − m); numbers that differ add the log ratio of how
    often values move so many ranks among true and among random pairs. m and the law of the
    displacements are learnt for each column by EM over all candidates of some persons; nothing is
    known of the mask, unless ``keep`` tells m. No column is dropped because a mask touched it.

    A few correlated keys don't tell their m apart, and a swap of keys moves numbers by no law. So he
    tries up to five forms: with displacements; by what agrees alone; that with one m, the mean, for all
    columns; with displacements, where what kind a value is (missing, zero, coded) is compared by
    itself, since many masks leave those alone; and by kinds alone, as if all amounts had been dealt out
    anew. The rate is that of the best (``form``), as an upper bound may have it.

    Reference: Fellegi and Sunter (1969), JASA 64, 1183-1210, for the weights by value; Winkler
    (1988) for EM; one match a person and the displacements are ours.

    >>> import numpy as np, polars as pl, sfumato as sf
    >>> rng = np.random.default_rng(0)
    >>> people = pl.DataFrame(rng.integers(0, 9, (300, 6)), schema=list("ABCDEF"))
    >>> step = sf.RandomSwap(columns=list("ABCDEF"), rate_percent=20)
    >>> found = sf.AgreementAttack(known=list("ABCDEF")).measure(people, step.mask(people, seed=1))
    >>> found.rate > 0.5, 0.7 < found.keep["A"] < 0.9
    (True, True)
    """

    name: ClassVar[str] = "agreement_attack"
    reference: ClassVar[str] = "Fellegi and Sunter (1969); Winkler (1988)"

    keep: dict[str, float] = parameter(  # noqa: RUF009
        {},
        doc="The probability that a column's value stayed, where the intruder knows it; else it is learnt.",
        columns=True,
        at_least=0,
        at_most=1,
    )

    @classmethod
    def fitting(cls, original: Microdata, masked: Microdata, intruder: Intruder) -> Sequence[Attack]:
        return [cls(known=intruder.values, block_on=intruder.block_on)] if intruder.values else ()

    @classmethod
    def against(cls, step: Mask, data: Microdata, intruder: Intruder) -> Sequence[Attack]:
        """Somebody who knows how often the step leaves a value alone."""
        facts = of_kind(Kept, step.discloses(data))
        keep = {c: p for fact in facts for c, p in fact.keep.items() if c in intruder.values}
        return [cls(known=intruder.values, block_on=intruder.block_on, keep=keep)] if keep else ()

    def _check(self) -> Sequence[tuple[str, str | None]]:
        strange = [c for c in self.keep if self.known and c not in self.known]
        return [(f"`keep` names {strange[0]}, which isn't in `known`", None)] if strange else ()

    def _measure(self, original: Microdata, masked: Microdata, draws: Draws) -> Result:
        known = self._known(original, masked)
        truth = self._truth(original, masked)
        blocks = self._blocks(original, masked, draws)
        if not len(blocks):
            raise MeasureError("no known record shares its block with a released one")
        # Forms are tried on some persons of a large file; then all of them are linked, once.
        lesson = self._lesson_blocks(original, masked, blocks, draws)
        forms = self._forms(original, masked, known, lesson, draws)
        tried = {form: self._link(found.fields, lesson, truth) for form, found in forms.items()}
        form = max(tried, key=lambda f: int((tried[f].match == truth)[truth >= 0].sum()))
        near = max(tried, key=lambda f: float(tried[f].nearest.sum()))
        found = forms[form]
        if lesson is blocks:
            links, nearest = tried[form], tried[near].nearest
        else:
            links = self._link(found.fields, blocks, truth)
            nearest = links.nearest
            if near != form:
                nearest = self._link(forms[near].fields, blocks, truth, one_to_one=False).nearest
        links = replace(links, nearest=nearest)
        notes = [
            "he weighs agreement by how rare a value is and by how often the mask left the column alone, "
            + ("as he was told" if set(known) <= set(self.keep) else "which he learns from the release"),
            f"of {len(forms)} forms of his weights the best is taken: {form} (of nearest records: {near})",
        ]
        figures: dict[str, Any] = {
            "form": form,
            "keep": found.keep,
            "log_likelihood": found.log_likelihood,
            "rounds": found.rounds,
        }
        return self._result(links, blocks, truth, known, notes, **figures)

    def _forms(
        self, original: Microdata, masked: Microdata, known: Sequence[str], blocks: Blocks, draws: Draws
    ) -> dict[str, Learnt]:
        """The forms of his weights that differ on these columns, the fullest first."""
        forms = {}
        if any(is_number(original, c) and is_number(masked, c) for c in known):
            forms["displacements"] = learn(original, masked, known, blocks, draws, self.keep)
        alone = learn(original, masked, known, blocks, draws, self.keep, moves=False)
        forms["agreement"] = alone
        if len(forms) > 1 and kinds_of(original, masked, known):
            forms["kinds apart"] = learn(original, masked, known, blocks, draws, self.keep, kinds=True)
            moved = {c: _MOVED for c in known if is_number(original, c)}
            forms["kinds alone"] = learn(
                original, masked, known, blocks, draws, {**moved, **self.keep}, moves=False, kinds=True
            )
        untold = [m for c, m in alone.keep.items() if c not in self.keep]
        if len(untold) > 1:
            keep = {c: self.keep.get(c, sum(untold) / len(untold)) for c in known}
            forms["one rate"] = learn(original, masked, known, blocks, draws, keep, moves=False)
        return forms
