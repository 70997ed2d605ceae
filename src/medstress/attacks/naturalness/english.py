"""What the endings and first letters of English names tell: article, number, words that count."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_SPELLED_WITH_AN = frozenset("AEFHILMNORSX")
"""Letters whose own names begin with a vowel: an MRI, but a CT."""
_SAID_YOU = re.compile(r"(?:u(?:ni(?!n|m)|s[aeiu]|t[aei]|r(?:[aeiou]|$))|eu|ewe|one\b|once\b)")
_SILENT_H = re.compile(r"h(?:our|onest|onou?r|eir)")
_AN_DIGITS = re.compile(r"(?:8|11\b|18\b)")
_AFTER_HEAD = re.compile(
    r"\s*[,(\[;:]|\s(?:of|in|with|without|due|to|from|by|for|at|on|and|or|after|during|caused|"
    r"associated|secondary|type)\b",
    re.IGNORECASE,
)
_SINGULAR_ENDS = ("ss", "us", "is", "as", "os", "'s", "’s")
_LATIN_PLURALS = ("omata", "ae", "itides")
_ENDS_IN_S = (
    "diabetes herpes rabies scabies caries ascites measles mumps rickets series pancreas facies "
    "shingles biceps triceps forceps lens hives tabes yaws lues species"
)
"""Words that end in s and are no plurals, or are both."""
_SMALL_WORDS = "with from that this type into than also"
_NO_PLURALS, _UNCOUNTED = (frozenset(text.split()) for text in (_ENDS_IN_S, _SMALL_WORDS))
_LONG_WORD = 4


def takes_an(name: str) -> bool:
    """Return whether the indefinite article before a name is "an".

    The rule goes by letters: vowels take "an" but where they are said as in "unit", "eustachian"
    or "one"; a first word in capitals is spelled out, where it has no more than four letters and
    digits.

    >>> [takes_an(name) for name in ("ulcer", "uric acid", "MRI", "CT scan", "H2 blocker", "8-MOP")]
    [True, False, True, False, True, True]
    """
    first = name.lstrip("([{\"'")
    word = re.split(r"[\s\-/,]", first, maxsplit=1)[0]
    if 1 < len(word) <= _LONG_WORD and word.isupper() and word[0].isalpha():
        return word[0] in _SPELLED_WITH_AN
    lower = first.lower()
    if lower[:1].isdigit():
        return bool(_AN_DIGITS.match(lower))
    if lower[:1] in set("aeiou"):
        return not _SAID_YOU.match(lower)
    return bool(_SILENT_H.match(lower))


def head(name: str) -> str:
    """Return the word that carries a name's number: the last before a preposition or a comma.

    >>> head("facial nerve injuries of the face"), head("Anemia, aplastic"), head("HER2")
    ('injuries', 'anemia', 'her')
    """
    cut = _AFTER_HEAD.search(name, 1)
    words = _WORD.findall(name[: cut.start()] if cut else name) or _WORD.findall(name)
    return words[-1].lower() if words else ""


def is_plural(name: str) -> bool:
    """Return whether the head of a name is a plural, by its ending.

    >>> [is_plural(name) for name in ("injuries", "diabetes", "paralysis", "abscess", "metastases")]
    [True, False, False, False, True]
    """
    word = head(name)
    if word in _NO_PLURALS or len(word) < _LONG_WORD:
        return False
    if word.endswith(_LATIN_PLURALS):
        return True
    return word.endswith("s") and not word.endswith(_SINGULAR_ENDS)


def content_words(text: str) -> list[str]:
    """Return the words of four letters and more, in lower case, without a plural s.

    >>> content_words("Injuries of the facial nerves")
    ['injurie', 'facial', 'nerve']
    """
    words = [word.lower() for word in _WORD.findall(text)]
    return [
        word[:-1] if word.endswith("s") and not word.endswith(_SINGULAR_ENDS) else word
        for word in words
        if len(word) >= _LONG_WORD and word not in _UNCOUNTED
    ]


def last_word(text: str) -> str:
    """Return the word that a text ends with, in lower case, also a number; empty if none."""
    found = re.search(r"([\w'’]+)\s+$", text)
    return found[1].lower() if found else ""


def first_word(text: str) -> str:
    """Return the word that a text begins with after a space, in lower case; empty if none."""
    found = re.match(r"\s+([\w'’]+)", text)
    return found[1].lower() if found else ""
