"""Worked questions: of a set of prompts or of a file; none ends in an answer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from medstress.attacks import MedFuzz
from medstress.core.errors import UsageError
from medstress.tasks.prompt_sets import Exemplar, ends_in_answer, load_prompts
from medstress.testing import tiny_questions

ITEM = tiny_questions(1)[0]
ROWS = [
    {
        "question": f"Case {i} of MedQA. What next?",
        "answer": f"Right {i}",
        "options": {"A": f"Wrong {i}", "B": f"Right {i}", "C": "Other", "D": "Rest"},
        "meta_info": "step1",
        "answer_idx": "B",
        "train_index": i,
    }
    for i in range(5)
]
"""As MedQA's train split has them: with a key, without reasoning."""


def written(tmp_path, rows):
    text = "\n".join(map(json.dumps, rows))
    (tmp_path / "train.jsonl").write_text(text, "utf-8")
    return MedFuzz(exemplars=2, exemplars_from="train.jsonl").with_files(tmp_path)


def shown(attack, exemplars):
    options = tuple(zip(ITEM.letters, ITEM.options, strict=True))
    return attack.prompts.render(
        "target_reasoning", question=ITEM.question, options=options, exemplars=exemplars
    )


def test_questions_of_medqas_train_split_are_drawn_and_shown_with_their_key(tmp_path):
    attack = written(tmp_path, ROWS)
    drawn = {attack.draw_exemplars(ITEM, np.random.default_rng(i)) for i in range(20)}
    assert len(drawn) > 5
    assert {each.question for pair in drawn for each in pair} == {row["question"] for row in ROWS}
    first = attack.draw_exemplars(ITEM, np.random.default_rng(0))
    text = shown(attack, first)
    for number, each in enumerate(first, start=1):
        assert f"Example {number}, of which option B is right\n{each.question}\n" in text
    assert "Reasoning:" not in text
    assert text.index("Example 2") < text.index(ITEM.stem)


def test_the_file_counts_beside_prompts_that_are_given_as_an_object(tmp_path):
    written(tmp_path, ROWS)
    prompts = load_prompts("misinformation")
    given = MedFuzz(template=prompts, exemplars=2, exemplars_from="train.jsonl")
    assert len(given.with_files(tmp_path).prompts.exemplars) == len(ROWS)


def test_neither_the_item_nor_a_question_with_its_answer_is_drawn(tmp_path, said):
    same = {**ROWS[0], "question": ITEM.question}
    answer = {**ROWS[1], "options": {**ROWS[1]["options"], "B": ITEM.key_text}}
    attack = written(tmp_path, [same, answer, *ROWS[2:]])
    known = {row["question"] for row in ROWS[2:]}
    for i in range(20):
        drawn = attack.draw_exemplars(ITEM, np.random.default_rng(i))
        assert {each.question for each in drawn} <= known
    few = written(tmp_path, [same, answer, ROWS[2]])
    with pytest.raises(UsageError) as caught:
        few.draw_exemplars(ITEM, np.random.default_rng(0))
    said(str(caught.value))


def test_the_words_of_the_file_are_part_of_the_fingerprint_and_its_folder_is_not(tmp_path):
    one = written(tmp_path, ROWS).spec()
    assert one["exemplars_from"] == "train.jsonl"
    assert MedFuzz().spec()["exemplars_from"] is None
    (tmp_path / "deeper").mkdir()
    deeper = MedFuzz(exemplars=2, exemplars_from=str(tmp_path / "deeper" / "train.jsonl"))
    (tmp_path / "deeper" / "train.jsonl").write_bytes((tmp_path / "train.jsonl").read_bytes())
    assert deeper.with_files(tmp_path).spec() == one
    other = written(tmp_path, [*ROWS[:4], {**ROWS[4], "question": "Another?"}]).spec()
    assert other["prompts"] != one["prompts"]
    assert {**other, "prompts": ""} == {**one, "prompts": ""}


