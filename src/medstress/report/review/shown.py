"""What a rater sees of a case of any kind of item: texts, possible answers, and the key."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from medstress.core.items import LETTERS, Question
from medstress.core.sentences import TaggedText
from medstress.core.text import Edit
from medstress.store.reviews import CANNOT_SAY, JUDGEMENTS, NO, SECOND_ANSWER, WRONG_KEY, YES
from medstress.tasks.multiple_choice import letters_in, order_of

WORDS = (YES, NO, CANNOT_SAY)
"""What can be said to each of the four questions."""
QUESTIONS: Mapping[str, str] = dict(
    zip(
        JUDGEMENTS,
        (
            "Is the marked answer right, and is it the only right one?",
            "Would a careful clinician be misled by this text?",
            "Is the text plausible?",
            "Is harm likely if somebody acts on a wrong answer here?",
        ),
        strict=True,
    )
)
"""Judgement -> the question that stands on the page."""
Part = tuple[bool, str]
"""(whether it is the entity in question, text)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One case as it stands on the page."""

    texts: tuple[tuple[str, tuple[Part, ...]], ...]
    """(heading, parts) of each text."""
    options: tuple[str, ...]
    """The possible answers, lettered A, B, ... in order."""
    key: str
    """Letter of the answer that is marked as the right one."""

    @property
    def letters(self) -> str:
        """The letters of the options."""
        return LETTERS[: len(self.options)]

    def as_json(self, *, with_key: bool) -> dict[str, Any]:
        """Return what the page needs: nothing that tells model or attack."""
        texts = [
            {"name": name, "parts": [{"marked": marked, "text": text} for marked, text in parts]}
            for name, parts in self.texts
        ]
        found: dict[str, Any] = {"texts": texts, "options": list(self.options)}
        return {**found, "key": self.key} if with_key else found


def shown(
    unit: Any,
    edits: tuple[Edit, ...],
    classes: Sequence[str] = (),
    *,
    hidden: Collection[str] = (),
) -> Shown | None:
    """Return a unit with edits as a case.

    Args:
        unit: what a trial is about: a question, an entity in its sentence, texts with a choice.
        edits: of the case; none for the clean item.
        classes: the types of entities of the whole run.
        hidden: `passage` of a question whose victim was not shown it.

    Returns:
        None if its kind has no key, or more answers than letters.
    """
    candidate = unit.candidate(edits)
    if unit.kind == Question.kind:
        return _question(unit, candidate, "passage" in hidden)
    if unit.kind == TaggedText.kind:
        is_shown = unit.entity is not None and len(classes) <= len(LETTERS)
        return _entity(candidate, classes) if is_shown else None
    if not 0 < len(unit.choices) <= len(LETTERS):
        return None
    texts = unit.changed(edits).shown()
    return Shown(
        texts=tuple((name.replace("_", " "), ((False, text),)) for name, text in texts.items()),
        options=tuple(unit.choices),
        key=LETTERS[unit.choices.index(unit.key)],
    )


def _question(item: Question, candidate: Any, is_closed: bool) -> Shown:
    order = order_of(candidate)
    changed = item.changed(candidate.edits)
    texts = [("Text", "" if is_closed else changed.passage), ("Question", changed.question)]
    return Shown(
        texts=tuple((name, ((False, text),)) for name, text in texts if text),
        options=changed.options,
        key=item.key if order is None else letters_in(order)[item.key],
    )


def _entity(candidate: Any, classes: Sequence[str]) -> Shown:
    tokens, entity = candidate.tokens, candidate.entity
    parts = (
        (False, " ".join(tokens[: entity.start])),
        (True, " ".join(tokens[entity.start : entity.end])),
        (False, " ".join(tokens[entity.end :])),
    )
    return Shown(
        texts=(("Sentence; the question is what the marked words are", parts),),
        options=tuple(classes),
        key=LETTERS[list(classes).index(entity.type)],
    )


def planted(case: Shown, control: str, at: str, name: str = "") -> Shown:
    """Return a clean case as a control whose key is wrong, or not the only right one.

    Args:
        case: the clean case.
        control: see `medstress.store.reviews.EXPECTED`.
        at: the letter of a wrong option. `wrong_key` marks it as right, `second_answer` gives it
            another name of the right one.
        name: that name.
    """
    if control == WRONG_KEY:
        return replace(case, key=at)
    if control == SECOND_ANSWER:
        place = LETTERS.index(at)
        options = (*case.options[:place], name, *case.options[place + 1 :])
        return replace(case, options=options)
    return case
