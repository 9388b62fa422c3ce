"""Experiments: a plan over a grid of parameters and seeds, run on all cores, kept as it goes.

>>> import sfumato as sf
>>> experiment = sf.Experiment(plan, {"incomes.window_percent": [5, 10]}, replicates=20)  # doctest: +SKIP
>>> experiment.run(data, seed=1).frontier()  # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.contract.measure import Measure
from sfumato.data.microdata import Microdata, as_microdata
from sfumato.draws import Seed, as_seed
from sfumato.errors import ParameterError, SfumatoError, did_you_mean, suggesting
from sfumato.experiment.cache import Shared
from sfumato.experiment.pool import in_processes
from sfumato.plan.plan import Plan

if TYPE_CHECKING:
    from sfumato.experiment.outcome import Outcome

Progress = Callable[[str, float, int], None]
ROW: dict[str, Any] = {
    "plan": pl.String,
    "point": pl.String,
    "replicate": pl.Int64,
    "measure": pl.String,
    "figure": pl.String,
    "value": pl.Float64,
    "seconds": pl.Float64,
    "problem": pl.String,
}


@dataclass(frozen=True)
class Point:
    """One point of the grid: the parameters that vary, and the plan they make."""

    values: tuple[tuple[str, Any], ...]
    plan: Plan

    @property
    def label(self) -> str:
        return ", ".join(f"{name} = {_shown(value)}" for name, value in self.values) or "the plan"

    @property
    def address(self) -> str:
        """What seeds are derived from: the values alone, so another grid point changes nothing."""
        return json.dumps(dict(self.values), sort_keys=True, default=str)


@suggesting
class Experiment:
    """A plan run at every point of a grid, several times each.

    ``vary`` maps ``step.parameter`` (or ``parameter`` where one step has it) to a list of values.
    ``replicates`` runs of each point differ in their seed, which is derived from the experiment's
    seed, the point's values and the replicate's number: adding a point or a replicate changes no
    other. ``measures`` replaces the plan's own.

    :meth:`run` returns an :class:`~sfumato.experiment.outcome.Outcome`, whose ``frame`` has one row per
    point, replicate and figure. With ``folder`` every finished run is written there at once; the same
    experiment started again goes on where it stopped.
    """

    def __init__(
        self,
        plan: Plan,
        vary: Mapping[str, Sequence[Any]] | None = None,
        *,
        replicates: int = 1,
        measures: Sequence[Measure] = (),
    ) -> None:
        if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 1:
            raise ParameterError(f"`replicates` must be a whole number from 1 on, not {replicates!r}")
        self.plan = replace(plan, measures=tuple(measures), limits=()) if measures else plan
        if not self.plan.measures:
            # A plan that was read from a file is mended there; one made in Python takes an argument.
            hint = "add [[measure]] to the plan" if plan.source is not None else "pass measures=[…]"
            raise ParameterError("an experiment needs measures", hint=hint)
        self.replicates = replicates
        self.vary = {name: list(values) for name, values in (vary or {}).items()}
        for name, values in self.vary.items():
            if not values:
                raise ParameterError(f"`vary` gives no value for {name}")
            _place(self.plan, name)
        self.points = [self._point(values) for values in itertools.product(*self.vary.values())]

    def _point(self, values: Sequence[Any]) -> Point:
        plan = self.plan
        named = tuple(zip(self.vary, values, strict=True))
        for name, value in named:
            at, parameter = _place(plan, name)
            steps = list(plan.steps)
            try:
                steps[at] = replace(steps[at], **{parameter: value})
            except ParameterError as problem:
                raise ParameterError(f"{name} = {value!r}: {problem.message}", hint=problem.hint) from None
            plan = replace(plan, steps=tuple(steps), source=None)
        return Point(named, plan)

    def tasks(self) -> Iterator[tuple[Point, int]]:
        """Every run of the grid, replicates in the outer loop: a stopped experiment has all points."""
        return ((point, r) for r in range(self.replicates) for point in self.points)

    def run(
        self,
        data: Any = None,
        *,
        seed: Seed | int | None = 0,
        folder: str | Path | None = None,
        processes: int | None = None,
        progress: Progress | None = None,
        tasks: Sequence[tuple[Point, int]] | None = None,
    ) -> Outcome:
        """Run what isn't there yet, on all cores (or so many processes), and collect it all."""
        from sfumato.experiment.outcome import Outcome

        given = self.plan.data() if data is None else self.plan.with_schema_of(as_microdata(data))
        secret = as_seed(seed)
        wanted = list(self.tasks()) if tasks is None else list(tasks)
        with tempfile.TemporaryDirectory(prefix="sfumato-") as scratch:
            kept = Path(folder) if folder is not None else Path(scratch) / "runs"
            kept.mkdir(parents=True, exist_ok=True)
            mark = self._mark(given, secret)
            due = [(p, r) for p, r in wanted if not _stored(kept, mark, p, r).exists()]
            count = max(1, min(processes or os.cpu_count() or 1, len(due) or 1))
            if due and count > 1:
                self._in_processes(given, secret, kept, mark, due, count, Path(scratch), progress)
            else:
                say = progress or (lambda *_: None)
                shared = Shared(given)
                for done, (point, r) in enumerate(due):
                    say(point.label, done, len(due))
                    rows = _once(point, r, given, _seed_of(secret, point, r), shared)
                    _keep(_stored(kept, mark, point, r), rows)
            parts = [pl.read_parquet(_stored(kept, mark, p, r)) for p, r in wanted]
            frame = pl.concat(parts) if parts else pl.DataFrame(schema=ROW)
            outcome = Outcome(self.plan, frame, ran=len(due))
            if folder is not None:
                outcome.frame.write_parquet(kept / "experiment.parquet")
            return outcome

    def _mark(self, data: Microdata, secret: Seed) -> bytes:
        """What a stored run must have been made of: these measures, these data, this seed."""
        state = hashlib.blake2b(digest_size=16)
        state.update(secret.commitment(b"experiment 2").encode())
        state.update(
            json.dumps([m.to_dict() | {"": m.name} for m in self.plan.measures], default=str).encode()
        )
        state.update(str([*data._types.items(), len(data)]).encode())
        for column in data.columns:
            state.update(str(int(data.column(column).hash(0).sum())).encode())
        return state.digest()

    def _in_processes(
        self,
        data: Microdata,
        secret: Seed,
        kept: Path,
        mark: bytes,
        due: list[tuple[Point, int]],
        count: int,
        scratch: Path,
        progress: Progress | None,
    ) -> None:
        say = progress or (lambda *_: None)
        started = time.perf_counter()
        done = itertools.count(1)
        tasks = [
            _Task(point, r, _seed_of(secret, point, r)._secret, _stored(kept, mark, point, r))
            for point, r in due
        ]

        def finished(place: int) -> None:
            so_far = next(done)
            left = (time.perf_counter() - started) / so_far * (len(due) - so_far)
            say(f"{due[place][0].label} (about {left:.0f} s left)", so_far, len(due))

        in_processes(tasks, _run_and_keep, Shared, data, count, scratch, finished)


