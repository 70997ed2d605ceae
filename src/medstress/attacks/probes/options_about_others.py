"""Options that speak of the others, which a change of these makes say something else."""

from __future__ import annotations

import re

from medstress.core.items import LETTERS, Question

_ALONE = r"(?:all|none|both|neither|either|any)"
_QUANTIFIER = rf"(?:{_ALONE}|one|two|three|some)"
_OTHERS = (
    r"(?:above|below|these|those|them|others?|two|three|four|preceding|following|options?|"
    r"choices?|answers?|statements?)"
)
_PLACE = r"[A-J1-9]"
_JOINT = r"\s*(?:[,;&+]|\b(?:and|or|nor)\b)\s*"
_SPEAKS = re.compile(
    rf"\b{_QUANTIFIER} (?:of (?:the )?|the ){_OTHERS}\b"
    rf"|^\W*{_ALONE}(?: {_OTHERS}| (?:is|are)(?: \w+)?)?\W*$"
    r"|\b(?:above|below|preceding) (?:options?|answers?|choices?|statements?)\b"
    r"|\bno(?:ne)? (?:correct|right|other|such) (?:option|answer|choice)s?\b"
    r"|^\W*(?:(?:both|either|neither|only|options?|answers?|choices?|statements?)\W+)*"
    rf"{_PLACE}(?:{_JOINT}(?:{_JOINT})?{_PLACE}\b)+\W*(?:only|(?:is|are)(?: \w+)?)?\W*$",
    re.IGNORECASE,
)
"""`all of above`, `none`, `both are correct`, `A and C only`, `1, 2, 3`."""


def about_others(item: Question) -> str | None:
    """Return the letter of an option that speaks of the others, or None.

    >>> options = ("aspirin", "vitamins A and D", "both A and B")
    >>> about_others(Question(id="q", stem="Which?", options=options, key="A"))
    'C'
    """
    spoken = (x for x, text in zip(LETTERS, item.options, strict=False) if _SPEAKS.search(text))
    return next(spoken, None)
