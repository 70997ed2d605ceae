"""Abbreviations that a corpus defines in its own text: "myocardial infarction (MI)".

Reference: Schwartz, Hearst. A simple algorithm for identifying abbreviation definitions in
biomedical text. Pacific Symposium on Biocomputing, 2003. The rule here is simpler, since both forms
are gold entities of one type: a long form, then in brackets a shorter one of a single token with
the same first letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from medstress.core.sentences import entities_of
from medstress.entities.recognisers.gazetteer import MAX_INITIALS
from medstress.entities.replacements import Replacements, Tokens


def defined_abbreviations(
    sentences: Iterable[tuple[Sequence[str], Sequence[str]]], direction: str
) -> Replacements:
    """Return the short forms of long mentions as written, and long forms in lower case.

    Args:
        sentences: (tokens, IOB2 labels) of the whole corpus.
        direction: `expand`, `contract` or `both`.

    Returns:
        Mention in lower case -> its other forms, in the order of their definitions.

    >>> tokens = "Myocardial infarction ( MI ) was rare".split()
    >>> labels = ["B-D", "I-D", "O", "B-D", "O", "O", "O"]
    >>> defined_abbreviations([(tokens, labels)], "both")
    {'mi': (('myocardial', 'infarction'),), 'myocardial infarction': (('MI',),)}
    """
    found: dict[str, dict[Tokens, None]] = {}
    for tokens, labels in sentences:
        for first, second in pairwise(entities_of(labels)):
            is_bracketed = (
                second.start == first.end + 1
                and second.end == second.start + 1 < len(tokens)
                and (tokens[first.end], tokens[second.end]) == ("(", ")")
            )
            long, short = tuple(tokens[first.start : first.end]), tokens[second.start]
            if not (is_bracketed and first.type == second.type and _abbreviates(short, long)):
                continue
            lowered = tuple(token.lower() for token in long)
            if direction != "contract":
                found.setdefault(short.lower(), {})[lowered] = None
            if direction != "expand":
                found.setdefault(" ".join(lowered), {})[(short,)] = None
    return {mention: tuple(names) for mention, names in found.items()}


def _abbreviates(short: str, long: Tokens) -> bool:
    is_short = 2 <= len(short) <= MAX_INITIALS and short.isalnum() and not short.islower()
    return is_short and long[0][:1].lower() == short[0].lower() and len(short) < len("".join(long))
