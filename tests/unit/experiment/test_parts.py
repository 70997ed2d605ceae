from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medstress.core.errors import UsageError
from medstress.engine.progress import Watcher
from medstress.experiment.arms import make_attacks
from medstress.experiment.config import Attack, Dataset, Victim, labels_of
from medstress.experiment.dry_run import dry_run
from medstress.experiment.manifest import describe
from medstress.experiment.models import open_victims
from medstress.experiment.prepare import prepare
from medstress.tasks.multiple_choice import AnswerBy
from medstress.tasks.victim import task_of

ALL = frozenset({"generate", "score", "choose"})
MODEL = frozenset({"generate", "score"})


def task(kinds: frozenset[str], **given: Any) -> Any:
    return task_of(Victim(backend="mock", **given), Path(), kinds, "v")


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
    ("kinds", "given", "where"),
    [
        (frozenset({"choose"}), {"answer_by": "letter"}, "model 'v'"),
        (frozenset({"generate"}), {"answer_by": "text"}, "model 'v'"),
        (frozenset({"generate"}), {}, "model 'v'"),
        (frozenset({"score"}), {"answer_by": "generate"}, "model 'v'"),
        (MODEL, {"prompt": "cloze"}, "model 'v'"),
        (MODEL, {"answer_by": "head", "prompt": "question"}, "model 'v'"),
        (frozenset({"rank"}), {"answer_by": "head"}, "model 'v'"),
    ],
)
def test_an_impossible_combination_is_refused(
    kinds: frozenset[str], given: dict[str, Any], where: str, said
) -> None:
    with pytest.raises(UsageError) as caught:
        task(kinds, **given)
    said(str(caught.value), where)


@pytest.mark.parametrize(
    ("keys", "label"),
    [
        ({"name": "table", "path": "data/my q.jsonl"}, "my q"),
        ({"name": "hub", "hub": "owner/some-set"}, "some-set"),
        ({"name": "medmcqa", "path": "dev.parquet"}, "medmcqa"),
        ({"name": "table", "path": "q.jsonl", "label": "mine"}, "mine"),
    ],
)
def test_a_data_set_is_called_after_its_file(keys: dict[str, str], label: str) -> None:
    assert labels_of([Dataset(**keys)]) == [label]


def test_deterministic_attacks_run_once_and_others_once_a_seed(tmp_path: Path) -> None:
    experiment = {
        "experiment": {"controls": False, "name": "x", "seeds": [4, 5]},
        "dataset": {"name": "sample", "limit": 3},
        "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
        "victim": {"backend": "mock"},
        "attack": [
            {"name": "entity_substitution", "sampler": "random"},
            {"name": "entity_substitution", "sampler": "nearest"},
        ],
    }
    assert prepare(experiment).n_trials() == 9
    experiment["victim"] = [{"backend": "mock"}, {"backend": "mock", "name": "other"}]
    assert prepare(experiment).n_trials() == 18


@pytest.mark.parametrize("keys", [{"answer_by": "generate"}, {}])
def test_a_victim_known_to_give_no_scores_is_refused_where_an_attack_needs_them(said, keys) -> None:
    experiment = {
        "experiment": {"controls": False, "name": "x"},
        "dataset": {"name": "sample"},
        "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
        "victim": {"backend": "mock", **keys},
        "attack": {"name": "entity_substitution", "n": 1, "victim_span": "saliency"},
    }
    with pytest.raises(UsageError) as caught:
        prepare(experiment)
    said(str(caught.value), "'entity_substitution'", "'mock'")


def test_labels_name_what_differs_and_was_written() -> None:
    tables = [
        {"sampler": "random"},
        {"n": -20},
        {"n": -20, "variants": "mark"},
        {"n": -20, "choices": "as_published"},
    ]
    attacks = make_attacks([Attack(name="entity_substitution", **table) for table in tables])
    assert [part.label for part in attacks] == [
        "entity_substitution sampler=random choices=default",
        "entity_substitution sampler=pdws n=-20 choices=default",
        "entity_substitution sampler=pdws n=-20 choices=default variants=mark",
        "entity_substitution sampler=pdws n=-20 choices=as_published",
    ]


