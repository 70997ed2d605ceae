"""MedFuzz between two OpenAI-compatible servers on this machine, with different scripts."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from medstress.experiment.run import Run, run
from medstress.testing import (
    FaultServer,
    random_faults,
    rule_target,
    scripted_attacker,
    tiny_questions,
)

pytest.importorskip("openai")
ITEMS = tiny_questions(6)
CUES = {"tiny-0": "teacher", "tiny-1": "clerk", "tiny-2": "farmer"}
SCRIPT = ["He works as a clerk.", "He works as a teacher.", "He works as a farmer."]


def server_of(speak, **keys):
    """A server that hands the whole conversation to a scripted model."""

    def answer(prompt):
        # The server joins the turns by blank lines; scripts read turns, so they are looked up.
        return speak([TURNS[prompt]])[0]

    return Listening(answer=answer, **keys)


TURNS: dict[str, list[dict[str, str]]] = {}


class Listening(FaultServer):
    """Keeps the turns of what it is asked."""

    def register(self, path, body):
        asked = super().register(path, body)
        TURNS[asked.prompt] = [dict(message) for message in body["messages"]]
        return asked


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
            "experiment": {"name": "servers", "seeds": [0]},
            "dataset": {"name": "jsonl", "path": str(tmp_path / "items.jsonl")},
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


def values(curve):
    return [each["value"] for each in curve]


def test_two_servers_with_different_models_play_both_roles(experiment, tmp_path):
    target = server_of(rule_target(ITEMS, CUES), model="the-target")
    attacker = server_of(scripted_attacker(ITEMS, SCRIPT), model="the-attacker")
    with target, attacker:
        done = run(experiment(target, attacker), tmp_path / "run")
        (row,) = done.summary()["results"]
        assert values(row["accuracy_at"]) == [1, 5 / 6, 4 / 6, 3 / 6]
        assert len(target.log) == row["roles"]["victim"]["calls"]
        assert len(attacker.log) == row["roles"]["attacker"]["calls"]
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
    target = server_of(rule_target(ITEMS, CUES), faults=random_faults(0.1, faults), model="t")
    attacker = server_of(
        scripted_attacker(ITEMS, SCRIPT), faults=random_faults(0.1, faults, seed=1), model="a"
    )
    with target, attacker:
        done = run(
            experiment(target, attacker, requests_per_minute=6_000, max_in_flight=3),
            tmp_path / "run",
        )
        (row,) = done.summary()["results"]
    assert values(row["accuracy_at"]) == [1, 5 / 6, 4 / 6, 3 / 6]
    assert row["n_failed"] == 0


def test_an_attacker_that_is_down_fails_each_trial_by_name_and_keeps_what_was_answered(
    experiment, tmp_path
):
    source = random.Random(0)
    target = server_of(rule_target(ITEMS, CUES), model="t")
    attacker = server_of(
        scripted_attacker(ITEMS, SCRIPT),
        model="a",
        # The first answers come, so the run is not stopped; then nothing but refusals does.
        faults=lambda asked: None if asked.number < 3 + source.random() else "refusal",
    )
    with target, attacker:
        done = run(experiment(target, attacker), tmp_path / "run")
        (row,) = done.summary()["results"]
    assert row["attempts"]["unreadable"] > 0
    assert row["accuracy"]["value"] == 1
