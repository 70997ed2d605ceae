"""Passages that do not fit a model's window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from medstress.core.calls import Prompt, Window
from medstress.core.items import Mention, Question
from medstress.datasets.source import Loaded
from medstress.experiment.data import DatasetPart
from medstress.experiment.models import ROOM, with_fitting_passages
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.testing import ScriptedBackend

PASSAGE = "One two three four. Five six seven. Eight nine ten. Eleven."
LONG = Question(
    id="1",
    stem="Which?",
    passage=PASSAGE,
    options=("x", "y"),
    key="A",
    mentions=(
        Mention(field="passage", start=20, end=24, type="T1"),
        Mention(field="passage", start=36, end=41, type="T1"),
        Mention(field="A", start=0, end=1, type="T1"),
    ),
)


def words(prompts: Sequence[Prompt]) -> list[int]:
    return [len(str(prompt).split()) for prompt in prompts]


class Narrow(ScriptedBackend):
    """Reads so many words."""

    n_words: int | None = None

    @property
    def window(self) -> Window | None:
        return None if self.n_words is None else Window(tokens=self.n_words, count=words)


def victim(n_words: int | None, prompt: str = "open_book_cloze") -> Victim:
    backend = Narrow([])
    backend.n_words = n_words
    task = MultipleChoice(template=load_template(prompt), answer_by=AnswerBy.TEXT)
    return Victim(label=f"reads {n_words}", task=task, backend=backend)


def part(*items: Any) -> DatasetPart:
    return DatasetPart(
        label="data", questions=items, loaded=Loaded(items=items, skipped=(), source_hash="")
    )


BESIDE = len(
    [
        "Read",
        "the",
        "passage",
        "and",
        "answer",
        "the",
        "question.",
        "Passage:",
        "Question:",
        "Which?",
        "Answer:",
        "x",
    ]
)


@pytest.mark.parametrize(
    ("n_words", "left"),
    [
        (11, PASSAGE),
        (10, "One two three four. Five six seven. Eight nine ten."),
        (9, "One two three four. Five six seven."),
        (7, "One two three four. Five six seven."),
        (6, "One two three four."),
        (3, "One two three"),
        (0, "One"),
    ],
)
def test_as_many_sentences_as_fit_are_left(n_words: int, left: str) -> None:
    found = with_fitting_passages(part(LONG), [victim(BESIDE + ROOM + n_words)])
    (item,) = found.questions
    assert item.passage == left
    assert all(m.field != "passage" or m.end <= len(left) for m in item.mentions)
    assert Mention(field="A", start=0, end=1, type="T1") in item.mentions
    assert len(found.loaded.notes) == (left != PASSAGE)


def test_the_smallest_window_decides_for_all_victims_and_each_cut_is_counted() -> None:
    wide, narrow = victim(BESIDE + ROOM + 10), victim(BESIDE + ROOM + 5)
    short = Question(id="2", stem="Which?", passage="One.", options=("x", "y"), key="A")
    found = with_fitting_passages(part(LONG, short), [wide, narrow, victim(None)])
    assert [item.passage for item in found.questions] == ["One two three four.", "One."]
    first, second = found.loaded.notes
    assert "1 of 2 passages do not fit" in first
    assert repr(narrow.label) in second


def test_a_victim_that_shows_no_passage_cuts_none_and_passages_nobody_is_shown_are_told() -> None:
    found = with_fitting_passages(part(LONG), [victim(1, "cloze")])
    assert found.questions == (LONG,)
    (note,) = found.loaded.notes
    assert "1 questions have a passage, but no model's prompt shows it" in note
    beside = with_fitting_passages(part(LONG), [victim(1, "cloze"), victim(None)])
    assert beside.loaded.notes == ()


def test_questions_without_a_passage_are_counted_where_one_is_expected() -> None:
    bare = Question(id="2", stem="Which?", options=("x", "y"), key="A")
    found = with_fitting_passages(part(LONG, bare), [victim(None)])
    assert found.loaded.notes == (
        "1 of 2 questions have no passage; model 'reads None' is asked about them without one",
    )


def test_passages_that_probes_draw_fit_too_and_a_text_without_sentences_is_cut() -> None:
    endless = Question(id="2", stem="Which?", passage="word " * 50, options=("x", "y"), key="A")
    sample = part(LONG)
    whole = replace(sample, loaded=replace(sample.loaded, items=(LONG, endless)))
    found = with_fitting_passages(whole, [victim(BESIDE + ROOM + 5)])
    assert [item.passage for item in found.all_items] == [
        "One two three four.",
        "word word word word word",
    ]
