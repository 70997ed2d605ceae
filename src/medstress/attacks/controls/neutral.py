"""Neutral controls from a lexicon: the slots of a fuzz filled with what favours no answer.

Slots of patient characteristics get other characteristics; sentences of a category of the set
`misinformation` get true statements that have no bearing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import product
from typing import TYPE_CHECKING, Any

from medstress.attacks.controls.slots import SHORT, Form, Part, Slot, is_distinct
from medstress.errors import TrialError
from medstress.items import Candidate, Question

if TYPE_CHECKING:
    from numpy.random import Generator

SLACK = 0.2
"""How far the number of words may lie from the fuzz's, as a share of it; one word always may."""
LONG = 24
"""Sentences of more words are strung together from many clauses."""
MAX_TRIES = 200
"""Draws that repeat an earlier control, or fail a gate, before the lexicon counts as exhausted."""

_LEAST = 4
_MAX_STRINGS = 50
"""Orders of clauses that are tried for one long sentence."""

Gate = Callable[[Candidate], str | None]
"""Why a candidate must not be asked, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lexicon:
    """Words that a neutral control is made of."""

    clauses: dict[str, tuple[str, ...]]
    """By category; each follows "who" or "The patient"."""
    openings: tuple[str, ...]
    """May open a sentence."""
    tails: tuple[str, ...]
    """May follow a clause."""
    adverbs: tuple[str, ...]
    """May stand before a clause."""
    adjectives: tuple[str, ...]
    """Single words that stand inside a sentence, of no category."""
    degrees: tuple[str, ...]
    """May stand before an adjective."""
    verbs: tuple[str, ...]
    """Single words that follow "The patient" in the shortest sentences, of no category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """Sentences that a neutral control is made of where the fuzz states something false."""

    openings: dict[str, tuple[str, ...]]
    """By category; each says who says so, the empty one nobody."""
    statements: tuple[str, ...]
    """Each follows an opening or stands alone."""
    short: tuple[str, ...]
    """The same of three words, for the shortest sentences."""
    tails: tuple[str, ...]
    """May follow a statement."""


@lru_cache(maxsize=1)
def statements() -> Statements:
    """The shipped neutral statements."""
    found = _read("neutral_statements.toml")
    return Statements(
        openings={name: tuple(texts) for name, texts in found["openings"].items()},
        statements=tuple(found["statements"]),
        short=tuple(found["short"]),
        tails=tuple(found["tails"]),
    )


def _read(name: str) -> dict[str, Any]:
    path = files("medstress.attacks.controls") / "data" / name
    return tomllib.loads(path.read_text("utf-8"))


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """The shipped lexicon of neutral patient characteristics."""
    found = _read("neutral_characteristics.toml")
    return Lexicon(
        clauses={name: tuple(texts) for name, texts in found["clauses"].items()},
        openings=tuple(found["openings"]),
        tails=tuple(found["tails"]),
        adverbs=tuple(found["adverbs"]),
        adjectives=tuple(found["adjectives"]),
        degrees=tuple(found["degrees"]),
        verbs=tuple(found["verbs"]),
    )


def neutral_control(original: Question, slots: Sequence[Slot], rng: Generator) -> Candidate:
    """Fill a fuzz's slots with neutral characteristics.

    Knows the places, forms, categories and lengths of what the fuzz inserted; neither its
    words, nor the key, nor the plan, nor any answer.

    Args:
        original: the item; its key is not read.
        slots: as `slots_of` gives them.
        rng: draws the words.

    Returns:
        As many insertions at the same places, of the same categories (an unknown one is drawn),
        together within 20 % of the fuzz's words.

    Raises:
        TrialError: the lexicon holds nothing more of that length.
    """
    used: set[str] = set()
    edits = []
    for slot in slots:
        words = []
        for part in slot.parts:
            words.append(_drawn(part, _category(part, rng), rng, used))
            used.add(words[-1])
        edits.append(slot.filled(*words))
    return Candidate(item=original, edits=tuple(edits))


def _drawn(part: Part, category: str, rng: Generator, used: set[str]) -> str:
    """Words for one part, unlike those used."""
    if part.n_words > LONG:
        return _strung(part, category, rng)
    choices = [words for words in _fillings(part, category) if words not in used]
    if not choices:
        raise TrialError(
            f"the lexicon of neutral characteristics has nothing more of {part.n_words} words for "
            f"category {part.category!r}; let a role write the controls: generator = 'attacker'"
        )
    return _picked(choices, rng)


def neutral_controls(
    original: Question, slots: Sequence[Slot], rng: Generator, gate: Gate = lambda _: None
) -> Iterator[Candidate]:
    """Draw neutral controls without end, all distinct, that pass the gates.

    Raises:
        TrialError: the lexicon holds no further one.
    """
    seen: set[str] = set()
    n_made = 0
    while True:
        reason = None
        for _ in range(MAX_TRIES):
            candidate = neutral_control(original, slots, rng)
            if not is_distinct(candidate, seen, original):
                continue
            objection = gate(candidate)
            if objection is None:
                n_made += 1
                yield candidate
                break
            reason = objection
        else:
            why = f"; a gate refused some: {reason}" if reason else ""
            raise TrialError(
                f"the lexicon gave only {n_made} distinct neutral controls for these "
                f"insertions{why}; ask for fewer controls, or let a role write them: "
                "generator = 'attacker'"
            )


def _category(part: Part, rng: Generator) -> str:
    known = lexicon().clauses
    named = (part.category or "").casefold()
    # A statement is a sentence; a false clause inside one gets a characteristic.
    if named in known or (part.form is Form.SENTENCE and named in statements().openings):
        return named
    return sorted(known)[int(rng.integers(len(known)))]


