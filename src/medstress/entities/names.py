"""Whether two names mean the same or nearly the same: normal form, words, variant classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import combining, normalize

import numpy as np

from medstress.core.validity import VARIANT_CLASSES

SAME_WORDS, KEY_PLUS_WORDS, KEY_SUBSET, SYNONYM, DIFFERENT = range(len(VARIANT_CLASSES))

_POSSESSIVE = re.compile(r"['`]s\b")
_WORD = re.compile(r"[^\W_]+")
_UNSEEN = re.compile("[\u0300-\u036f\u00ad\u200b-\u200f\u2060\ufeff]")
"""Accents that follow their letter, and characters without a form."""
_PLAIN = str.maketrans(
    {
        **dict(zip("øłđðıħŧ", "olddiht", strict=True)),
        **dict(zip("αβγδεζηικλμνξοπρστυω", "abgdezeiklmnxoprstuo", strict=True)),
        **{"æ": "ae", "œ": "oe", "þ": "th", "θ": "th", "φ": "ph", "χ": "kh", "ψ": "ps"},
        **dict(zip("аеорсухіѕј", "aeopcyxisj", strict=True)),  # Cyrillic, but looks Latin
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("‘’′", "'"),
        **dict.fromkeys("“”", '"'),
        "⁄": "/",
    }
)


def unaccented(text: str) -> str:
    """Return a text in lower case, with Latin letters for accented and Greek ones.

    Letters of other scripts stay as they are.

    >>> unaccented("Sj\u00f6gren\u2019s \u03b2\u2011cells"), unaccented("\u00bd \u2103 \u7cd6")
    ("sjogren's b-cells", '1/2 \u00b0c \u7cd6')
    """
    text = text.casefold()
    if text.isascii():
        return text
    apart = normalize("NFKD", text).replace(" \u0301", "'")  # an accent in place of an apostrophe
    return _UNSEEN.sub("", apart).translate(_PLAIN).casefold()


def normalise(text: str) -> str:
    """Return the form in which names are compared as strings.

    Names are stripped, case-folded and freed of accents, and hyphens become spaces, as in Xian et
    al. (2025). Differs from their code: hyphens are replaced last and runs of white space collapse,
    so more names count as equal; and other scripts are not transliterated, since that would make
    different words equal.

    >>> normalise(" Guillain-Barr\u00e9  Syndrome ")
    'guillain barre syndrome'
    """
    return " ".join(unaccented(text).replace("-", " ").split())


@lru_cache(maxsize=1 << 16)
def fold_word(word: str) -> str:
    """Return the form in which words are compared: singular, with e for ae and oe.

    The rule works on endings, without a dictionary. Final ss and us stay; es, is or s is dropped,
    then a final e, and a final y becomes i (as ies does). Plural and singular thus become equal,
    however the plural is formed: masses, diseases, injuries, metastases. Words with digits and
    words of one or two letters stay. A few words in thousands become equal by accident (Meige,
    Meigs); this costs a name to draw but never yields a second right answer.

    >>> [fold_word(word) for word in ("masses", "mass", "injuries", "injury", "metastases")]
    ['mass', 'mass', 'injuri', 'injuri', 'metastas']
    >>> fold_word("anaemias") == fold_word("anemia"), fold_word("virus"), fold_word("b12")
    (True, 'virus', 'b12')
    """
    stem = word
    if len(word) > 2 and word.isalpha() and not word.endswith(("ss", "us")):
        if word.endswith(("es", "is")):
            stem = word[:-2]
        elif word.endswith("s"):
            stem = word[:-1]
        stem = stem.removesuffix("e")
        if stem.endswith("y"):
            stem = stem[:-1] + "i"
        if len(stem) < 2:
            stem = word
    return stem.replace("ae", "e").replace("oe", "e")


def words(text: str) -> list[str]:
    """Return the folded words of a text in order, without possessive 's and punctuation.

    >>> words("Crohn's diseases of the Oesophagus")
    ['crohn', 'diseas', 'of', 'th', 'esophagus']
    """
    return [fold_word(word) for word in _WORD.findall(_POSSESSIVE.sub("", normalise(text)))]


def folded(name: str) -> str:
    """Return the form in which names are compared regardless of case, plural and hyphens.

    >>> folded("beta - Blockers") == folded("beta-blocker")
    True
    """
    return " ".join(words(name))


_MOST_CAPITALS = 8
_FEWEST_LETTERS = 4


def is_acronym(name: str) -> bool:
    """Return whether a name as written is an acronym, or too short to mean one thing.

    One word of at most eight letters of which half or more are capitals, or of fewer than four.

    >>> [is_acronym(name) for name in ("PD", "NaCl", "L-DOPA", "5-FU", "gut", "gout", "AML cells")]
    [True, True, True, True, True, False, False]
    """
    letters = [character for character in name if character.isalpha()]
    capitals = sum(character.isupper() for character in letters)
    is_short = len(letters) < _FEWEST_LETTERS or (
        len(letters) <= _MOST_CAPITALS and 2 * capitals >= len(letters)
    )
    return len(name.split()) == 1 and is_short


def word_set(text: str) -> frozenset[str]:
    """Return the set of folded words: equal for names that differ in word order or plural."""
    return frozenset(words(text))


def variant_class(
    name: str, references: Iterable[str], synonyms: Iterable[str] = frozenset()
) -> str:
    """Return the class of one name: the first of VARIANT_CLASSES that fits any reference.

    `same_words`: the same set of words; `key_plus_words`: all words of a reference and more (a
    subtype, a number, a salt); `key_subset`: some words of a reference and no others (a
    supertype); `synonym`: the words of a listed synonym; else `different`. A reference without
    words fits nothing.

    Args:
        name: the replacement.
        references: the key's text and the entities in it.
        synonyms: names listed as synonyms of a reference.

    >>> variant_class("diclofenac sodium", ["diclofenac"])
    'key_plus_words'
    >>> variant_class("diabetes mellitus", ["Type 2 diabetes mellitus"])
    'key_subset'
    >>> variant_class("heart attack", ["myocardial infarction"], ["heart attack"])
    'synonym'
    """
    own = word_set(name)
    if not own:
        return VARIANT_CLASSES[DIFFERENT]
    keys = [key for reference in references if (key := word_set(reference))]
    if own in keys:
        return VARIANT_CLASSES[SAME_WORDS]
    if any(key < own for key in keys):
        return VARIANT_CLASSES[KEY_PLUS_WORDS]
    if any(own < key for key in keys):
        return VARIANT_CLASSES[KEY_SUBSET]
    if any(own == word_set(synonym) for synonym in synonyms):
        return VARIANT_CLASSES[SYNONYM]
    return VARIANT_CLASSES[DIFFERENT]


class VariantIndex:
    """Finds the variants of a key among all names of a vocabulary without a loop over them.

    It is an inverted index word -> names, immutable once built, so threads may share it.
    """

    def __init__(self, names: Sequence[str]) -> None:
        postings: dict[str, list[int]] = {}
        self._by_words: dict[frozenset[str], list[int]] = {}
        self._by_text: dict[str, list[int]] = {}
        self._sizes = np.zeros(len(names), dtype=np.int64)
        for index, name in enumerate(names):
            own = word_set(name)
            self._sizes[index] = len(own)
            self._by_words.setdefault(own, []).append(index)
            self._by_text.setdefault(normalise(name), []).append(index)
            for word in own:
                postings.setdefault(word, []).append(index)
        self._postings = {word: np.array(ids, np.int64) for word, ids in postings.items()}

    def variants(
        self, references: Iterable[str], synonyms: Iterable[str] = frozenset()
    ) -> dict[int, int]:
        """Return the names whose `variant_class` is not `different`.

        Returns:
            Index of a name -> position in VARIANT_CLASSES, 0 (`same_words`) to 3 (`synonym`).
        """
        classes: dict[int, int] = {}
        for own in filter(None, map(word_set, synonyms)):
            classes.update(dict.fromkeys(self._by_words.get(own, ()), SYNONYM))
        for key in {word_set(reference) for reference in references}:
            postings = [self._postings[word] for word in key if word in self._postings]
            if not postings:
                continue
            shared = np.bincount(np.concatenate(postings), minlength=len(self._sizes))
            near = np.flatnonzero((shared == len(key)) | ((shared > 0) & (shared == self._sizes)))
            size = self._sizes[near]
            code = np.where(size > len(key), KEY_PLUS_WORDS, KEY_SUBSET)
            code[size == len(key)] = SAME_WORDS
            for index, one in zip(near.tolist(), code.tolist(), strict=True):
                classes[index] = min(classes.get(index, DIFFERENT), one)
        return classes

    def equal_to(self, texts: Iterable[str]) -> list[int]:
        """Return the indices of the names that equal a text after `normalise`."""
        normals = dict.fromkeys(map(normalise, texts))
        return [index for normal in normals for index in self._by_text.get(normal, ())]


@lru_cache(maxsize=2)
def variant_index(names: tuple[str, ...]) -> VariantIndex:
    """Return the index of names; those of the last two vocabularies are kept."""
    return VariantIndex(names)


# -- words as a gazetteer compares them ------------------------------------------------------------

# A word with its possessive ending (not part of the word), or one punctuation mark. White space and
# hyphens separate words. A mark is a word of its own: no name is found across a comma or full stop,
# but names that contain one ("46,xx testicular disorder") are.
_FORM = re.compile(r"(?P<word>[^\W_]+)(?:['`]s(?![^\W_])|(?<=s)['`](?![^\W_]))?|[^\w\s-]|_")

MIN_STEM = 4
"""Shorter singulars are not trusted: hives is not HIV, AIDS is not aid."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word or punctuation mark."""

    form: str
    """The form that is compared: lower case, without accents, singular if long enough."""
    start: int
    """First character in the original text."""
    end: int
    """One past the last character in the original text."""


