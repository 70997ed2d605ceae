"""Controls: changes without meaning, asked as an attack would ask its edits."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, combinations, count, islice, product
from math import factorial, prod
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from pydantic import Field

from medstress.attacks.protocol import Attack, parameters
from medstress.attacks.variants import (
    Variants,
    digits,
    in_random_order,
    order_at,
    reordered,
    shipped,
)
from medstress.core.items import Candidate, Question
from medstress.core.queries import Predict, Steps, ask_in_turn
from medstress.core.resources import Resources
from medstress.core.text import ABBREVIATIONS, Edit, sentence_spans

if TYPE_CHECKING:
    from numpy.random import Generator

MAX_BUDGET = 1000
Budget: TypeAlias = Annotated[int, Field(ge=1, le=MAX_BUDGET)]


class Control(Variants):
    """Asks variants of a question that keep its meaning, until the victim errs.

    A victim that loses an answer here loses it to chance, so the rate of any other attack has to be
    read against its rate at the same budget. A control is an `[[attack]]` of its own, or the arm
    `<attack> / <control>` of an attack (`ControlArm`). What it draws depends on the item, the seed
    and the fields that the attack edits; not on the attack's budget or any answer.
    """

    control = None
    keeps_options: bool = True
    """Whether the options mean what they meant, in their order."""
    is_near: bool = False
    """Whether half of its edits are in the fields that the attack edits."""
    lack: str = ""
    """Why an item without any variant cannot be attacked; empty where all have some."""

    @abstractmethod
    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return how many variants the item has, or a lower bound that is at least the budget."""

    def for_attack(self, attack: Attack) -> Control:
        """Return the control of an attack: by default itself."""
        return self

    def unfit(self, attack: Attack) -> str | None:
        """Say why it cannot be the control of an attack, or None."""
        return None

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        return None if self.n_variants(item, resources) else self.lack

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Ask one variant after another."""
        return (yield from self.ask(item, rng, resources, self.budget))

    def queries(
        self, item: Question, rng: Generator, resources: Resources, edited: Collection[str]
    ) -> Iterator[Predict]:
        """Yield what is asked, in order; `edited` are the fields that the attack edits."""
        return map(Predict, self.variants(item, rng, resources))

    def ask(
        self,
        item: Question,
        rng: Generator,
        resources: Resources,
        most: int,
        edited: Collection[str] = (),
    ) -> Steps[Candidate | None]:
        """Ask up to `most` variants, until one reaches the goal.

        Args:
            item: the question.
            rng: the trial's random numbers.
            resources: what it may read.
            most: how many.
            edited: the fields that the attack edits in this item.
        """
        queries = self.queries(item, rng, resources, edited)
        reached: Candidate | None = yield from ask_in_turn(islice(queries, most))
        return reached


# -- edits without meaning -------------------------------------------------------------------------
MOST_PLACES = 3
"""Most edits of one variant."""
_SPACE = re.compile(r"(?<=\S) (?=\S)")
_QUOTE = re.compile("[\"“”'‘’]")
_OPENED_AFTER = " ([{-–—/"
_STRAIGHT = {"“": '"', "”": '"', "‘": "'", "’": "'"}
_TYPOGRAPHIC = {'"': ("“", "”"), "'": ("‘", "’")}
_STOP = re.compile(r"(?<![\w.])([^\W\d_]{2,})\)?\.\Z")
_NO_STOP = re.compile(r"[^\W\d_]\)?\Z")
_GAPS = ("  ", "   ", "\n")
"""What may be in place of a single space."""
_OPENS = re.compile(
    r"\W*(who(?:m|se)?|which|what|where|when|why|how|the|in|of|all|each|most|this|these|among|for"
    r"|with|if|is|are|does|do|can|name|choose|select|identify)\b",
    re.IGNORECASE,
)
"""A word at the beginning of a stem that means the same in any case."""
_OPTION_OPENS = re.compile(r"([^\W\d_]{3,})(?![\w-])")
"""The word that begins an option; in capitals inside it is a symbol or a gene, and stays."""
_FEW = 400
"""Up to so many variants are listed and put in random order; of more they are drawn."""


class Place(NamedTuple):
    """A span of a field, and the texts of which one may be put in."""

    field: str
    start: int
    end: int
    texts: tuple[str, ...]

    def edits(self) -> tuple[Edit, ...]:
        """Return an edit for each text."""
        return tuple(self.edit(k) for k in range(len(self.texts)))

    def edit(self, k: int) -> Edit:
        """Return the edit that puts in text `k`."""
        field, start, end, texts = self
        return Edit(field=field, start=start, end=end, replacement=texts[k])


@parameters
class NoOp(Control):
    """Ask variants of a question that mean exactly what it means.

    An edit is white space between two words (two or three spaces, or a line break, in place of
    one space), a full stop added or removed at the end of the stem, the letter case of the word
    that begins the stem ("which" for "Which"), or a straight quotation mark in place of a
    typographic one and back. A variant has one to three edits (each number is equally likely) at
    places in context and stem. Each edit of a control is, with probability one half, in a field
    that the attack edits: in an option the white space, the full stop or the case of the first
    letter. Variants are distinct and drawn without replacement until the victim errs or the budget
    is used. Nothing is edited inside a word or a number, but for that one letter. A question of
    four words has at least 63 variants.

    Edits are of the item, so that they can be stored and shown as all edits are. What the prompt
    says around the item, such as "Choose the right option", stays: it is the victim's, and no
    edit of an item reaches it.
    """

    name = "no_op"
    fields = frozenset({"context", "stem"})
    is_near = True
    lack = "it has no place for an edit without meaning"

    budget: Budget = 8
    """Variants asked, 1 to 1,000."""

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield all variants, in random order."""
        return (Candidate(item=item, edits=edits) for edits in variants(places(item), rng))

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return the number of variants, or the largest budget where eight gaps give as many."""
        gaps = chain.from_iterable(_gaps(item.text_of(name)) for name in ("context", "stem"))
        return MAX_BUDGET if len([*islice(gaps, 8)]) == 8 else sum(by_size(places(item)))

    def queries(
        self, item: Question, rng: Generator, resources: Resources, edited: Collection[str]
    ) -> Iterator[Predict]:
        """See `Control.queries`."""
        drawn = variants(places(item, edited), rng, edited)
        return (Predict(Candidate(item=item, edits=edits)) for edits in drawn)


def by_size(places: Sequence[Place]) -> list[int]:
    """Return how many variants there are of one edit, of two and so on.

    >>> gap, stop = Place("stem", 1, 2, _GAPS), Place("stem", 3, 3, (".",))
    >>> by_size([gap, gap, gap]), by_size([gap, stop])
    ([9, 27, 27], [4, 3])
    """
    counts = [1] + [0] * min(MOST_PLACES, len(places))
    for place in places:  # the elementary symmetric polynomials of the numbers of edits
        for k in range(len(counts) - 1, 0, -1):
            counts[k] += counts[k - 1] * len(place.texts)
    return counts[1:]


def variants(
    places: Sequence[Place], rng: Generator, edited: Collection[str] = ()
) -> Iterator[tuple[Edit, ...]]:
    """Yield all variants, in random order, without replacement.

    Each edit is in one of the fields `edited` with probability one half, where both these and
    others have places. What is drawn does not depend on how many are taken.
    """
    counts = by_size(places)
    is_inside = [place.field in edited for place in places]
    both = ([i for i, inside in enumerate(is_inside) if inside is side] for side in (True, False))
    pools = [pool for pool in both if pool]
    if sum(counts) <= _FEW and len(pools) == 1:
        subsets = chain(*(combinations(places, k + 1) for k in range(len(counts))))
        listed = [edits for subset in subsets for edits in product(*map(Place.edits, subset))]
        # A race in which each number of edits is equally likely to win, as in the draws below.
        times = [rng.exponential() * counts[len(edits) - 1] for edits in listed]
        yield from (listed[i] for i in sorted(range(len(listed)), key=times.__getitem__))
        return
    seen: set[tuple[Edit, ...]] = set()
    while len(seen) < sum(counts):
        size, chosen = 1 + int(rng.integers(len(counts))), set[int]()
        while len(chosen) < size:
            pool = pools[0] if len(pools) == 1 else pools[int(rng.integers(2))]
            chosen.add(pool[int(rng.integers(len(pool)))])
        # Not equally likely where places have unequal numbers of edits, which does no harm.
        drawn = (places[j] for j in sorted(chosen))
        edits = tuple(place.edit(int(rng.integers(len(place.texts)))) for place in drawn)
        if edits not in seen:
            seen.add(edits)
            yield edits


def places(item: Question, edited: Collection[str] = ()) -> list[Place]:
    """Return all places of an item, with the edits possible there; no two places overlap.

    Args:
        item: the question.
        edited: fields that an attack edits, letters of options among them; context and stem have
            places in any case.
    """
    listed: list[Place] = []
    for name in ("context", "stem", *(("passage",) if "passage" in edited else ())):
        text = item.text_of(name)
        listed += (Place(name, i, i + 1, _GAPS) for i in _gaps(text))
        listed += (Place(name, i, i + 1, (mark,)) for i, mark in _quotes(text))
    if opens := _OPENS.match(item.stem):
        listed += _other_case("stem", item.stem, *opens.span(1))
    listed += _full_stop("stem", item.stem)
    plain = {letter: _plain(item.option(letter)) for letter in item.letters}
    for letter, own in plain.items():
        # Of two options that differ in nothing else no edit may make one text.
        if letter in edited and list(plain.values()).count(own) == 1:
            text = item.option(letter)
            listed += (Place(letter, i, i + 1, _GAPS) for i in _gaps(text))
            if opens := _OPTION_OPENS.match(text):
                listed += _other_case(letter, text, *opens.span(1))
            listed += _full_stop(letter, text)
    return listed


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(". ")


def _other_case(field: str, text: str, start: int, end: int) -> list[Place]:
    """Return the place of the first letter of a word, but not of a word in capitals."""
    if not text[start + 1 : end].islower():
        return []
    return [Place(field, start, start + 1, (text[start].swapcase(),))]


def _gaps(text: str) -> Iterator[int]:
    """Yield the places of single spaces, but of none between two digits (10 000)."""
    for match in _SPACE.finditer(text):
        i = match.start()
        if not (text[i - 1].isdigit() and text[i + 1].isdigit()):
            yield i


def _quotes(text: str) -> Iterator[tuple[int, str]]:
    """Yield the places of quotation marks, with the mark of the other style.

    Apostrophes inside words and marks after digits (inches, 5' ends) do not count.
    """
    for match in _QUOTE.finditer(text):
        i, mark = match.start(), match.group()
        before, after = text[max(i - 1, 0) : i], text[i + 1 : i + 2]
        if before.isdigit() or (before.isalnum() and after.isalnum()):
            continue
        if mark in _STRAIGHT:
            yield i, _STRAIGHT[mark]
        else:
            yield i, _TYPOGRAPHIC[mark][bool(before) and before not in _OPENED_AFTER]


def _full_stop(field: str, text: str) -> list[Place]:
    """Return the place that adds or removes a full stop at the end; none where it may matter.

    It is added after a letter, and removed after a word that is no abbreviation, so that no number
    changes. After any other mark (`?`, `:`, a blank) nothing is added.
    """
    text = text.rstrip()
    stop = _STOP.search(text)
    if stop is not None and stop[1].casefold() not in ABBREVIATIONS:
        return [Place(field, len(text) - 1, len(text), ("",))]
    if _NO_STOP.search(text):
        return [Place(field, len(text), len(text), (".",))]
    return []


# -- the same prompt again -------------------------------------------------------------------------
FIRST_SAMPLE = 2_000_000
"""Smallest sample index of a repeat: above those of clean answers and of flip checks."""
_LAST_SAMPLE = 2**31


@parameters
class Repeat(Control):
    """Ask the unchanged question again, each time with another sample index.

    A repeat never reads back a stored answer: its calls are calls of their own, in other batches
    than the clean item's. A deterministic victim holds always; one that samples, or whose answers
    depend on the batch, may err. Seeds and items have sample indices of their own, so that
    repeats under two seeds are independent. Nothing is edited, so no item lacks variants.
    """

    name = "repeat"

    budget: Budget = 8
    """Repeats asked, 1 to 1,000."""

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield the clean question without end."""
        while True:
            yield Candidate(item=item)

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return more than any budget."""
        return 1_000_000_000

    def queries(
        self, item: Question, rng: Generator, resources: Resources, edited: Collection[str]
    ) -> Iterator[Predict]:
        """See `Control.queries`; samples are counted on from a drawn one."""
        samples = count(int(rng.integers(FIRST_SAMPLE, _LAST_SAMPLE)))
        return (Predict(Candidate(item=item), sample=sample) for sample in samples)


# -- other orders ----------------------------------------------------------------------------------
@parameters
class OptionShuffle(Control):
    """Ask the question with its options in another order.

    The victim sees the new order, and its answer is read as the option whose text it chose: a
    success is an answer whose text is not the key's. The edits put at every letter whose option
    moved the text that is there now. A question of n options has n! - 1 variants: 23 for
    four, which is less than four times the default budget, and 5 for three. A victim whose prompt
    lists no options is not attackable.
    """

    name = "option_shuffle"
    fields = frozenset({"options"})
    needs = frozenset({"listing"})

    budget: Budget = 8
    """Orders asked, 1 to 1,000."""

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield all other orders, in random order."""
        n = len(item.options)
        for number in in_random_order(factorial(n) - 1, rng):
            yield reordered(item, order_at(number + 1, n))

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return n! - 1 for n options."""
        return factorial(len(item.options)) - 1


# -- sentences more --------------------------------------------------------------------------------
LIKE_TURNS = 3
"""Sentences of a variant where an attacker writes: about 30 words, as attackers insert."""


@parameters
class NeutralInsertion(Control):
    """Ask variants of a question with sentences more that have no bearing on it.

    The sentences are of a lexicon of our own, about a building, its furniture or its paperwork.
    They come together at one place between two sentences of the item; a question of one
    sentence gets them in front. No character of the item is changed, and nothing is said about a
    person, a finding, a disease or a drug. An item has at least 288 variants.

    As a control of MedFuzz a variant has three sentences, about as many words as an attacker
    inserts; with them, K attempts are asked as K queries of the same conversation.
    """

    name = "neutral_insertion"
    fields = frozenset({"context", "stem"})

    budget: Budget = 8
    """Variants asked, 1 to 1,000."""
    sentences: Annotated[int, Field(ge=1, le=8)] = 1
    """Sentences inserted in one variant, 1 to 8."""

    def for_attack(self, attack: Attack) -> Control:
        """Insert as many words as attackers do, if the attack has one."""
        return replace(self, sentences=LIKE_TURNS) if "turns" in attack.needs else self

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield all variants, in random order."""
        between, texts = insertions(item), lexicon()
        bases = [len(between), *self._choices()]
        for number in in_random_order(prod(bases), rng):
            at, *drawn = digits(number, bases)
            left = list(texts)
            text = " ".join(left.pop(i) for i in drawn)
            edit = between[at]
            yield Candidate(
                item=item, edits=(replace(edit, replacement=edit.replacement.format(text)),)
            )

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return the number of variants."""
        return len(insertions(item)) * prod(self._choices())

    def _choices(self) -> list[int]:
        """Return how many texts are left at each draw."""
        return [len(lexicon()) - i for i in range(self.sentences)]


def insertions(item: Question) -> list[Edit]:
    """Return edits that put `{}` between two sentences of an item; of a single one, before it.

    >>> item = Question(id="q", context="A man. He coughs.", stem="Why?", options=("a", "b"),
    ...                 key="A")
    >>> [(edit.field, edit.start, edit.replacement) for edit in insertions(item)]
    [('context', 7, '{} '), ('context', 17, ' {}')]
    """
    n = len(item.context)
    shift = {"context": 0, "question": 0, "stem": n + 1 if n else 0}
    unbroken = [
        (mention.start + shift[mention.field], mention.end + shift[mention.field])
        for mention in item.mentions
        if mention.field in shift
    ]
    # Of the whole question, because a context may end inside a sentence ("E. coli").
    edits = []
    for start, _ in sentence_spans(item.question, unbroken)[1:]:
        in_context = bool(n) and start <= shift["stem"]
        field, at = ("context", min(start, n)) if in_context else ("stem", start - shift["stem"])
        text = " {}" if in_context and start > n else "{} "
        edits.append(Edit(field=field, start=at, end=at, replacement=text))
    return edits or [Edit(field="context" if n else "stem", start=0, end=0, replacement="{} ")]


@lru_cache(maxsize=1)
def lexicon() -> tuple[str, ...]:
    """Return the sentences of `neutral_insertion`, with and without openings."""
    data = shipped("neutral_sentences.toml")
    return tuple(
        f"{opening} {text}." if opening else f"{text[0].upper()}{text[1:]}."
        for opening, text in product(data["openings"], data["sentences"])
    )
