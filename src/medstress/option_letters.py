"""Option letters that stand alone in a text, and when more text can no longer change them."""

from __future__ import annotations

import re

# Words that can follow the letter A and never the article.
_NO_NOUN = re.compile(
    r"\s+(?:and|as|because|but|has|is|must|nor|not|or|seems|should|since|was|would)\b"
)
_LEAD = re.compile(r"(?:answer|option|choice)(?:\s+is)?\s*:?\s*\(?$", re.IGNORECASE)


def letters_of(line: str, letters: str) -> set[str]:
    """The option letters that stand alone in a line.

    >>> sorted(letters_of("B or C", "ABCD")), letters_of("A patient", "ABCD")
    (['B', 'C'], set())
    """
    found: set[str] = set()
    for match in re.finditer(rf"(?<![A-Za-z0-9])[{letters}](?![A-Za-z0-9'’])", line):
        before, after = line[: match.start()], line[match.end() :]
        runs_on = re.match(r"\s+[a-z]", after) and not _NO_NOUN.match(after)
        inside = match.group() == "A" or re.search(r"[a-z]\s+$", before)
        if runs_on and inside and not _LEAD.search(before):
            continue
        found.add(match.group())
    return found


def is_decided(text: str, letters: str) -> bool:
    """Whether every parser reads this text as it would read any longer one.

    That is so once a line with a letter has ended, and there is more than one character: what
    takes the letter and nothing else for an answer would still be changed by a second one.

    >>> is_decided("The answer is B.", "ABCD"), is_decided("The answer is B.\\n", "ABCD")
    (False, True)
    >>> is_decided("B\\n", "ABCD"), is_decided("B\\nSince", "ABCD")
    (False, True)
    """
    if len(text.strip()) < 2:
        return False
    ended = (line for line in text.splitlines(keepends=True) if line.splitlines()[0] != line)
    return any(letters_of(line, letters) for line in ended)
