"""Parts of a server's reply that every way of asking reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from medstress.calls import LENGTH, Prompt

_ADDED_TOKENS = 64
"""More than a chat template, or a mark of the beginning, adds to the tokens of a prompt."""
_CHARACTERS_PER_TOKEN = 4
_MOST_COUNTED = 1 << 31
"""Tokens; what a server says beyond that is no count."""
_VERSION = re.compile(r"(-\d{4}(-?\d\d){0,2}|:latest|@.+)", re.I)
"""What a server may add to the name it was asked for: a date, a tag, a revision."""


def is_named(name: str, asked: str) -> bool:
    """Whether a returned name is the one asked for, or a version of it.

    >>> is_named("gpt-4o-2024-08-06", "gpt-4o"), is_named("gpt-4o-mini", "gpt-4o")
    (True, False)
    """
    rest = name[len(asked) :]
    same = name[: len(asked)].casefold() == asked.casefold()
    return same and (not rest or _VERSION.fullmatch(rest) is not None)


def text_of(choice: dict[str, Any]) -> str | None:
    """The text of a choice; a refusal is an answer too, from which no option can be read.

    A model that came to `max_new_tokens` while it reasoned has said nothing: no text is one then.
    """
    message = choice.get("message")
    if isinstance(message, dict):
        texts = (message.get("content"), message.get("refusal"))
        only_thought = reasoning_of(choice) is not None or is_cut(choice)
        return next((text for text in texts if isinstance(text, str)), "" if only_thought else None)
    text = choice.get("text")
    return text if isinstance(text, str) else None


def is_cut(choice: Mapping[str, Any]) -> bool:
    """Whether a server says that it cut the text off at the most tokens it was asked for."""
    return choice.get("finish_reason") == LENGTH


def reasoning_of(choice: dict[str, Any]) -> str | None:
    """Thoughts that a server gives beside the text; None where there are none.

    vLLM, llama.cpp and DeepSeek call them `reasoning_content`, Ollama and OpenRouter `reasoning`.
    """
    message = choice.get("message")
    named = message if isinstance(message, dict) else {}
    texts = (named.get("reasoning_content"), named.get("reasoning"))
    return next((text for text in texts if isinstance(text, str) and text), None)


def plain(prompt: Prompt) -> str:
    """The texts of a prompt, for counting."""
    return prompt if isinstance(prompt, str) else "\n".join(m.content for m in prompt)


def most_tokens(texts: Sequence[str]) -> int:
    """An upper bound: no tokenizer makes more tokens of a text than it has bytes."""
    return sum(len(text.encode()) + _ADDED_TOKENS for text in texts)


def usage_of(found: dict[str, Any], sent: Sequence[str], text: str) -> tuple[int, int]:
    """Tokens in and out as the server says, else estimated from the characters."""
    usage = found.get("usage")
    given = usage if isinstance(usage, dict) else {}
    counted: list[int] = []
    for key, texts in (("prompt_tokens", sent), ("completion_tokens", [text])):
        value: Any = given.get(key)
        known = type(value) is int and 0 <= value <= _MOST_COUNTED
        counted.append(value if known else sum(map(len, texts)) // _CHARACTERS_PER_TOKEN)
    return counted[0], counted[1]
