"""What all tests share: where the reference data are, and how tests behave."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "sfumato", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sfumato"))

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder of real reference files beside the project; never skipped in CI."""
    if not SHARED.is_dir():
        if os.environ.get("CI"):
            pytest.fail("the reference data must be at ../shared/data in CI")
        pytest.skip("the reference data aren't at ../shared/data")
    return SHARED
