"""The plans that a session went through: undo and redo without limit, and branches that stay.

>>> h = History()
>>> _ = h.change("format = 1", "opened"), h.change("format = 1\\ntitle = 'a'", "title")
>>> _ = h.undo()
>>> h.now.name, h.redo_name
('opened', 'title')
"""

from __future__ import annotations

from dataclasses import dataclass, field

TOGETHER = 1.5
"""Changes of one control within so many seconds are one entry."""


@dataclass(frozen=True)
class Entry:
    """A plan's text, and in words the change that led to it."""

    text: str
    name: str
    parent: int | None
    control: str = ""
    when: float = 0.0
    tab: str = ""


@dataclass
class History:
    """Every plan of a session, in the order in which they were made; ``at`` is the one that stands."""

    entries: list[Entry] = field(default_factory=list)
    at: int = -1
    ahead: dict[int, int] = field(default_factory=dict)
    """After which entry redo goes where."""

    @property
    def now(self) -> Entry:
        return self.entries[self.at]

    def change(self, text: str, name: str, *, control: str = "", when: float = 0.0, tab: str = "") -> bool:
        """One more plan after the present one; whether it took the place of the last."""
        last = self.now if self.entries else None
        same = (
            last is not None
            and bool(control)
            and last.control == control
            and when - last.when < TOGETHER
            and last.parent is not None
            and self.at == len(self.entries) - 1
        )
        if same and last is not None:
            self.entries[self.at] = Entry(text, name, last.parent, control, when, tab)
            return True
        self.entries.append(Entry(text, name, self.at if self.entries else None, control, when, tab))
        if len(self.entries) > 1:
            self.ahead[self.at] = len(self.entries) - 1
        self.at = len(self.entries) - 1
        return False

    def undo(self) -> bool:
        parent = self.now.parent
        if parent is None:
            return False
        self.ahead[parent] = self.at
        self.at = parent
        return True

    def redo(self) -> bool:
        if self.at not in self.ahead:
            return False
        self.at = self.ahead[self.at]
        return True

    def go(self, to: int) -> None:
        """Take up any plan of the list again; redo from its ancestors leads to it."""
        self.at = to
        for child in self.line()[:-1]:
            parent = self.entries[child].parent
            if parent is not None:
                self.ahead[parent] = child

    def line(self) -> list[int]:
        """From the plan that stands back to the first."""
        out, at = [self.at], self.entries[self.at].parent
        while at is not None:
            out.append(at)
            at = self.entries[at].parent
        return out

    @property
    def undo_name(self) -> str | None:
        """What undo would take back."""
        return self.now.name if self.now.parent is not None else None

    @property
    def redo_name(self) -> str | None:
        """What redo would do again."""
        return self.entries[self.ahead[self.at]].name if self.at in self.ahead else None
