"""Exported exchanges say which queries were probes: asked to learn something, never a success."""

from __future__ import annotations

import json

import pytest

from medstress.api.run import Run, run


def exchanges(folder, to):
    Run(folder).export("exchanges", to)
    return [json.loads(line) for line in to.read_text("utf-8").splitlines()]


@pytest.fixture(params=["entity_substitution", "discrete_zoo"])
def probing(request, bench, workbench):
    """Four attackable questions with three wrong drugs each: three probes come first."""
    bench.write_items(workbench.questions(5))
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["victim"] = [{"name": "mock", "backend": "mock", "answer_by": "letter"}]
    keys = {
        "entity_substitution": {"sampler": "random", "victim_span": "saliency"},
        "discrete_zoo": {"word_ranking": "importance"},
    }
    bench.tables["attack"] = [
        {"name": request.param, "label": "probes", "budget": 6, **keys[request.param]},
        bench.attack("random"),
    ]
    run(bench.write(), bench.out)
    return bench


def test_probes_are_marked_and_nothing_else_is(probing, tmp_path):
    trials = {row.trial_id: row for row in probing.rows()}
    assert any(row.n_asked > 3 for row in trials.values() if row.attack == "probes")
    for row in exchanges(probing.out, tmp_path / "e.jsonl"):
        is_probe = (
            row["purpose"] == "attack"
            and trials[row["trial_id"]].attack == "probes"
            and row["query"] <= 3
        )
        assert row["probe"] is is_probe
        if is_probe:
            assert "zumab" in row["prompt"]
            assert row["prompt"].count("zumab") == 3, "one of the four drugs is deleted"


def test_probes_of_trials_cut_off_are_known_by_what_they_ask(probing, tmp_path, workbench):
    whole = exchanges(probing.out, tmp_path / "whole.jsonl")
    with workbench.forged(probing.out) as db:
        db.execute("UPDATE verdicts SET result = json_remove(result, '$.probes')")
        db.execute("DELETE FROM verdicts WHERE trial % 3 = 0")
    assert exchanges(probing.out, tmp_path / "again.jsonl") == whole
    assert sum(row["probe"] for row in whole) > 0
