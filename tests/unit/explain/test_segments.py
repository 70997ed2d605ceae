"""Where fields and edits stand in what is asked."""

from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from medstress.core.items import Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.text import Edit
from medstress.experiment.explain import Pair, Segment, kind_of, outputs_of, segments_of
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import Template, load_template

QUESTION = Question(
    id="q",
    context="He takes B.\r\n A and B are pills. ",
    stem="Which is it?",
    options=("B", "Which is it?", "A. no", "aspirin 5 mg "),
    key="A",
)
EDIT = Edit(field="D", start=0, end=7, replacement="warfarin")


def found(task: object, edits: tuple[Edit, ...] = (EDIT,), item: Any = QUESTION) -> Pair:
    return segments_of(task.flow, item, item.texts, edits)  # type: ignore[attr-defined]


def by_place(segments: tuple[Segment, ...]) -> list[tuple[str, str]]:
    """Texts of neighbours in one place, joined."""
    parts = groupby((each for each in segments if each.text), key=lambda each: each.place)
    return [(place, "".join(each.text for each in group)) for place, group in parts]


@pytest.mark.parametrize("name", ["qstab", "open_book", "medmcqa", "untagged", "chat"])
def test_fields_are_found_where_they_stand_though_their_texts_stand_everywhere(name):
    template = load_template(name)
    task = MultipleChoice(template=template, answer_by=AnswerBy.LETTER)
    pair = found(task)
    for segments, edits in ((pair.before, ()), (pair.after, (EDIT,))):
        prompt = template.render(QUESTION.candidate(edits))
        shown = prompt if isinstance(prompt, str) else prompt[-1].content
        assert "".join(each.text for each in segments) == shown
        places = dict(by_place(segments))
        assert places["A"].endswith("B")
        assert places["B"].endswith("Which is it?")
        assert places["C"].endswith("A. no")
        edited = "".join(each.text for each in segments if each.edited)
        assert edited == ("warfarin" if edits else "aspirin")
    assert [(each.place, each.edited) for each in pair.before] == [
        (each.place, each.edited) for each in pair.after
    ]
    assert [a.text for a in pair.before if not a.edited] == [
        b.text for b in pair.after if not b.edited
    ]


def test_a_prompt_that_does_more_than_place_texts_shows_only_the_difference():
    source = "{{ stem | upper }} {% for l, o in options %}{{ o | upper }};{% endfor %}"
    template = Template(name="own.jinja", source=source, is_jinja=True)
    task = MultipleChoice(template=template, answer_by=AnswerBy.LETTER)
    pair = found(task)
    assert {each.place for each in pair.after} == {"prompt"}
    (edit,) = [each.text for each in pair.after if each.edited]
    assert edit in "WARFARIN"


def test_a_conversation_is_explained_in_the_turn_that_shows_the_question():
    own = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.LETTER)
    for in_turns in (True, False):
        pair = found(Conversation(own=own, in_turns=in_turns))
        (edit,) = [each.text for each in pair.after if each.edited]
        assert edit == "warfarin"
        assert {"context", "stem", *"ABCD"} <= {each.place for each in pair.after}


def test_outputs_are_probabilities_or_what_was_answered():
    wrong = Prediction(outcome=Outcome.WRONG, answer="B")
    assert outputs_of(wrong, "ABCD").tolist() == [0, 1, 0, 0]
    scored = replace(wrong, scores=tuple(np.log([0.1, 0.6, 0.2, 0.1])))
    assert outputs_of(scored, "ABCD") == pytest.approx([0.1, 0.6, 0.2, 0.1])
    unread = Prediction(outcome=Outcome.UNREADABLE, answer=None)
    assert outputs_of(unread, "ABCD").tolist() == [0, 0, 0, 0]
    kinds = [kind_of(each) for each in ([wrong], [scored], [wrong, scored])]
    assert kinds == ["answer", "probability", "mixed"]
