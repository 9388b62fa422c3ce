"""What the tests of engines share: small blocks, so that small files have many."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 records on every engine; what is fitted in blocks is the same only for the same blocks."""
    monkeypatch.setattr("sfumato.data.microdata.BLOCK", 64)
    monkeypatch.setattr("sfumato.engines.streaming.BLOCK", 64)
