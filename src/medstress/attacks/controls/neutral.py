"""Neutral controls: plain facts of a patient's life in the places of an attack's insertions.

What a control may know of the attack are the places, forms, categories and lengths of what it
inserted: not its words, the key, the plan or any answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

from medstress.attacks.variants import shipped
from medstress.core.errors import TrialError
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit, comparison_key

if TYPE_CHECKING:
    from numpy.random import Generator

SLACK = 0.4
"""Largest relative difference from the attack's number of words; one word is always allowed."""
SHORT = 3
"""Insertions of up to this many words are adjectives and the like, not clauses."""
MAX_TRIES = 100
"""Draws for one insertion before it counts as impossible."""
_EDGES = re.compile(r"^(\W*)(.*?)(\W*)$", re.DOTALL)
_BETWEEN = re.compile(r"(?<=[.?!])(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)\s+(?=[A-Z])")
_ENDS = (".", "?", "!", ":")
_MALE, _FEMALE = (
    re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for words in ("he|his|him|man|boy|gentleman|father|husband", "she|her|woman|girl|lady|wife")
)

Gate = Callable[[Candidate], str | None]
"""Returns why a candidate must not be asked, or None."""


class Form(StrEnum):
    """The grammar of an insertion."""

    SENTENCE = "sentence"
    """A sentence of its own."""
    CLAUSE = "clause"
    """Part of a sentence, such as a relative clause."""
    WORDS = "words"
    """A few words inside a sentence."""

    @property
    def words(self) -> str:
        """What a writer is asked for."""
        named = {"sentence": "a whole sentence", "clause": "a relative clause"}
        return named.get(self.value, "a few words")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One sentence of an insertion, or the clause that it begins with."""

    n_words: int
    """White-space words."""
    form: Form
    """Its grammar."""
    category: str | None = None
    """What the attacker says it is about; None where unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One insertion, without its words."""

    field: str
    """`context` or `stem`."""
    at: int
    """Character of the original before which it is put."""
    lead: str
    """Spaces and punctuation before its words."""
    trail: str
    """Spaces and punctuation after its words."""
    parts: tuple[Part, ...]
    """Its sentences, in order."""

    def filled(self, *words: str) -> Edit:
        """Return the edit that inserts the words of every part here."""
        text = f"{self.lead}{'. '.join(words)}{self.trail}"
        return Edit(field=self.field, start=self.at, end=self.at, replacement=text)


def slots_of(fuzz: Candidate, added: Sequence[tuple[str, str]] = ()) -> tuple[Slot, ...]:
    """Describe the insertions of an attack.

    An edit that also deletes counts as an insertion after what it deletes, which stays in a
    control.

    Args:
        fuzz: the edited item.
        added: (category, text) of what the attacker says it inserted.

    Returns:
        The slots in the order of the text; insertions without a word are left out.

    >>> item = Question(id="q", stem="A man coughs. Why?", options=("Flu", "Cold"), key="A")
    >>> edit = Edit(field="stem", start=5, end=5, replacement=", who works as a miner,")
    >>> slot, = slots_of(Candidate(item=item, edits=(edit,)), [("occupation", "works as a miner")])
    >>> slot.lead, slot.trail, *((part.n_words, part.form, part.category) for part in slot.parts)
    (', ', ',', (5, <Form.CLAUSE: 'clause'>, 'occupation'))
    """
    slots = []
    for edit in sorted(fuzz.edits, key=lambda one: (one.field, one.start)):
        match = _EDGES.match(edit.replacement)
        assert match is not None
        lead, core, trail = match.groups()
        if not core:
            continue
        form = Form.CLAUSE if len(core.split()) > SHORT else Form.WORDS
        before = fuzz.item.text_of(edit.field)[: edit.start].rstrip()
        opens = not before or before.endswith(_ENDS) or any(mark in lead for mark in _ENDS)
        if core[0].isupper() and opens:
            form = Form.SENTENCE
        texts: list[str] = []
        for text in _BETWEEN.split(core):
            # A "sentence" of a word or two is more likely an abbreviation.
            if texts and min(len(texts[-1].split()), len(text.split())) < SHORT:
                texts[-1] += f" {text}"
            else:
                texts.append(text)
        parts = tuple(
            Part(
                n_words=len(text.split()),
                form=Form.SENTENCE if i else form,
                category=_category(text, added),
            )
            for i, text in enumerate(texts)
        )
        lead = lead or (" " if edit.end > edit.start else "")
        slots.append(Slot(field=edit.field, at=edit.end, lead=lead, trail=trail, parts=parts))
    return tuple(slots)


def _category(core: str, added: Sequence[tuple[str, str]]) -> str | None:
    """Return the category whose text shares most words with an insertion."""
    words = set(core.casefold().split())
    shared = [(len(words & set(text.casefold().split())), name) for name, text in added]
    best = max(shared, default=(0, ""), key=lambda pair: pair[0])
    return best[1] if best[0] else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Plain facts about one side of a life."""

    names: tuple[str, ...]
    """Words that categories of this kind have in their names."""
    facts: tuple[tuple[str, ...], ...]
    """Each follows "who" or a subject; a sentence takes at most one of a group."""
    words: tuple[str, ...]
    """Single words that describe a person."""


