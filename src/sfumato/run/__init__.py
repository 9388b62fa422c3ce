"""A plan carried out on data with a secret seed."""

from sfumato.run.run import Run, carry_out

__all__ = ["Run", "carry_out"]
