"""The papers' tables and examples, rerun beside what was printed."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from papers.framework import Context, Paper

PAPERS: dict[str, str] = {
    "moore-swapping": "moore_swapping",
    "moore-edit": "moore_edit",
    "yancey": "yancey",
    "kim-winkler": "kim_winkler",
    "oganian": "oganian",
}
"""The name of a paper on the command line and of its page → its module."""

LONGEST_FIRST = ("yancey", "moore-swapping", "oganian", "moore-edit", "kim-winkler")


def module_of(key: str) -> ModuleType:
    return importlib.import_module(f"papers.{PAPERS[key]}")


def rerun(key: str, context: Context) -> Paper:
    """Rerun every table of a paper."""
    module = module_of(key)
    start = time.perf_counter()
    tables = []
    log = logging.getLogger("sfumato")
    level = log.level
    log.setLevel(logging.ERROR)  # cautions about the masks, which are the papers' choice
    try:
        for make in module.TABLES:
            context.tell(f"{key}: {make.__doc__.splitlines()[0].rstrip('.')}")
            made = make(context)
            tables += made if isinstance(made, list) else [made]
    finally:
        log.setLevel(level)
    seconds = time.perf_counter() - start
    return Paper(
        key, module.TITLE, module.REFERENCE, module.ABOUT, tables, context.seeds, context.quick, seconds
    )


def rerun_all(
    keys: Sequence[str],
    *,
    seeds: int,
    quick: bool,
    data: Path | None,
    tell: Callable[[str], None],
    jobs: int = 1,
) -> list[Paper]:
    """Rerun several papers, ``jobs`` at once in processes of their own; the figures don't depend on it.

    ``tell`` must be a function of a module, so that a process can be given it.
    """
    if jobs == 1 or len(keys) == 1:
        # A paper has a memo of its own in either case, so that nothing hangs on what ran before.
        return [_rerun(key, seeds, quick, data, tell) for key in keys]
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # Forked processes would share the threads of the libraries in a state that can hang: start afresh.
    with ProcessPoolExecutor(min(jobs, len(keys)), mp_context=get_context("spawn")) as pool:
        running = {
            key: pool.submit(_rerun, key, seeds, quick, data, tell) for key in LONGEST_FIRST if key in keys
        }
        return [running[key].result() for key in keys]


def _rerun(key: str, seeds: int, quick: bool, data: Path | None, tell: Callable[[str], None]) -> Paper:
    return rerun(key, Context(seeds=seeds, quick=quick, data=data, tell=tell))
