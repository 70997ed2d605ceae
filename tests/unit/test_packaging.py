"""What the wheel holds, and how its extras are called."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import medstress.testing

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORDS = (
    r"(?:'|extra:? )medstress\\?\[([a-z_,-]+)\\?\]",
    r"; extra: (?!medstress)([\w-]+)",
    r"missing_extra\([^)]*, \"(\S+)\"\)",
)
"""How sentences, pages and code name extras."""


def test_every_extra_that_is_named_is_one_and_needs_no_normalising() -> None:
    extras = set(PROJECT["project"]["optional-dependencies"])
    assert all(re.fullmatch("[a-z0-9-]+", extra) for extra in extras)
    texts = [
        path
        for folder in ("src", "docs", "tests", "scripts")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".txt") and path != Path(__file__)
    ]
    named = {
        extra.strip()
        for path in (*texts, ROOT / "README.md", ROOT / "Makefile", ROOT / "CHANGELOG.md")
        for found in re.findall("|".join(WORDS), path.read_text("utf-8"))
        for extra in "".join(found).split(",")
    }
    assert {"llama-cpp", "transformers", "openai"} <= named
    assert named - extras == set()


def test_servers_for_tests_are_no_part_of_the_package() -> None:
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/medstress"]}
    for name in ("fault_server", "conversation_server", "thinking"):
        assert find_spec(f"medstress.testing.{name}") is None
        assert find_spec(name) is not None  # on the path of tests alone
    assert not any("Server" in name for name in medstress.testing.__all__)
