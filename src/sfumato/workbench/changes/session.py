"""Opening a file, reading it again, undo and redo."""

from __future__ import annotations

from sfumato.errors import ParameterError, PlanError
from sfumato.workbench.bench import Workbench
from sfumato.workbench.changes.form import Done, Sent


def open_file(bench: Workbench, form: Sent) -> Done:
    try:
        bench.open(str(form.get("path", "")))
    except PlanError as problem:
        first = problem.problems[0]
        return Done(
            "/data", error=f"The plan can't be opened: {first}", hint="`sfumato check` lists every mistake"
        )
    return Done("/data")


def read_again(bench: Workbench, form: Sent) -> Done:
    bench.open(str(bench.now.path))
    return Done("/data", toast="The file was read again.")


def history(bench: Workbench, form: Sent) -> Done:
    session, what = bench.now, form.get("do", "")
    seen = form.get("epoch")
    how = {"tab": form.get("tab", ""), "seen": int(seen) if seen and seen.isdigit() else None}
    if what == "undo":
        name = session.history.undo_name
        session.step(lambda h: h.undo(), **how)
        return Done(toast=f"Undone: {name}." if name else "")
    if what == "redo":
        name = session.history.redo_name
        session.step(lambda h: h.redo(), **how)
        return Done(toast=f"Done again: {name}." if name else "")
    to = form.number("to")
    if not 0 <= to < len(session.history.entries):
        raise ParameterError("There is no such plan in the history.")
    session.step(lambda h: h.go(to), **how)
    return Done(toast=f"The plan is as after: {session.history.now.name}.")
