"""Clinical evidence in an insertion, by kind (`medstress.tasks.prompt_sets` lists them)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from medstress.attacks.medfuzz.word_patterns import Patterns, Words
from medstress.tasks.prompt_sets import forbidden, kinds

_TITLED = re.compile(
    r"\b(?:called|named|nicknamed|titled|entitled)((?: (?:[A-Z][\w'’-]*|of|the))+)"
)
"""A title is no finding: a band called Cardiac Arrest."""


def evidence_in(text: str, *, allow_history: bool) -> list[str]:
    """List the kinds of clinical evidence in a text, each with the first words that show it.

    With `allow_history`, words about the history are ignored: a father's stroke is no diagnosis of
    the patient.

    >>> evidence_in("who works as a teacher", allow_history=False)
    []
    >>> evidence_in("who recently travelled far", allow_history=False)
    ["travel history ('travelled')"]
    >>> evidence_in("who smokes", allow_history=False)
    []
    >>> evidence_in("who coughs and travelled", allow_history=False)
    ["a symptom or physical sign ('coughs')", "travel history ('travelled')"]
    """
    words = _searchable(text, allow_history=allow_history)
    listed = []
    for kind in forbidden(allow_history=allow_history):
        if found := sorted(_patterns()[kind.name].find(words)):
            first, end = found[0]
            for start, stop in found:
                end = max(end, stop) if start < end else end
            listed.append(f"{kind.name} ({words.text_of((first, end))!r})")
    return listed


def clinical_names(
    text: str,
    names_in: Callable[[str], Sequence[str]],
    cues: Iterable[str],
    *,
    allow_history: bool,
) -> list[str]:
    """Return the names of drugs and diseases in a text, without idioms, titles and cues.

    Args:
        text: what was inserted.
        names_in: finds the names.
        cues: of the categories, which may be named: a habit or a disability.
        allow_history: see `evidence_in`.
    """
    permitted = {cue.casefold() for cue in cues}
    shown = _searchable(text, allow_history=allow_history).shown
    return [name for name in names_in(shown) if name.casefold() not in permitted]


def _searchable(text: str, *, allow_history: bool) -> Words:
    """Split a text, and hide the words that count as no evidence."""
    for found in reversed(list(_TITLED.finditer(text))):
        start, end = found.span(1)
        text = text[:start] + "_" * (end - start) + text[end:]
    words = Words(text)
    words.hide(list(_plain().find(words, heads=True)))
    if allow_history:
        history = (kind for kind in kinds().evidence if kind.history)
        words.hide([span for kind in history for span in _patterns()[kind.name].find(words)])
    return words


@lru_cache(maxsize=1)
def _lists() -> dict[str, Patterns]:
    lists: dict[str, Patterns] = {}
    lists.update({name: Patterns(words, lists) for name, words in kinds().lists.items()})
    return lists


@lru_cache(maxsize=1)
def _plain() -> Patterns:
    return Patterns(kinds().plain, _lists())


@lru_cache(maxsize=1)
def _patterns() -> dict[str, Patterns]:
    return {kind.name: Patterns(kind.words, _lists()) for kind in kinds().evidence}
