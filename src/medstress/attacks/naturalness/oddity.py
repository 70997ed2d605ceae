"""How odd an option reads with another name in it, by reason; the clean option is the measure.

Every reason compares the edited option with the clean one, so that what the author wrote is
natural by definition: a text with its own name scores 0. The weights are ours: 1 for what is
wrong in itself, 0.4 for what an author may write and seldom does. Where the filter cuts is
measured on clean options (studies/naturalness).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from medstress.attacks.naturalness.english import (
    content_words,
    first_word,
    is_plural,
    last_word,
    takes_an,
)
from medstress.core.text import copy_case

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

GRAMMAR = ("article", "number", "capitals", "repeated_word")
FORM = ("length", "form")
REASONS = (*GRAMMAR, *FORM)
"""Why an edited option is odd: the first four are its grammar, the others its form."""

CaseCopy: TypeAlias = Callable[[str, str], str]

_WRONG, _SELDOM = 1.0, 0.4
_ONE = "a an one single this that each every another is was has does"
_MANY = (
    "two three four five many multiple several these those both few numerous various all are were "
    "have do"
)
"""Neighbours that want a singular, and those that want a plural."""
_MARKS = (
    re.compile(r"[()\[\]]"),
    re.compile(r"[,;:]"),
    re.compile(r"/"),
    re.compile(r"\bNOS\b|\bNEC\b|unspecified|not elsewhere|otherwise specified", re.IGNORECASE),
)
"""Marks of lists of names that test authors seldom write: brackets, inverted names, codings."""
_WORDLESS = re.compile(r"^(?!.*[^\W\d_]{2})", re.DOTALL)
"""A name without two letters in a row, such as 17 or X."""
_SHOUTED = re.compile(r"\b[A-Z]{6,}\b")
_TITLED = re.compile(r"\s[A-Z][a-z]{3,}")
_EPONYM = re.compile(r"[^\W\d_]+['’]s\b")


def oddities(
    text: str, start: int, end: int, names: Sequence[str], recase: CaseCopy = copy_case
) -> Mapping[str, Floats]:
    """Return how odd an option becomes with each name, by reason; 0 is as natural as it was.

    `article`: a or an before it no longer fits. `number`: its head turned plural or singular, and
    worse where a neighbour shows its number. `capitals`: an acronym or a name of a person lost its
    capital, or capitals stand where the author wrote none. `repeated_word`: a word stands twice in
    the option. `length`: the mean of |log ratio| of characters and words. `form`: brackets,
    commas, slashes and words of codings (NOS) that the option did not have; a name of no word.

    Args:
        text: the clean option.
        start: first character of the name that is replaced.
        end: one past its last.
        names: the names to put in, in their own spelling.
        recase: gives a name the case that it will have.

    Returns:
        Reason (`REASONS`) -> shape (n_names,), >= 0.

    >>> found = oddities("paralysis of the facial muscles", 0, 9, ["facial nerve injuries"])
    >>> {reason: round(float(values[0]), 2) for reason, values in found.items() if values[0]}
    {'number': 0.4, 'repeated_word': 1.0, 'length': 0.33}
    """
    old, before, after = text[start:end], text[:start], text[end:]
    forms = _forms(tuple(names), recase, _like(old))
    return {
        "article": _article(forms, old, before),
        "number": _number(forms, old, before, after),
        "capitals": forms.miscased
        + _SELDOM * (forms.shouted & (_SHOUTED.search(text) is None))
        + _SELDOM * (forms.titled & (_TITLED.search(text) is None)),
        "repeated_word": _repeated(forms, old, f"{before} {after}"),
        "length": _length(forms, text, f"{before}{after}"),
        "form": _form(forms, text, old),
    }


@dataclass(frozen=True, slots=True)
class _Forms:
    """What the names themselves tell, each field of shape (n_names,)."""

    vowel: Flags
    """Whether the article is "an"."""
    determined: Flags
    """Whether the name begins with an article of its own."""
    plural: Flags
    n_characters: Floats
    n_words: Floats
    miscased: Floats
    """1 where copying the case broke an acronym or a person's name."""
    shouted: Flags
    """Whether a long word is written in capitals."""
    titled: Flags
    """Whether a later word begins with a capital."""
    doubled: Flags
    """Whether a word stands twice in the name."""
    wordless: Flags
    """Whether the name has no word at all."""
    marks: Sequence[Flags]
    """Whether the name has each of `_MARKS`."""
    with_word: Mapping[str, Sequence[int]]
    """Word -> the names that have it."""


