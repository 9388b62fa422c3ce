"""What a person changes: every change is one request that edits the plan, and is in its history by name."""

from __future__ import annotations

from collections.abc import Callable

from sfumato.workbench.bench import Workbench
from sfumato.workbench.changes import columns, errands, limits, session, steps
from sfumato.workbench.changes.form import Done, Sent

HANDLERS: dict[str, Callable[[Workbench, Sent], Done]] = {
    "/open": session.open_file,
    "/again": session.read_again,
    "/history": session.history,
    "/plan/role": columns.role,
    "/plan/roles-checked": columns.roles_checked,
    "/plan/detail": columns.detail,
    "/plan/scenario": columns.scenario,
    "/plan/recode": columns.recode,
    "/plan/steps": steps.steps,
    "/plan/parameters": steps.parameters,
    "/plan/measures": limits.measures,
    "/plan/limits": limits.limits,
    "/plan/adopt": limits.adopt,
    "/jobs": errands.jobs,
    "/sign": errands.release,
}
"""Every address that may change something, with what it does."""
__all__ = ["HANDLERS", "Done", "Sent"]
