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


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            Score("else", (" A", " B")),
            "the reply 'I cannot say.' of 'replies' is not an option letter",
        ),
        (Score("rickets, sun", (" A", " B")), "scores [0.2, 0.6, 0.2] for 2 options"),
    ],
)
def test_a_rule_that_does_not_fit_the_call_fails_that_call(tmp_path, call, said):
    (reply,) = opened(tmp_path, LINES).answer([call])
    assert isinstance(reply, Failure)
    assert said in reply.error


def test_a_prompt_that_no_rule_matches_fails_alone(tmp_path):
    lost, found = opened(tmp_path, LINES[:1]).answer([Generate("gout"), Generate("scurvy")])
    assert lost == Failure(error="no rule of 'replies' matches the prompt 'gout'")
    assert found == Generated(text="B")


def test_the_rules_are_the_model(tmp_path):
    def known(lines: list[Any]) -> str:
        return str(opened(tmp_path, lines).identity.hash)

    assert known(LINES) == known(LINES)
    assert known(LINES) != known(LINES[::-1])
    assert known(LINES) != known([*LINES[:-1], {"pattern": "", "reply": "A"}])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 3: Invalid JSON"),
        ({"pattern": "a"}, "line 3: Value error, expected exactly one of reply, scores and error"),
        ({"pattern": "a", "reply": "A", "error": "b"}, "expected exactly one of reply, scores"),
        ({"pattern": "(", "reply": "A"}, "line 3: pattern: Value error, not a regular expression"),
        ({"patern": "a", "reply": "A"}, "line 3: pattern: Field required"),
        ({"pattern": "a", "scores": [1, -1]}, "line 3: scores: "),
    ],
)
def test_a_line_that_is_no_rule_is_named(tmp_path, line, said):
    with pytest.raises(UsageError) as caught:
        opened(tmp_path, [LINES[0], line])
    assert said in str(caught.value)


def test_a_file_that_is_missing_or_empty_is_named(tmp_path, said):
    with pytest.raises(UsageError) as caught:
        open_backend(BackendOptions(base=tmp_path))
    said(str(caught.value))
    with pytest.raises(UsageError, match="cannot read"):
        open_backend(BackendOptions(base=tmp_path, model="none.jsonl"))
    with pytest.raises(UsageError, match="has no line"):
        opened(tmp_path, [])
