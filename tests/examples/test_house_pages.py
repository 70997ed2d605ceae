"""Pages about the code say what the code says."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

from medstress.core.outcomes import Verdict

ROOT = Path(__file__).resolve().parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
CONCEPTS = (ROOT / "docs" / "concepts.md").read_text("utf-8")


def test_the_layers_of_the_page_are_those_that_are_checked() -> None:
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter", encoding="utf-8")
    layers = rules["importlinter:contract:layers"]["layers"].split("\n")
    block = next(each for each in CONTRIBUTING.split("```") if each.startswith("\n__main__"))
    assert block.strip().splitlines() == [line.strip() for line in layers if line.strip()]


def test_modules_are_as_short_as_the_page_says() -> None:
    most = int(re.search(r"Modules of at most (\d+) lines", CONTRIBUTING)[1])  # type: ignore[index]
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in (ROOT / "src").rglob("*.py")
    }
    assert {name: n for name, n in lengths.items() if n > most} == {}


def test_the_concepts_have_a_line_for_each_verdict_and_reserve_none() -> None:
    named = re.findall(r"^\| `(\w+)` \|", CONCEPTS.split("## The ledger")[0], re.MULTILINE)
    assert sorted(named) == sorted(verdict.value for verdict in Verdict)
    assert "reserved" not in CONCEPTS
