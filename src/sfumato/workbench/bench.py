"""The workbench itself: one plan open at a time, its data in memory, its jobs, and what was found of it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from sfumato.data.microdata import Microdata
from sfumato.errors import InputError, PlanError, Problem, SfumatoError
from sfumato.plan.plan import Plan
from sfumato.plan.suggest.roles import plan_text, suggest
from sfumato.workbench.adopt import with_steps, work_hash
from sfumato.workbench.cellview import CellViews, View
from sfumato.workbench.helps import Help, Ladders, Rung, helps
from sfumato.workbench.jobs import Job, Jobs
from sfumato.workbench.opened import Opened
from sfumato.workbench.session import Session
from sfumato.workbench.work import Task, work

NO_FILE: Final = "No file of that name. Names are read from the folder where the workbench was started."
PATIENCE: Final = 0.06
"""How long a page waits for the ranking of recodes before it says that it is being counted."""
PROPOSAL: Final = "the first proposal"
ROLES: Final = "roles and codes as suggested"


class Workbench:
    """All that the page shows and changes."""

    def __init__(self, folder: Path, *, audience: str = "public", propose: bool = True) -> None:
        self.folder, self.audience, self.propose = folder, audience, propose
        self.session: Session | None = None
        self.opened: Opened | None = None
        self.views, self.ladders = CellViews(), Ladders()
        self.jobs = Jobs(work, self._done, self._found)
        self._helps: dict[str, Future[list[Help]]] = {}
        self._pool = ThreadPoolExecutor(1)
        self._flashes: dict[str, dict[str, Any]] = {}
        self._checks: dict[str, list[Problem]] = {}
        self._lock = threading.RLock()

    # -- opening ------------------------------------------------------------------------------------

    def open(self, name: str) -> None:
        """Open a data file or a plan that the person names."""
        path = self._named(name)
        with self._lock:
            for job in self.jobs.active():
                self.jobs.stop(job.number)
            self.views, self.ladders = CellViews(), Ladders()
            self._helps.clear()
            self._checks.clear()
            session = self._session(path)
            self.opened = Opened(session.plan, self._after_reading, self._tell)
            self.session = session  # last: a page that finds it finds the rest
            self.opened.start()

    def _named(self, name: str) -> Path:
        if not name.strip() or "\0" in name:
            raise InputError(NO_FILE)
        path = Path(name.strip()).expanduser()
        path = path if path.is_absolute() else self.folder / path
        try:
            there = path.is_file() and os.access(path, os.R_OK)
        except OSError:
            there = False
        if not there:
            raise InputError(NO_FILE)
        return path

    def _session(self, path: Path) -> Session:
        if path.suffix.casefold() == ".toml":
            restored = Session.restored(path)
            if restored is not None:
                return restored
            session = Session(path)
            plan = Plan.load(path)  # what is wrong with it is said, and nothing is opened
            session.begin(plan.to_toml(), f"opened {path.name}")
            return session
        stem = path.name
        for suffix in reversed(path.suffixes[-2:] if path.suffix.casefold() == ".gz" else path.suffixes[-1:]):
            stem = stem.removesuffix(suffix)
        plan_path = self.folder / f"{stem or 'plan'}.toml"
        try:
            relative = Path(os.path.relpath(path.resolve(), plan_path.resolve().parent)).as_posix()
        except ValueError:
            relative = path.resolve().as_posix()
        number = 2
        while True:
            held = self._held(plan_path, path)
            if held is not None:
                return held
            if not plan_path.exists():
                break
            plan_path, number = self.folder / f"{stem}-{number}.toml", number + 1
        session = Session(plan_path)
        session.begin(_bare(relative), f"opened {path.name}, no step")
        return session

    def _held(self, plan_path: Path, data: Path) -> Session | None:
        """The session, or the plan, that is there for this file already."""
        if not plan_path.exists():
            return None
        try:
            plan = Plan.load(plan_path)
            if plan.data_path is None or not os.path.samefile(plan.data_file(), data):
                return None
        except (SfumatoError, OSError):
            return None
        return self._session(plan_path)

    def _after_reading(self) -> None:
        """In the reader's thread: roles for a bare plan at once, then the search for a first proposal."""
        session, opened = self.session, self.opened
        if session is None or opened is None or opened.file is None:
            return
        with contextlib.suppress(SfumatoError):
            if len(session.history.entries) == 1 and session.text == _bare(session.plan.data_path or ""):
                found = suggest(opened.file)
                session.keep(
                    "suggestion",
                    {
                        "reasons": {c: list(r) for c, r in found.reasons.items()},
                        "notes": list(found.notes),
                        "drop": list(found.drop),
                    },
                )
                text = plan_text(session.plan.data_path or "", found, work=[])
                if len(session.history.entries) == 1:
                    session.change(text, ROLES)
                if self.propose:
                    self.start("propose")

    def _tell(self) -> None:
        if self.session is not None:
            self.session.epoch += 1

    # -- the plan that stands -----------------------------------------------------------------------

    @property
    def now(self) -> Session:
        if self.session is None:
            raise InputError("No file is open.")
        return self.session

    @property
    def plan(self) -> Plan:
        return self.now.plan

    @property
    def data(self) -> Microdata | None:
        """The file with the plan's schema; None while it is read, or where it can't be."""
        if self.opened is None or self.opened.file is None or self.opened.reading:
            return None
        try:
            return self.opened.data(self.plan)
        except SfumatoError:
            return None

    def key(self, text: str | None = None) -> str:
        """Of which file and plan a number is."""
        mark = self.opened.mark if self.opened is not None else "none"
        return f"{mark}:{self.now.hash(text)}"

    def problems(self) -> list[Problem]:
        """Everything that is wrong with the plan on these data, errors first."""
        key = self.key()
        if key not in self._checks:
            data, plan = self.data, self.plan
            if data is None:
                return self._schema_problems()
            self._checks[key] = sorted(plan.check(data), key=lambda p: (p.severity != "error", p.line))
        return self._checks[key]

    def _schema_problems(self) -> list[Problem]:
        if self.opened is None or self.opened.file is None:
            return []
        try:
            self.opened.data(self.plan)
        except PlanError as problem:
            return list(problem.problems)
        except SfumatoError as problem:
            return [Problem(0, problem.message, problem.hint)]
        return []

    def view(self) -> View | None:
        data = self.data
        if data is None:
            return None
        try:
            return self.views.view(data, self.plan, self.key())
        except SfumatoError:
            return None

    def rungs(self, view: View) -> dict[str, list[Rung]]:
        data = self.data
        return {} if data is None else self.ladders.of(data, view)

    def helps(self, view: View, *, patience: float = PATIENCE) -> list[Help] | None:
        """The ranking of recodes; None while it is being counted, in a thread of its own."""
        key, data = self.key(), self.data
        if data is None:
            return None
        with self._lock:
            if key not in self._helps:
                if len(self._helps) > 64:
                    self._helps.clear()
                session = self.now

                def count() -> list[Help]:
                    found = helps(data, view, self.ladders.of(data, view))
                    session.epoch += 1
                    return found

                self._helps[key] = self._pool.submit(count)
            future = self._helps[key]
        try:
            return future.result(patience)
        except TimeoutError:
            return None
        except SfumatoError:
            return []

    # -- results ------------------------------------------------------------------------------------

    def result(self, kind: str, text: str | None = None) -> Any:
        return self.now.found(self.key(text), kind)

    def last_result(self, kind: str) -> tuple[str, Any] | None:
        """The latest result on the way to the plan that stands, with the plan's hash."""
        for at in self.now.history.line():
            text = self.now.history.entries[at].text
            found = self.result(kind, text)
            if found is not None:
                return self.now.hash(text), found
        return None

    def points(self) -> list[dict[str, Any]]:
        """The map of this file."""
        held = self.now.kept.get("points", {})
        mark = self.opened.mark if self.opened is not None else "none"
        return list(held.get("of", [])) if held.get("mark") == mark else []

    def add_point(self, point: dict[str, Any]) -> None:
        with self._lock:
            others = [p for p in self.points() if p.get("hash") != point.get("hash")]
            mark = self.opened.mark if self.opened is not None else "none"
            self.now.keep("points", {"mark": mark, "of": [*others, point]})

    # -- jobs ---------------------------------------------------------------------------------------

    def start(self, kind: str, **options: Any) -> Job:
        session = self.now
        titles = {
            "run": "Running and attacking plan",
            "preview": "Previewing plan",
            "propose": "Looking for a first proposal",
            "search": "Looking for the best plan under your limits",
            "place": "Placing plans on the map",
            "fit": "Fitting the analysis to both files, plan",
            "release": "Writing the release of plan",
        }
        hashed = session.hash()[:8]
        title = titles[kind] if kind in ("propose", "search", "place") else f"{titles[kind]} {hashed}"
        options = {"for": self.audience, **options}
        if kind == "propose":
            options["data"] = session.plan.data_path
        task = Task(kind, session.text, str(session.path.parent), options)
        job = self.jobs.start(kind, title, task, self.key(), quick=kind in ("preview", "fit"))
        session.epoch += 1
        return job

    def _done(self, job: Job, value: Any) -> None:
        session = self.session
        if session is None:
            return
        task: Task = job.task
        if job.kind == "propose":
            mark = job.key.split(":")[0]
            session.put(f"{mark}:{session.hash(value['text'])}", "run", value["result"])
            session.keep("proposal", {"text": value["text"]})
            if session.history.now.name == ROLES:
                session.change(value["text"], PROPOSAL)
        elif job.kind == "preview":
            session.put(job.key, f"preview {task.options['column']}", value)
        elif job.kind == "search":
            session.keep("search", {**value, "from": task.text})
            self._search_point(value, task)
        elif job.kind != "place":
            session.put(job.key, job.kind, value)
        session.epoch += 1

    def _search_point(self, value: dict[str, Any], task: Task) -> None:
        text = with_steps(task.text, value["steps"], value["drop"])
        self.add_point(
            {
                **value["point"],
                "text": text,
                "hash": work_hash(text),
                "from": "search",
                "safe": value["safe"],
            }
        )

    def _found(self, job: Job, name: str, value: Any) -> None:
        if name == "point" and self.session is not None:
            self.add_point({**value, "hash": work_hash(value["text"]), "from": job.kind})

    # -- messages -----------------------------------------------------------------------------------

    def flash(self, **said: Any) -> str:
        """A message for the next page of whoever asked, by a number that goes through the address."""
        name = f"{time.monotonic_ns():x}"
        with self._lock:
            if len(self._flashes) > 50:
                self._flashes.clear()
            self._flashes[name] = said
        return name

    def flashed(self, name: str) -> dict[str, Any]:
        return self._flashes.get(name, {})

    def close(self) -> None:
        self.jobs.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _bare(data: str) -> str:
    from sfumato.plan.source import dump

    return dump({"format": 1, "data": data})
