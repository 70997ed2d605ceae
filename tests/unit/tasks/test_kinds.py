"""What every registered kind of items promises."""

from __future__ import annotations

from typing import Any

import pytest

from medstress.core.errors import StoreError
from medstress.core.items import Mention, Question
from medstress.core.outcomes import Outcome
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.text import Edit
from medstress.store.codec import decode_item, encode_item
from medstress.tasks.kinds import KINDS, Kind, kind_named, kind_of_all
from medstress.testing.checks import answered

ITEMS: dict[str, Any] = {
    "questions": Question(
        id="q",
        context="He coughs.",
        stem="Why?",
        options=("Flu", "Gout"),
        key="A",
        mentions=(Mention(field="A", start=0, end=3, type="T047"),),
        metadata={"topic": "lungs"},
    ),
    "tagged texts": TaggedText(
        id="t", tokens=("no", "aspirin"), labels=("O", "B-Drug"), metadata={"document": "7"}
    ),
    "sentence pairs": SentencePair(id="s", text_a="A cat.", text_b="A dog.", score=1.5),
}
EDITS = {
    "questions": Edit(field="B", start=0, end=4, replacement="Scurvy"),
    "tagged texts": Edit(field="tokens", start=1, end=2, replacement="salicylic acid"),
    "sentence pairs": Edit(field="text_a", start=2, end=5, replacement="cow"),
}

every = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def test_every_kind_has_its_own_name_task_mark_and_items() -> None:
    for name in ("name", "task", "item"):
        assert len({getattr(kind, name) for kind in KINDS}) == len(KINDS)
    assert {kind.name for kind in KINDS} == set(ITEMS)
    assert kind_of_all([]) is KINDS[0]


@every
def test_a_stored_item_is_the_item_and_its_units_come_back_by_name(kind: Kind) -> None:
    item = ITEMS[kind.name]
    assert kind_named(item.kind) is kind
    back = decode_item(encode_item(item))
    assert back == item
    assert (back.hash, dict(back.metadata)) == (item.hash, dict(item.metadata))
    for unit in item.units():
        assert unit.kind == item.kind
        assert back.of_unit(unit.unit) == unit
        assert unit.whole == item
        assert (unit.hash, unit.shared_texts) == (item.hash, item.shared_texts)


@every
def test_an_edit_shows_in_the_candidate_and_in_the_item_that_it_becomes(kind: Kind) -> None:
    (unit, edit) = ITEMS[kind.name].units()[0], EDITS[kind.name]
    candidate = unit.candidate((edit,))
    assert unit.replaced(edit) != edit.replacement
    changed = unit.changed((edit,))
    assert candidate.item is unit
    assert changed.row() != unit.whole.row()
    assert changed.hash != unit.hash
    assert unit.changed(()).row() == unit.whole.row()


@every
def test_a_made_up_answer_is_right_or_wrong_and_its_score_says_so(kind: Kind) -> None:
    unit = ITEMS[kind.name].units()[0]
    right, wrong = (answered(unit, right=given) for given in (True, False))
    assert (right.outcome, wrong.outcome) == (Outcome.RIGHT, Outcome.WRONG)
    if right.scores is not None and wrong.scores is not None:
        assert unit.right_score(right.scores) > unit.right_score(wrong.scores)
    if unit.choices:
        assert right.answer == unit.key
        assert wrong.answer in set(unit.choices) - {unit.key}


def test_an_item_of_a_kind_that_is_not_known_is_refused() -> None:
    with pytest.raises(StoreError, match="'video'"):
        decode_item('{"kind": "video", "id": "1"}')
