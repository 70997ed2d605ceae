"""An attacker is asked for insertions and their places, else for the whole question."""

from __future__ import annotations

import json

import numpy as np
import pytest

from medstress.attacks import MedFuzz
from medstress.core.calls import Decoding, Generated
from medstress.core.queries import Ask, Note
from medstress.core.resources import Resources
from medstress.tasks.prompt_sets import load_prompts
from medstress.testing import tiny_questions, tiny_resources

ITEM = tiny_questions(1)[0]
PLAN = json.dumps({
    "post_mortem": None,
    "target_option": next(letter for letter in ITEM.letters if letter != ITEM.key),
    "plan": "Insert it.",
})  # fmt: skip
CLERK = "He works as a clerk."


def anchored(after: str, text: str = CLERK) -> str:
    added = [{"category": "occupation", "text": text, "after": after}]
    return json.dumps({"added": added})


def whole(text: str = CLERK) -> str:
    added = [{"category": "occupation", "text": text}]
    options = dict(zip(ITEM.letters, ITEM.options, strict=True))
    modified = f"{ITEM.context} {text} {ITEM.stem}"
    return json.dumps({"added": added, "modified_item": modified, "options": options})


def asked(attack: MedFuzz, *replies: str):
    """What the attacker was asked, and the query or the note that the attempt ended in."""
    roles = {"attacker": Decoding(temperature=1.0)}
    base = tiny_resources()
    resources = Resources(
        group="all", types=frozenset(), perturbations=base.perturbations, roles=roles
    )
    flow = attack.run(ITEM, np.random.default_rng(0), resources)
    step, calls, noted, given = next(flow), [], [], iter(replies)
    try:
        while not isinstance(step, Ask):
            if isinstance(step, Note):
                noted.append(json.loads(step.text))
                step = flow.send(())
            else:
                calls += step.calls
                step = flow.send((Generated(text=next(given)),))
    except StopIteration:
        step = None
    assert next(given, None) is None
    return calls, step.queries[0].candidate if step else None, noted


def last(call) -> str:
    return call.prompt[-1].content


def test_insertions_with_their_places_are_asked_for_and_suffice():
    calls, candidate, (noted,) = asked(MedFuzz(attempts=1), PLAN, anchored(ITEM.context))
    assert len(calls) == 2
    assert '"after"' in last(calls[1])
    assert "modified_item" not in last(calls[1])
    assert json.loads(calls[1].schema)["properties"].keys() == {"added"}
    assert candidate.context == f"{ITEM.context} {CLERK}"
    assert noted["added"] == [{"category": "occupation", "text": CLERK, "after": ITEM.context}]


def test_the_whole_question_is_taken_where_insertions_were_asked_for():
    calls, candidate, _ = asked(MedFuzz(attempts=1), PLAN, whole())
    assert len(calls) == 2
    assert candidate.context == f"{ITEM.context} {CLERK}"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (anchored("no such words"), "does not hold the words 'no such words'"),
        ("I insert it.", "it holds no JSON object"),
        (anchored(ITEM.context, "He\u200b sings."), "the character U+200B"),
        (json.dumps({"added": []}), "added"),
        (json.dumps({"added": [{"category": "x", "text": "y", "after": ""}] * 101}), "100"),
    ],
)
def test_the_whole_question_is_asked_for_where_insertions_cannot_be_placed(reply, said):
    calls, candidate, _ = asked(MedFuzz(attempts=1), PLAN, reply, whole())
    assert len(calls) == 3
    assert last(calls[2]).startswith("That could not be used: ")
    assert said in last(calls[2]).splitlines()[0]
    assert '"modified_item"' in last(calls[2])
    assert candidate.context == f"{ITEM.context} {CLERK}"


def test_an_attempt_is_lost_where_the_whole_question_cannot_be_read_twice():
    calls, candidate, (noted,) = asked(MedFuzz(attempts=1), PLAN, "no", "no", "no")
    assert (len(calls), candidate) == (4, None)
    assert noted["unreadable"] == "the edited item"


def test_a_folder_with_its_own_words_for_the_whole_question_asks_for_it_at_once(tmp_path):
    words = load_prompts("patient_characteristics")
    text = dict(words.sources)["attacker_modify"]
    (tmp_path / "attacker_modify.jinja").write_text(f"Mine. {text}", "utf-8")
    mine = MedFuzz(attempts=1, template=str(tmp_path)).with_files(tmp_path)
    calls, candidate, _ = asked(mine, PLAN, whole())
    assert len(calls) == 2
    assert last(calls[1]).startswith("Mine. Now write the edited question")
    assert candidate is not None
    (tmp_path / "attacker_insert.jinja").write_text("Where? {{ question }}", "utf-8")
    load_prompts.cache_clear()
    both = MedFuzz(attempts=1, template=str(tmp_path)).with_files(tmp_path)
    assert both.prompts.asks_for_insertions
    assert both.spec()["prompts"] != mine.spec()["prompts"]