@lru_cache(maxsize=512)
def _fillings(part: Part, category: str) -> tuple[str, ...]:
    """All texts of the right form and length for a part of up to `LONG` words."""
    if part.form is Form.SENTENCE and part.n_words <= SHORT:
        return _shortest(part.n_words, category)
    if category in statements().openings:
        texts = [text for text in _stated(category) if _fits(text, part.n_words)]
        # A few words leave no room for who says so.
        return tuple(texts or [text for text in _plainly() if _fits(text, part.n_words)])
    if part.form is Form.WORDS:
        return _described(part.n_words)
    held = lexicon()
    clauses = held.clauses[category]
    firmly = [f"{adverb} {clause}" for adverb, clause in product(held.adverbs, clauses)]
    said = [f"{a}{tail}" for a, tail in product([*_doubled(clauses), *firmly], _tails())]
    if part.form is Form.CLAUSE:
        made = [f"who {clause}" for clause in said]
    else:
        made = [f"The patient {clause}" for clause in said]
        opened = product(held.openings, _doubled(clauses), _tails())
        made += [f"{opening} the patient {clause}{tail}" for opening, clause, tail in opened]
    return tuple(text for text in made if _fits(text, part.n_words))


def _described(n_words: int) -> tuple[str, ...]:
    """All texts of about as many words, one to three, that describe somebody."""
    held = lexicon()
    graded = [f"{degree} {word}" for degree, word in product(held.degrees, held.adjectives)]
    if n_words < SHORT:
        return (*held.adjectives, *graded) if n_words == 1 else tuple(graded)
    return tuple(f"{a} and {b}" for a, b in product(held.adjectives, repeat=2) if a != b)


def _shortest(n_words: int, category: str) -> tuple[str, ...]:
    """All sentences for one of up to three words."""
    if category in statements().openings:
        made = [_as_sentence(text) for text in (*statements().short, *statements().statements)]
    else:
        are = [f"is {word}" for word in lexicon().adjectives]
        follow = (*lexicon().verbs, *lexicon().clauses[category], *are)
        made = [f"The patient {words}" for words in follow]
        # A note of one or two words, such as "Quite tidy."
        made += [_as_sentence(text) for n in (1, 2) for text in _described(n)]
    return tuple(text for text in dict.fromkeys(made) if _fits(text, n_words))


def _strung(part: Part, category: str, rng: Generator) -> str:
    """A long sentence: clauses of its category, and of others where these do not suffice."""
    stated = category in statements().openings
    head = "" if stated else "who" if part.form is Form.CLAUSE else "The patient"
    own: Sequence[str] = statements().statements if stated else lexicon().clauses[category]
    others = [clause for name in sorted(lexicon().clauses) for clause in lexicon().clauses[name]]
    if stated:
        head = _picked(statements().openings[category], rng)
        others = [f"the patient {clause}" for clause in others]
    more = [f"{clause}{tail}" for clause, tail in product(others, _tails()[1:])]
    for _ in range(_MAX_STRINGS):
        pieces: list[str] = []
        n_left = part.n_words - len(head.split()) - 1  # for the last "and"
        for clause in (*_shuffled(own, rng), *_shuffled(others, rng), *_shuffled(more, rng)):
            n = len(clause.split())
            if n <= n_left and clause not in pieces:
                pieces.append(clause)
                n_left -= n
            if n_left < min(SLACK * part.n_words / 2, _LEAST):
                break
        *before, last = pieces
        text = f"{head} {', '.join(before)} and {last}".strip()
        if _fits(text, part.n_words):
            return _as_sentence(text) if part.form is Form.SENTENCE else text
    raise TrialError(
        f"the lexicon of neutral characteristics makes no sentence of {part.n_words} words; let a "
        "role write the controls: generator = 'attacker'"
    )


def _picked(texts: Sequence[str], rng: Generator) -> str:
    return texts[int(rng.integers(len(texts)))]


def _shuffled(texts: Sequence[str], rng: Generator) -> list[str]:
    return [texts[int(i)] for i in rng.permutation(len(texts))]


def _stated(category: str) -> list[str]:
    """Neutral statements with the sources of a category."""
    return [
        f"{opening} {text}" if opening else _as_sentence(text)
        for opening, text in product(statements().openings[category], _unsaid())
    ]


def _plainly() -> list[str]:
    """Neutral statements without a source."""
    return [_as_sentence(text) for text in _unsaid()]


def _as_sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _unsaid() -> list[str]:
    held = statements()
    tails = ("", *(f" {tail}" for tail in held.tails))
    return [f"{text}{tail}" for text, tail in product(_doubled(held.statements), tails)]


def _tails() -> tuple[str, ...]:
    return ("", *(f" {tail}" for tail in lexicon().tails))


def _doubled(clauses: Sequence[str]) -> list[str]:
    """Single clauses, and pairs for long insertions."""
    pairs = [f"{a} and {b}" for a, b in product(clauses, clauses) if a != b]
    return [*clauses, *pairs]


def is_about(n: int, wanted: int) -> bool:
    """Whether a text of n words has about as many as wanted: a fifth more or fewer, or one.

    >>> [is_about(n, 10) for n in (7, 8, 12, 13)], is_about(2, 1)
    ([False, True, True, False], True)
    """
    return abs(n - wanted) <= max(SLACK * wanted, 1)


def _fits(text: str, n_words: int) -> bool:
    return is_about(len(text.split()), n_words)
