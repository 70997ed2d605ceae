"""Payloads, and pages that hold nothing but them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"fuzz_{name}", Path(__file__).with_name(f"{name}.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def payloads():
    found: tuple[str, ...] = _load("payloads").PAYLOADS
    return found


@pytest.fixture(scope="session")
def pages():
    return _load("pages")


@pytest.fixture(scope="session")
def mutate():
    return _load("mutate")
