"""Replies of any size and shape are read in time that does not grow beyond all measure."""

from __future__ import annotations

import time

import pytest

from medstress.tasks.reading import PARSERS, letter_read
from medstress.tasks.replies import Letter, confidences_in, read_reply

SIZE = 2_000_000
PIECES = (
    "A ", "A:\n", "not ", "answer:", "answer is ", "Vitamin D ", "A and B, ", "(", ")", "*", "\n",
    "\\boxed{", "<think>", "```", "> ", " ", ".", "\t", "\u0301", '{"', '{"a":', '{"a":[', '{"a":"',
)  # fmt: skip
OPTIONS = ("Vitamin D", "Hepatitis B", "Heparin", "Amphotericin B")


@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_a_reply_of_two_million_characters_is_read_in_seconds(piece: str) -> None:
    reply = f"answer{piece * (SIZE // len(piece))}A"
    started = time.monotonic()
    for parser in PARSERS:
        letter_read(parser, reply, OPTIONS)
    read_reply(reply, Letter)
    confidences_in(reply, "ABCD")
    assert time.monotonic() - started < 30


def test_the_end_of_a_very_long_reply_counts() -> None:
    thought = "<think>" + "It might be A, or B. " * 10_000 + "</think>"
    assert letter_read("final_statement", f"{thought}\nThe answer is C.", OPTIONS) == "C"
