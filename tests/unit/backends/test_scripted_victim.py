"""A victim whose replies stand in a file."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from medstress.backends.options import BackendOptions
from medstress.backends.scripted import open_backend
from medstress.core.calls import (
    Choose,
    Chosen,
    Failure,
    Generate,
    Generated,
    Message,
    Rank,
    Score,
    Scored,
)
from medstress.core.errors import UsageError
from medstress.testing import check_backend

LINES = [
    {"pattern": "scurvy", "reply": "B"},
    {"pattern": "rickets.*sun", "scores": [0.2, 0.6, 0.2]},
    {"pattern": "down", "error": "the server is down"},
    {"pattern": "scurvy or", "reply": "never reached"},
    {"pattern": "", "reply": "I cannot say."},
]


def opened(folder: Path, lines: list[Any]) -> Any:
    text = "\n\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    (folder / "replies.jsonl").write_text(text, encoding="utf-8")
    return open_backend(BackendOptions(model="replies.jsonl", base=folder))


def test_the_contract_holds(tmp_path):
    calls = [
        Choose("rickets and sun", "ABC"),
        Choose("scurvy", "ABCD"),
        Score("scurvy?", (" A", " B")),
        Rank("scurvy?", ("one", "two", "three")),
        Generate((Message("system", "be brief"), Message("user", "scurvy?"))),
    ]
    check_backend(opened(tmp_path, LINES), calls)


def test_the_first_pattern_in_the_prompt_decides(tmp_path):
    backend = opened(tmp_path, LINES)
    prompts = ["scurvy or so", "rickets\nand sun", "else", "it is down"]
    replies = backend.answer([Generate(prompt) for prompt in prompts])
    assert [getattr(reply, "text", reply) for reply in replies] == [
        "B",
        "B",
        "I cannot say.",
        Failure(error="the server is down"),
    ]


def test_a_letter_gets_most_where_scores_are_wanted(tmp_path):
    backend = opened(tmp_path, LINES)
    letter, given, chosen = backend.answer(
        [Score("scurvy", (" A", " B", " C")), Rank("rickets, sun", "ABC"), Choose("scurvy", "AB")]
    )
    assert isinstance(letter, Scored)
    assert [math.exp(value) for value in letter.log_probs] == pytest.approx([0.2, 0.6, 0.2])
    assert isinstance(given, Scored)
    assert [math.exp(value) for value in given.log_probs] == pytest.approx([0.2, 0.6, 0.2])
    assert chosen == Chosen(text="B")


def test_a_call_that_no_rule_fits_fails_alone(tmp_path):
    calls = [
        Generate("gout"),
        Score("scurvy", (" A",)),
        Score("rickets, sun", (" A", " B")),
        Generate("scurvy"),
    ]
    *lost, fine = opened(tmp_path, LINES[:2]).answer(calls)
    assert fine == Generated(text="B")
    words = ("no rule of 'replies' matches the prompt 'gout'", "replies 'B'", "[0.2, 0.6, 0.2]")
    for reply, word in zip(lost, words, strict=True):
        assert isinstance(reply, Failure)
        assert word in reply.error


def test_the_rules_are_the_model(tmp_path):
    def known(lines: list[Any]) -> str:
        return str(opened(tmp_path, lines).identity.hash)

    assert known(LINES) == known(LINES)
    assert known(LINES) != known(LINES[::-1])
    assert known(LINES) != known([*LINES[:-1], {"pattern": "", "reply": "A"}])


@pytest.mark.parametrize(
    "line",
    [
        "{",
        {"pattern": "a"},
        {"pattern": "a", "reply": "A", "error": "b"},
        {"pattern": "(", "reply": "A"},
        {"patern": "a", "reply": "A"},
        {"pattern": "a", "scores": [1, -1]},
    ],
)
def test_a_line_that_is_no_rule_is_named(tmp_path, line):
    with pytest.raises(UsageError, match="line 3: "):
        opened(tmp_path, [LINES[0], line])


@pytest.mark.parametrize("model", [None, "none.jsonl", "empty.jsonl"])
def test_a_file_that_is_missing_or_empty_is_named(tmp_path, model):
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(UsageError, match="backend 'scripted'"):
        open_backend(BackendOptions(base=tmp_path, model=model))
