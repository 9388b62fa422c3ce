"""``python -m sfumato``."""

from sfumato.cli import run

run()
