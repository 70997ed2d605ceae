"""Which option a reply names, and when more text can no longer change that."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

from medstress.option_letters.cleaning import without_thoughts
from medstress.option_letters.options_aware import is_final, options_aware

__all__ = ["is_decided", "option_letters", "options_aware", "without_thoughts"]


def option_letters(options: Sequence[str]) -> str:
    """Return the letters of the options.

    >>> option_letters(["Aspirin", "Warfarin", "Heparin"])
    'ABC'
    """
    return ascii_uppercase[: len(options)]


def is_decided(text: str, options: Sequence[str]) -> bool:
    """Whether no further text can change how any parser reads this reply.

    Any parser, not only the victim's own, because runs with other parsers share the answer. A reply
    is decided once a line that begins with an option's label has ended, and the next line is known
    not to continue a list of labels. It must have more than one character, because a second one
    matters to a parser that accepts nothing but a letter.

    >>> drugs = ["Aspirin", "Warfarin", "Heparin"]
    >>> is_decided("B: Warfarin\\n", drugs), is_decided("B: Warfarin\\nSince", drugs)
    (False, True)
    >>> is_decided("A: Aspirin\\nB: Warf", drugs)
    False
    """
    return len(text.strip()) > 1 and is_final(text, options)
