"""A victim that always picks the first option."""

from __future__ import annotations

from collections.abc import Sequence


def answer(prompts: Sequence[str]) -> list[str]:
    """Say A to every prompt."""
    return ["The answer is A."] * len(prompts)
