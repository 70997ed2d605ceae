"""Victims with a planted weakness, as functions for the python back end.

Each knows the items and their keys, answers right, and errs exactly where its rule says so;
what an attack has to find is therefore known before it runs. Give one to the python back end
from a file of yours::

    from medstress.testing import errs_on_cue, tiny_questions

    rule = errs_on_cue(tiny_questions(8), "mirozide")

    def answer(prompts):
        return rule(prompts)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from medstress.items import Question

PromptVictim: TypeAlias = Callable[[list[str]], list[dict[str, str]]]
"""Receives prompts with the options listed, returns ``{"answer": letter}`` for each."""

Rule: TypeAlias = Callable[[Question, tuple[str, ...]], bool]
"""Whether the victim errs, given the original item and the options as asked."""

_OPTION = re.compile(r"^([A-J]): (.*)$", re.MULTILINE)


def planted(items: Sequence[Question], errs: Rule) -> PromptVictim:
    """Make a victim that answers the key, or where `errs` the first letter that is not the key.

    An item is recognised by its stem, so attacks that edit the stem need another victim.

    Raises (the victim, when asked):
        ValueError: no item's stem occurs in the prompt, or its options are not listed.
    """

    def answer(prompts: list[str]) -> list[dict[str, str]]:
        return [{"answer": _letter(items, errs, prompt)} for prompt in prompts]

    return answer


def never_errs(items: Sequence[Question]) -> PromptVictim:
    """Make a victim that is always right: every attack must fail."""
    return planted(items, lambda item, options: False)


def errs_on_any_change(items: Sequence[Question]) -> PromptVictim:
    """Make a victim that errs as soon as any option differs: every attack must succeed."""
    return planted(items, lambda item, options: options != item.options)


def errs_on_cue(items: Sequence[Question], cue: str) -> PromptVictim:
    """Make a victim that errs where an option contains the cue, whatever the case."""
    return planted(items, lambda _, options: any(cue.casefold() in o.casefold() for o in options))


def errs_on_names(items: Sequence[Question], names: Collection[str]) -> PromptVictim:
    """Make a victim that errs where an option that was changed is one of the names."""
    known = {name.casefold() for name in names}

    def errs(item: Question, options: tuple[str, ...]) -> bool:
        changed = (new for new, old in zip(options, item.options, strict=True) if new != old)
        return any(option.casefold() in known for option in changed)

    return planted(items, errs)


def _letter(items: Sequence[Question], errs: Rule, prompt: str) -> str:
    item = next((item for item in items if item.stem in prompt), None)
    if item is None:
        raise ValueError(f"a planted victim was asked about none of its items: {prompt!r}")
    listed = _OPTION.findall(prompt)[-len(item.options) :]
    if "".join(letter for letter, _ in listed) != item.letters:
        raise ValueError(f"a planted victim needs options as lines 'A: ...', got {prompt!r}")
    if not errs(item, tuple(text for _, text in listed)):
        return item.key
    return next(letter for letter in item.letters if letter != item.key)
