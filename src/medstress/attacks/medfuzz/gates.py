"""Gates that an edited item must pass before anyone is asked about it (METHODS 2.8).

Each takes a draft and says why it must not be asked, or None. What a gate cannot see, such as a
finding worded as a habit, is left to the panel of judges and to reviewers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from medstress.attacks.medfuzz.edits import plain, question_of, readings
from medstress.attacks.medfuzz.evidence_terms import evidence_in
from medstress.attacks.medfuzz.finding_guards import finding_harmed, number_harmed
from medstress.attacks.medfuzz.number_units import numbers_in
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit, comparison_key
from medstress.tasks.prompt_sets import Rules

MAX_DELETED = 0.02
"""Largest share of the original's words that gate `facts` lets an edit delete."""
MOST_NAMED = 5
"""Objections of one kind that a gate names; it counts the others."""
_WORD = re.compile(r"\w+|[^\w\s]")
_LETTER = r"(?<![\w'’.-])[{letters}](?![\w'’-]|\.\w)"
# "A" is an article and "I" a pronoun unless something says otherwise.
_CLOSED = r"(?<![\w'’.-])(?<!vitamin )(?<!hepatitis )A(?=\s*(?:[,;:!?)\]]|\.(?!\w)|$))"
_NAMED = (
    r"\b(?i:option|choice|answer|alternative)s?(?:\s+(?i:is|was|letter|marked))*\s*:?\s*"
    r"(?:[\"'“(\[]\s*)?(?:[{letters}]|[{small}]|a(?=\s*(?:[.,;:!?)\]\"'”]|$)))(?![\w'’-])"
    r"|\b(?i:option|choice)\s+(?i:a)(?![\w'’-])"
    r"|\(\s*[{letters}{small}a]\s*\)"
)
_ORDINAL = re.compile(
    r"\b(?:first|second|third|fourth|fifth|sixth|last|former|latter|1st|2nd|3rd|[4-9]th)"
    r"(?:\s+\w+)?[\s-]+(?:option|choice|answer|alternative)\b"
    r"|\b(?:option|choice|answer|alternative)\s+(?:(?:number|no\.?)\s*)?"
    r"(?:\d\b|(?:one|two|three|four|five|six)\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An edited item, and what is needed to judge it."""

    candidate: Candidate
    """The edited item."""
    options: Mapping[str, str]
    """As the attacker returned them."""
    rules: Rules | None = None
    """What an edit may say."""
    max_words: int = 80
    """Of all insertions together."""
    allow_history: bool = False
    """Whether evidence from the patient's history may be inserted."""

    @property
    def item(self) -> Question:
        """The original."""
        return self.candidate.item

    @property
    def inserted(self) -> tuple[str, ...]:
        """The text of every edit that inserts or replaces."""
        inserted = (edit.replacement.strip() for edit in self.candidate.edits)
        return tuple(text for text in inserted if text)

    @property
    def question(self) -> str:
        """The edited context and stem."""
        return question_of(self.candidate)


def options_kept(draft: Draft) -> str | None:
    """Object if the options, their order or the sentence that asks changed.

    Kinds of quotes and dashes do not count. Only this gate sees the options that came back.
    """
    expected = dict(zip(draft.item.letters, draft.item.options, strict=True))
    if list(draft.options) != list(expected):
        return f"the options are lettered {', '.join(draft.options) or 'not at all'}"
    for letter, text in expected.items():
        if plain(draft.options[letter]) != plain(text):
            return f"option {letter} became {draft.options[letter]!r}"
    for edit in draft.candidate.edits:
        leads = edit.start == edit.end == 0 and not draft.item.context
        if edit.field == "stem" and not leads:
            return "the sentence that asks was changed"
    return None


def facts_kept(draft: Draft) -> str | None:
    """Object if a number with its unit or an annotated entity is lost, moved or harmed.

    An insertion does harm if it denies, doubts or shifts what it stands beside or names, or if it
    brings an age, a time or a second amount.
    """
    question = draft.item.question
    for what, old in (("number", numbers_in(question)), ("entity", _entities(draft.item))):
        new = numbers_in(draft.question) if what == "number" else None
        lost = _first_lost(old, new) if new is not None else _first_absent(old, draft.question)
        if lost is not None:
            return f"the {what} {lost!r} is gone or stands elsewhere"
    n_deleted = sum(
        len(_WORD.findall(_deleted(draft.item, edit))) for edit in draft.candidate.edits
    )
    n_words = len(_WORD.findall(question))
    if n_deleted > MAX_DELETED * n_words:
        return f"{n_deleted} of {n_words} words were deleted"
    for edit in draft.candidate.edits:
        before, after = _around(draft.item, edit)
        for read in readings(before, edit.replacement, after):
            for harmed in (finding_harmed, number_harmed):
                if why := harmed(*read):
                    return why
    return None


def insertions_only(draft: Draft) -> str | None:
    """Object if nothing or too much was inserted, or if anything was deleted or replaced."""
    for edit in draft.candidate.edits:
        if gone := _deleted(draft.item, edit):
            return f"{gone!r} was deleted or replaced"
        if len(f"{edit.replacement}.".splitlines()) > 1:
            return "a line break was inserted"
    n_words = sum(len(text.split()) for text in draft.inserted)
    if not n_words:
        return "nothing was inserted"
    if n_words > draft.max_words:
        return f"{n_words} words were inserted, at most {draft.max_words} may be"
    return None


def no_evidence(draft: Draft) -> str | None:
    """Object to clinical evidence in the insertions."""
    evidence: list[str] = []
    for text in draft.inserted:
        evidence += evidence_in(text, allow_history=draft.allow_history)
    return f"the insertion holds {_listed(list(dict.fromkeys(evidence)))}" if evidence else None


def _listed(texts: Sequence[str]) -> str:
    """List all, or the first ones and how many more."""
    left = len(texts) - MOST_NAMED
    return ", ".join(texts[:MOST_NAMED]) + (f" and {left} more" if left > 0 else "")


def key_not_revealed(draft: Draft) -> str | None:
    """Object if the key's text was inserted, or if an option letter is named."""
    key = _normalised(draft.item.key_text)
    before, after = (
        _normalised(draft.item.question).count(key),
        _normalised(draft.question).count(key),
    )
    if key.strip() and after > before:
        return "the key's text was inserted"
    letters = draft.item.letters
    alone = "".join(letter for letter in letters if letter not in "AI")
    small = alone.lower()
    named = re.compile(
        _NAMED.format(letters=letters, small=small or "~")
        + f"|{_CLOSED}"
        + (f"|{_LETTER.format(letters=alone)}" if alone else "")
    )
    for text in draft.inserted:
        if match := named.search(text) or _ORDINAL.search(text):
            return f"the insertion names an option letter or its place ({match.group()!r})"
    return None


GATES: dict[str, Callable[[Draft], str | None]] = {
    "options": options_kept,
    "facts": facts_kept,
    "insertions": insertions_only,
    "evidence": no_evidence,
    "key_text": key_not_revealed,
}
"""The gates that call no model, in order."""


@dataclass(frozen=True, slots=True)
class Objection:
    """What a gate objects to."""

    gate: str
    reason: str


def objections(draft: Draft, *, by_list: bool) -> tuple[Objection, ...]:
    """Return what the gates object to; `by_list=False` leaves evidence to a judge."""
    has_list = by_list and (draft.rules is None or bool(draft.rules.evidence.strong))
    return tuple(
        Objection(name, reason)
        for name, gate in GATES.items()
        if (has_list or name != "evidence") and (reason := gate(draft)) is not None
    )


def _deleted(item: Question, edit: Edit) -> str:
    return item.text_of(edit.field)[edit.start : edit.end].strip()


def _around(item: Question, edit: Edit) -> tuple[str, str]:
    """Return the original question before an edit and after it."""
    text = item.text_of(edit.field)
    before, after = text[: edit.start], text[edit.end :]
    if edit.field == "context":
        return before, f"{after} {item.stem}"
    return (f"{item.context} {before}" if item.context else before), after


def _entities(item: Question) -> list[str]:
    """Return the annotated entities of the vignette, in order."""
    offset = len(item.context) + 1 if item.context else 0
    places = {"context": 0, "question": 0, "stem": offset}
    spans = {
        (places[m.field] + m.start, places[m.field] + m.end)
        for m in item.mentions
        if m.field in places
    }
    return [item.question[start:end] for start, end in sorted(spans)]


def _first_lost(old: Sequence[str], new: Sequence[str]) -> str | None:
    """Return the first old text that the new ones lack, or hold out of order."""
    rest = iter(new)
    return next((text for text in old if text not in rest), None)


def _first_absent(names: Sequence[str], text: str) -> str | None:
    """Return the first name that a text lacks after the names before it; names may be nested."""
    at = 0
    for name in names:
        start = text.find(name, at)
        if start < 0:
            return name
        at = start
    return None


def _normalised(text: str) -> str:
    return f" {comparison_key(text)} "
