"""Optimal recoding: the full-domain generalisation and suppression of least loss that meets a condition."""

from __future__ import annotations

from sfumato.cells.generalise.lattice import Chain, Lattice
from sfumato.cells.generalise.losses import LOSSES, Loss, loss_for
from sfumato.cells.generalise.models import (
    Both,
    Close,
    Diverse,
    KAnonymous,
    KMapped,
    Model,
    Present,
    Tolerant,
)
from sfumato.cells.generalise.search import Generalisation, generalise

__all__ = [
    "LOSSES",
    "Both",
    "Chain",
    "Close",
    "Diverse",
    "Generalisation",
    "KAnonymous",
    "KMapped",
    "Lattice",
    "Loss",
    "Model",
    "Present",
    "Tolerant",
    "generalise",
    "loss_for",
]
