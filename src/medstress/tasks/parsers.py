"""Read an option letter from generated text; None if the text is unreadable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from medstress.option_letters import option_letters, options_aware

Parser = Callable[[str, Sequence[str]], str | None]
"""(reply, texts of the options) -> the letter of one of them."""
DEFAULT = "options_aware"


def exact(text: str, options: Sequence[str]) -> str | None:
    """Return the text if it is exactly one letter (the released script for T5 models).

    >>> exact("B", ["Yes", "No"]), exact("B.", ["Yes", "No"])
    ('B', None)
    """
    return text if len(text) == 1 and text in option_letters(options) else None


def first_four(text: str, options: Sequence[str]) -> str | None:
    """Return the first option letter among four characters (the released MedAlpaca script).

    The published rule is too lenient: the gold letter counts if it occurs at all, so "A or B" is
    right for both. Here the first letter counts, which does not depend on the gold.

    >>> first_four(" A or B", ["Yes", "No"])
    'A'
    """
    letters = option_letters(options)
    segment = text.replace("\n", "").removeprefix(" ")
    return next((character for character in segment[:4] if character in letters), None)


def single_character(text: str, options: Sequence[str]) -> str | None:
    """Return the text if it is one letter after stripping (the released DiscreteZOO fork).

    >>> single_character(" B\\n", ["Yes", "No"]), single_character("B)", ["Yes", "No"])
    ('B', None)
    """
    stripped = text.strip()
    return stripped if len(stripped) == 1 and stripped in option_letters(options) else None


PARSERS: dict[str, Parser] = {
    "options_aware": options_aware,
    "exact": exact,
    "first_four": first_four,
    "single_character": single_character,
}
LONGEST_READ = 40_000
"""Most characters of a reply that are read, because parsers may be slow on longer texts."""


def option_read(parser: str, text: str, options: Sequence[str]) -> str | None:
    """Read a reply with a parser; of a reply longer than `LONGEST_READ`, its start and its end.

    >>> option_read("options_aware", "Hm. " * 9_999_999 + "The answer is B.", ["Yes", "No"])
    'B'
    """
    if len(text) > LONGEST_READ:
        half = LONGEST_READ // 2
        text = f"{text[:half]}\n{text[-half:]}"
    return PARSERS[parser](text, options)


SUMMARIES = {
    "options_aware": "the one option that a reply commits to, by label, statement or text",
    "exact": "the text is the letter and nothing else (released script for T5, Xian et al.)",
    "first_four": "the first option letter in four characters (released script for MedAlpaca)",
    "single_character": "one character and white space (released fork of DiscreteZOO)",
}
"""One line for each parser, for `medstress list parsers`."""
