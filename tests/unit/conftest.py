"""What stands here is quick: `make quick` runs this folder while one works."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def without_torch() -> Iterator[None]:
    """Fail a test that loads torch, which alone takes seconds; spaCy loads it too."""
    before = "torch" in sys.modules
    yield
    if "torch" in sys.modules and not before:
        pytest.fail("this test loads torch; tests of models stand in tests/local_models")
