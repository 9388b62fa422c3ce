"""Names that mean nothing by themselves: the variables of well-known surveys, by what they hold.

EU-SILC and the labour force survey of Eurostat, the American Community Survey and the Current
Population Survey, the Brazilian, Argentinian, Mexican, Spanish, Italian, French and German surveys,
and the Demographic and Health Surveys.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sfumato.plan.suggest import vocabulary

_BY_NAME: Final = {
    name: what for what, names in vocabulary.load()["codebooks"].items() for name in names.split()
}


def topic(said: Iterable[str]) -> str | None:
    """What the name is in a codebook; ``said`` are its words, the whole name first.

    >>> topic(["v1028"]), topic(["rb090"]), topic(["hello"])
    ('weight', 'sex', None)
    """
    whole = next(iter(said), "")
    return _BY_NAME.get(whole)
