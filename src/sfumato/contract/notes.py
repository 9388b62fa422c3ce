"""What a step has to say of its work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl


@dataclass
class Notes:
    """What a step has to say of its work.

    ``figures`` are numbers for the internal report (targets, achieved values, counts), by name;
    ``warnings`` are sentences; ``log`` is the confidential list of what was done to whom. None of
    them goes into the public bundle.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    log: pl.DataFrame | None = None
    touched: dict[str, int] = field(default_factory=dict)
    """Column → in how many records it changed."""

    def figure(self, name: str, value: Any, column: str | None = None) -> None:
        """Note a number; with ``column``, one of several columns' (``figures[name][column]``)."""
        if column is None:
            self.figures[name] = value
        else:
            self.figures.setdefault(name, {})[column] = value

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)

    def add_log(self, entries: pl.DataFrame) -> None:
        """Add rows to the confidential log."""
        self.log = entries if self.log is None else pl.concat([self.log, entries], how="diagonal_relaxed")

    def add(self, other: Notes) -> None:
        """Add what a part of the step has to say."""
        for name, value in other.figures.items():
            if isinstance(value, dict) and isinstance(self.figures.get(name), dict):
                self.figures[name] = {**self.figures[name], **value}
            else:
                self.figures[name] = value
        for message in other.warnings:
            self.warn(message)
        if other.log is not None:
            self.add_log(other.log)
        self.touched |= other.touched
