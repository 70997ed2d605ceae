"""Every command, file and block of code on the pages is read as medstress reads it.

Tests beside this one run what is quick.
"""

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def snippets():
    spec = importlib.util.spec_from_file_location("snippets", ROOT / "scripts" / "snippets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["snippets"] = module
    spec.loader.exec_module(module)
    return module


def test_every_command_on_the_pages_is_one(snippets):
    found = list(snippets.commands())
    assert len(found) > 50
    assert [fault for each in found if (fault := snippets.fault_of_command(each))] == []


def test_every_file_and_block_of_code_on_the_pages_can_be_read(snippets):
    found = list(snippets.blocks())
    kinds = Counter(each.language for each in found)
    assert min(kinds["toml"], kinds["python"], kinds["json"]) > 1
    assert [fault for each in found if (fault := snippets.fault_of_block(each))] == []
