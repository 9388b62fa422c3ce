"""Runs on all cores: this process works too, from its first second, and others join when they are up.

A new process needs seconds before it can run anything (imports, kernels from their cache). So of so many
processes one is this one, in a thread of its own; every process takes the next task from one counter,
keeps what it made itself, and says so. Nobody waits for anybody, and nothing passes through one hand.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import polars as pl

from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError

Work = Callable[[Any, Microdata, Any], None]
"""``work(task, data, state)``: do a task and keep its result; raises where it can't."""
State = Callable[[Microdata], Any]
"""What a process makes of the data once and keeps for all its tasks."""

READY, DONE, FAILED = "ready", "done", "failed"


class ProcessError(SfumatoError):
    """A process of an experiment that ended before its work was done."""


def in_processes(
    tasks: Sequence[Any],
    work: Work,
    state: State,
    data: Microdata,
    processes: int,
    scratch: Path,
    done: Callable[[int], None],
) -> None:
    """Do every task once, on ``processes`` processes of one thread each, this one among them.

    ``done(place)`` is called here, in the caller's thread, for each task that is finished. The first
    failure ends all: other processes are stopped, and what they finished stays kept. A task that failed
    elsewhere is tried here, so that its error comes with its own traceback.
    """
    pool = _Pool(tasks, work, state, data, processes - 1, scratch)
    with _one_thread_each():
        pool.start()
        try:
            pool.follow(done)
        finally:
            pool.stop()


class _Pool:
    def __init__(
        self,
        tasks: Sequence[Any],
        work: Work,
        state: State,
        data: Microdata,
        others: int,
        scratch: Path,
    ) -> None:
        self.tasks, self.work, self.state, self.data = list(tasks), work, state, data
        self.context = multiprocessing.get_context("spawn")
        self.next = self.context.Value("q", 0)
        self.path = scratch / "data.arrow"
        self.others = others
        self.processes: dict[Connection, Any] = {}
        self.started: set[Connection] = set()
        self.here: SimpleQueue[tuple[str, int, BaseException | None]] = SimpleQueue()
        # A byte through this pipe wakes the caller when a task was finished in this process.
        self.bell, self.ring = self.context.Pipe(duplex=False)
        self.stopped = threading.Event()

    def start(self) -> None:
        self.path.touch(mode=0o600)
        self.data.frame.write_ipc(self.path)
        schema = self.data.schema.to_dict()
        for _ in range(self.others):
            ours, theirs = self.context.Pipe(duplex=False)
            arguments = (str(self.path), schema, self.tasks, self.work, self.state, self.next, theirs)
            process = self.context.Process(target=_other, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self.processes[ours] = process
        # A daemon: after Ctrl-C the program must be able to end while a kernel still runs.
        threading.Thread(target=self._work_here, daemon=True).start()

    def _work_here(self) -> None:
        place, failure = -1, None
        try:
            state = self.state(self.data)
            while not self.stopped.is_set() and (place := _take(self.next, len(self.tasks))) >= 0:
                self.work(self.tasks[place], self.data, state)
                self._say(DONE, place, None)
        except BaseException as problem:
            failure = problem
        self._say(READY if failure is None else FAILED, place, failure)

    def _say(self, word: str, place: int, failure: BaseException | None) -> None:
        self.here.put((word, place, failure))
        with contextlib.suppress(OSError):
            self.ring.send_bytes(b".")

    def follow(self, done: Callable[[int], None]) -> None:
        working = True
        while working or self.processes:
            for source in wait([*self.processes, *([self.bell] if working else [])]):
                if source is self.bell:
                    self.bell.recv_bytes()
                    working = self._heard_here(done)
                else:
                    assert isinstance(source, Connection)
                    self._heard(source, done)

    def _heard_here(self, done: Callable[[int], None]) -> bool:
        with contextlib.suppress(Empty):
            word, place, failure = self.here.get_nowait()
            if failure is not None:
                raise failure
            if word == DONE:
                done(place)
            return word == DONE
        return True

    def _heard(self, source: Connection, done: Callable[[int], None]) -> None:
        try:
            word, place = source.recv()
        except EOFError:
            process = self.processes.pop(source)
            process.join()
            if process.exitcode:
                raise _ended(process.exitcode, source in self.started) from None
            return
        if word == READY:
            self.started.add(source)
            if len(self.started) == self.others:
                # All have it mapped: a kill from now on leaves no copy of the data on the disk.
                with contextlib.suppress(OSError):
                    self.path.unlink()
        elif word == DONE:
            done(place)
        else:
            self.stop()
            self.work(self.tasks[place], self.data, self.state(self.data))
            raise ProcessError(
                "a run failed in another process, but not in this one; finished runs are kept in its folder",
                hint="start it again with one process",
            )

    def stop(self) -> None:
        """End the other processes: at once where they still work (what they keep is whole or not there)."""
        self.stopped.set()
        lock = self.next.get_lock()
        if lock.acquire(timeout=1):  # a process that was killed may have died with it
            self.next.value = len(self.tasks)
            lock.release()
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.join()
        self.processes.clear()


def _other(
    path: str,
    schema: Mapping[str, Any],
    tasks: Sequence[Any],
    work: Work,
    state: State,
    counter: Any,
    parent: Connection,
) -> None:
    """What another process does: read the data, take tasks until there are none, say what is done."""
    # Ctrl-C reaches every process of the terminal; the one that started us decides what happens.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    data = Microdata(pl.read_ipc(path), schema)
    parent.send((READY, -1))
    place = -1
    try:
        kept = state(data)
        while (place := _take(counter, len(tasks))) >= 0:
            work(tasks[place], data, kept)
            parent.send((DONE, place))
    except Exception:
        # Its traceback may quote data, and nobody could place it: the parent tries the task itself.
        parent.send((FAILED, max(place, 0)))


def _end_with_parent() -> None:
    """End at once when the process that started this one is gone (killed, say)."""
    starter = multiprocessing.parent_process()
    assert starter is not None

    def watch() -> None:
        starter.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _take(counter: Any, count: int) -> int:
    """The next task's place, or −1 where none is left."""
    with counter.get_lock():
        place = int(counter.value)
        if place >= count:
            return -1
        counter.value = place + 1
        return place


def _ended(code: int, started: bool) -> ProcessError:
    how = f"exit code {code}"
    with contextlib.suppress(ValueError):
        how = signal.Signals(-code).name if code < 0 else how
    if code > 0 and not started:
        return ProcessError(
            f"a process of the experiment couldn't start ({how})",
            hint='a script that runs experiments needs `if __name__ == "__main__":`, or set processes to 1',
        )
    return ProcessError(
        f"a process of the experiment was ended from outside ({how}); finished runs are kept in its folder",
        hint="the memory may be too small for so many processes: start it again with fewer",
    )


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started meanwhile use one thread in every library (these are read when it is loaded), and
    so do the masks and measures of this one."""
    names = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    words = [*(f"{n}_NUM_THREADS" for n in names), "POLARS_MAX_THREADS", "SFUMATO_THREADS"]
    before = {w: os.environ.get(w) for w in words}
    os.environ.update(dict.fromkeys(words, "1"))
    try:
        yield
    finally:
        for word, value in before.items():
            if value is None:
                os.environ.pop(word, None)
            else:
                os.environ[word] = value