def _like(old: str) -> str:
    """Return a text whose first character stands for that of the replaced one."""
    return "1" if not old[:1].isalpha() else "A" if old[:1].isupper() else "a"


@lru_cache(maxsize=8)
def _forms(names: tuple[str, ...], recase: CaseCopy, like: str) -> _Forms:
    import numpy as np

    cased = [recase(name, like) for name in names]
    words = [content_words(name) for name in names]
    with_word: dict[str, list[int]] = defaultdict(list)
    for i, each in enumerate(words):
        for word in set(each):
            with_word[word].append(i)

    def flags(values: Iterable[bool]) -> Flags:
        return np.fromiter(values, np.bool_, len(names))

    return _Forms(
        vowel=flags(map(takes_an, cased)),
        determined=flags(name.lower().startswith(("a ", "an ", "the ")) for name in names),
        plural=flags(map(is_plural, names)),
        n_characters=np.array([len(name) for name in cased], dtype=np.float64),
        n_words=np.array([len(name.split()) for name in cased], dtype=np.float64),
        miscased=np.array(
            [float(_is_broken(*each)) for each in zip(names, cased, strict=True)], dtype=np.float64
        ),
        shouted=flags(_SHOUTED.search(name) is not None for name in cased),
        titled=flags(_TITLED.search(name) is not None for name in cased),
        doubled=flags(len(set(each)) < len(each) for each in words),
        wordless=flags(_WORDLESS.search(name) is not None for name in names),
        marks=[flags(mark.search(name) is not None for name in names) for mark in _MARKS],
        with_word=with_word,
    )


def _is_broken(name: str, cased: str) -> bool:
    """Whether copying the case took a capital that belongs to the name, or made one up."""
    if name == cased:
        return False
    if name[:1].islower():
        return name[1:2].isupper()  # mRNA, pH
    return name[1:2].isupper() or _EPONYM.match(name) is not None


def _article(forms: _Forms, old: str, before: str) -> Floats:
    import numpy as np

    word = last_word(before)
    wrong = np.zeros(forms.vowel.shape, np.bool_)
    if word in ("a", "an"):
        if takes_an(old) == (word == "an"):  # else the author's own article did not fit
            wrong = forms.vowel != (word == "an")
        if not is_plural(old):
            wrong = wrong | forms.plural
    if word in ("a", "an", "the"):
        wrong = wrong | forms.determined
    return np.where(wrong, _WRONG, 0.0)


def _number(forms: _Forms, old: str, before: str, after: str) -> Floats:
    import numpy as np

    was = is_plural(old)
    wanted = (_MANY if was else _ONE).split()
    shows = last_word(before) in wanted or first_word(after) in wanted
    return np.where(forms.plural != was, _WRONG if shows else _SELDOM, 0.0)


def _repeated(forms: _Forms, old: str, frame: str) -> Floats:
    import numpy as np

    own, around = content_words(old), set(content_words(frame))
    repeats = forms.doubled & (len(set(own)) == len(own))
    for word in around - set(own):
        repeats[np.array(forms.with_word.get(word, ()), dtype=np.int64)] = True
    return np.where(repeats, _WRONG, 0.0)


def _length(forms: _Forms, text: str, frame: str) -> Floats:
    import numpy as np

    characters = (forms.n_characters + len(frame)) / len(text)
    words = (forms.n_words + len(frame.split())) / max(len(text.split()), 1)
    ratios: Floats = (np.abs(np.log(characters)) + np.abs(np.log(words))) / 2
    return ratios


def _form(forms: _Forms, text: str, old: str) -> Floats:
    import numpy as np

    total = np.zeros(forms.vowel.shape)
    if _WORDLESS.search(old) is None:
        total += _WRONG * forms.wordless
    for mark, has in zip(_MARKS, forms.marks, strict=True):
        if mark.search(text) is None:
            total += (_WRONG if mark is _MARKS[-1] else _SELDOM) * has
    return total
