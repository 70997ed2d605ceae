"""Probes that edit the passage alone: does the victim read, or remember?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from medstress.attacks.protocol import Need, parameters
from medstress.attacks.variants import Variants, distractors, shuffled, whole
from medstress.core.items import Candidate, Question
from medstress.core.resources import DECIDES, Resources
from medstress.core.text import Edit, apply_edits, copy_case, named_at, sentences

if TYPE_CHECKING:
    from numpy.random import Generator

FIELD = "passage"
_POINTS_BACK = re.compile(
    r"(?:it|its|this|these|those|that|they|their|he|she|his|her|such|both|here|another|the latter|"
    r"the former|the other)\b",
    re.IGNORECASE,
)
"""Beginnings of sentences that speak of something in another text."""
_STOPS = ".!?)]\"'"


class _Passage(Variants):
    """Asks variants whose passage alone is edited. Write `lack` and `variants`."""

    fields = frozenset({FIELD})

    @property
    def is_judged(self) -> bool:
        """Whether the passage still supports the key alone."""
        return False

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        return self.lack(item, resources) if item.passage.strip() else "it has no passage"

    def lack(self, item: Question, resources: Resources) -> str | None:
        """Return why an item with a passage cannot be attacked, or None."""
        return None


@parameters
class PassageSwap(_Passage):
    """Replace every mention of the key in the passage by one distractor.

    A mention is the key's text as whole words, in any case. The passage then supports the
    distractor, so a victim that answers it has read (`followed`), and one that still answers the
    key remembers, or did not look (`kept`). A lost answer is no error. Distractors that the passage
    names already are not put in: it would say two things of one name.
    """

    name = "passage_swap"

    distractor: Annotated[str, Field(pattern=r"^(random|[A-J])$")] = "random"
    """The option whose text is put in: `random`, drawn by the seed, or a letter."""

    @property
    def is_random(self) -> bool:
        """Whether the distractor is drawn."""
        return self.distractor == "random"

    def lack(self, item: Question, resources: Resources) -> str | None:
        """Return why an item with a passage cannot be attacked, or None."""
        if item.metadata.get(DECIDES) is False:
            return "its passage does not decide the question, so there is no evidence to change"
        if not _key_at(item, item.passage):
            return "its passage does not name the right answer"
        if self.distractor == item.key:
            return f"its right answer is {item.key}, the wrong option of this attack"
        if not self.is_random and self.distractor not in item.letters:
            return f"it has no option {self.distractor}, the wrong option of this attack"
        if not self._unnamed(item):
            return "its passage names the wrong option already, so a swap would support neither"
        return None

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield the only variant."""
        letters = self._unnamed(item)
        letter = shuffled(letters, rng)[0] if self.is_random else letters
        edits = _with_name(item.passage, _key_at(item, item.passage), item.option(letter))
        yield Candidate(item=item, edits=tuple(edits))

    def _unnamed(self, item: Question) -> str:
        """Return the letters that may be put in: the passage does not name them."""
        letters = distractors(item) if self.is_random else self.distractor
        return "".join(x for x in letters if not named_at(item.passage, item.option(x)))