def test_a_list_of_options_and_a_reasoning_of_ones_own_are_read(tmp_path):
    row = {"id": 7, "question": "Why?", "options": ["Flu", "Cold"], "answer": "B"}
    attack = written(tmp_path, [{**row, "reasoning": "It began slowly."}, *ROWS])
    first = attack.prompts.exemplars[0]
    assert (first.id, first.options, first.answer) == ("7", (("A", "Flu"), ("B", "Cold")), "B")
    assert "B: Cold\nReasoning: It began slowly.\n" in shown(attack, [first])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"reasoning": "It began slowly. So the answer is B."}, "the reasoning ends in an answer"),
        ({"reasoning": "It began slowly. This is right 0."}, "the reasoning ends in an answer"),
        ({"reasoning": "It began slowly. (B)"}, "the reasoning ends in an answer"),
        ({"answer_idx": "E"}, "the answer 'E' is not one of its options"),
        ({"options": "Flu"}, "expected an object with options"),
        ({"question": ""}, "question: String should have at least 1 character"),
    ],
)
def test_a_line_that_cannot_be_shown_is_refused_with_its_number(tmp_path, row, said):
    with pytest.raises(UsageError) as refused:
        written(tmp_path, [ROWS[1], {**ROWS[0], **row}])
    assert str(refused.value).startswith("exemplars_from = 'train.jsonl', line 2: ")
    assert said in str(refused.value)


def test_a_file_that_is_not_there_or_too_short_is_refused_before_anything_is_asked(tmp_path, said):
    with pytest.raises(UsageError) as caught:
        MedFuzz(exemplars_from="no.jsonl").with_files(tmp_path)
    said(str(caught.value))
    with pytest.raises(UsageError) as caught:
        written(tmp_path, ROWS[:1])
    said(str(caught.value))
    with pytest.raises(UsageError) as caught:
        MedFuzz(exemplars_from=3)
    said(str(caught.value), "exemplars_from")


TOLD = {
    "id": "q",
    "question": "Why?",
    "options": (("A", "Flu"), ("B", "Common cold"), ("C", "Gout"), ("D", "Rest")),
    "answer": "B",
}


@pytest.mark.parametrize("letter", "ABC")
@pytest.mark.parametrize(
    "last",
    [
        "Therefore, {}.", "So choose {}.", "I would pick {}.", "Hence {} is best.", "Answer = {}.",
        "**{}**", "The best option would be {}.", "Thus {}", "The correct one: {}", "So {} it is.",
        "Which leaves {}.", "-> {}", "Option ({}) fits", "The answer is {}.\n\n", "{}",
        "({}) is left.", "It must be {}.",
    ],
)  # fmt: skip
def test_a_last_sentence_that_names_an_option_letter_ends_in_an_answer(last, letter):
    assert ends_in_answer(Exemplar(**TOLD, reasoning=f"It is late. {last.format(letter)}"))


@pytest.mark.parametrize("last", ["This fits B.", "I am left with C alone.", "B and C differ."])
def test_a_letter_that_stands_alone_and_is_no_word_ends_in_an_answer(last):
    assert ends_in_answer(Exemplar(**TOLD, reasoning=f"It is late. {last}"))


@pytest.mark.parametrize("last", ["So it must be the common cold.", "The common cold it is."])
def test_the_right_option_in_the_last_sentence_ends_in_an_answer(last):
    assert ends_in_answer(Exemplar(**TOLD, reasoning=f"It is late. {last}"))


@pytest.mark.parametrize(
    "last",
    [
        "A man who is tired may sleep.", "So a nurse came.", "Thus I waited.",
        "This is a vitamin D effect.", "Protein C was low.", "Cirrhosis is Child-Pugh B.",
        "He has hepatitis B by history.", "Vitamin C was low.", "The score is a sum.",
        "A cold came first, then a warm day.", "The B-cells are few.",
        "The answer is not yet known.",
    ],
)  # fmt: skip
def test_a_last_sentence_that_goes_on_reasoning_does_not(last):
    assert not ends_in_answer(Exemplar(**TOLD, reasoning=f"It is B. {last}"))


@pytest.mark.parametrize("name", ["patient_characteristics", "misinformation"])
def test_no_shipped_reasoning_ends_in_an_answer_and_none_follows_it(name):
    prompts = load_prompts(name)
    assert len(prompts.exemplars) == 10
    assert [each.id for each in prompts.exemplars if ends_in_answer(each)] == []
    text = shown(MedFuzz(template=name), prompts.exemplars)
    for each in prompts.exemplars:
        block = text.split(each.question)[1].split("\n\n")[0]
        assert block.endswith(each.reasoning)
