"""On the way into an experiment a question is checked once, and an attack is built once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest

from medstress.attacks.entity_substitution import EntitySubstitution
from medstress.core import items
from medstress.core.errors import DataError, UsageError
from medstress.core.items import Mention, Question
from medstress.entities import recognisers
from medstress.experiment.file.config import Experiment
from medstress.experiment.prepare import prepare

DRUGS = ("aspirin", "warfarin", "morphine", "metformin")
ATTACKS = [
    {"name": "entity_substitution", "sampler": "pdws", "n": [-1, 1], "budget": 2},
    {"name": "entity_substitution", "sampler": "random", "budget": 2},
]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[Any]:
    """What was checked (item ids, mentions) and which attacks were built."""
    found: Counter[Any] = Counter()

    def count(place: Any, name: str, key: Callable[..., Any]) -> None:
        real = getattr(place, name)

        def call(*args: Any) -> Any:
            found[key(*args)] += 1
            return real(*args)

        monkeypatch.setattr(place, name, call)

    count(items, "check_question", lambda item: item.id)
    count(items, "_check_mention", lambda item, mention: (item.id, mention))
    count(EntitySubstitution, "__post_init__", lambda attack: (attack.sampler, attack.n))
    return found


@pytest.fixture
def medmcqa(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Two annotated questions, whose drugs a gazetteer finds as well."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "id": f"q{n}",
            "question": f"Case {n}. What helps?",
            **dict(zip("ABCD", DRUGS, strict=True)),
            "answer_idx": "A",
            "answer": None,
            "subject_name": "Pharmacology",
            "topic_name": None,
        }
        for n in range(2)
    ]
    polars.DataFrame(rows, infer_schema_length=None).write_parquet("rows.parquet")
    span = {"text": ["warf"], "labels": ["T047"], "boundaries": [[0, 4]]}
    whole = {"text": ["morphine"], "labels": ["T047"], "boundaries": [[0, 8]]}
    Path("spans.json").write_text(json.dumps([{"B": span, "C": whole}] * 2))
    Path("names.txt").write_text("ibuprofen\nnaproxen\nheparin\n")
    # The shipped tables take seconds.
    drugs = recognisers.Source(names=DRUGS, type="drugs")
    monkeypatch.setattr(recognisers, "shipped_sources", lambda: (drugs,))
    return {
        "experiment": {"controls": False, "name": "once", "seeds": [0]},
        "dataset": {"name": "medmcqa", "path": "rows.parquet", "annotations": "spans.json"},
        "entities": {
            "type": "drugs",
            "vocabulary": "names.txt",
            "embedding": "ngram",
            "recogniser": "gazetteer",
        },
        "victim": {"backend": "mock"},
        "attack": ATTACKS,
    }


def test_a_question_with_annotations_and_a_recogniser_is_checked_once(
    medmcqa: dict[str, Any], counted: Counter[Any]
) -> None:
    prepared = prepare(medmcqa)
    found = prepared.datasets[0].questions
    assert {item.id: counted[item.id] for item in found} == {"q0": 1, "q1": 1}
    for item in found:
        # The drug that was annotated, the key as a whole, and what the gazetteer finds.
        assert {mention.type for mention in item.mentions} > {"T047", ""}
        assert {counted[item.id, mention] for mention in item.mentions} == {1}


@pytest.mark.parametrize("form", [dict, Experiment.model_validate])
def test_every_attack_is_built_once(
    form: Callable[[dict[str, Any]], Any], medmcqa: dict[str, Any], counted: Counter[Any]
) -> None:
    prepared = prepare(form(medmcqa))
    built = {key: n for key, n in counted.items() if key[0] in ("pdws", "random")}
    assert built == {("pdws", -1): 1, ("pdws", 1): 1, ("random", None): 1}
    assert [part.attack.n for part in prepared.attacks] == [-1, 1, None]


def test_what_an_attack_refuses_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text(
        '[experiment]\ncontrols = false\nname = "x"\n'
        '[[dataset]]\nname = "sample"\n[[victim]]\nbackend = "mock"\n'
        '[[entities]]\ntype = "drugs"\nvocabulary = "drugs"\n'
        '[[attack]]\nname = "entity_substitution"\nsampler = "pdws"\nn = [1, 2]\nbudget = 0\n'
    )
    with pytest.raises(UsageError, match=r"e\.toml, line 15: "):
        prepare(file)


def test_other_mentions_are_checked_and_change_the_hash() -> None:
    item = Question(id="q", stem="Why?", options=("flu", "cold"), key="A")
    mention = Mention(field="A", start=0, end=3, type="T047")
    _ = item.hash
    again = item.with_mentions([mention])
    assert again == Question(
        id="q", stem="Why?", options=("flu", "cold"), key="A", mentions=(mention,)
    )
    assert again.hash != item.hash
    assert again.with_mentions(()).hash == item.hash
    with pytest.raises(DataError, match="lie outside A"):
        item.with_mentions([Mention(field="A", start=0, end=4, type="T047")])
