"""What `final_statement` takes for an answer, and what not: the rows of `statements.jsonl`."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.tasks.reading import (
    PARSERS,
    exact,
    final_statement,
    first_four,
    letter_read,
    single_character,
    unknown_marks,
)
from medstress.tasks.replies import Letter, read_reply

DRUGS = ["Aspirin", "Warfarin", "Heparin", "Apixaban"]
LINES = Path(__file__).with_name("statements.jsonl").read_text("utf-8").splitlines()


def test_a_reply_is_read_as_a_careful_reader_reads_it():
    wrong = []
    for row in map(json.loads, LINES):
        text, options, letter = row["text"], row["options"], row["letter"]
        if final_statement(text, options) != letter:
            wrong.append(row)
        if row["about"].startswith("considered") and (
            final_statement(text, options, is_cut=True) not in (None, letter)
        ):
            wrong.append({**row, "is_cut": True})
    assert wrong == []


@pytest.mark.parametrize("reply", ["C", "C: Heparin", "Only C is right.", "A: 5%, C: 85%"])
def test_of_a_reply_that_was_cut_off_only_a_statement_counts(reply):
    assert final_statement(reply, DRUGS) == "C"
    assert final_statement(reply, DRUGS, is_cut=True) is None
    assert final_statement(f"The answer is C. {reply}", DRUGS, is_cut=True) == "C"
    # It was not cut: it goes on to a next question.
    assert final_statement(f"{reply}\nQuestion: Which", DRUGS, is_cut=True) == "C"


PIECES = (
    "A ", "A, ", "A:\n", "A: 5%, ", "not ", "answer:", "answer is ", "Vitamin D ", "A and B, ", "(",
    ")", "*", "\n", "[", "|", "correct ", "I think ", "The answer is A. ", "A is right. ", "wait ",
    "let me check A. ", "Question:\n", "\\boxed{", "<think>", "<a_start>", "```", "> ", " ", ".",
    "\t", "\u0301", '{"', '{"a":', '{"a":[', '{"a":"',
)  # fmt: skip


@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_a_long_reply_is_read_in_well_under_a_second(piece):
    reply = f"answer{piece * (300_000 // len(piece))}A"
    started = time.process_time()
    letter_read("final_statement", reply, DRUGS)
    assert time.process_time() - started < 1
    unknown_marks(reply)
    read_reply(reply, Letter)
    assert time.process_time() - started < 2


def test_the_end_of_a_very_long_reply_counts():
    thought = "<think>" + "It might be A, or B. " * 10_000 + "</think>"
    assert letter_read("final_statement", f"{thought}\nThe answer is C.", DRUGS) == "C"


@pytest.mark.parametrize(
    ("parser", "letter", "texts"),
    [
        (exact, "B", ["B"]),
        (exact, None, ["B ", " B", "B.", "b", "", "BC", "E"]),
        (first_four, "B", [" B", "is B", "\nB", " B\n[Answer]: A"]),
        (first_four, "A", ["A or B"]),
        (first_four, None, ["is  B", "it is D", ""]),
        (single_character, "B", [" B \n"]),
        (single_character, None, ["B)", "", "e", "AB"]),
    ],
)
def test_the_papers_own_parsers_read_as_their_scripts_do(parser, letter, texts):
    assert {parser(text, DRUGS) for text in texts} == {letter}


@pytest.mark.parametrize("name", PARSERS)
@given(text=st.text(max_size=30))
def test_every_parser_gives_a_letter_of_the_item_or_nothing(name, text):
    assert PARSERS[name](text, DRUGS[:3]) in ("A", "B", "C", None)
    assert PARSERS[name]("C", DRUGS) == "C"
