"""Neutral controls: fill the slots of a fuzz from a lexicon with words that favour no answer.

Slots of patient characteristics get other characteristics. Sentences of a category of the set
`misinformation` get true statements that do not bear on the question.
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
from medstress.core.errors import TrialError
from medstress.core.items import Candidate, Question

if TYPE_CHECKING:
    from numpy.random import Generator

SLACK = 0.2
"""Largest relative difference from the fuzz's number of words; one word is always allowed."""
LONG = 24
"""Sentences of more words are joined from many clauses."""
MAX_TRIES = 200
"""Draws that repeat an earlier control, or fail a gate, before the lexicon counts as exhausted."""

_LEAST = 4
_MAX_STRINGS = 50
"""Orders of clauses that are tried for one long sentence."""

Gate = Callable[[Candidate], str | None]
"""Returns why a candidate must not be asked, or None."""


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
    """Sentences that a neutral control is made of if the fuzz states something false."""

    openings: dict[str, tuple[str, ...]]
    """By category; each names a source, the empty one none."""
    statements: tuple[str, ...]
    """Each follows an opening or stands alone."""
    short: tuple[str, ...]
    """Statements of three words, for the shortest sentences."""
    tails: tuple[str, ...]
    """May follow a statement."""


@lru_cache(maxsize=1)
def statements() -> Statements:
    """Return the shipped neutral statements."""
    data = _read("neutral_statements.toml")
    return Statements(
        openings={name: tuple(texts) for name, texts in data["openings"].items()},
        statements=tuple(data["statements"]),
        short=tuple(data["short"]),
        tails=tuple(data["tails"]),
    )


def _read(name: str) -> dict[str, Any]:
    path = files("medstress.attacks.controls") / "data" / name
    return tomllib.loads(path.read_text("utf-8"))


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """Return the shipped lexicon of neutral patient characteristics."""
    data = _read("neutral_characteristics.toml")
    return Lexicon(
        clauses={name: tuple(texts) for name, texts in data["clauses"].items()},
        openings=tuple(data["openings"]),
        tails=tuple(data["tails"]),
        adverbs=tuple(data["adverbs"]),
        adjectives=tuple(data["adjectives"]),
        degrees=tuple(data["degrees"]),
        verbs=tuple(data["verbs"]),
    )


def neutral_control(original: Question, slots: Sequence[Slot], rng: Generator) -> Candidate:
    """Fill a fuzz's slots with neutral characteristics.

    Uses the places, forms, categories and lengths of the fuzz's insertions, but not their words,
    the key, the plan or any answer.

    Args:
        original: the item; its key is not read.
        slots: from `slots_of`.
        rng: draws the words.

    Returns:
        As many insertions at the same places, of the same categories (an unknown one is drawn),
        together within 20 % of the fuzz's number of words.

    Raises:
        TrialError: the lexicon has no further text of that length.
    """
    used: set[str] = set()
    edits = []
    for slot in slots:
        words = []
        for part in slot.parts:
            words.append(_draw_words(part, _category(part, rng), rng, used))
            used.add(words[-1])
        edits.append(slot.filled(*words))
    return Candidate(item=original, edits=tuple(edits))


def _draw_words(part: Part, category: str, rng: Generator, used: set[str]) -> str:
    """Draw words for one part that are not used yet."""
    if part.n_words > LONG:
        return _join_clauses(part, category, rng)
    choices = [words for words in _fillings(part, category) if words not in used]
    if not choices:
        raise TrialError(
            f"the lexicon of neutral characteristics has no further text of {part.n_words} words "
            f"for category {part.category!r}; let a role write the controls: "
            "generator = 'attacker'"
        )
    return _pick(choices, rng)


