"""The parsers against a table of replies that was labelled by hand (`replies.md`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medstress.option_letters import is_decided
from medstress.tasks.parsers import PARSERS, options_aware

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("replies.jsonl").read_text("utf-8").splitlines()
]
READ_RIGHT = {
    "options_aware": 444,
    "exact": 148,
    "first_four": 245,
    "single_character": 149,
}
"""Replies of the table that a parser gives the reading they must get."""


def test_the_table_is_as_large_as_it_is_said_to_be() -> None:
    generated = [row for row in ROWS if row["source"] != "written"]
    assert len(ROWS) >= 200
    assert len(generated) >= 100
    assert {len(row["options"]) for row in ROWS} >= {2, 3, 4, 5, 6, 8, 10}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: repr(row["text"][:40]))
def test_a_reply_gets_the_reading_that_a_careful_reader_gives_it(row: dict[str, Any]) -> None:
    assert options_aware(row["text"], row["options"]) == row["letter"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: repr(row["text"][:40]))
def test_a_reply_that_is_cut_once_it_is_decided_reads_the_same(row: dict[str, Any]) -> None:
    text, options = row["text"], row["options"]
    cuts = [n for n in range(len(text)) if is_decided(text[:n], options)]
    for cut in cuts[:1]:
        for parser in PARSERS.values():
            assert parser(text[:cut], options) == parser(text, options)


def test_every_parser_is_measured_on_the_table() -> None:
    found = {
        name: sum(parser(row["text"], row["options"]) == row["letter"] for row in ROWS)
        for name, parser in PARSERS.items()
    }
    assert found == READ_RIGHT


FORMS = ("{k}: {text}", "{k}. {text}", "({k}) {text}", "{k}) {text}", "{text}", "The answer is {k}")


@pytest.mark.parametrize("form", FORMS)
def test_answers_in_medical_text_are_read_as_what_they_say(
    published: Callable[[str], Path], form: str
) -> None:
    lines = published("qa/medqa_train_part.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 1850
    misread = 0
    for options in (json.loads(line)["options"] for line in lines):
        for letter, text in options.items():
            told = form.format(k=letter, text=text)
            misread += options_aware(told, list(options.values())) != letter
    assert misread == 0
