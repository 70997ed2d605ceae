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

from medstress.attacks.controls.slots import Form, Slot, is_distinct
from medstress.errors import TrialError
from medstress.items import Candidate, Question

if TYPE_CHECKING:
    from numpy.random import Generator

SLACK = 0.2
"""How far the number of words may lie from the fuzz's, as a share of it."""
MAX_TRIES = 200
"""Draws that repeat an earlier control, or fail a gate, before the lexicon counts as exhausted."""

_LEAST = 4

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
    words: tuple[str, ...]
    """Up to three words that stand inside a sentence, of no category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """Sentences that a neutral control is made of where the fuzz states something false."""

    openings: dict[str, tuple[str, ...]]
    """By category; each says who says so, the empty one nobody."""
    statements: tuple[str, ...]
    """Each follows an opening or stands alone."""
    tails: tuple[str, ...]
    """May follow a statement."""


@lru_cache(maxsize=1)
def statements() -> Statements:
    """The shipped neutral statements."""
    found = _read("neutral_statements.toml")
    return Statements(
        openings={name: tuple(texts) for name, texts in found["openings"].items()},
        statements=tuple(found["statements"]),
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
        words=tuple(found["words"]),
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
        TrialError: the lexicon holds nothing of that length.
    """
    used: set[str] = set()
    edits = []
    for slot in slots:
        choices = [words for words in _fillings(slot, _category(slot, rng)) if words not in used]
        if not choices:
            raise TrialError(
                f"the lexicon of neutral characteristics has nothing of {slot.n_words} words for "
                f"category {slot.category!r}; let a role write the controls: generator = 'attacker'"
            )
        words = choices[int(rng.integers(len(choices)))]
        used.add(words)
        edits.append(slot.filled(words))
    return Candidate(item=original, edits=tuple(edits))


def neutral_controls(
    original: Question, slots: Sequence[Slot], rng: Generator, gate: Gate = lambda _: None
) -> Iterator[Candidate]:
    """Draw neutral controls without end, all distinct, that pass the gates.

    Raises:
        TrialError: the lexicon holds no further one.
    """
    seen: set[str] = set()
    while True:
        reason = None
        for _ in range(MAX_TRIES):
            candidate = neutral_control(original, slots, rng)
            reason = gate(candidate) or reason
            if gate(candidate) is None and is_distinct(candidate, seen, original):
                yield candidate
                break
        else:
            why = f"; a gate refused some: {reason}" if reason else ""
            raise TrialError(
                f"the lexicon gave only {len(seen)} distinct neutral controls for these "
                f"insertions{why}; ask for fewer controls, or let a role write them: "
                "generator = 'attacker'"
            )


def _category(slot: Slot, rng: Generator) -> str:
    known = lexicon().clauses
    named = (slot.category or "").casefold()
    # A statement is a sentence; a false clause inside one gets a characteristic.
    if named in known or (slot.form is Form.SENTENCE and named in statements().openings):
        return named
    return sorted(known)[int(rng.integers(len(known)))]


@lru_cache(maxsize=512)
def _fillings(slot: Slot, category: str) -> tuple[str, ...]:
    """All texts of the right form and length for a slot."""
    if category in statements().openings:
        texts = [text for text in _stated(category) if _fits(text, slot.n_words)]
        # A few words leave no room for who says so.
        return tuple(texts or [text for text in _plainly() if _fits(text, slot.n_words)])
    held = lexicon()
    clauses = held.clauses[category]
    match slot.form:
        case Form.WORDS:
            texts = [words for words in held.words if len(words.split()) == slot.n_words]
            # A stray slot of two or three words may be better served by a short clause.
            return tuple(texts or held.words)
        case Form.CLAUSE:
            made = [f"who {clause}{tail}" for clause, tail in product(_doubled(clauses), _tails())]
        case Form.SENTENCE:
            made = [
                f"{opening}{'the' if opening else 'The'} patient {clause}{tail}"
                for opening, clause, tail in product(
                    ("", *(f"{one} " for one in held.openings)), _doubled(clauses), _tails()
                )
            ]
    return tuple(text for text in made if _fits(text, slot.n_words))


def _stated(category: str) -> list[str]:
    """Neutral statements with the sources of a category."""
    return [
        f"{opening} {text}" if opening else text[0].upper() + text[1:]
        for opening, text in product(statements().openings[category], _unsaid())
    ]


def _plainly() -> list[str]:
    """Neutral statements without a source."""
    return [text[0].upper() + text[1:] for text in _unsaid()]


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


def _fits(text: str, n_words: int) -> bool:
    n = len(text.split())
    # No sentence of the lexicon is shorter than four words.
    wanted = max(n_words, _LEAST)
    return abs(n - wanted) <= SLACK * wanted