def neutral_controls(
    original: Question, slots: Sequence[Slot], rng: Generator, gate: Gate = lambda _: None
) -> Iterator[Candidate]:
    """Draw neutral controls without end, all distinct, that pass the gates.

    Raises:
        TrialError: the lexicon has no further one.
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
    """Return all texts of the right form and length for a part of up to `LONG` words."""
    if part.form is Form.SENTENCE and part.n_words <= SHORT:
        return _short_sentences(part.n_words, category)
    if category in statements().openings:
        texts = [text for text in _attributed(category) if _fits(text, part.n_words)]
        # Short texts have no room for a source.
        return tuple(texts or [text for text in _unattributed() if _fits(text, part.n_words)])
    if part.form is Form.WORDS:
        return _descriptions(part.n_words)
    words = lexicon()
    clauses = words.clauses[category]
    firmly = [f"{adverb} {clause}" for adverb, clause in product(words.adverbs, clauses)]
    clauses_with_tails = [
        f"{a}{tail}" for a, tail in product([*_doubled(clauses), *firmly], _tails())
    ]
    if part.form is Form.CLAUSE:
        made = [f"who {clause}" for clause in clauses_with_tails]
    else:
        made = [f"The patient {clause}" for clause in clauses_with_tails]
        opened = product(words.openings, _doubled(clauses), _tails())
        made += [f"{opening} the patient {clause}{tail}" for opening, clause, tail in opened]
    return tuple(text for text in made if _fits(text, part.n_words))


def _descriptions(n_words: int) -> tuple[str, ...]:
    """Return all descriptions of a person of about as many words, one to three."""
    words = lexicon()
    graded = [f"{degree} {word}" for degree, word in product(words.degrees, words.adjectives)]
    if n_words < SHORT:
        return (*words.adjectives, *graded) if n_words == 1 else tuple(graded)
    return tuple(f"{a} and {b}" for a, b in product(words.adjectives, repeat=2) if a != b)


def _short_sentences(n_words: int, category: str) -> tuple[str, ...]:
    """Return all sentences for a part of up to three words."""
    if category in statements().openings:
        made = [_as_sentence(text) for text in (*statements().short, *statements().statements)]
    else:
        are = [f"is {word}" for word in lexicon().adjectives]
        follow = (*lexicon().verbs, *lexicon().clauses[category], *are)
        made = [f"The patient {words}" for words in follow]
        # A note of one or two words, such as "Quite tidy."
        made += [_as_sentence(text) for n in (1, 2) for text in _descriptions(n)]
    return tuple(text for text in dict.fromkeys(made) if _fits(text, n_words))


def _join_clauses(part: Part, category: str, rng: Generator) -> str:
    """Join clauses of a category into a long sentence, and of others if these do not suffice."""
    stated = category in statements().openings
    head = "" if stated else "who" if part.form is Form.CLAUSE else "The patient"
    own: Sequence[str] = statements().statements if stated else lexicon().clauses[category]
    others = [clause for name in sorted(lexicon().clauses) for clause in lexicon().clauses[name]]
    if stated:
        head = _pick(statements().openings[category], rng)
        others = [f"the patient {clause}" for clause in others]
    more = [f"{clause}{tail}" for clause, tail in product(others, _tails()[1:])]
    for _ in range(_MAX_STRINGS):
        pieces: list[str] = []
        n_left = part.n_words - len(head.split()) - 1  # for the last "and"
        for clause in (*_shuffle(own, rng), *_shuffle(others, rng), *_shuffle(more, rng)):
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


def _pick(texts: Sequence[str], rng: Generator) -> str:
    return texts[int(rng.integers(len(texts)))]


def _shuffle(texts: Sequence[str], rng: Generator) -> list[str]:
    return [texts[int(i)] for i in rng.permutation(len(texts))]


def _attributed(category: str) -> list[str]:
    """Return the neutral statements with the sources of a category."""
    return [
        f"{opening} {text}" if opening else _as_sentence(text)
        for opening, text in product(statements().openings[category], _statement_texts())
    ]


def _unattributed() -> list[str]:
    """Return the neutral statements without a source."""
    return [_as_sentence(text) for text in _statement_texts()]


def _as_sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _statement_texts() -> list[str]:
    known = statements()
    tails = ("", *(f" {tail}" for tail in known.tails))
    return [f"{text}{tail}" for text, tail in product(_doubled(known.statements), tails)]


def _tails() -> tuple[str, ...]:
    return ("", *(f" {tail}" for tail in lexicon().tails))


def _doubled(clauses: Sequence[str]) -> list[str]:
    """Return single clauses, and pairs for long insertions."""
    pairs = [f"{a} and {b}" for a, b in product(clauses, clauses) if a != b]
    return [*clauses, *pairs]


def is_similar_length(n: int, wanted: int) -> bool:
    """Whether n words are about as many as wanted: up to a fifth, or one, more or fewer.

    >>> [is_similar_length(n, 10) for n in (7, 8, 12, 13)], is_similar_length(2, 1)
    ([False, True, True, False], True)
    """
    return abs(n - wanted) <= max(SLACK * wanted, 1)


def _fits(text: str, n_words: int) -> bool:
    return is_similar_length(len(text.split()), n_words)
