"""Victims with a planted weakness, as functions for the python back end.

Each knows the items and their keys and answers right, except where its rule makes it err, so it is
known beforehand what an attack has to find. Pass one to the python back end from your own file::

    from medstress.testing import errs_on_cue, tiny_questions

    rule = errs_on_cue(tiny_questions(8), "mirozide")

    def answer(prompts):
        return rule(prompts)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from medstress.core.items import Question

PromptVictim: TypeAlias = Callable[[list[str]], list[dict[str, str]]]
"""Takes prompts with the options listed, and returns ``{"answer": letter}`` for each."""

Rule: TypeAlias = Callable[[Question, tuple[str, ...]], bool]
"""Returns whether the victim errs, given the original item and the options in the prompt."""

_WORD = re.compile(r"[^\W_]+")
_OPTION = re.compile(r"^([A-J]): (.*)$", re.MULTILINE)


def planted(items: Sequence[Question], errs: Rule) -> PromptVictim:
    """Make a victim that answers the key, or if `errs` is true the first other letter.

    Items are recognised by the words of their stems, so attacks that change these need another
    victim; white space, punctuation and case may change.

    Raises (the victim, when asked):
        ValueError: the prompt contains no item's stem, or does not list the options.
    """

    def answer(prompts: list[str]) -> list[dict[str, str]]:
        return [{"answer": _letter(items, errs, prompt)} for prompt in prompts]

    return answer


def never_errs(items: Sequence[Question]) -> PromptVictim:
    """Make a victim that is always right, so that every attack must fail."""
    return planted(items, lambda item, options: False)


def errs_on_any_change(items: Sequence[Question]) -> PromptVictim:
    """Make a victim that errs as soon as any option differs, so that every attack must succeed."""
    return planted(items, lambda item, options: options != item.options)


def errs_on_cue(items: Sequence[Question], cue: str) -> PromptVictim:
    """Make a victim that errs if an option contains the cue, ignoring case."""
    return planted(items, lambda _, options: any(cue.casefold() in o.casefold() for o in options))


def errs_on_names(items: Sequence[Question], names: Collection[str]) -> PromptVictim:
    """Make a victim that errs if a changed option is one of the names."""
    known = {name.casefold() for name in names}

    def errs(item: Question, options: tuple[str, ...]) -> bool:
        changed = (new for new, old in zip(options, item.options, strict=True) if new != old)
        return any(option.casefold() in known for option in changed)

    return planted(items, errs)


def _words(text: str) -> str:
    """Return the words of a text between single spaces, one at either end."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _letter(items: Sequence[Question], errs: Rule, prompt: str) -> str:
    words = _words(prompt)
    item = next((item for item in items if _words(item.stem) in words), None)
    if item is None:
        raise ValueError(f"a planted victim got a prompt without any of its items: {prompt!r}")
    listed = _OPTION.findall(prompt)[-len(item.options) :]
    if "".join(letter for letter, _ in listed) != item.letters:
        raise ValueError(f"a planted victim needs options as lines 'A: ...', got {prompt!r}")
    if not errs(item, tuple(text for _, text in listed)):
        return item.key
    return next(letter for letter in item.letters if letter != item.key)
