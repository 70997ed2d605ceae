"""The model that the newcomer brings."""

import re


def answer(prompts):
    """Answer every question with its longest option."""
    return [longest(prompt) for prompt in prompts]


def longest(prompt):
    """Return the letter of the longest option."""
    options = re.findall(r"^([A-J]): (.+)$", prompt, re.M)
    return max(options, key=lambda option: len(option[1]))[0]
