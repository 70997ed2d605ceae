"""What is here is quick: `make quick` runs this folder while one works."""

import sys

import pytest


@pytest.fixture(autouse=True)
def without_torch():
    """Fail a test that loads torch, which alone takes seconds; spaCy loads it too."""
    before = "torch" in sys.modules
    yield
    if "torch" in sys.modules and not before:
        pytest.fail("this test loads torch; tests of models stand in tests/local_models")
