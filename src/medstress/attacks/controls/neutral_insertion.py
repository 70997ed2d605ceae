"""Sentences that bear on no question, inserted between those of an item."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from itertools import product
from math import prod
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.choices import check_budget
from medstress.attacks.controls.control import Control
from medstress.attacks.controls.shuffled import digits, in_random_order
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.protocol import Attack, AttackTraits
from medstress.core.items import Candidate, Question
from medstress.core.passages import sentence_spans
from medstress.core.queries import Predict
from medstress.core.resources import Resources
from medstress.core.text import Edit

if TYPE_CHECKING:
    from numpy.random import Generator

MAX_SENTENCES = 8
LIKE_MEDFUZZ = 3
"""Sentences of a variant beside MedFuzz: about 30 words, as attackers insert; see `max_words`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeutralInsertion(Control):
    """Ask variants of a question with sentences more that have no bearing on it.

    The sentences are of a lexicon of our own, about a building, its furniture or its paperwork.
    They stand together at one place between two sentences of the item; a question of one
    sentence gets them in front. No character of the item is changed, and nothing is said about a
    person, a finding, a disease or a drug. An item has at least 288 variants.

    Beside MedFuzz a variant has three sentences, about as many words as an attacker inserts; with
    them, K attempts are asked as K queries of the same conversation.
    """

    name: ClassVar[str] = "neutral_insertion"
    edits_only: ClassVar[frozenset[str]] = frozenset(("context", "stem"))
    lack: ClassVar[str] = ""  # never needed

    sentences: int = 1
    """Sentences inserted in one variant, 1 to 8."""

    def __post_init__(self) -> None:
        Control.__post_init__(self)
        check_budget(self.name, self.sentences, MAX_SENTENCES, key="sentences")

    @property
    def traits(self) -> AttackTraits:
        """See `AttackTraits`."""
        most = max(len(text.encode()) for text in lexicon()) + len(" ")
        return replace(self._traits(), adds_bytes=self.sentences * most)

    def beside(self, attack: Attack) -> Control:
        """Insert as many words as attackers do, if the attack is MedFuzz."""
        return replace(self, sentences=LIKE_MEDFUZZ) if isinstance(attack, MedFuzz) else self

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Predict]:
        """Yield all variants, in random order."""
        found, texts = places(item), lexicon()
        bases = [len(found), *_choices(len(texts), self.sentences)]
        for number in in_random_order(prod(bases), rng):
            at, *drawn = digits(number, bases)
            left = list(texts)
            inserted = " ".join(left.pop(i) for i in drawn)
            yield Predict(Candidate(item=item, edits=(found[at].filled(inserted),)))

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return the number of variants."""
        return len(places(item)) * prod(_choices(len(lexicon()), self.sentences))


def _choices(n: int, k: int) -> list[int]:
    """Return how many texts are left at each of k draws."""
    return [n - i for i in range(k)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where sentences may stand."""

    field: str
    """`context` or `stem`."""
    at: int
    """Character before which they stand."""
    is_end: bool = False
    """Whether that is the end of the field, where a space has to come first."""

    def filled(self, text: str) -> Edit:
        """Return the edit that puts sentences here."""
        spaced = f" {text}" if self.is_end else f"{text} "
        return Edit(field=self.field, start=self.at, end=self.at, replacement=spaced)


def places(item: Question) -> list[Place]:
    """Return the places between two sentences of an item; of a single sentence, its beginning.

    >>> item = Question(id="q", context="A man. He coughs.", stem="Why?", options=("a", "b"),
    ...                 key="A")
    >>> [(place.field, place.at, place.is_end) for place in places(item)]
    [('context', 7, False), ('context', 17, True)]
    """
    n = len(item.context)
    shift = {"context": 0, "question": 0, "stem": n + 1 if n else 0}
    unbroken = [
        (mention.start + shift[mention.field], mention.end + shift[mention.field])
        for mention in item.mentions
        if mention.field in shift
    ]
    # Of the whole question, because a context may end inside a sentence ("E. coli").
    starts = [start for start, _ in sentence_spans(item.question, unbroken)[1:]]
    found = [
        Place(field="context", at=min(start, n), is_end=start > n)
        if start <= shift["stem"] and n
        else Place(field="stem", at=start - shift["stem"])
        for start in starts
    ]
    return found or [Place(field="context" if n else "stem", at=0)]


@lru_cache(maxsize=1)
def lexicon() -> tuple[str, ...]:
    """Return the sentences, with and without openings."""
    path = files("medstress.attacks.controls") / "data" / "neutral_sentences.toml"
    data = tomllib.loads(path.read_text("utf-8"))
    return tuple(
        f"{opening} {text}." if opening else f"{text[0].upper()}{text[1:]}."
        for opening, text in product(data["openings"], data["sentences"])
    )
