"""Functions carried out by Spark's executors: sent, awaited with word of how far they are, cancelled if left.

What a function raises is sent back as it is, and raised where the plan is run: a step that refuses its data
says the same on every engine. A disk or a memory that fails may do better elsewhere: that is left to Spark,
which tries again. So does a machine that is lost; what a function makes is addressed by place and the same
whoever makes it, and however often.
"""

from __future__ import annotations

import io
import itertools
import pickle
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import polars as pl

from sfumato.contract.engine import Finish, Pieces
from sfumato.errors import EngineError

T = TypeVar("T")
Tell = Callable[[float], None]
_NUMBERS = itertools.count()
_STOPPED: Final = 60.0
"""Seconds in which tasks that are cancelled must have ended."""


def in_executors(context: Any, function: Callable[[Any], T], items: Sequence[Any], tell: Tell) -> list[T]:
    """``[function(i) for i in items]``, one task each."""
    if not items:
        return []
    tasks = context.parallelize(items, len(items)).mapPartitions(Task(function))
    return unpacked(awaited(context, tasks.collect, tell))


def through_a_shuffle(
    context: Any, pieces: Pieces, items: Sequence[Any], parts: int, finish: Finish[T], tell: Tell
) -> list[T]:
    """Pieces of every item by Spark's own shuffle to their parts, and what ``finish`` makes of each part."""
    sent = context.parallelize(items, len(items)).flatMap(_Sent(pieces)).partitionBy(parts, int)
    return unpacked(awaited(context, sent.mapPartitionsWithIndex(_Finished(finish)).collect, tell))


@dataclass(frozen=True)
class _Sent:
    """Pieces of a file as bytes, which Spark moves without looking into them."""

    pieces: Pieces

    def __call__(self, item: Any) -> list[tuple[int, Any]]:
        out = []
        ((fine, made),) = Task(lambda i: list(self.pieces(i)))([item])
        if not fine:
            return [(0, made)]
        for number, frame in made:
            content = io.BytesIO()
            frame.write_ipc_stream(content, compat_level=pl.CompatLevel.oldest())
            out.append((number, content.getvalue()))
        return out


@dataclass(frozen=True)
class _Finished:
    """What is made of the pieces of one part."""

    finish: Finish[Any]

    def __call__(self, number: int, sent: Iterable[tuple[int, Any]]) -> Iterator[tuple[bool, Any]]:
        pieces = []
        for _, content in sent:
            if isinstance(content, Exception):
                yield False, content
                return
            pieces.append(pl.read_ipc_stream(content))
        yield from Task(lambda k: self.finish(k, pieces))([number])


@dataclass(frozen=True)
class Task:
    """A function on some items: (True, what it gives) or (False, what it raises) of each."""

    function: Callable[[Any], Any]

    def __call__(self, items: Iterable[Any]) -> Iterator[tuple[bool, Any]]:
        for item in items:
            try:
                yield True, self.function(item)
            except (OSError, MemoryError):
                raise
            except Exception as problem:
                yield False, _as_sent(problem)


def unpacked(results: Iterable[tuple[bool, T]]) -> list[T]:
    """What tasks gave; the first thing that one of them raised is raised here."""
    out = []
    for fine, value in results:
        if not fine:
            assert isinstance(value, Exception)
            raise value
        out.append(value)
    return out


def _as_sent(problem: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(problem))
    except Exception:
        return RuntimeError(f"{type(problem).__name__}: {problem}")
    return problem


def awaited(context: Any, job: Callable[[], list[Any]], tell: Tell) -> list[Any]:
    """What a job gives. Whoever leaves before its end (Ctrl-C) leaves no task at work behind."""
    group, out = f"sfumato {next(_NUMBERS)}", list[Any]()

    def work() -> None:
        context.setJobGroup(group, "sfumato", True)
        try:
            out.append(job())
        except Exception as problem:
            out.append(problem)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(0.1)
            tell(_share_done(context, group))
    except BaseException:
        context.cancelJobGroup(group)
        worker.join(_STOPPED)
        _wait_until_idle(context, group)
        raise
    if isinstance(out[0], Exception):
        raise explained(out[0]) from None
    result: list[Any] = out[0]
    return result


def _wait_until_idle(context: Any, group: str) -> None:
    """A job that is cancelled counts as under way until its end is known."""
    tracker, since = context.statusTracker(), time.monotonic()
    while time.monotonic() - since < _STOPPED:
        if not set(tracker.getJobIdsForGroup(group)) & set(tracker.getActiveJobsIds()):
            return
        time.sleep(0.1)


def _share_done(context: Any, group: str) -> float:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(j) for j in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(s) for job in jobs if job is not None for s in job.stageIds]
    known = [s for s in stages if s is not None]
    return float(sum(s.numCompletedTasks for s in known) / max(sum(s.numTasks for s in known), 1))


# -- what Spark says when it gives up -------------------------------------------------------------

_CAUSES: Final = (
    (r"No module named '(\w+)'", "the executors' Python has no {0}",
     "install the same sfumato on every machine; PYSPARK_PYTHON names the Python that they use"),
    (r"PYTHON_VERSION_MISMATCH", "the executors have another Python than this one",
     "let PYSPARK_PYTHON name the same Python on every machine"),
    (r"ConnectionRefusedError|TimeoutError|No route to host", "executors can't reach the driver",
     "spark.driver.host must be an address of this machine that the executors' machines reach"),
    (r"No space left on device", "a disk of the cluster is full",
     "free some space, or name another --scratch"),
    (r"(?:FileNotFoundError|No such file or directory)", "an executor doesn't see a file of this run",
     "data, --scratch and --out must stand on a disk that all machines share"),
    (r"Permission ?[Dd]enied", "an executor may not read or write a file of this run",
     "executors must run as the user who starts the run"),
    (r"MemoryError|exited unexpectedly|crashed|ExecutorLostFailure|exit code 137|OutOfMemory",
     "executors were lost again and again at the same work",
     "they may need more memory: `sfumato check PLAN --engine spark` says what each step gathers"),
)  # fmt: skip


def explained(problem: Exception) -> EngineError:
    """Spark's own error as a sentence. Of what a task said, no more than the kind of its error: the rest
    may hold values of the file."""
    text = str(problem)
    for pattern, what, hint in _CAUSES:
        found = re.search(pattern, text)
        if found:
            return EngineError(what.format(*found.groups()), hint=hint)
    kinds = re.findall(r"^(?:\w+\.)*(\w*(?:Error|Exception|Cancelled))\b", text, re.MULTILINE)
    named = f" ({kinds[-1]})" if kinds else ""
    return EngineError(f"Spark gave up{named}; nothing was released", hint="the executors' own logs say more")
