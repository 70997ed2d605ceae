"""Our default parser of replies, which knows the options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from string import ascii_uppercase

from medstress.option_letters.cleaning import (
    answer_lines,
    cleaned_lines,
    is_thinking,
    normalised,
)
from medstress.option_letters.mentions import mentions

_LABEL = re.compile(
    r"[(\[]?(?P<letter>[A-Za-z])"
    r"(?P<mark>\s*[)\]:。、]+\.?|\.(?!\w\.)|\s*[-–—](?=\s)|(?=\s*$))\s*(?P<rest>.*)"
)
_LISTED = re.compile(r"[(\[]?([A-Z])\s*(?:[)\]:]|\.(?!\w\.))")
_GOES_ON = re.compile(r"[(\[]?(?:(?:or|and|nor|to|vs)\b|[/,&])\W*[A-Z]\b")
_RULED_OUT = re.compile(r".{0,80}?\b(?:is|are|would be)\s+(?:not\b|wrong|incorrect|false)")
_REASON = re.compile(
    r"([A-Z])(?:,\s*(?:but\s+)?(?:as|because|since|although|though|while|whereas|not|rather)"
    r"|\s+(?:because|since|although|though|rather than))\b"
)
_BEGINS_WITH_WORD = re.compile(r"\s*\[?[A-Za-z]{2}")
_WRONG = re.compile(r"\b(?:incorrect|wrong|not|false|no)\b", re.IGNORECASE)
_RIGHT = re.compile(r"\b(?:correct|right|true|best)\b", re.IGNORECASE)


def options_aware(text: str, options: Sequence[str]) -> str | None:
    """Return the option that a reply commits to; None if it is unreadable (METHODS 3.8).

    The first rule that fits decides: the reply begins with one option's text or with a label (`K:`,
    `K.`, `(K)`, `K)`, `K` alone); it says "the answer is K" or the like, where K may be an option's
    text; it names one letter that is no article, not ruled out and not part of a name. Different
    letters conflict. Tagged thoughts, and a next question that the model writes, are not read.

    >>> drugs = ["Vitamin D", "Vitamin C", "Amphotericin B", "Nystatin"]
    >>> options_aware("Vitamin D", drugs), options_aware("C. Amphotericin B", drugs)
    ('A', 'C')
    >>> options_aware("Not A.\\nB", drugs), options_aware("A 45-year-old man", drugs)
    ('B', None)
    """
    known = _lettered(options)
    label = None if is_thinking(text) else _label_of(cleaned_lines(text), known)
    if label is not None:
        return label
    lines = answer_lines(text)
    opening = _opening(lines, known)
    if opening is not None:
        return opening
    listed, others = _without_list(lines)
    mentioned = mentions("\n".join(others), known)
    chosen = mentioned.stated or (_marked_right(listed, known) if listed else mentioned.named)
    return next(iter(chosen)) if len(chosen) == 1 else None


def is_final(text: str, options: Sequence[str]) -> bool:
    """Whether this reply begins with a label that no further text can change."""
    *ended, last = [*text.splitlines(keepends=True), ""]
    if last == "" and ended and ended[-1].splitlines()[0] == ended[-1]:
        last = ended.pop()
    lines = cleaned_lines("".join(ended))
    if is_thinking(text) or not lines:
        return False
    goes_on = _LISTED.match(lines[1]) is None if lines[1:] else _BEGINS_WITH_WORD.match(last)
    return bool(goes_on) and _label_of(lines[:1], _lettered(options)) is not None


def _lettered(options: Sequence[str]) -> dict[str, str]:
    return dict(zip(ascii_uppercase, options, strict=False))


def _opening(lines: Sequence[str], options: Mapping[str, str]) -> str | None:
    """Return the option that a reply begins with, by its text or its label."""
    exact = [_exact(line, options) for line in lines[:2]]
    if exact and exact[0] is not None:
        return exact[0] if exact[-1] in (None, exact[0]) else None
    return _label_of(lines, options)


def _exact(line: str, options: Mapping[str, str]) -> str | None:
    """Return the one option whose text equals a line; a bare letter does not count."""
    same = [letter for letter, option in options.items() if normalised(option) == normalised(line)]
    is_letter = line.strip().upper() in options
    return same[0] if len(same) == 1 and normalised(line) and not is_letter else None


def _label_of(lines: Sequence[str], options: Mapping[str, str]) -> str | None:
    """Return the letter that labels the first line.

    Further lines with other labels make it a list of options, which chooses none of them.
    """
    if not lines or _exact(lines[0], options) is not None:
        return None
    letter, rest = _label(lines[0], options)
    if letter is None:
        return None
    following = takewhile(bool, map(_LISTED.match, lines[1:])) if rest else ()
    return letter if all(match and match[1] == letter for match in following) else None


def _label(line: str, options: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the label of a line, and the text after it."""
    if (reason := _REASON.match(line)) and reason[1] in options:
        return reason[1], ""
    if line[:1] in options and line[1:2] == " " and _is_own(line[1:], options[line[0]]):
        return line[0], line[2:]
    match = _LABEL.match(line)
    if match is None or (letter := match["letter"].upper()) not in options:
        return None, ""
    rest = match["rest"]
    if not rest or _is_own(rest, options[letter]):
        return letter, rest
    is_plain = match["letter"].isupper() or match["mark"].strip()[:1] in (")", "]")
    if not is_plain or _GOES_ON.match(rest) or _RULED_OUT.match(rest):
        return None, ""
    begins = normalised(line)
    return (None, "") if any(map(begins.startswith, _long(options))) else (letter, rest)


def _long(options: Mapping[str, str]) -> list[str]:
    """Return the options' texts, normalised, that are more than a letter ("C. difficile")."""
    return [text for text in map(normalised, options.values()) if len(text) > 1]


def _is_own(text: str, option: str) -> bool:
    return normalised(text) == normalised(option)


def _without_list(lines: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Split lines into those that list the options again (letter -> line) and the others."""
    matches = [(line, _LISTED.match(line)) for line in lines]
    listed = {match[1]: line for line, match in matches if match}
    if len(listed) < 2:
        return {}, list(lines)
    return listed, [line for line, match in matches if not match]


def _marked_right(listed: Mapping[str, str], options: Mapping[str, str]) -> set[str]:
    """Return the letters that a list marks as right."""
    return {
        letter
        for letter, line in listed.items()
        if letter in options and _RIGHT.search(line) and not _WRONG.search(line)
    }