@parameters
class PassageDistractor(_Passage):
    """Add one sentence about a distractor at the end of the passage.

    `true`: a sentence of another passage of the data set that names the distractor and not the
    key, drawn by the seed; sentences that begin with a word such as "it" or "this" are left out.
    It is as true as that passage is, and the passage still supports the key, so a lost answer is
    an error. No one checks that two passages agree.

    `contradicting`: the first sentence of the passage that names the key, with the distractor in
    its place. The passage then says both, so the evidence is changed.

    Distractors come in an order drawn by the seed, one query each, until the victim errs. What is
    drawn depends on which passages the data set has, not on the order of its rows or `--limit`.
    """

    name = "passage_distractor"

    says: Literal["true", "contradicting"] = "true"
    """`true` or `contradicting`."""
    budget: Annotated[int, Field(ge=1, le=9)] = 3
    """Most distractors asked, 1 to 9."""

    @property
    def is_judged(self) -> bool:
        """Whether the sentence leaves the evidence as it was."""
        return self.says == "true"

    @property
    def needs(self) -> frozenset[Need]:
        """True sentences come from other passages."""
        return frozenset({"passages"} if self.says == "true" else ())

    def lack(self, item: Question, resources: Resources) -> str | None:
        """Return why an item with a passage cannot be attacked, or None."""
        if self.says == "contradicting":
            return (
                None if _naming_key(item) else "no sentence of its passage names the right answer"
            )
        if any(True for x in distractors(item) for _ in _true_sentences(item, x, resources)):
            return None
        return "no other passage has a sentence that names a wrong option and not the right answer"

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield a variant for each distractor, in random order."""
        for letter in shuffled(distractors(item), rng):
            if self.says == "contradicting":
                text = _naming_key(item)
                edits = _with_name(text, _key_at(item, text), item.option(letter))
                yield _longer(item, apply_edits(text, edits))
            elif texts := sorted(set(_true_sentences(item, letter, resources))):
                yield _longer(item, texts[int(rng.integers(len(texts)))])


@parameters
class PassageOther(_Passage):
    """Show the passage of another question of the data set, which does not name the key.

    It is drawn by the seed among all passages of the data set, each once, before any limit or
    sample; what is drawn depends on which passages there are, not on the order of the rows.
    """

    name = "passage_other"
    needs = frozenset({"passages"})

    def lack(self, item: Question, resources: Resources) -> str | None:
        """Return why an item with a passage cannot be attacked, or None."""
        if any(_is_other(item, text) for text in resources.passages.texts):
            return None
        return "the data set has no other passage that does not name the right answer"

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield the only variant."""
        texts = resources.passages.texts
        drawn = (texts[int(i)] for i in rng.permutation(len(texts)))
        text = next(text for text in drawn if _is_other(item, text))
        yield Candidate(item=item, edits=(whole(item, FIELD, text),))


@parameters
class PassageNone(_Passage):
    """Take the passage away."""

    name = "passage_none"
    is_random = False

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield the only variant."""
        yield Candidate(item=item, edits=(whole(item, FIELD, ""),))


def _key_at(item: Question, text: str) -> list[tuple[int, int]]:
    """Return where a text names the key, but not as a part of another option (iron in iron
    dextran)."""
    spans = named_at(text, item.key_text)
    longer = [item.option(x) for x in distractors(item) if named_at(item.option(x), item.key_text)]
    inside = [span for option in longer for span in named_at(text, option)] if spans else []
    return [(a, b) for a, b in spans if not any(start <= a and b <= end for start, end in inside)]


def _with_name(text: str, spans: list[tuple[int, int]], name: str) -> list[Edit]:
    """Return the edits that put a name into spans of a text, each in the case of what was there."""
    return [
        Edit(field=FIELD, start=a, end=b, replacement=copy_case(name.strip(), text[a:b]))
        for a, b in spans
    ]


def _longer(item: Question, sentence: str) -> Candidate:
    """Return the item with a sentence at the end of its passage."""
    text = item.passage.rstrip()
    before, after = ("" if one[-1] in _STOPS else "." for one in (text, sentence))
    added = f"{before} {sentence}{after}"
    edit = Edit(field=FIELD, start=len(text), end=len(text), replacement=added)
    return Candidate(item=item, edits=(edit,))


def _naming_key(item: Question) -> str:
    """Return the first sentence of the passage that names the key; empty if none does."""
    return next((one for one in sentences(item.passage) if _key_at(item, one)), "")


def _true_sentences(item: Question, letter: str, resources: Resources) -> Iterator[str]:
    """Yield the sentences of other passages that name a distractor and not the key."""
    name = item.option(letter)
    for i in resources.passages.naming(name):
        text = resources.passages.texts[i]
        for sentence in sentences(text) if text != item.passage else ():
            if _POINTS_BACK.match(sentence) or named_at(sentence, item.key_text):
                continue
            if named_at(sentence, name):
                yield sentence


def _is_other(item: Question, text: str) -> bool:
    return text != item.passage and not named_at(text, item.key_text)
