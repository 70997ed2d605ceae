"""Which recogniser gives which mentions, and what is refused."""

from typing import Any

import pytest

from medstress.core.errors import UsageError
from medstress.experiment.plan import Prepared
from medstress.experiment.prepare import prepare
from question_rows import write_rows

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
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.jsonl", ROWS)
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
    assert [part.recogniser["name"] for part in found.groups] == ["given", "gazetteer"]


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
