"""Releases that sfumato didn't make: read, paired, attacked, judged."""

from sfumato.foreign.evaluate import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
