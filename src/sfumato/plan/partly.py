"""A plan read as far as it can be, so that all of its mistakes are found at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.errors import Problem, SfumatoError, did_you_mean
from sfumato.plan import source as plan_source
from sfumato.plan.plan import Plan
from sfumato.plan.reader import read_parts


def read_plan(text: str, *, base: Path = Path()) -> tuple[Plan | None, list[Problem]]:
    """A plan from its text, and everything that is wrong with the text (no data are read)."""
    read = read_partly(text, base=base)
    if read.plan is None or any(p.severity == "error" for p in read.problems):
        return None, read.problems
    return read.plan, read.problems


@dataclass(frozen=True)
class PartlyRead:
    """What of a plan's text could be read, where its parts stand, and everything wrong with the text."""

    plan: Plan | None
    lines: Mapping[plan_source.Path, int]
    """The line of each part, steps and measures numbered as in ``plan``."""
    problems: list[Problem]
    named: Mapping[plan_source.Path, Sequence[str]] = field(default_factory=dict)
    """The columns that unreadable steps and measures name, by parameter (numbered as in the text)."""
    text: str = ""

    def check(self) -> list[Problem]:
        """What is wrong with the parts that could be read, and with the columns the others name."""
        if self.plan is None:
            return []
        out = self.plan.check(lines=self.lines)
        if self.named and self.plan.data_path is not None:
            try:
                columns = self.plan.file_alone(lazy=True).columns
            except SfumatoError:  # the check above has said so
                return out
            lines = plan_source.lines_of(self.text)
            for path, names in self.named.items():
                for column in names:
                    if column not in columns:
                        message = f"`{path[-1]}` names the column {column!r}, which the data don't have"
                        hint = did_you_mean(column, columns)
                        out.append(Problem(plan_source.line_of(lines, path), message, hint))
        return sorted(out)


def read_partly(text: str, *, base: Path = Path()) -> PartlyRead:
    """A plan from those parts of its text that can be understood, so that they can be checked too.

    >>> read = read_partly('title = 3\\n[[step]]\\nmask = "truncate"\\ncolumn = "ZIP"\\ndigits = 2')
    >>> read.plan.steps[0].column, read.lines["step", 0]
    ('ZIP', 2)
    """
    read = read_parts(text)
    if read.content is None:
        return PartlyRead(None, {}, read.problems)
    plan = Plan(**read.content, base=base, source=text)
    return PartlyRead(plan, read.lines, read.problems, read.named, text)
