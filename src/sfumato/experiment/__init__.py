"""A plan over a grid of parameters and seeds: the risk-utility map and its frontier."""

from sfumato.experiment.grid import Experiment

__all__ = ["Experiment"]