def split(text: str) -> list[Word]:
    """Return the words of a text with their offsets in it.

    Case, accents, possessive 's, plural, ae for e and oe for e are ignored, and hyphens are
    spaces, as in `normalise`.

    >>> [(word.form, "Crohn\u2019s Naïve-cell"[word.start : word.end])
    ...  for word in split("Crohn\u2019s Naïve-cell")]
    [('crohn', 'Crohn'), ('naiv', 'Naïve'), ('cell', 'cell')]
    """
    plain, places = _plain(text)
    words = []
    for match in _FORM.finditer(plain):
        start, end = match.span("word") if match["word"] else match.span()
        first, last = (start, end - 1) if places is None else (places[start], places[end - 1])
        past = last + 1
        while past < len(text) and combining(text[past]):
            past += 1  # accents that follow their letter
        words.append(Word(_form(plain[start:end]), first, past))
    return words


def forms(text: str) -> list[str]:
    """Return the compared form of each word, without offsets and therefore faster.

    >>> forms("Crohn's diseases")
    ['crohn', 'diseas']
    """
    return [form for part in text.split() for form in _forms(part)]


@lru_cache(maxsize=1 << 17)
def _forms(part: str) -> tuple[str, ...]:
    """Return the forms of a text without white space; kept, as names share most of their words."""
    if part.isascii() and part.isalnum():
        return (_form(part.casefold()),)  # as most are, and as below
    return tuple(_form(match["word"] or match[0]) for match in _FORM.finditer(_plain(part)[0]))


@lru_cache(maxsize=1 << 17)
def _form(word: str) -> str:
    folded = fold_word(word)
    return folded if len(folded) >= MIN_STEM else word


def _plain(text: str) -> tuple[str, list[int] | None]:
    """Return `unaccented`, and the place of each character in `text` (None: the same)."""
    if text.isascii():
        return text.casefold(), None
    pieces: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        # One character may become none (a combining accent) or several (ß, ½).
        piece = unaccented(character)
        pieces.append(piece)
        places += [place] * len(piece)
    return "".join(pieces), places


def first_form(name: str) -> str:
    """Return the compared form of a name's first word; empty if it has none.

    >>> first_form("Crohn's disease"), first_form("-")
    ('crohn', '')
    """
    words = _forms(name.partition(" ")[0]) or forms(name)
    return words[0] if words else ""
