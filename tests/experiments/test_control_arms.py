"""Control arms of runs: which there are, what they share and cost, and what a folder keeps."""

import json
from typing import Any

import pytest

import medstress as ms
from medstress.api.run import Run
from medstress.core.errors import UsageError
from rows import rows_of

RANDOM = {"name": "entity_substitution", "sampler": "random", "budget": 4, "label": "random"}
NEAR = {"name": "entity_substitution", "n": -20, "budget": 4, "label": "near"}
LOST = "not_attackable"
NEAREST = {"name": "entity_substitution", "sampler": "nearest", "budget": 2, "label": "nearest"}


def experiment(*attacks: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {
        "experiment": {"name": "x", "seeds": [0, 1], **settings},
        "dataset": {"name": "sample", "limit": 60},
        "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
        "victim": {"backend": "mock"},
        "attack": list(attacks),
    }


def labels(run: Run) -> set[str]:
    return {row.attack for row in rows_of(run)}


def test_arms_share_items_and_seeds_and_ask_no_more_than_their_attack_could(tmp_path):
    run = ms.run(experiment(RANDOM, NEAREST), out=tmp_path / "run")
    rows = rows_of(run)
    for attack, most in (("random", 4), ("nearest", 2)):
        own, beside = (
            {(r.item_id, r.seed, r.verdict == LOST): r.n_asked for r in rows if r.attack == name}
            for name in (attack, f"{attack} / no_op")
        )
        assert beside.keys() == own.keys()
        assert max(beside.values()) <= most


def test_arms_with_equal_budget_and_seeds_cost_once(tmp_path):
    run = ms.run(experiment(RANDOM, NEAR), out=tmp_path / "run")
    rows = rows_of(run)
    first, second = (
        {(r.item_id, r.seed): r for r in rows if r.attack == f"{name} / no_op"}
        for name in ("near", "random")
    )
    assert first.keys() == second.keys()
    for place, row in first.items():
        other = second[place]
        assert (row.verdict, row.first_success, row.edits) == (
            other.verdict,
            other.first_success,
            other.edits,
        )
    paid = sum(r.n_paid for r in first.values()) + sum(r.n_paid for r in second.values())
    asked = sum(r.n_asked for r in first.values())
    assert 0 < paid <= asked


def test_a_folder_keeps_the_default_it_began_with_for_new_attacks(tmp_path):
    out = tmp_path / "run"
    ms.run(experiment(RANDOM), out=out)
    run = ms.run(experiment(RANDOM, NEAR), out=out)
    assert labels(run) == {"random", "random / no_op", "near", "near / no_op"}


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (["noop"], "did you mean 'no_op'?"),
        (["no_op", "no_op"], "values repeat"),
        ([], "controls"),
        ("no_op", "controls"),
    ],
)
def test_wrong_controls_are_one_sentence(tmp_path, wanted, told):
    with pytest.raises(UsageError, match="controls") as refused:
        ms.run(experiment(RANDOM, controls=wanted), out=tmp_path / "run")
    assert told in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_a_control_that_is_left_out_names_the_items_and_what_to_do(tmp_path):
    """A stem of one mark has few places for an edit without meaning."""
    from medstress.experiment.prepare import prepare

    drug = {"field": "B", "start": 0, "end": 7, "type": "drugs"}
    rest = {"answer": "A", "mentions": [drug]}
    rows = [
        {"id": name, "stem": stem, "options": ["warfarin", "aspirin"], **rest}
        for name, stem in (("long", "Which of these drugs is the antidote here?"), ("short", "?"))
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    given = experiment(RANDOM | {"budget": 40}) | {
        "dataset": {"name": "table", "path": str(tmp_path / "rows.jsonl")}
    }
    reason = prepare(given).left_out["random"]["no_op"]
    assert "on only 1 of 2 items, and too few on 'short'; lower the budget" in reason
    given["experiment"]["controls"] = ["no_op"]
    with pytest.raises(UsageError, match="too few on 'short'; lower the budget"):
        prepare(given)
