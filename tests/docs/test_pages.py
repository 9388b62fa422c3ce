"""Every page of the docs runs: its Python blocks in one namespace, its console blocks in a shell.

A page's ```python blocks are run top to bottom in one namespace, in an empty folder. Lines of its
```console blocks that start with "$ " are run in that folder too and must succeed; a line that ends
with "# exit 1" (or 2) must end with that code.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    p
    for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if "reproduce" not in p.relative_to(ROOT).parts
)
FENCE = re.compile(r"^```(python|console)\s*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, int]]:
    text = page.read_text(encoding="utf-8")
    return [(m.group(1), m.group(2), text[: m.start()].count("\n") + 2) for m in FENCE.finditer(text)]


RUNNABLE = [p for p in PAGES if blocks(p)]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scripts = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", scripts + os.pathsep + os.environ["PATH"])
    namespace: dict[str, object] = {"__name__": "page"}
    for language, code, line in blocks(page):
        if language == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("default")  # a page may show a warning on purpose
                exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)  # noqa: S102
        else:
            for command in code.replace("\\\n", " ").splitlines():
                if command.startswith("$ "):
                    run_command(command[2:])


def run_command(command: str) -> None:
    wanted = re.search(r"# exit (\d)\s*$", command)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    code = int(wanted.group(1)) if wanted else 0
    assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"


def test_there_are_pages_that_run() -> None:
    assert len(RUNNABLE) >= 3
