"""Abbreviations that a corpus defines itself: "myocardial infarction (MI)".

Reference: Schwartz, Hearst. A simple algorithm for identifying abbreviation definitions in
biomedical text. Pacific Symposium on Biocomputing, 2003. Simpler here, as both sides are gold
entities of one type: an entity of several letters more, then in brackets one of a single token with
the same first letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from medstress.entities.recognisers.gazetteer import MAX_INITIALS
from medstress.entities.replacements import Replacements, Tokens
from medstress.sentences import entities_of


def defined_abbreviations(
    sentences: Iterable[tuple[Sequence[str], Sequence[str]]], direction: str
) -> Replacements:
    """Short forms of long mentions, as written, and long forms of short ones, in lower case.

    Args:
        sentences: (tokens, IOB2 labels) of the whole corpus.
        direction: `expand`, `contract` or `both`.

    Returns:
        By mention in lower case; the first definition of the corpus stands first.

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
