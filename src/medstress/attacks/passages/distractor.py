"""One more sentence in the passage, about a distractor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.choices import check_budget, check_word
from medstress.attacks.passages.protocol import (
    FIELD,
    NO_PASSAGE,
    PassageProbe,
    key_at,
    with_name,
)
from medstress.attacks.probes.protocol import distractors, in_random_order
from medstress.core.items import Candidate, Question
from medstress.core.passages import named_at, sentences
from medstress.core.resources import Resources
from medstress.core.text import Edit, apply_edits

if TYPE_CHECKING:
    from numpy.random import Generator

TRUE, CONTRADICTING = "true", "contradicting"
MAX_BUDGET = 9
_POINTS_BACK = re.compile(
    r"(?:it|its|this|these|those|that|they|their|he|she|his|her|such|both|here|another|the latter|"
    r"the former|the other)\b",
    re.IGNORECASE,
)
"""Beginnings of sentences that speak of something said before, which is another text's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageDistractor(PassageProbe):
    """Add one sentence about a distractor at the end of the passage.

    `true`: a sentence of another passage of the data set that names the distractor and not the
    key, drawn by the seed; sentences that begin with a word such as "it" or "this" are left out.
    It is as true as that passage is, and the passage still supports the key, so a lost answer is
    an error. Nobody checks that two passages agree.

    `contradicting`: the first sentence of the passage that names the key, with the distractor in
    its place. The passage then says both, so the evidence is changed.

    Distractors come in an order drawn by the seed, one query each, until the victim errs. What is
    drawn depends on which passages the data set has, not on the order of its rows or `--limit`.
    """

    name: ClassVar[str] = "passage_distractor"

    says: str = TRUE
    """`true` or `contradicting`."""
    budget: int = 3
    """Most distractors asked, 1 to 9."""

    def __post_init__(self) -> None:
        check_word(self.name, "says", self.says, (TRUE, CONTRADICTING))
        check_budget(self.name, self.budget, MAX_BUDGET)

    @property
    def most(self) -> int:
        """The budget."""
        return self.budget

    @property
    def changes_evidence(self) -> bool:
        """Whether the sentence contradicts the passage."""
        return self.says == CONTRADICTING

    @property
    def needs_passages(self) -> bool:
        """Whether sentences come from other passages."""
        return self.says == TRUE

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        if not item.passage.strip():
            return NO_PASSAGE
        if self.says == CONTRADICTING:
            named = _first_naming_key(item)
            return None if named else "no sentence of its passage names the key"
        for letter in distractors(item):
            if next(_true_sentences(item, letter, resources), None) is not None:
                return None
        return "no other passage has a sentence that names a distractor and not the key"

    def most_queries(self, item: Question, resources: Resources) -> int:
        """Return the number of distractors that a sentence can be about, at most the budget."""
        letters = distractors(item)
        if self.says == TRUE:
            found = [next(_true_sentences(item, letter, resources), None) for letter in letters]
            return min(self.budget, sum(each is not None for each in found))
        return min(self.budget, len(letters))

    def candidates(
        self, item: Question, rng: Generator, resources: Resources
    ) -> Iterator[Candidate]:
        """Yield a candidate for each distractor, in random order."""
        for letter in in_random_order(distractors(item), rng):
            if self.says == CONTRADICTING:
                text = _first_naming_key(item)
                edits = with_name(text, key_at(item, text), item.option(letter))
                yield _longer(item, apply_edits(text, edits))
            elif found := sorted(set(_true_sentences(item, letter, resources))):
                yield _longer(item, found[int(rng.integers(len(found)))])


def _longer(item: Question, sentence: str) -> Candidate:
    """Return the item with a sentence at the end of its passage."""
    text = item.passage.rstrip()
    stop = "" if text[-1] in ".!?)]\"'" else "."
    added = f"{stop} {sentence}" + ("" if sentence[-1] in ".!?)]\"'" else ".")
    edit = Edit(field=FIELD, start=len(text), end=len(text), replacement=added)
    return Candidate(item=item, edits=(edit,))


def _first_naming_key(item: Question) -> str:
    """Return the first sentence of the passage that names the key; empty if none does."""
    return next((each for each in sentences(item.passage) if key_at(item, each)), "")


def _true_sentences(item: Question, letter: str, resources: Resources) -> Iterator[str]:
    """Yield the sentences of other passages that name a distractor and not the key."""
    name = item.option(letter)
    for i in resources.passages.naming(name):
        text = resources.passages.texts[i]
        if text != item.passage:
            for sentence in sentences(text):
                if _POINTS_BACK.match(sentence):
                    continue
                if named_at(sentence, name) and not named_at(sentence, item.key_text):
                    yield sentence
