"""Long work in other processes: progress, stop, and a crash that shows its reason and harms nothing else.

There are two lanes of one process each, one for what takes a moment (a preview) and one for what takes long.
A process stays for the next job, so that its imports and its data are there already. A new job of a kind
takes the place of an older one of that kind. What a job finds is handed to ``done`` with the key of the plan
that it was started for: an old answer can be filed, never shown for a newer plan.
"""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Literal

State = Literal["waiting", "running", "done", "failed", "stopped"]
Work = Callable[[Any, Callable[[str, float, int], None], Callable[[str, Any], None]], Any]
"""``work(task, tell, find)``: the result, with progress told and findings on the way handed out."""


@dataclass
class Job:
    """One piece of work, and where it stands."""

    number: int
    kind: str
    title: str
    task: Any = field(repr=False)
    key: str
    """Of which data and plan."""
    state: State = "waiting"
    what: str = "waiting"
    part: int = 0
    parts: int = 0
    started: float = 0.0
    ended: float = 0.0
    problem: str = ""
    hint: str = ""

    @property
    def active(self) -> bool:
        return self.state in ("waiting", "running")

    @property
    def seconds(self) -> float:
        end = self.ended or time.monotonic()
        return end - self.started if self.started else 0.0


class Lane:
    """One process and the jobs that wait for it."""

    def __init__(
        self, work: Work, done: Callable[[Job, Any], None], found: Callable[[Job, str, Any], None]
    ) -> None:
        self.work, self.done, self.found = work, done, found
        self.waiting: list[Job] = []
        self.current: Job | None = None
        self.process: Any = None
        self.pipe: Connection | None = None
        self.wake = threading.Condition()
        self.closed = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def add(self, job: Job) -> None:
        with self.wake:
            for other in [j for j in self.waiting if j.kind == job.kind]:
                self.waiting.remove(other)
                other.state, other.what = "stopped", "a newer one took its place"
            if self.current is not None and self.current.kind == job.kind:
                self._end(self.current, "a newer one took its place")
            self.waiting.append(job)
            self.wake.notify_all()

    def stop(self, job: Job) -> None:
        with self.wake:
            if job in self.waiting:
                self.waiting.remove(job)
                job.state, job.what = "stopped", "stopped by you"
            elif job is self.current:
                self._end(job, "stopped by you")

    def _end(self, job: Job, why: str) -> None:
        job.state, job.what, job.ended = "stopped", why, time.monotonic()
        self._kill()

    def close(self) -> None:
        with self.wake:
            self.closed = True
            self._kill()
            self.wake.notify_all()

    def _kill(self) -> None:
        if self.process is not None and self.process.is_alive():
            self.process.kill()

    def _serve(self) -> None:
        while True:
            with self.wake:
                while not self.waiting and not self.closed:
                    self.wake.wait()
                if self.closed:
                    return
                job = self.waiting.pop(0)
                self.current = job
                job.state, job.what, job.started = "running", "starting", time.monotonic()
            self._run(job)
            with self.wake:
                self.current = None

    def _run(self, job: Job) -> None:
        try:
            pipe = self._ready()
            pipe.send(job.task)
            while True:
                kind, content = pipe.recv()
                if job.state != "running":
                    break
                if kind == "tell":
                    job.what, job.part, job.parts = content
                elif kind == "find":
                    self.found(job, *content)
                elif kind == "done":
                    job.ended = time.monotonic()
                    self.done(job, content)
                    job.state, job.what = "done", "done"
                    return
                else:
                    job.problem, job.hint = content
                    job.state, job.what, job.ended = "failed", "failed", time.monotonic()
                    return
        except (EOFError, OSError):
            pass
        self._lost(job)

    def _lost(self, job: Job) -> None:
        """The process is gone: stopped by us, or ended by something else."""
        process, self.process = self.process, None
        if self.pipe is not None:
            self.pipe.close()
        self.pipe = None
        code = None
        if process is not None:
            process.kill()
            process.join(5)
            code = process.exitcode
        if job.state == "running":
            job.problem = f"its process ended ({_why(code)}); nothing of the plan was lost"
            job.state, job.what, job.ended = "failed", "failed", time.monotonic()

    def _ready(self) -> Connection:
        if self.process is not None and self.process.is_alive() and self.pipe is not None:
            return self.pipe
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self.process = context.Process(target=_worker, args=(theirs, self.work), daemon=False)
        self.process.start()
        theirs.close()
        self.pipe = ours
        return ours


def _why(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return f"signal {-code}, {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"


def _worker(pipe: Connection, work: Work) -> None:
    """The loop of a process: take a task, tell how far it is, send what it found."""
    from sfumato.errors import SfumatoError
    from sfumato.workbench.errors import defect

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server is told; it ends us
    told = 0.0

    def tell(what: str, part: float, parts: int) -> None:
        nonlocal told
        if time.monotonic() - told > 0.1:
            told = time.monotonic()
            pipe.send(("tell", (what, part, parts)))

    def find(name: str, value: Any) -> None:
        pipe.send(("find", (name, value)))

    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = ("done", work(task, tell, find))
        except SfumatoError as problem:
            answer = ("failed", (problem.message, problem.hint or ""))
        except MemoryError:
            answer = ("failed", ("the memory isn't enough for this", ""))
        except Exception as problem:
            answer = ("failed", (defect(problem), ""))
        try:
            pipe.send(answer)
        except (OSError, ValueError):
            return


class Jobs:
    """All jobs of a session, newest last."""

    def __init__(
        self, work: Work, done: Callable[[Job, Any], None], found: Callable[[Job, str, Any], None]
    ) -> None:
        self.work, self._done, self._found = work, done, found
        self.lanes: dict[str, Lane] = {}
        self.all: list[Job] = []
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def start(self, kind: str, title: str, task: Any, key: str, *, quick: bool = False) -> Job:
        with self._lock:
            name = "quick" if quick else "long"
            if name not in self.lanes:
                self.lanes[name] = Lane(self.work, self._done, self._found)
            job = Job(next(self._numbers), kind, title, task, key)
            self.all = [*self.all[-50:], job]
        self.lanes[name].add(job)
        return job

    def stop(self, number: int) -> None:
        for job in self.all:
            if job.number == number:
                for lane in self.lanes.values():
                    lane.stop(job)

    def active(self, kind: str | None = None) -> list[Job]:
        return [j for j in self.all if j.active and kind in (None, j.kind)]

    def last(self, kind: str, key: str | None = None) -> Job | None:
        found = [j for j in self.all if j.kind == kind and key in (None, j.key)]
        return found[-1] if found else None

    def close(self) -> None:
        for lane in self.lanes.values():
            lane.close()
