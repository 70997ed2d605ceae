"""The shipped ablation of DiscreteZOO's two constraints."""

from __future__ import annotations

from pathlib import Path

import pytest

from medstress.api.run import run
from medstress.experiment.file.reading import read_experiment
from rows import rows_of

RECIPE = "xian2025-ablation"
MOCK = [
    'victim.backend="mock"',
    'victim.answer_by="letter"',
    'victim.prompt="qstab"',
    'victim.model="mock"',
    "experiment.seeds=[0]",
    'entities.embedding="ngram"',
]


def test_it_crosses_threshold_and_ranking_at_one_budget() -> None:
    arms = [
        table.parameters
        for table in read_experiment(Path(RECIPE)).attack
        if table.name == "discrete_zoo"
    ]
    crossed = {(arm["similarity_threshold"], arm["word_ranking"]) for arm in arms}
    assert len(arms) == len(crossed) == 4
    assert {len({arm[key] for arm in arms}) for key in crossed_keys()} == {2}
    assert len({arm["budget"] for arm in arms}) == 1


def crossed_keys() -> tuple[str, str]:
    return ("similarity_threshold", "word_ranking")


def test_it_runs_on_another_victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    found = run(RECIPE, out=tmp_path / "run", limit=12, overrides=MOCK)
    summary = found.summary()
    assert summary["experiment"]["complete"]
    results = summary["results"]
    assert len({row["attack"] for row in results}) == 5  # four, and random draws beside them
    # Every arm meets the same items; the threshold leaves some without any name to ask.
    free = [row for row in results if "zoo threshold" not in row["attack"]]
    assert len({(row["group"], row["victim"], row["n_eligible"]) for row in free}) == 1
    (n_items,) = {row["n_items"] for row in results}
    for row in results:
        assert row["n_eligible"] + row["n_already_wrong"] + row["n_not_attackable"] == n_items
        assert row["n_never_asked"] == 0
    for row in rows_of(found):
        assert row.n_asked <= 20
