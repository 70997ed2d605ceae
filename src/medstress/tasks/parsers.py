"""From generated text to an option letter; None where the text is unreadable."""

from __future__ import annotations

from collections.abc import Callable

from medstress.option_letters import letters_of

Parser = Callable[[str, str], str | None]


def standalone(text: str, letters: str) -> str | None:
    """The first line's standalone option letter (our default).

    The text is what the model added to the prompt. Its first line that holds a standalone option
    letter decides; two different letters in it conflict: unreadable. Not counted: "A" before a
    lower-case word (the article), and a letter between two lower-case words ("vitamin C
    deficiency"), unless "answer", "option" or "choice" comes before it.

    >>> standalone("The answer is B.", "ABCD"), standalone("B or C", "ABCD")
    ('B', None)
    >>> standalone("A patient takes it", "ABCD"), standalone("(D) Warfarin", "ABCD")
    (None, 'D')
    """
    for line in text.splitlines():
        found = letters_of(line, letters)
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def exact(text: str, letters: str) -> str | None:
    """The text is the letter and nothing else (the released script for T5 models).

    >>> exact("B", "ABCD"), exact("B.", "ABCD")
    ('B', None)
    """
    return text if len(text) == 1 and text in letters else None


def first_four(text: str, letters: str) -> str | None:
    """The first option letter among the first four characters (the released MedAlpaca script).

    Over-lenient as published: there the gold letter counts if it occurs at all, so "A or B"
    is right for both. Here the first one counts, which needs no knowledge of the gold.

    >>> first_four(" A or B", "ABCD")
    'A'
    """
    segment = text.replace("\n", "").removeprefix(" ")
    return next((character for character in segment[:4] if character in letters), None)


def single_character(text: str, letters: str) -> str | None:
    """One character after stripping, else unreadable (the released DiscreteZOO fork).

    >>> single_character(" C\\n", "ABCD"), single_character("C)", "ABCD")
    ('C', None)
    """
    stripped = text.strip()
    return stripped if len(stripped) == 1 and stripped in letters else None


PARSERS: dict[str, Parser] = {
    "standalone": standalone,
    "exact": exact,
    "first_four": first_four,
    "single_character": single_character,
}
SUMMARIES = {
    "standalone": "the first line's option letter that stands alone; two different ones conflict",
    "exact": "the text is the letter and nothing else (released script for T5, Xian et al.)",
    "first_four": "the first option letter in four characters (released script for MedAlpaca)",
    "single_character": "one character and white space (released fork of DiscreteZOO)",
}
"""One line each, for `medstress list parsers`; all others are unreadable."""
