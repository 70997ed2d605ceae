"""Computes scores of continuations from the log probabilities that servers return."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_SPACES = str.maketrans({"\u2581": " ", "\u0120": " "})
"""How some servers write a token's leading space."""
_LEAST = 1e-12


def first_token_scores(logprobs: Any, continuations: Sequence[str]) -> tuple[float, ...] | None:
    """Return scores of one-token continuations from the likeliest first tokens of an answer.

    The score of " A" is the log probability of the token " A" (METHODS 1.2: the first token by
    which the prompt with the letter departs from the prompt). If no continuation is in the list,
    the letters are looked up with the space added or removed, because some servers omit it.

    A continuation outside the list is less likely than every listed token, and its probability is
    at most the mass that the list leaves over. It gets that upper bound. (METHODS 1.2 does not
    cover this case, and a missing letter would make the whole answer unreadable.) So the likeliest
    letter is always right, while P of missing letters and the total mass of letters are upper
    bounds. If no continuation is in the list at all, nothing is known: each gets minus infinity,
    which is read as unreadable.

    Returns:
        The scores, or None if the server returned no log probabilities.

    >>> listed = {"top_logprobs": [{" A": -0.5, " B": -1.5, " the": -3.0}]}
    >>> [round(value, 2) for value in first_token_scores(listed, (" A", " B", " C"))]
    [-0.5, -1.5, -3.0]
    """
    listed = _listed(logprobs)
    if not listed:
        return None
    names = list(continuations)
    if not any(name in listed for name in names):
        names = [name[1:] if name.startswith(" ") else f" {name}" for name in names]
    if not any(name in listed for name in names):
        return (-math.inf,) * len(names)
    rest = 1.0 - sum(math.exp(value) for value in listed.values())
    bound = min(min(listed.values()), math.log(max(rest, _LEAST)))
    # Just below the bound, so that a listed letter wins a tie.
    bound = math.nextafter(bound, -math.inf)
    return tuple(listed.get(name, bound) for name in names)


def text_scores(
    choices: Sequence[Mapping[str, Any]], prompt: str, continuations: Sequence[str]
) -> tuple[tuple[float, ...], tuple[int, ...]] | None:
    """Return the log probability of each continuation, and its number of tokens.

    Args:
        choices: the echo of the prompt alone, then of the prompt with each continuation.
        prompt: the prompt.
        continuations: the texts appended to it.

    Returns:
        Sums and counts over the tokens that each continuation adds to the prompt; None if the
        server did not return the log probabilities of what it was sent.
    """
    sent = [prompt, *(prompt + text for text in continuations)]
    if len(choices) != len(sent):
        return None
    echoes = [_echo(choice, text) for choice, text in zip(choices, sent, strict=True)]
    alone = echoes[0]
    if alone is None:
        return None
    sums, counts = [], []
    for echo in echoes[1:]:
        if echo is None:
            return None
        shared = 0
        for one, other in zip(alone[0], echo[0], strict=False):
            if one != other:
                break
            shared += 1
        added = echo[1][shared:]
        if not added or not all(isinstance(value, int | float) for value in added):
            return None
        sums.append(min(math.fsum(added), 0.0))
        counts.append(len(added))
    return tuple(sums), tuple(counts)


def _listed(logprobs: Any) -> dict[str, float]:
    """Return token -> log probability for the alternatives of the first token.

    Servers use two shapes: `top_logprobs` (completions) and `content` (chat; llama.cpp for both).
    """
    if not isinstance(logprobs, Mapping):
        return {}
    listed: dict[str, float] = {}
    if content := logprobs.get("content"):
        pairs = [
            (entry.get("token"), entry.get("logprob"))
            for entry in content[0].get("top_logprobs") or ()
        ]
    else:
        tops = logprobs.get("top_logprobs") or ()
        pairs = list((tops[0] or {}).items()) if tops else []
    for token, value in pairs:
        if isinstance(token, str) and isinstance(value, int | float) and not math.isnan(value):
            name = token.translate(_SPACES)
            listed[name] = max(listed.get(name, -math.inf), min(float(value), 0.0))
    return listed


def _echo(choice: Mapping[str, Any], text: str) -> tuple[list[str], list[Any]] | None:
    """Return the tokens of an echoed text and their log probabilities; None without an echo."""
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, Mapping):
        return None
    tokens, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if not tokens or not values or len(tokens) != len(values):
        return None
    # A server that ignores `echo` returns generated text instead.
    if not str(choice.get("text")).rstrip().endswith(text.rstrip()[-40:]):
        return None
    return list(tokens), list(values)
