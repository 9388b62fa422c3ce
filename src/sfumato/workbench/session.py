"""A session: the plan as it stands, how it came to be, and what was found of each plan; no other state.

The plan's text is in its file after every change, so that ``sfumato run`` does what the page shows. Beside
it a journal (one line a change or result, for nobody else to read) lets a session go on where it ended,
whatever ended it: a torn last line is passed over.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from sfumato.errors import PlanError, SfumatoError
from sfumato.io.files import replacing
from sfumato.plan.plan import Plan
from sfumato.workbench.history import Entry, History


class BehindError(SfumatoError):
    """A change that was meant for an older plan than the one that stands."""


class Session:
    """The history of one plan, kept on disk; every change goes through :meth:`change`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.history = History()
        self.results: dict[str, dict[str, Any]] = {}
        """By the mark of the data and the plan's hash: what was found, by kind."""
        self.kept: dict[str, Any] = {}
        """By name: what a session keeps beside plans (the map's points, whether roles were looked at)."""
        self.epoch = 0
        """Grows with every change and every result; an answer of a lower one is old."""
        self.lock = threading.RLock()

    # -- on disk ------------------------------------------------------------------------------------

    @property
    def journal(self) -> Path:
        return self.path.with_name(self.path.stem + ".workbench.jsonl")

    @classmethod
    def restored(cls, path: Path) -> Session | None:
        """The session that ended here, if there was one and the plan is still as it left it.

        A plan that was edited elsewhere meanwhile is one more change.
        """
        out = cls(path)
        if not out.journal.exists():
            return None
        for line in out.journal.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                out._replay(json.loads(line))
            except (ValueError, KeyError, TypeError, IndexError):
                continue
        if not out.history.entries:
            return None
        text = path.read_text(encoding="utf-8-sig") if path.exists() else out.text
        if text != out.text:
            out.change(text, "edited outside the workbench")
        return out

    def _replay(self, line: dict[str, Any]) -> None:
        what = line["what"]
        if what == "change":
            entry = Entry(**line["entry"])
            if line.get("replaces"):
                self.history.entries[self.history.at] = entry
            else:
                self.history.change(entry.text, entry.name, when=entry.when, tab=entry.tab)
                self.history.entries[-1] = entry
        elif what == "go":
            self.history.go(int(line["to"]))
        elif what == "result":
            self.results.setdefault(line["key"], {})[line["kind"]] = line["value"]
        elif what == "keep":
            self.kept[line["name"]] = line["value"]

    def _write(self, line: dict[str, Any]) -> None:
        made = not self.journal.exists()
        fd = os.open(self.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(fd, "a", encoding="utf-8") as file:
            if made:
                os.chmod(self.journal, 0o600)
            file.write(json.dumps(line, ensure_ascii=False, allow_nan=True, default=str) + "\n")

    def _save_plan(self) -> None:
        with replacing(self.path, overwrite=True) as part:
            part.write_text(self.text, encoding="utf-8")

    @property
    def revision(self) -> int:
        """The epoch of the last change of the plan."""
        return int(self.kept.get("_changed_at", 0))

    # -- the plan -----------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        return self.history.now.text

    @property
    def plan(self) -> Plan:
        return read_plan(self.text, str(self.path.parent))

    def hash(self, text: str | None = None) -> str:
        return plan_hash(self.text if text is None else text)

    def begin(self, text: str, name: str) -> None:
        """The first plan."""
        with self.lock:
            self._changed(text, name, "", "")

    def change(
        self, text: str, name: str, *, control: str = "", tab: str = "", seen: int | None = None
    ) -> bool:
        """Put a plan in the place of the present one, unless it can't be read.

        ``seen`` is the epoch of the page that asks, ``tab`` its tab: a page that hasn't seen the last
        change may only go on with a change of its own tab.
        """
        with self.lock:
            self.refuse_behind(seen, tab)
            if text == self.text:
                return False
            read_plan(text, str(self.path.parent))  # a PlanError leaves everything as it was
            self._changed(text, name, control, tab)
            return True

    def refuse_behind(self, seen: int | None, tab: str) -> None:
        last = self.revision
        mine = bool(tab) and tab == self.kept.get("_changed_by")
        if seen is not None and seen < last and not mine:
            raise BehindError("The plan was changed elsewhere; this tab shows an older one.")

    def _changed(self, text: str, name: str, control: str, tab: str) -> None:
        replaces = self.history.change(text, name, control=control, when=time.time(), tab=tab)
        entry = self.history.now
        self._moved(tab)
        self._write({"what": "change", "replaces": replaces, "entry": asdict(entry)})
        self._save_plan()

    def _moved(self, tab: str) -> None:
        self.epoch += 1
        self.kept["_changed_at"], self.kept["_changed_by"] = self.epoch, tab

    def step(self, move: Callable[[History], Any], *, tab: str = "", seen: int | None = None) -> None:
        """Undo, redo, or go to another plan of the history."""
        with self.lock:
            self.refuse_behind(seen, tab)
            before = self.history.at
            move(self.history)
            if self.history.at != before:
                self._moved(tab)
                self._write({"what": "go", "to": self.history.at})
                self._save_plan()

    # -- what was found -----------------------------------------------------------------------------

    def put(self, key: str, kind: str, value: Any) -> None:
        """A result of a plan, whichever plan stands now: it can't be taken for another's."""
        with self.lock:
            self.results.setdefault(key, {})[kind] = value
            self.epoch += 1
            self._write({"what": "result", "key": key, "kind": kind, "value": value})

    def found(self, key: str, kind: str) -> Any:
        return self.results.get(key, {}).get(kind)

    def keep(self, name: str, value: Any) -> None:
        with self.lock:
            self.kept[name] = value
            self.epoch += 1
            self._write({"what": "keep", "name": name, "value": value})


@lru_cache(maxsize=64)
def read_plan(text: str, base: str) -> Plan:
    return Plan.loads(text, base=base)


@lru_cache(maxsize=4096)
def plan_hash(text: str) -> str:
    try:
        return Plan.loads(text).hash()
    except PlanError:
        return "0" * 32