@lru_cache(maxsize=1)
def lexicon() -> tuple[Facts, ...]:
    """Return the shipped facts by kind, with every list filled in."""
    data = shipped("neutral_facts.toml")
    return tuple(
        Facts(
            names=tuple(kind["names"]),
            facts=tuple(tuple(_filled(one, data["lists"])) for one in kind["facts"]),
            words=tuple(kind["words"]),
        )
        for kind in data["kind"]
    )


def _filled(pattern: str, lists: dict[str, list[str]]) -> list[str]:
    names = re.findall(r"\{(\w+)\}", pattern)
    made = []
    for values in product(*(lists[name] for name in names)):
        text = pattern
        for name, value in zip(names, values, strict=True):
            text = text.replace(f"{{{name}}}", value, 1)
        made.append(text)
    return made


def facts_of(category: str | None, rng: Generator) -> Facts:
    """Return the facts of a category by its name; of a kind that is drawn for an unknown one."""
    words = set(re.findall(r"\w+", (category or "").casefold()))
    for kind in lexicon():
        if not words.isdisjoint(kind.names):
            return kind
    return lexicon()[int(rng.integers(len(lexicon())))]


def neutral_control(original: Question, slots: Sequence[Slot], rng: Generator) -> Candidate:
    """Fill an attack's slots with plain facts of the same categories.

    Args:
        original: the item; its key is not read.
        slots: from `slots_of`.
        rng: draws the words.

    Returns:
        As many insertions at the same places, each within 40 % of the attack's number of words. A
        very short one takes a fact of another category where its own has none left of that length.

    Raises:
        TrialError: the lexicon has no text of that length.
    """
    subject, used = subject_of(original), set[str]()
    edits = []
    for slot in slots:
        words = []
        for part in slot.parts:
            kind = facts_of(part.category, rng)
            words.append(_words(part, kind, subject, rng, used))
        edits.append(slot.filled(*words))
    return Candidate(item=original, edits=tuple(edits))


def subject_of(item: Question) -> str:
    """Return the pronoun that a question uses for its patient, or "The patient".

    >>> subject_of(Question(id="q", stem="A woman rests. Why?", options=("Flu", "Cold"), key="A"))
    'She'
    """
    text = f"{item.context} {item.stem}"
    male, female = _MALE.search(text), _FEMALE.search(text)
    if male is None or female is None:
        return "He" if male else "She" if female else "The patient"
    return "He" if male.start() < female.start() else "She"


def _words(part: Part, kind: Facts, subject: str, rng: Generator, used: set[str]) -> str:
    """Draw words for one part: facts of groups that are not used yet."""
    is_brief = part.form is Form.WORDS or (part.form is Form.SENTENCE and part.n_words < SHORT)
    head = "" if is_brief else "who " if part.form is Form.CLAUSE else f"{subject} "
    most = part.n_words + max(SLACK * part.n_words, 1)
    for _ in range(MAX_TRIES):
        pieces, text = list[str](), ""
        wanted = part.n_words * (1 + SLACK * (rng.random() - 0.5))
        for group in _groups(kind, rng, is_brief=is_brief):
            piece = group[int(rng.integers(len(group)))]
            longer = f"{head}{_joined([*pieces, piece])}"
            if piece not in used and len(longer.split()) <= most:
                pieces.append(piece)
                text = longer
            if len(text.split()) >= wanted:
                break
        if pieces and is_similar_length(len(text.split()), part.n_words):
            used.update(pieces)
            return text[0].upper() + text[1:] if part.form is Form.SENTENCE else text
    raise TrialError(f"the lexicon of neutral facts has no text of {part.n_words} words")


def _groups(kind: Facts, rng: Generator, *, is_brief: bool) -> Iterator[Sequence[str]]:
    """Yield groups in drawn order: of a kind, then of others for texts that take more facts."""
    own: Sequence[Sequence[str]] = [(word,) for word in kind.words] if is_brief else kind.facts
    yield from (own[int(i)] for i in rng.permutation(len(own)))
    if not is_brief:
        others = [group for one in lexicon() if one is not kind for group in one.facts]
        yield from (others[int(i)] for i in rng.permutation(len(others)))


def _joined(pieces: Sequence[str]) -> str:
    *before, last = pieces
    return f"{', '.join(before)} and {last}" if before else last


def is_similar_length(n: int, wanted: int) -> bool:
    """Whether n words are about as many as wanted: up to 40 %, or one, more or fewer.

    >>> [is_similar_length(n, 10) for n in (5, 6, 14, 15)], is_similar_length(2, 1)
    ([False, True, True, False], True)
    """
    return abs(n - wanted) <= max(SLACK * wanted, 1)


def text_of(candidate: Candidate) -> str:
    """Return the edited question as one text, to compare candidates."""
    return comparison_key("\n".join((candidate.context, candidate.stem, *candidate.options)))


def is_distinct(candidate: Candidate, seen: set[str], item: Question) -> bool:
    """Whether a candidate differs from the item and from all seen; adds it to `seen`.

    Case, white space and punctuation do not count: see `comparison_key`.
    """
    text = text_of(candidate)
    if text in seen or text == text_of(Candidate(item=item)):
        return False
    seen.add(text)
    return True
