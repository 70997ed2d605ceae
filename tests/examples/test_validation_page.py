"""The page of independent checks names tests that exist and every number of a summary."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import LEDGER_FIELDS
from medstress.metrics.attempts import attempt_fields
from medstress.metrics.sentences.correlations import COEFFICIENTS
from medstress.metrics.sentences.entity_scores import MATCHES, MEASURES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "validation.md").read_text("utf-8")
CITED = sorted(set(re.findall(r"(tests/[\w/]+\.py)::(\w+)", PAGE)))


def test_every_command_of_the_page_names_a_test_that_exists() -> None:
    assert len(CITED) > 100
    for file in {file for file, _ in CITED}:
        text = (ROOT / file).read_text("utf-8")
        defined = set(re.findall(r"^(?:async )?def (test_\w+)\(", text, re.MULTILINE))
        missing = {name for cited, name in CITED if cited == file} - defined
        assert not missing, f"{file}: {missing}"


def test_every_row_of_the_tables_of_checks_has_a_command() -> None:
    checks, _, _ = PAGE.partition("## Not checked independently yet")
    rows = [line for line in checks.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith(("| number |", "| --- |"))]
    assert len(rows) > 50
    for row in rows:
        assert re.search(r"\| `pytest( tests/[\w/]+\.py::test_\w+)+` \|$", row), row


@pytest.fixture
def summary(workplace: Path) -> dict[str, Any]:
    """That of a real run, a small one."""
    experiment = {
        "experiment": {"name": "x", "seeds": [0, 1]},
        "dataset": {"name": "sample", "limit": 8},
        "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
        "victim": {"backend": "mock"},
        "attack": {"name": "entity_substitution", "sampler": "random", "budget": 2},
    }
    return ms.run(experiment, out=workplace / "run").summary()


def unmentioned(names: Any) -> list[str]:
    return [name for name in names if f"`{name}`" not in PAGE]


def test_every_field_of_a_summary_is_on_the_page(summary: dict[str, Any]) -> None:
    row, control = summary["pooled"]
    assert unmentioned({**row, **control}) == []
    assert unmentioned(LEDGER_FIELDS) == []
    assert unmentioned(summary["performance"]) == []
    assert unmentioned(summary["analysis"]) == []
    assert unmentioned(["slices", "tests", "requirements"]) == []


def test_every_field_of_medfuzz_is_on_the_page() -> None:
    values: dict[str, Any] = dict.fromkeys(field.name for field in fields(TrialRow))
    spec = {"name": "medfuzz", "attempts": 1, "gate_mode": "mark", "gates": []}
    spec |= {"goal": "untargeted", "unreadable_is_success": False}
    values |= {"item_id": "q", "verdict": Verdict.HELD, "attack_spec": json.dumps(spec)}
    found = attempt_fields([TrialRow(**values)])
    assert len(found) >= 10
    assert unmentioned(found) == []


def test_every_measure_of_texts_and_pairs_is_on_the_page() -> None:
    entities = [f"{name}{ending}" for name in MEASURES for ending in MATCHES.values()]
    pairs = [f"{name}{ending}" for name in COEFFICIENTS for ending in ("", "_after", "_drop")]
    assert unmentioned([*entities, "f1_net_drop", "by_type", *pairs]) == []
