"""`attack_one` says how one trial ended, and leaves nothing."""

import tempfile
from typing import Any

import pytest

import medstress as ms
from medstress.attacks.discrete_zoo import DiscreteZoo
from medstress.testing import tiny_questions

(QUESTION,) = tiny_questions(1)
NAMES = "".join(f"name{n}statin\nname{n}mab\n" for n in range(5))


def right(prompts: list[str]) -> list[str]:
    return [QUESTION.key for _ in prompts]


def weak(prompts: list[str]) -> list[str]:
    return ["C" if "mab" in prompt else QUESTION.key for prompt in prompts]


def wrong(prompts: list[str]) -> list[str]:
    return ["B" for _ in prompts]


def mute(prompts: list[str]) -> list[str]:
    return ["no letter" if "statin" in prompt else QUESTION.key for prompt in prompts]


def failing(prompts: list[str]) -> list[str]:
    if any("name3statin" in prompt.lower() for prompt in prompts):
        raise RuntimeError("away")
    return [QUESTION.key for _ in prompts]


def scored(prompts: list[str]) -> list[dict[str, Any]]:
    shares = {"A": 0.5, "B": 0.2, "C": 0.2, "D": 0.1}
    turned = {"A": 0.2, "B": 0.2, "C": 0.5, "D": 0.1}
    return [{"scores": turned if "mab" in prompt else shares} for prompt in prompts]


@pytest.mark.parametrize(
    ("victim", "attack", "seed", "verdict"),
    [
        (weak, ms.EntitySubstitution(sampler="random", budget=8), 0, "flipped"),
        (wrong, ms.EntitySubstitution(sampler="random", budget=4), 0, "already_wrong"),
        (mute, ms.EntitySubstitution(sampler="random", budget=8), 0, "held"),
        (failing, ms.EntitySubstitution(sampler="exhaustive"), None, "failed"),
        (scored, DiscreteZoo(budget=20), 1, "flipped"),
    ],
)
def test_it_says_how_the_trial_ended_and_leaves_nothing(
    victim, attack, seed, verdict, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "names.txt").write_text(NAMES)
    entities = {"type": "T121", "vocabulary": "names.txt", "embedding": "ngram"}
    row = ms.attack_one(QUESTION, victim, attack, entities=entities, seed=seed or 0)
    assert row["n_asked"] == row["n_paid"] + row["n_cached"] + row["n_failed"]
    assert (row["item_id"], row["seed"], row["verdict"]) == (QUESTION.id, seed, verdict)
    assert not list((tmp_path / "temporary").iterdir())


def test_a_dict_is_enough_and_the_group_is_found():
    question = {"question": "What lowers glucose?", "A": "metformin", "B": "aspirin", "answer": "A"}
    row = ms.attack_one(question, model=right, attack=ms.EntitySubstitution(sampler="nearest"))
    assert (row["group"], row["verdict"]) == ("drugs", "held")
