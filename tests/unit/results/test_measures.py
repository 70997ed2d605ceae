"""Every measure is defined once, and every number that a table shows has a definition."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import medstress as ms
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.validity import VARIANT_CLASSES
from medstress.metrics.attempts import attempt_fields
from medstress.metrics.old_stats.estimates import is_estimate
from medstress.metrics.sentences.correlations import COEFFICIENTS
from medstress.metrics.sentences.entity_scores import MATCHES, MEASURES
from medstress.metrics.summary import LEDGER_FIELDS
from medstress.report.overview import glossary
from medstress.results.measures import GROUPS, VARIANTS, is_defined, measure
from medstress.results.table import Format

ALL = [each for group in GROUPS.values() for each in group]


def estimates(row: Mapping[str, Any]) -> Iterator[str]:
    return (name for name, value in row.items() if is_estimate(value))


def test_names_and_labels_of_a_group_are_unique_and_every_meaning_is_a_sentence() -> None:
    names = [each.name for each in ALL]
    assert len(names) == len(set(names))
    for group in GROUPS.values():
        labels = [each.label for each in group]
        assert len(labels) == len(set(labels))
    for each in ALL:
        assert each.label[0].isupper() or each.label[0] == "p"
        assert each.meaning
        assert not each.meaning.endswith(".")


def test_every_estimate_and_count_of_a_summary_is_defined(tmp_path: Path) -> None:
    experiment = {
        "experiment": {"name": "x", "seeds": [0, 1]},
        "dataset": {"name": "sample", "limit": 8},
        "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
        "victim": {"backend": "mock"},
        "attack": {"name": "entity_substitution", "sampler": "random", "budget": 2},
    }
    row, control = ms.run(experiment, out=tmp_path / "run").summary()["pooled"]
    by_control = [
        name
        for name, value in row.items()
        if isinstance(value, dict) and is_estimate(value.get("no_op"))
    ]
    assert {"control", "asr_net"} <= set(by_control)
    assert [n for n in [*by_control, *estimates(control)] if not is_defined(n)] == []
    counts = [name for name in row if name.startswith("n_")]
    nested = [f"queries.{name}" for name in LEDGER_FIELDS]
    found = [*estimates(row), *counts, *nested, "chance", "asr_valid"]
    assert len(found) > 30
    assert [name for name in found if not is_defined(name)] == []
    assert tuple(each.name for each in VARIANTS) == VARIANT_CLASSES


def test_scores_of_entities_pairs_and_attempts_are_defined() -> None:
    endings = ("", "_after", "_drop")
    tagged = [f"{name}{match}" for name in MEASURES for match in MATCHES.values()]
    scores = [f"{name}{ending}" for name in (*tagged, *COEFFICIENTS) for ending in endings]
    assert [name for name in scores if not is_defined(name)] == []
    assert {measure(name).format for name in scores} == {Format.SCORE}
    values: dict[str, Any] = dict.fromkeys(field.name for field in fields(TrialRow))
    spec = {"name": "medfuzz", "attempts": 1, "gate_mode": "mark", "gates": []}
    spec |= {"goal": "untargeted", "unreadable_is_success": False}
    values |= {"item_id": "q", "verdict": Verdict.HELD, "attack_spec": json.dumps(spec)}
    found = attempt_fields([TrialRow(**values)])
    assert [name for name in estimates(found) if not is_defined(name)] == []
    assert [name for name in found["attempts"] if not is_defined(f"attempts.{name}")] == []


def test_a_measure_reads_a_field_and_a_field_inside_another() -> None:
    row = {"queries": {"asked": 8}, "asr": {"value": 0.25, "n": 8, "low": 0.1, "high": 0.5}}
    assert measure("queries.asked").read(row) == 8
    assert measure("queries.paid").read(row) is None
    assert measure("queries_to_success.median").read(row) is None
    asr = measure("asr").read(row)
    assert (asr.hits, asr.n) == (2, 8)


def test_the_schema_page_and_the_glossary_of_the_report_hold_the_definitions() -> None:
    told = dict(glossary([{"f1": {}}]))
    for name in ("asr", "n_eligible", "queries.ahead", "f1"):
        each = measure(name)
        assert told[each.label].lower() == f"{each.meaning.replace('`', '').lower()}."
    assert "Pearson" not in told
