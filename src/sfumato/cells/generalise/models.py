"""What makes a group of records unsafe: the conditions that a recode can be searched for.

A model judges groups. ``least`` is what any finer grouping (with later keys kept in more detail) must leave
unsafe: for a monotone model the records that are unsafe now; for the others a bound by what can at best be
kept of each unsafe group, since a union of safe groups is safe in every model here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from sfumato.cells.generalise.lattice import Groups
from sfumato.kernels.generalise import spread_of, sums_of

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Judgement:
    """Which groups are unsafe, the records in them, and how many any finer grouping leaves at least."""

    unsafe: BoolArray
    records: int
    least: int
    memory: Any = None
    never: bool = False
    """Whether no suppression can mend it."""


class Model:
    """A condition on groups."""

    monotone: ClassVar[bool] = True
    """Whether every unsafe group's parts are unsafe too."""

    def judge(self, groups: Groups) -> Judgement:
        raise NotImplementedError


def _monotone(groups: Groups, unsafe: BoolArray) -> Judgement:
    bad = int(groups.counts[unsafe].sum())
    return Judgement(unsafe, bad, bad)


@dataclass(frozen=True)
class KAnonymous(Model):
    """At least k records in a group (Samarati 2001)."""

    k: int

    def judge(self, groups: Groups) -> Judgement:
        return _monotone(groups, groups.counts < self.k)


@dataclass(frozen=True)
class KMapped(Model):
    """At least k persons of the population in a group (Sweeney 2001): counted in its file, or the sum of
    weights."""

    k: float

    def judge(self, groups: Groups) -> Judgement:
        return _monotone(groups, groups.sizes < self.k)


@dataclass(frozen=True)
class Present(Model):
    """Between ``low`` and ``high`` of the population's persons in a group are in the file (Nergiz et al.
    2007).

    Persons outside the file can't be suppressed: a group of them alone fails for good where ``low`` is
    above 0.
    """

    high: float
    low: float = 0.0
    monotone: ClassVar[bool] = False

    def judge(self, groups: Groups) -> Judgement:
        counts, sizes = groups.counts, groups.sizes
        most = np.floor(self.high * sizes + 1e-9)
        unsafe = (counts > most) | (counts < self.low * sizes - 1e-9)
        few = int(np.maximum(counts - most, 0).sum())
        alone = bool(self.low > 0 and (unsafe & (counts == 0)).any())
        return Judgement(unsafe, int(counts[unsafe].sum()), few, never=alone)


_SPREADS: Final = {"distinct": 0, "entropy": 1, "recursive": 2, "equal": 3, "ordered": 4}


@dataclass(frozen=True)
class Diverse(Model):
    """l-diversity of the sensitive column (Machanavajjhala et al. 2007); missing values count for nothing."""

    l: float  # noqa: E741
    variant: Literal["distinct", "entropy", "recursive"] = "distinct"
    c: float = 2.0
    monotone: ClassVar[bool] = False

    def judge(self, groups: Groups) -> Judgement:
        starts, values, counts = groups.spread()
        unsafe, most = spread_of(
            starts, values, counts, np.zeros(0), _SPREADS[self.variant], float(self.l), float(self.c)
        )
        known = np.add.reduceat(np.append(counts, 0.0), starts[:-1]) * (np.diff(starts) > 0)
        # Records without a value can be in a safe part, unless no part can be safe.
        least = np.where(most == 0, groups.counts, known.astype(np.int64) - most)
        return Judgement(unsafe, int(groups.counts[unsafe].sum()), int(least.sum()))


@dataclass(frozen=True)
class Close(Model):
    """t-closeness (Li, Li, Venkatasubramanian 2007): a group's shares of the sensitive values are at most t
    from the file's, in total variation ("equal") or in steps between neighbours of levels − 1 ("ordered")."""

    t: float
    distance: Literal["equal", "ordered"] = "equal"
    monotone: ClassVar[bool] = False

    def judge(self, groups: Groups) -> Judgement:
        lattice = groups.lattice
        starts, values, counts = groups.spread()
        whole = np.bincount(values, counts, minlength=lattice.values)
        shares = whole / max(whole.sum(), 1.0)
        unsafe, most = spread_of(starts, values, counts, shares, _SPREADS[self.distance], float(self.t), 0.0)
        known = np.add.reduceat(np.append(counts, 0.0), starts[:-1]) * (np.diff(starts) > 0)
        least = int((known.astype(np.int64) - most).sum())
        return Judgement(unsafe, int(groups.counts[unsafe].sum()), least)


@dataclass(frozen=True)
class Tolerant(Model):
    """At least ``tolerance`` records in every combination of up to ``max_dimension`` keys, or of every key
    set."""

    tolerance: int
    max_dimension: int | None = None
    key_sets: tuple[tuple[str, ...], ...] = ()

    def judge(self, groups: Groups) -> Judgement:
        depth, lattice = groups.state.depth, groups.lattice
        before: dict[frozenset[int], Any] = {frozenset(): np.zeros(groups.state.groups, np.int32)}
        flags: BoolArray = np.zeros(groups.state.groups, np.bool_)
        if groups.state.memory is not None:
            before, flags = groups.state.memory
        unsafe = flags[groups.parent]
        kept = {s: labels[groups.parent] for s, labels in before.items()}
        size = int(groups.own.max(initial=0)) + 1
        for subset, labels in list(kept.items()):
            wider = subset | {depth}
            if not self._wanted(wider, lattice, inside=True):
                continue
            joint, places = lattice.join(labels, groups.own, size)
            kept[wider] = joint
            if self._wanted(wider, lattice, inside=False):
                unsafe |= (sums_of(joint, len(places), groups.counts) < self.tolerance)[joint]
        bad = int(groups.counts[unsafe].sum())
        return Judgement(unsafe, bad, bad, (kept, unsafe))

    def _wanted(self, subset: frozenset[int], lattice: Any, *, inside: bool) -> bool:
        """Whether a set of keys is looked at (or lies inside one that is)."""
        if self.key_sets:
            names = {lattice.chains[j].key for j in subset}
            return any(names <= set(s) if inside else names == set(s) for s in self.key_sets)
        most = self.max_dimension or len(lattice.chains)
        return len(subset) <= most


@dataclass(frozen=True)
class Both(Model):
    """Several conditions at once."""

    models: tuple[Model, ...]

    @property
    def monotone(self) -> bool:  # type: ignore[override]
        return all(m.monotone for m in self.models)

    def judge(self, groups: Groups) -> Judgement:
        memories = groups.state.memory or (None,) * len(self.models)
        found = []
        for model, memory in zip(self.models, memories, strict=True):
            found.append(model.judge(replace(groups, state=replace(groups.state, memory=memory))))
        unsafe = np.logical_or.reduce([f.unsafe for f in found])
        return Judgement(
            unsafe,
            int(groups.counts[unsafe].sum()),
            max(f.least for f in found),
            tuple(f.memory for f in found),
            any(f.never for f in found),
        )
