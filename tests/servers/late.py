"""Libraries that take seconds to import, and are imported where a test first uses them.

All workers collect all tests, and most workers run none that needs one of these.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class Late:
    """A module; where it is not installed, the test that uses it is skipped."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_", "pytest")):  # pytest asks what it collects whether it is a fixture
            raise AttributeError(name)
        if find_spec(self._name) is None:
            pytest.skip(f"needs {self._name}")
        return getattr(import_module(self._name), name)


torch: Any = Late("torch")
transformers: Any = Late("transformers")
spacy: Any = Late("spacy")


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip where a package is not installed, without importing it."""
    missing = [name for name in names if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")
