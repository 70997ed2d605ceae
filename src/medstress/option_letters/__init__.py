"""Which option a reply names, and when more text can no longer change that."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

from medstress.option_letters.options_aware import is_final, options_aware
from medstress.option_letters.standalone import has_letter_line, letters_of

__all__ = ["is_decided", "letters_of", "option_letters", "options_aware"]


def option_letters(options: Sequence[str]) -> str:
    """The letters of so many options.

    >>> option_letters(["Aspirin", "Warfarin", "Heparin"])
    'ABC'
    """
    return ascii_uppercase[: len(options)]


def is_decided(text: str, options: Sequence[str]) -> bool:
    """Whether every parser reads this text as it would read any longer one.

    Every parser, and not only the victim's own, because runs with another one share the answer.
    That is so once a line has ended that begins with an option's label, and the next one is known
    not to go on with a list of labels; and there is more than one character: what takes the letter
    and nothing else for an answer would still be changed by a second one.

    >>> drugs = ["Aspirin", "Warfarin", "Heparin"]
    >>> is_decided("B: Warfarin\\n", drugs), is_decided("B: Warfarin\\nSince", drugs)
    (False, True)
    >>> is_decided("A: Aspirin\\nB: Warf", drugs)
    False
    """
    if len(text.strip()) < 2:
        return False
    return has_letter_line(text, option_letters(options)) and is_final(text, options)
