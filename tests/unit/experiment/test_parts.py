from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medstress.errors import UsageError
from medstress.experiment.config import VictimTable
from medstress.experiment.labels import unique_labels
from medstress.experiment.parts import task_of
from medstress.experiment.run import prepare
from medstress.tasks.multiple_choice import AnswerBy

ALL = frozenset({"generate", "score", "choose"})
MODEL = frozenset({"generate", "score"})


def task(kinds: frozenset[str], **given: Any) -> Any:
    return task_of(VictimTable(backend="b", **given), Path(), kinds, "v")


@pytest.mark.parametrize(
    ("kinds", "given", "answer_by"),
    [
        (MODEL, {}, AnswerBy.LETTER),
        (MODEL, {"answer_by": "text", "prompt": "cloze"}, AnswerBy.TEXT),
        (MODEL, {"answer_by": "generate"}, AnswerBy.GENERATE),
        (frozenset({"rank"}), {"answer_by": "head", "prompt": "question"}, AnswerBy.HEAD),
        (frozenset({"choose"}), {"prompt": "cloze"}, AnswerBy.CHOICE),
        (ALL, {}, AnswerBy.CHOICE),
        (ALL, {"answer_by": "letter"}, AnswerBy.LETTER),
    ],
)
def test_a_victim_answers_as_its_table_and_its_back_end_say(
    kinds: frozenset[str], given: dict[str, Any], answer_by: AnswerBy
) -> None:
    assert task(kinds, **given).answer_by is answer_by


@pytest.mark.parametrize(
    ("kinds", "given", "sentence"),
    [
        (
            frozenset({"choose"}),
            {"answer_by": "letter"},
            "victim 'v': answer_by is not for functions, which answer as they like; leave it out",
        ),
        (
            frozenset({"generate"}),
            {"answer_by": "text"},
            "victim 'v': backend 'b' cannot answer by text",
        ),
        (frozenset({"generate"}), {}, "victim 'v': backend 'b' cannot answer by letter"),
        (
            frozenset({"score"}),
            {"answer_by": "generate"},
            "victim 'v': backend 'b' cannot answer by generate",
        ),
        (
            MODEL,
            {"prompt": "cloze"},
            "victim 'v': prompt 'cloze' does not list the options, so only answer_by = \"text\" "
            'or "head" makes sense with it',
        ),
        (
            MODEL,
            {"answer_by": "head", "prompt": "question"},
            "victim 'v': backend 'b' cannot answer by head",
        ),
        (
            frozenset({"rank"}),
            {"answer_by": "head"},
            "victim 'v': a head reads the question and one option at a time, and prompt 'qstab' "
            'lists the options; use prompt = "question" or a plain template with '
            "lists_options = false",
        ),
    ],
)
def test_an_impossible_combination_is_refused(
    kinds: frozenset[str], given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError) as caught:
        task(kinds, **given)
    assert str(caught.value) == sentence


def test_a_label_of_the_user_is_kept_and_names_are_told_apart() -> None:
    entries = [
        ("mine", "swap", {"n": 1, "budget": 8}),
        (None, "swap", {"n": 1.5, "budget": 8}),
        (None, "swap", {"n": 2, "budget": 8}),
        (None, "noise", {"n": 2}),
    ]
    assert unique_labels("attack", entries) == ["mine", "swap n=1.5", "swap n=2", "noise"]


@pytest.mark.parametrize(
    ("table", "word"),
    [("victim", "names"), ("entities", "names"), ("attack", "labels"), ("dataset", "labels")],
)
def test_equal_labels_are_refused_with_what_to_give(table: str, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        unique_labels(table, [("a", "x", {}), (None, "a", {})])
    assert str(caught.value) == (
        f"two [[{table}]] entries are both called 'a': they are the same, or need {word} of "
        "their own"
    )


def test_a_budget_larger_than_the_vocabulary_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "names.txt").write_text("one\ntwo\nthree\n", "utf-8")
    experiment = {
        "experiment": {"name": "x"},
        "dataset": {"name": "sample"},
        "entities": {
            "type": "drugs",
            "vocabulary": str(tmp_path / "names.txt"),
            "embedding": "ngram",
        },
        "victim": {"backend": "mock"},
        "attack": {"name": "entity_substitution", "sampler": "random", "budget": 4},
    }
    with pytest.raises(UsageError) as caught:
        prepare(experiment)
    assert str(caught.value) == (
        "attack 'entity_substitution': budget 4 is larger than the vocabulary of group 'drugs' "
        "(3 names); lower the budget or give a larger vocabulary"
    )


def test_deterministic_attacks_run_once_and_others_once_a_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    experiment = {
        "experiment": {"name": "x", "seeds": [4, 5]},
        "dataset": {"name": "sample", "limit": 3},
        "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
        "victim": {"backend": "mock"},
        "attack": [
            {"name": "entity_substitution", "sampler": "random"},
            {"name": "entity_substitution", "sampler": "nearest"},
        ],
    }
    prepared = prepare(experiment)
    assert prepared.n_trials(1) == 9
    assert prepared.n_trials(2) == 18