def diseases(tmp_path: Path, **entities: Any) -> dict[str, Any]:
    (tmp_path / "names.txt").write_text("asthma\ngout\nscurvy\nno disease at all\n", "utf-8")
    table = {"type": "diseases", "vocabulary": str(tmp_path / "names.txt"), "embedding": "ngram"}
    return {
        "experiment": {"controls": False, "name": "x"},
        "dataset": {"name": "sample"},
        "entities": {**table, **entities},
        "victim": {"backend": "mock"},
        "attack": {"name": "entity_substitution", "sampler": "nearest", "budget": 2},
    }


def test_names_outside_an_ontology_are_told_recorded_and_not_counted_for_the_budget(
    tmp_path: Path, said
) -> None:
    told: list[str] = []
    prepared = prepare(diseases(tmp_path, distance="mondo"), watcher=Watcher(note=told.append))
    sentence = "group 'diseases': 1 of 4 names are outside MONDO: never drawn"
    assert sentence in told
    assert sentence in dry_run(prepared).assumed
    prepared.victims = open_victims(prepared.experiment.victim, prepared.base, told.append)
    (recorded,) = describe(prepared, {})["groups"].values()
    assert (recorded["distance"], recorded["n_undefined"]) == ("mondo", 1)
    assert recorded["undefined"] == sentence
    with pytest.raises(UsageError) as caught:
        prepare(diseases(tmp_path, distance="mondo"), overrides=["attack.budget=4"])
    said(str(caught.value), "'diseases'")


def test_of_controls_random_names_alone_draw_names(tmp_path: Path) -> None:
    tables = diseases(tmp_path)
    tables["experiment"]["controls"] = ["no_op", "same_type", "option_shuffle", "repeat"]
    prepared = prepare(tables)
    prepared.victims = open_victims(prepared.experiment.victim, prepared.base, print)
    records = describe(prepared, {})["records"]
    drawing = [label for label, record in records.items() if record["draws_names"]]
    attack = "entity_substitution"
    assert len(records) == 5
    assert drawing == [attack, f"{attack} / same_type"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"backend": "mock", "adapter": "x"}, "adapter is for backend = 'transformers'"),
        ({"backend": "transformers", "context_tokens": 9}, "is for backend = 'llama_cpp'"),
        ({"backend": "mock", "target": "mine.py:answer"}, "target is for backend = 'python'"),
        ({"backend": "scripted", "max_in_flight": 2}, "max_in_flight is for backend = 'openai'"),
    ],
)
def test_a_key_that_the_back_end_would_not_read_is_refused(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        Victim(**given)


def sampled(tmp_path: Path, dataset: dict[str, Any], limit: int | None) -> set[str]:
    """The attackable questions that a group of diseases attacks."""
    tables = diseases(tmp_path, **({} if limit is None else {"limit": limit}))
    prepared = prepare({**tables, "dataset": {"name": "sample", **dataset}})
    (group,), (part,) = prepared.groups, prepared.attacks
    items = prepared.items(prepared.datasets[0], group)
    return {i.id for i in items if part.attack.obstacle(i, group.resources) is None}


@pytest.mark.parametrize("seed", [7])
def test_the_sample_of_a_group_follows_the_data_sets_seed_and_is_nested(
    tmp_path: Path, seed: int
) -> None:
    small = {"limit": 60, "sample_seed": seed}
    large = {"limit": 120, "sample_seed": seed}
    n = len(sampled(tmp_path, small, None))
    few, more = sampled(tmp_path, small, n // 2), sampled(tmp_path, small, n)
    assert len(few) == n // 2 > 5
    assert few < more
    # Of more data the group draws the same, as long as there are as many in the smaller sample.
    assert (
        few
        == sampled(tmp_path, large, n // 2)
        == sampled(tmp_path, {**large, "limit": 200}, n // 2)
    )
    other = sampled(tmp_path, {"sample_seed": seed + 1}, n // 2)
    assert other != sampled(tmp_path, {"sample_seed": seed}, n // 2)
