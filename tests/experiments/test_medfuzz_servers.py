"""MedFuzz between two OpenAI-compatible servers on this machine, with different scripts."""

import json
import random
from collections import Counter

import pytest

from conversation_server import ConversationServer
from fault_server import random_faults
from medstress.api.run import Run, run
from medstress.testing import rule_target, scripted_attacker, tiny_questions

pytest.importorskip("openai")
ITEMS = tiny_questions(6)
CUES = {"tiny-0": "teacher", "tiny-1": "clerk", "tiny-2": "farmer"}
SCRIPT = ["He works as a clerk.", "He works as a teacher.", "He works as a farmer."]


@pytest.fixture
def experiment(tmp_path):
    rows = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in ITEMS
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "items.jsonl").write_text(text, encoding="utf-8")

    def build(target, attacker, **limits):
        return {
            "experiment": {"controls": False, "name": "servers", "seeds": [0]},
            "dataset": {"name": "table", "path": str(tmp_path / "items.jsonl")},
            "victim": {
                "backend": "openai",
                "base_url": target.url,
                "model": target.model,
                "answer_by": "generate",
            },
            "role": {
                "attacker": {
                    "backend": "openai",
                    "base_url": attacker.url,
                    "model": attacker.model,
                    **limits,
                }
            },
            "attack": {"name": "medfuzz", "attempts": 3, "runs": 2},
        }

    return build


def accuracies(done):
    """Accuracy after 0, 1, ... attempts."""
    (row,) = done.summary()["attempts"]
    return [each["value"] for each in row["curve"]]


def test_two_servers_with_different_models_play_both_roles(experiment, tmp_path):
    target = ConversationServer(rule_target(ITEMS, CUES), model="the-target")
    attacker = ConversationServer(scripted_attacker(ITEMS, SCRIPT), model="the-attacker")
    with target, attacker:
        done = run(experiment(target, attacker), tmp_path / "run")
        assert accuracies(done) == [1, 5 / 6, 4 / 6, 3 / 6]
        paid = {row["payer"]: row["calls"] for row in done.summary()["performance"]["spending"]}
        assert paid == {"the-target": len(target.log), "role.attacker": len(attacker.log)}
        # Replies that have to be JSON are asked for with a schema; reasoning is not.
        assert all("response_format" in asked.body for asked in attacker.log)
        kinds = Counter("response_format" in asked.body for asked in target.log)
        assert kinds[False] * 2 == kinds[True]
    assert {each["victim"] for each in Run(tmp_path / "run").manifest()["endpoints"]} == {
        "the-target",
        "role.attacker",
    }


def test_what_goes_wrong_on_the_way_changes_no_number_and_a_limit_holds_for_its_role_alone(
    experiment, tmp_path
):
    faults = ("late", "429", "500", "drop", "half_json")
    target = ConversationServer(
        rule_target(ITEMS, CUES), faults=random_faults(0.1, faults), model="t"
    )
    attacker = ConversationServer(
        scripted_attacker(ITEMS, SCRIPT), faults=random_faults(0.1, faults, seed=1), model="a"
    )
    with target, attacker:
        done = run(
            experiment(target, attacker, requests_per_minute=6_000, max_in_flight=3),
            tmp_path / "run",
        )
        (row,) = done.summary()["results"]
    assert accuracies(done) == [1, 5 / 6, 4 / 6, 3 / 6]
    assert row["n_failed"] == 0


def test_an_attacker_that_is_down_fails_each_trial_by_name_and_keeps_what_was_answered(
    experiment, tmp_path
):
    source = random.Random(0)
    target = ConversationServer(rule_target(ITEMS, CUES), model="t")
    attacker = ConversationServer(
        scripted_attacker(ITEMS, SCRIPT),
        model="a",
        # The first answers come, so the run is not stopped; then nothing but refusals does.
        faults=lambda asked: None if asked.number < 3 + source.random() else "refusal",
    )
    with target, attacker:
        done = run(experiment(target, attacker), tmp_path / "run")
        (row,) = done.summary()["results"]
        (attempts,) = done.summary()["attempts"]
    assert sum(attempts["lost_by_reason"].values()) > 0
    assert attempts["n_made"] == attempts["n_asked"] + sum(attempts["lost_by_reason"].values())
    assert row["accuracy"]["value"] == 1