@dataclass(frozen=True)
class _Task:
    """A run for whichever process takes it: its seed, and where its figures are kept."""

    point: Point
    replicate: int
    secret: bytes = field(repr=False)
    path: Path


def _run_and_keep(task: _Task, data: Microdata, shared: Shared) -> None:
    _keep(task.path, _once(task.point, task.replicate, data, Seed(task.secret), shared))


def _once(point: Point, replicate: int, data: Microdata, seed: Seed, shared: Shared) -> pl.DataFrame:
    """One run: a row a figure, or one row with the problem where the run was refused."""
    import warnings

    from sfumato.run.run import carry_out

    begun = time.perf_counter()
    rows: list[tuple[str, str, float | None, str | None]] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            masked = carry_out(shared.plan(point.plan), data, seed, measure=False).masked
            for label, one in zip(point.plan.measure_ids(), point.plan.measures, strict=True):
                rows += [(label, name, v, None) for name, v in shared.figures(one, data, masked)]
    except SfumatoError as problem:
        rows = [("", "", None, problem.message)]
    seconds = time.perf_counter() - begun
    head = (point.plan.hash(), point.label, replicate)
    return pl.DataFrame([(*head, m, f, v, seconds, why) for m, f, v, why in rows], schema=ROW, orient="row")


def _seed_of(secret: Seed, point: Point, replicate: int) -> Seed:
    return secret.child(f"experiment {point.address} {replicate}")


def _stored(folder: Path, mark: bytes, point: Point, replicate: int) -> Path:
    state = hashlib.blake2b(mark + point.plan.hash().encode() + point.address.encode(), digest_size=12)
    return folder / f"run-{state.hexdigest()}-{replicate}.parquet"


def _keep(path: Path, rows: pl.DataFrame) -> None:
    """Whole or not at all: a killed experiment leaves no half-written run."""
    work = path.with_suffix(f".{os.getpid()}.part")
    rows.write_parquet(work)
    work.replace(path)


def _place(plan: Plan, name: str) -> tuple[int, str]:
    """Where ``step.parameter`` is: the step's place and the parameter."""
    step, _, parameter = name.rpartition(".")
    ids = plan.step_ids()
    if step and step not in ids:
        raise ParameterError(
            f"`vary` names the step {step!r}, which the plan doesn't have", hint=did_you_mean(step, ids)
        )
    found = [
        at for at, one in enumerate(plan.steps) if parameter in one.parameters() and step in ("", ids[at])
    ]
    if len(found) != 1:
        if len(found) > 1:
            choices = " or ".join(f"{ids[at]}.{parameter}" for at in found)
            raise ParameterError(
                f"`vary` names {parameter!r}, which several steps have", hint=f"write {choices}"
            )
        there = [
            f"{i}.{p}" for i, one in zip(ids, plan.steps, strict=True) for p in one.parameters() if p != "id"
        ]
        raise ParameterError(f"`vary` names {name!r}, which no step has", hint=did_you_mean(name, there))
    return found[0], parameter


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else f"{value}"
