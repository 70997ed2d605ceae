"""The code blocks of the pages, and a folder to run them in."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def code_blocks(page, language):
    """The code blocks of one language on one page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [code for found, code in FENCE.findall(text) if found == language]


def load_file(path):
    """Import a file under its own name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def blocks():
    return code_blocks


@pytest.fixture(scope="session")
def load():
    return load_file


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty working directory with a cache of its own; imports from it are undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        origin = getattr(sys.modules[name], "__file__", None) or ""
        if origin.startswith((str(tmp_path), str(ROOT / "examples"))):
            del sys.modules[name]
