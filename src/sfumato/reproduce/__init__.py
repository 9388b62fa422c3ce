"""The papers' tables and examples, rerun beside what was printed."""

from __future__ import annotations

import importlib
import time
from types import ModuleType

from sfumato.reproduce.framework import Context, Paper

PAPERS: dict[str, str] = {
    "moore-swapping": "moore_swapping",
    "moore-edit": "moore_edit",
    "yancey": "yancey",
    "kim-winkler": "kim_winkler",
    "oganian": "oganian",
}
"""The name of a paper on the command line and of its page → its module."""


def module_of(key: str) -> ModuleType:
    return importlib.import_module(f"sfumato.reproduce.{PAPERS[key]}")


def rerun(key: str, context: Context) -> Paper:
    """Rerun every table of a paper."""
    module = module_of(key)
    start = time.perf_counter()
    tables = []
    for make in module.TABLES:
        context.tell(f"{key}: {make.__doc__.splitlines()[0].rstrip('.')}")
        made = make(context)
        tables += made if isinstance(made, list) else [made]
    seconds = time.perf_counter() - start
    return Paper(
        key, module.TITLE, module.REFERENCE, module.ABOUT, tables, context.seeds, context.quick, seconds
    )
