from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medstress.option_letters import is_decided
from medstress.tasks.parsers import PARSERS

DRUGS = ["Aspirin", "Vitamin B", "Heparin", "A or B"]
PIECES = ["A", "B", "b", "D", "E", ": ", ". ", ") ", "(", "\n", "\n\n", "\r", " ", "**", "-", ">"]
PIECES += [
    "Heparin",
    "Vitamin B",
    "it is",
    "not",
    "or",
    ",",
    "<think>",
    "</think>",
    "<b>",
    "answer",
]
PIECES += ["[Question]: ", "\\boxed{", "}", "[", "]", "\u0301", "：", "ab"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


@given(TEXTS, TEXTS)
@example("A: Aspirin\n", "B: Heparin\n")
@example("B\n<ab", ">C: Heparin")
@example("B: it\n", "</think>C")
def test_what_is_decided_reads_the_same_to_every_parser_whatever_follows(
    text: str, more: str
) -> None:
    if is_decided(text, DRUGS):
        for name, parser in PARSERS.items():
            assert parser(text, DRUGS) == parser(text + more, DRUGS), name


@pytest.mark.parametrize(
    "text",
    [
        *("", "B", " B\n", "B.", "Let me think.\n", "A patient\n", "E.\n", "E. None\nBut"),
        "A: Aspirin\nB: Vitamin B\n",
        "A: Aspirin\nB",
        "<think>\nB: Vitamin B\nor\n",
        "The answer is B.\nOr is it C?\n",
        "Vitamin B\nand",
        "Not A.\nC",
    ],
)
def test_what_may_still_change_is_not_decided(text: str) -> None:
    assert not is_decided(text, DRUGS)


@pytest.mark.parametrize(
    "text",
    [
        "(B)\nSince",
        "B\nSince",
        "C: Heparin\nIt acts at once.\n",
        " A:\n[Question]",
        "**C.**\n\nHep",
    ],
)
def test_a_label_with_which_the_reply_begins_decides(text: str) -> None:
    assert is_decided(text, DRUGS)
