"""The recode of least loss that meets a condition: best-first branch and bound over the lattice.

A partial choice (levels for the first keys) costs at least its own loss, plus what later keys kept as they
are would add, plus the price of the records that stay unsafe even with all later keys dropped; where these
alone are above the limit it has no feasible completion. The open choice with the least bound is taken next,
so that the bound of what is left is the proof: equal to the best found, the optimum is proved; else it is
the gap.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sfumato.cells.generalise.lattice import Lattice, State
from sfumato.cells.generalise.losses import Loss, loss_for
from sfumato.cells.generalise.models import Judgement, Model
from sfumato.errors import ParameterError

MOST_NODES: Final = 20_000
_HELD_BYTES: Final = 1 << 28
_SLACK: Final = 1e-12


@dataclass(frozen=True)
class Generalisation:
    """What a search found: a level for each key, what it costs, and how sure it is."""

    levels: Mapping[str, int]
    names: Mapping[str, str]
    cost: float
    """The loss, and the price of what has to be suppressed."""
    loss: float
    unsafe: int
    """Records that are left for suppression."""
    unsafe_share: float
    bound: float
    """No recode that meets the condition costs less than this."""
    nodes: int
    """Nodes (and partial ones) that were looked at."""
    lattice: int
    """Nodes that there are."""

    @property
    def proved(self) -> bool:
        """Whether nothing can be better."""
        return self.cost - self.bound <= 1e-9 * max(1.0, abs(self.cost))

    @property
    def gap(self) -> float:
        """How much less the best recode could cost at most."""
        return max(0.0, self.cost - self.bound)


class _Walk:
    """Looks at nodes, keeping the states of recent choices."""

    def __init__(self, lattice: Lattice, model: Model, loss: Loss, limit: float) -> None:
        self.lattice, self.model, self.loss = lattice, model, loss
        self.most = math.floor(limit * lattice.records + 1e-9)
        self.nodes = 0
        self._held: OrderedDict[tuple[int, ...], State] = OrderedDict()
        self._bytes = 0

    def state(self, choice: tuple[int, ...]) -> State:
        if not choice:
            return self.lattice.root
        if choice in self._held:
            self._held.move_to_end(choice)
            return self._held[choice]
        groups = self.lattice.split(self.state(choice[:-1]), choice[-1])
        state = self.lattice.advance(groups, self.model.judge(groups).memory)
        self._held[choice] = state
        self._bytes += state.nbytes
        while self._bytes > _HELD_BYTES and len(self._held) > 1:
            self._bytes -= self._held.popitem(last=False)[1].nbytes
        return state

    def price(self, records: int) -> float:
        return self.loss.price * records / max(self.lattice.records, 1)

    def leaf(self, choice: tuple[int, ...]) -> tuple[float, float, int]:
        """Cost (infinite where it isn't allowed), loss and unsafe records of a whole choice."""
        self.nodes += 1
        groups = self.lattice.split(self.state(choice[:-1]), choice[-1])
        judged = self.model.judge(groups)
        own = self.separate(choice) + self.loss.whole(groups, judged)
        if judged.never or judged.records > self.most:
            return math.inf, own, judged.records
        return own + self.price(judged.records), own, judged.records

    def partial(self, choice: tuple[int, ...]) -> float:
        """The least that any completion of a choice can cost (infinite where none is allowed)."""
        self.nodes += 1
        state = self.state(choice[:-1])
        groups = self.lattice.split(state, choice[-1])
        judged: Judgement = self.model.judge(groups)
        if judged.least > self.most:
            return math.inf
        bound = self.separate(choice) + self.price(judged.least)
        if self.loss.of_groups:
            bound += self.loss.least(self.state(choice), self.lattice.records)
        return bound

    def separate(self, choice: Sequence[int]) -> float:
        return float(sum(t[v] for t, v in zip(self.loss.tables, choice, strict=False)))


def generalise(
    lattice: Lattice,
    model: Model,
    *,
    loss: str | Loss = "detail",
    suppress_at_most: float = 0.05,
    price: float | None = None,
    importance: Mapping[str, float] | None = None,
    most_nodes: int = MOST_NODES,
    progress: Callable[[int, float, float], None] | None = None,
) -> Generalisation:
    """The levels of least cost whose groups meet the model, but for a share of records to be suppressed.

    ``price`` is what suppressing all records would cost (by default 1.5 keys dropped). After ``most_nodes``
    the best found is returned with its gap.

    >>> import numpy as np
    >>> from sfumato.cells.generalise import Chain, KAnonymous, Lattice, generalise
    >>> ages = Chain.of("AGE", [["20-29", "20-29", "30-39"]], ["ten years"])
    >>> people = Lattice([ages], [np.array([0, 1, 2, 2])])
    >>> found = generalise(people, KAnonymous(2), suppress_at_most=0)
    >>> dict(found.levels), found.proved
    ({'AGE': 1}, True)
    """
    if not 0 <= suppress_at_most < 1:
        raise ParameterError(f"`suppress_at_most` must be from 0 up to 1, not {suppress_at_most:g}")
    made = loss if isinstance(loss, Loss) else loss_for(lattice, loss, importance=importance, price=price)
    walk = _Walk(lattice, model, made, suppress_at_most)
    best, levels = _greedy(walk, most_nodes)
    depth = len(lattice.chains)
    heap: list[tuple[float, int, tuple[int, ...]]] = [(0.0, 0, ())]
    bound = 0.0
    while heap:
        bound, _, choice = heap[0]
        if bound >= best - _SLACK or walk.nodes >= most_nodes:
            break
        heapq.heappop(heap)
        for level in range(len(lattice.chains[len(choice)])):
            child = (*choice, level)
            if walk.separate(child) >= best - _SLACK:
                break  # the loss of a key doesn't fall from level to level
            if len(child) == depth:
                cost = walk.leaf(child)[0]
                if cost < best - _SLACK:
                    best, levels = cost, child
            else:
                least = max(walk.partial(child), bound)
                if least < best - _SLACK:
                    heapq.heappush(heap, (least, -len(child), child))
        if progress is not None:
            progress(walk.nodes, best, bound)
    if not math.isfinite(best):
        raise ParameterError(
            "no recode meets the condition, not even with every key dropped"
            if not heap
            else f"no recode that meets the condition was found among {walk.nodes:,} nodes",
            hint="lower k (or l), raise t, or allow more suppression",
        )
    left = min(best, heap[0][0]) if heap else best
    _, own, unsafe = walk.leaf(levels)
    chosen = dict(lattice.named(levels))
    return Generalisation(
        chosen,
        {c.key: c.names[chosen[c.key]] for c in lattice.chains},
        best,
        own,
        unsafe,
        unsafe / max(lattice.records, 1),
        left,
        walk.nodes - 1,
        len(lattice),
    )


def _greedy(walk: _Walk, most_nodes: int) -> tuple[float, tuple[int, ...]]:
    """A start: the step that removes the most unsafe records for its loss, then steps back that pay."""
    chains = walk.lattice.chains
    at = tuple(0 for _ in chains)
    cost, own, unsafe = walk.leaf(at)
    best, levels = cost, at
    spent = most_nodes // 4
    while walk.nodes < spent:
        steps = []
        for j, chain in enumerate(chains):
            if at[j] + 1 < len(chain):
                to = (*at[:j], at[j] + 1, *at[j + 1 :])
                found = walk.leaf(to)
                gain = (unsafe - found[2]) / max(found[1] - own, 1e-9)
                steps.append((gain, -found[1], to, found))
        if not steps:
            break
        _, _, at, (cost, own, unsafe) = max(steps)
        if cost < best:
            best, levels = cost, at
        if walk.separate(at) >= best:
            break
    top = tuple(len(c) - 1 for c in chains)
    if not math.isfinite(best):
        best, levels = walk.leaf(top)[0], top
    better = math.isfinite(best)
    while better and walk.nodes < spent:
        better = False
        for j in range(len(chains)):
            for v in range(levels[j]):
                to = (*levels[:j], v, *levels[j + 1 :])
                cost = walk.leaf(to)[0]
                if cost < best - _SLACK:
                    best, levels, better = cost, to, True
                    break
    return best, levels
