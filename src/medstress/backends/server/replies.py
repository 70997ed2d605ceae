"""Reads the parts of a server's reply that all kinds of request need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.calls import LENGTH, Prompt

_ADDED_TOKENS = 64
"""More tokens than a chat template or a start token adds to a prompt."""
_CHARACTERS_PER_TOKEN = 4
_MAX_COUNT = 1 << 31
"""The largest number of tokens that is believed."""


def text_of(choice: dict[str, Any]) -> str | None:
    """Return the text of a choice, or None if there is none; a refusal counts as a text.

    If a model reached `max_new_tokens` while it was reasoning, the text is empty.
    """
    message = choice.get("message")
    if isinstance(message, dict):
        texts = (message.get("content"), message.get("refusal"))
        only_thought = reasoning_of(choice) is not None or is_cut(choice)
        return next((text for text in texts if isinstance(text, str)), "" if only_thought else None)
    text = choice.get("text")
    return text if isinstance(text, str) else None


def is_cut(choice: Mapping[str, Any]) -> bool:
    """Return whether the server reports that it truncated the text."""
    return choice.get("finish_reason") == LENGTH


def reasoning_of(choice: dict[str, Any]) -> str | None:
    """Return the reasoning that a server gives apart from the text, or None.

    vLLM, llama.cpp and DeepSeek call it `reasoning_content`, Ollama and OpenRouter `reasoning`.
    """
    message = choice.get("message")
    named = message if isinstance(message, dict) else {}
    texts = (named.get("reasoning_content"), named.get("reasoning"))
    return next((text for text in texts if isinstance(text, str) and text), None)


def plain(prompt: Prompt) -> str:
    """Return a prompt as one text, for counting."""
    return prompt if isinstance(prompt, str) else "\n".join(m.content for m in prompt)


def most_tokens(texts: Sequence[str]) -> int:
    """Return an upper bound of tokens: no tokenizer makes more tokens than a text has bytes."""
    return sum(len(text.encode()) + _ADDED_TOKENS for text in texts)


def usage_of(reply: dict[str, Any], sent: Sequence[str], text: str) -> tuple[int, int]:
    """Return tokens in and out, from the server or else estimated from the characters."""
    usage = reply.get("usage")
    reported = usage if isinstance(usage, dict) else {}
    counted: list[int] = []
    for key, texts in (("prompt_tokens", sent), ("completion_tokens", [text])):
        value: Any = reported.get(key)
        known = type(value) is int and 0 <= value <= _MAX_COUNT
        counted.append(value if known else sum(map(len, texts)) // _CHARACTERS_PER_TOKEN)
    return counted[0], counted[1]
