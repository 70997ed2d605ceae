"""What `final_statement` takes for an answer, and what not: the rows of `statements.jsonl`."""

import json
import time
from pathlib import Path

import pytest

from medstress.tasks.reading import PARSERS, final_statement, letter_read, unknown_marks
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
    for reply in (piece * 13_000, f"answer{piece * (1_000_000 // len(piece))}A"):
        for parser in PARSERS:
            started = time.process_time()
            letter_read(parser, reply, DRUGS)
            assert time.process_time() - started < 1
        unknown_marks(reply)
        read_reply(reply, Letter)
        assert time.process_time() - started < 2


def test_the_end_of_a_very_long_reply_counts():
    thought = "<think>" + "It might be A, or B. " * 10_000 + "</think>"
    assert letter_read("final_statement", f"{thought}\nThe answer is C.", DRUGS) == "C"
