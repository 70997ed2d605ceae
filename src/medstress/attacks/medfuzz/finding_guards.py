"""What an insertion must not do to a finding: deny it, doubt it, or shift its amount (METHODS 2.8).

The rules look at words and their positions and do not parse: what is denied has to stand inside
the insertion. What they cannot see is left to the panel of judges and to reviewers.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files

from medstress.attacks.medfuzz.number_units import numbers_in

_WORD = re.compile(r"[\w'’-]+(?:[.,]\d+)*")
_CLAUSE_END = re.compile(r"[.,;:!?()—–]+(?!\d)")
_BREAK = re.compile(r"\s*[.,;:!?()—–]")
_SENTENCE_END = re.compile(r"[.!?][\"'”’)]*\s*$")
_LEAST_LETTERS = 4
"""Shorter words of the original do not count as findings."""

_ONES = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
_TENS = "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
_COUNT = rf"(?:\d+|(?:{'|'.join(f'{_ONES} {_TENS} hundred'.split())})(?:-\w+)?)"
_TIME = r"(?:second|minute|hour|day|week|month|year|decade)s?"
_AGE = re.compile(
    rf"\bage[ds]?(?:\s+of|\s+is|\s+was)?:?\s+{_COUNT}\b"
    rf"|\b{_COUNT}[\s-]{_TIME}[\s-](?:old|of\s+age|later|earlier|younger|older|before|after)\b"
    rf"|\b\d+[\s-]{_TIME}\b"
    r"|\b(?:twenties|thirties|forties|fifties|sixties|seventies|eighties|nineties)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=1)
def _cues() -> dict[str, tuple[str, ...]]:
    path = files("medstress.attacks") / "data" / "finding_cues.toml"
    data = tomllib.loads(path.read_text("utf-8"))
    return {name: tuple(texts) for name, texts in data.items()}


@lru_cache(maxsize=8)
def _pattern(kind: str) -> re.Pattern[str]:
    # Longest first, because the first alternative that matches wins.
    known = sorted(_cues()[kind], key=lambda cue: (-len(cue), cue))
    texts = "|".join(re.escape(cue).replace(r"\ ", r"\s+") for cue in known)
    return re.compile(rf"(?<![\w'’-])(?:{texts})(?![\w'’-])", re.IGNORECASE)


def finding_harmed(before: str, inserted: str, after: str) -> str | None:
    """Say how an insertion denies, doubts or shifts what the original says around it, or None.

    Args:
        before: the original up to the insertion.
        inserted: the insertion.
        after: the original from there on.

    >>> finding_harmed("He came because of", " no", " fever.")
    "'no' denies or doubts what follows it"
    >>> finding_harmed("A man", ", who has no insurance,", " comes with fever.")
    """
    inserted = inserted.replace("’", "'")
    if match := _pattern("discredits").search(inserted):
        return f"{match.group()!r} takes back the case or a part of it"
    return (
        _between_cue_and_finding(before, after)
        or _denial_left_open(inserted, after)
        or _amount_shifted(inserted, after)
        or _finding_denied_again(f"{before} {after}", inserted)
    )


def number_harmed(before: str, inserted: str, after: str) -> str | None:
    """Say which new age, time or amount an insertion sets against the original's, or None.

    A count without a unit passes ("has 3 children") unless it touches a number of the original.

    >>> number_harmed("A 45-year-old man", ", 30 years later at age 75,", " comes.")
    "a new age or time was inserted ('30 years later')"
    """
    if match := _AGE.search(inserted):
        return f"a new age or time was inserted ({match.group()!r})"
    units = {unit for number in numbers_in(f"{before} {after}") if (unit := _unit(number))}
    for number in numbers_in(inserted):
        if _unit(number) in units:
            return f"a second amount in the same unit was inserted ({number!r})"
    if _touches_number(before, inserted, after) and any(map(str.isdigit, inserted)):
        return f"a number was inserted beside one of the case ({inserted.strip()!r})"
    return None


def _unit(number: str) -> str:
    return re.sub(r"[\d.,/:\s-]+", "", number).casefold()


def _touches_number(before: str, inserted: str, after: str) -> bool:
    """Whether an insertion stands beside a number of the original without a mark between."""
    last = numbers_in(before)[-1:]
    behind = bool(last) and before.rstrip().endswith(last[0]) and not _BREAK.match(inserted)
    ahead = after.strip()[:1].isdigit() and _attached(inserted, after)
    return behind or ahead


def _between_cue_and_finding(before: str, after: str) -> str | None:
    """Object to an insertion right after a word of the original that denies what comes next."""
    if _BREAK.match(after) or not after.strip():
        return None
    for kind in ("negations", "quantities"):
        for match in _pattern(kind).finditer(before):
            rest = before[match.end() :]
            if not _CLAUSE_END.search(rest) and _all_light(rest):
                return f"it stands between {match.group()!r} and what that is said of"
    return None


def _denial_left_open(inserted: str, after: str) -> str | None:
    """Object to a negation whose object is not inside its own clause of the insertion."""
    clauses = [clause for clause in _CLAUSE_END.split(inserted) if clause.strip()]
    for clause in clauses:
        for match in list(_pattern("negations").finditer(clause))[-1:]:
            word = match.group()
            if _all_light(clause[match.end() :]):
                return f"{word!r} denies or doubts what follows it"
            if clause is clauses[-1] and _attached(inserted, after):
                following = _WORD.findall(after)
                if not _goes_on(following):
                    return f"{word!r} may deny what follows it ({following[0]!r})"
    return None


def _amount_shifted(inserted: str, after: str) -> str | None:
    """Object to an amount or scope word right before or right behind what it shifts."""
    bare = inserted.strip().strip(",;").strip()
    for match in _pattern("quantities").finditer(bare):
        alone = not bare[: match.start()].strip() and not bare[match.end() :].strip()
        ends = not bare[match.end() :].strip() and _attached(inserted, after)
        if alone or (ends and not _goes_on(_WORD.findall(after))):
            return f"{match.group()!r} shifts what it stands beside"
    return None


def _finding_denied_again(original: str, inserted: str) -> str | None:
    """Object to a negation in one clause with a word of the original that may be a finding."""
    plain = frozenset(_cues()["plain"])
    case_words = {
        word.casefold() for word in _WORD.findall(original) if len(word) >= _LEAST_LETTERS
    }
    for clause in _CLAUSE_END.split(inserted):
        match = _pattern("negations").search(clause)
        if match is None:
            continue
        for word in _WORD.findall(clause[: match.start()] + clause[match.end() :]):
            if (folded := word.casefold()) in case_words and folded not in plain:
                return f"{match.group()!r} is said of {word!r}, a word of the case"
    return None


def _all_light(text: str) -> bool:
    light = frozenset(_cues()["light"])
    bare = _pattern("negations").sub(" ", _pattern("quantities").sub(" ", text))
    return all(word.casefold() in light for word in _WORD.findall(bare))


def _attached(inserted: str, after: str) -> bool:
    """Whether the text goes on after the insertion without a break."""
    ended = _CLAUSE_END.search(inserted.rstrip()[-1:]) or _SENTENCE_END.search(inserted)
    return bool(_WORD.search(after)) and not ended and not _BREAK.match(after)


def _goes_on(following: Sequence[str]) -> bool:
    return bool(following) and following[0].casefold() in frozenset(_cues()["continuers"])
