"""Control arms of runs: which there are, what they share and cost, and what a folder keeps."""

import json
from typing import Any

import pytest

import medstress as ms
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


def test_arms_share_items_and_seeds_cost_once_and_join_later(tmp_path):
    """A folder keeps the default of controls that it began with, for new attacks too."""
    ms.run(experiment(RANDOM), out=tmp_path / "run")
    run = ms.run(experiment(RANDOM, NEAR, NEAREST), out=tmp_path / "run")
    rows = rows_of(run)
    names = {"random": 4, "near": 4, "nearest": 2}
    assert {row.attack for row in rows} == {*names, *(f"{name} / no_op" for name in names)}
    arms = {
        arm: {(r.item_id, r.seed, r.verdict == LOST): r for r in rows if r.attack == arm}
        for arm in {row.attack for row in rows}
    }
    for name, most in names.items():
        beside = arms[f"{name} / no_op"]
        assert beside.keys() == arms[name].keys()
        assert max(row.n_asked for row in beside.values()) <= most
    # Controls of equal budget and seeds are one.
    first, second = arms["near / no_op"], arms["random / no_op"]
    assert first.keys() == second.keys()
    for place, row in first.items():
        other = second[place]
        assert (row.verdict, row.first_success, row.edits) == (
            *(other.verdict, other.first_success, other.edits),
        )
    both = [*first.values(), *second.values()]
    assert 0 < sum(row.n_paid for row in both) <= sum(row.n_asked for row in first.values())


@pytest.mark.parametrize(
    ("wanted", "told"), [(["noop"], "did you mean 'no_op'?"), (["no_op", "no_op"], "values repeat")]
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
