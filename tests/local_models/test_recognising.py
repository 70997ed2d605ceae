"""Which recogniser gives which mentions, and what is refused."""

import json
from typing import Any

import pytest
import spacy

import medstress as ms
from medstress.core.errors import UsageError
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.prepare import prepare

ROWS: list[dict[str, Any]] = [
    {
        "id": "q1",
        "context": "A boy with asthma takes ibuprofen.",
        "stem": "Which drug comes next?",
        "options": ["warfarin", "Aspirin and codeine", "gout"],
        "answer_idx": "A",
        "mentions": [{"field": "B", "start": 0, "end": 7, "type": "T121"}],
    },
    {
        "id": "q2",
        "context": "",
        "stem": "Which is it?",
        "options": ["rest", "walking"],
        "answer_idx": "A",
    },
]
DRUGS = {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"}
DISEASES = {"type": "diseases", "vocabulary": "diseases", "embedding": "ngram"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "rows.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def prepared(*entities: dict[str, Any]) -> Prepared:
    return prepare(
        {
            "experiment": {"controls": False, "name": "x"},
            "dataset": {"name": "table", "path": "rows.jsonl"},
            "entities": list(entities),
            "victim": {"backend": "mock"},
            "attack": {"name": "entity_substitution", "sampler": "random", "budget": 2},
        }
    )


def mentions(found: Prepared) -> list[tuple[str, str, str]]:
    return [
        (m.field, item.text_of(m.field)[m.start : m.end], m.type)
        for item in found.datasets[0].questions
        for m in item.mentions
    ]


def test_a_gazetteer_takes_the_place_of_given_mentions_of_its_types_in_every_field():
    found = prepared({**DRUGS, "recogniser": "gazetteer"})
    assert mentions(found) == [
        ("A", "warfarin", "drugs"),
        ("B", "Aspirin", "drugs"),
        ("B", "codeine", "drugs"),
        ("context", "ibuprofen", "drugs"),
    ]


def test_each_group_has_the_mentions_of_its_own_recogniser():
    found = prepared(DRUGS, {**DISEASES, "recogniser": "gazetteer"})
    assert mentions(found) == [
        ("B", "Aspirin", "T121"),
        ("C", "gout", "diseases"),
        ("context", "asthma", "diseases"),
    ]
    assert [spec["name"] for spec in found.recognisers] == ["given", "gazetteer"]


def test_the_items_of_a_run_are_hashed_with_what_was_recognised():
    given = prepared(DRUGS).datasets[0].questions[0]
    found = prepared({**DRUGS, "recogniser": "gazetteer"}).datasets[0].questions[0]
    again = prepared({**DRUGS, "recogniser": "gazetteer"}).datasets[0].questions[0]
    assert given.hash != found.hash == again.hash


def test_the_names_of_a_groups_own_vocabulary_are_found_as_its_type(folder):
    (folder / "own.txt").write_text("walking\nrunning\nswimming\n", encoding="utf-8")
    own = {"vocabulary": "own.txt", "embedding": "ngram", "recogniser": "gazetteer"}
    assert ("B", "walking", "T056") in mentions(prepared({**own, "type": ["T056"]}))


def test_a_pipeline_is_loaded_from_a_path_beside_the_experiment(folder):
    nlp = spacy.blank("en")
    ruler: Any = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "SPORT", "pattern": "walking"}])
    nlp.to_disk(folder / "sports")
    keys = {"recogniser": "spacy", "model": "sports", "labels": {"SPORT": "drugs"}}
    found = prepared({**DRUGS, **keys})
    assert mentions(found) == [("B", "walking", "drugs")]
    assert found.recognisers[0]["labels"] == {"SPORT": "drugs"}


def test_one_question_is_attacked_with_recognised_mentions():
    item = ms.Question(id="q", stem="Which?", options=("warfarin", "Ibuprofen"), key="A")
    trial = ms.attack_one(
        item,
        lambda prompts: ["A"] * len(prompts),
        ms.attacks.EntitySubstitution(sampler="nearest", budget=2),
        entities={**DRUGS, "recogniser": "gazetteer"},
    )
    assert (trial["verdict"], trial["n_asked"]) == ("held", 2)


OWN = {"vocabulary": "own.txt", "embedding": "ngram", "recogniser": "gazetteer"}
SPACY = {**DRUGS, "recogniser": "spacy"}
BOTH = {**SPACY, "model": "m", "labels": {"A": "drugs"}, "linker": "umls"}


@pytest.mark.parametrize(
    ("entities", "part"),
    [
        (
            [{**DRUGS, "name": "a"}, {**DRUGS, "name": "b", "recogniser": "gazetteer"}],
            "groups 'a' (given) and 'b' (gazetteer) share the type T103 but not the recogniser",
        ),
        ([{**DRUGS, "type": ["T060", "T061"], "recogniser": "gazetteer"}], "one type"),
        ([{**DRUGS, "model": "m"}], "the key 'model' is for recogniser = 'spacy'"),
        ([BOTH], "give labels or linker, not both"),
        ([{**SPACY, "model": "no_such_pipeline"}], "there is no pipeline 'no_such_pipeline'"),
        ([{**OWN, "type": "T060"}], "finds no mention of type T060 in its 2 items"),
    ],
)
def test_what_cannot_be_done_is_refused(folder, entities, part):
    (folder / "own.txt").write_text("one name\nanother name\na third\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        prepared(*entities)
    assert part in str(caught.value)
