"""Log probabilities in the shapes servers return them, read as scores."""

import math

import pytest

from medstress.backends.replies import BARE, NOT_LISTED, SPACED, first_token_scores, text_scores

LETTERS = (" A", " B", " C")


@pytest.mark.parametrize("space", ["", "\u2581", "\u0120"])
def test_servers_that_show_the_space_otherwise_are_understood(space):
    listed = {"top_logprobs": [{f"{space}A": -1.0, f"{space}B": -2.0, f"{space}C": -3.0}]}
    form = SPACED if space else BARE
    assert first_token_scores(listed, LETTERS) == ((-1.0, -2.0, -3.0), form)


def test_a_letter_that_is_not_listed_gets_a_bound_and_never_wins():
    listed = {"top_logprobs": [{" B": math.log(0.3), " the": math.log(0.6)}]}
    scores, _ = first_token_scores(listed, LETTERS)
    assert scores[1] == math.log(0.3)
    assert scores[0] == scores[2] == pytest.approx(math.log(0.1)), "what the list leaves over"
    flat = {"top_logprobs": [{f" w{i}": math.log(0.05) for i in range(9)} | {" C": math.log(0.05)}]}
    scores, _ = first_token_scores(flat, LETTERS)
    assert scores[2] == max(scores) > scores[0] == pytest.approx(scores[2])


def test_where_no_letter_is_listed_nothing_is_known():
    listed = {"top_logprobs": [{" The": -0.1, " I": -2.0}]}
    assert first_token_scores(listed, LETTERS) == ((-math.inf,) * 3, NOT_LISTED)


@pytest.mark.parametrize(
    "logprobs",
    [None, {}, {"content": None}, {"content": []}, {"top_logprobs": []}, {"top_logprobs": [None]}],
)
def test_no_log_probabilities_are_none(logprobs):
    assert first_token_scores(logprobs, LETTERS) is None


def echo(tokens: list[str], values: list[float | None]) -> dict[str, object]:
    return {"text": "".join(tokens), "logprobs": {"tokens": tokens, "token_logprobs": values}}


def test_a_text_is_scored_by_the_tokens_it_adds():
    alone = echo(["Q", ":"], [None, -1.0])
    one = echo(["Q", ":", " as", "pirin"], [None, -1.0, -2.0, -0.25])
    two = echo(["Q", ": x"], [None, -7.0])
    assert text_scores([alone, one, two], ["Q:", "Q: aspirin", "Q: x"]) == ((-2.25, -7.0), (2, 1))


def test_a_server_that_ignores_echo_is_found_out():
    made_up = {"text": " It is", "logprobs": {"tokens": [" It", " is"], "token_logprobs": [-1, -2]}}
    sent = ["Q:", "Q: aspirin"]
    assert text_scores([made_up] * 2, sent) is None
    assert text_scores([made_up], sent) is None
    silent = {"text": "Q: aspirin", "logprobs": None}
    assert text_scores([silent] * 2, sent) is None
