"""Where and in what form a fuzz inserted words: all that a control may know about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from medstress.core.items import Candidate, Question
from medstress.core.text import Edit, comparison_key

_EDGES = re.compile(r"^(\W*)(.*?)(\W*)$", re.DOTALL)
_BETWEEN = re.compile(r"(?<=[.?!])(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)\s+(?=[A-Z])")
_ENDS = (".", "?", "!", ":")
SHORT = 3
"""Insertions of up to this many words are adjectives and the like, not clauses."""


class Form(StrEnum):
    """The grammar of an insertion."""

    SENTENCE = "sentence"
    """A sentence of its own."""
    CLAUSE = "clause"
    """Part of a sentence, such as a relative clause."""
    WORDS = "words"
    """A few words inside a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One sentence of an insertion, or the clause that it begins with."""

    n_words: int
    """White-space words."""
    form: Form
    """Its grammar."""
    category: str | None = None
    """Category of patient characteristics; None where unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One insertion, without its words."""

    field: str
    """`context` or `stem`."""
    at: int
    """Character of the original before which it stands."""
    lead: str
    """Spaces and punctuation before its words."""
    trail: str
    """Spaces and punctuation after its words."""
    n_words: int
    """White-space words."""
    form: Form
    """Its grammar; for several sentences that of the first."""
    category: str | None = None
    """Category of patient characteristics; None where unknown."""
    sentences: tuple[Part, ...] = ()
    """Its sentences, if there are several."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts to fill, in order."""
        only = Part(n_words=self.n_words, form=self.form, category=self.category)
        return self.sentences or (only,)

    def filled(self, *words: str) -> Edit:
        """Return the edit that inserts the words of every part here."""
        text = f"{self.lead}{'. '.join(words)}{self.trail}"
        return Edit(field=self.field, start=self.at, end=self.at, replacement=text)


def slots_of(fuzz: Candidate, added: Sequence[tuple[str, str]] = ()) -> tuple[Slot, ...]:
    """Describe the insertions of a fuzz.

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
    >>> slot.lead, slot.trail, slot.n_words, slot.form.value, slot.category
    (', ', ',', 5, 'clause', 'occupation')
    """
    found = []
    for edit in sorted(fuzz.edits, key=lambda one: (one.field, one.start)):
        match = _EDGES.match(edit.replacement)
        assert match is not None
        lead, core, trail = match.groups()
        if not core:
            continue
        n_words = len(core.split())
        form = Form.CLAUSE if n_words > SHORT else Form.WORDS
        if core[0].isupper() and _opens_sentence(fuzz.item.text_of(edit.field), edit, lead):
            form = Form.SENTENCE
        found.append(
            Slot(
                field=edit.field,
                at=edit.end,
                lead=lead or (" " if edit.end > edit.start else ""),
                trail=trail,
                n_words=n_words,
                form=form,
                category=_category(core, added),
                sentences=_sentences(core, form, added),
            )
        )
    return tuple(found)


def _sentences(core: str, form: Form, added: Sequence[tuple[str, str]]) -> tuple[Part, ...]:
    """Return the sentences of an insertion that holds several; empty for one."""
    texts: list[str] = []
    for text in _BETWEEN.split(core):
        # A "sentence" of a word or two is more likely an abbreviation.
        if texts and min(len(texts[-1].split()), len(text.split())) < SHORT:
            texts[-1] += f" {text}"
        else:
            texts.append(text)
    if len(texts) == 1:
        return ()
    return tuple(
        Part(
            n_words=len(text.split()),
            form=Form.SENTENCE if i else form,
            category=_category(text, added),
        )
        for i, text in enumerate(texts)
    )


def _opens_sentence(text: str, edit: Edit, lead: str) -> bool:
    before = text[: edit.start].rstrip()
    return not before or before.endswith(_ENDS) or any(mark in lead for mark in _ENDS)


def _category(core: str, added: Sequence[tuple[str, str]]) -> str | None:
    """Return the category whose text shares most words with an insertion."""
    words = set(core.casefold().split())
    shared = [(len(words & set(text.casefold().split())), name) for name, text in added]
    best = max(shared, default=(0, ""), key=lambda pair: pair[0])
    return best[1] if best[0] else None


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
