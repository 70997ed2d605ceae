"""Find option letters that stand alone in a line of text, whatever the options say."""

from __future__ import annotations

import re

# Words that can follow the letter A and never the article.
_NO_NOUN = re.compile(
    r"\s+(?:and|as|because|but|has|is|must|nor|not|or|seems|should|since|was|would)\b"
)
_LEAD = re.compile(r"(?:answer|option|choice)(?:\s+is)?\s*:?\s*\(?$", re.IGNORECASE)


def letters_of(line: str, letters: str) -> set[str]:
    """Return the option letters that stand alone in a line.

    >>> sorted(letters_of("B or C", "ABCD")), letters_of("A patient", "ABCD")
    (['B', 'C'], set())
    """
    letters_found: set[str] = set()
    for match in re.finditer(rf"(?<![A-Za-z0-9])[{letters}](?![A-Za-z0-9'’])", line):
        before, after = line[: match.start()], line[match.end() :]
        runs_on = re.match(r"\s+[a-z]", after) and not _NO_NOUN.match(after)
        inside = match.group() == "A" or re.search(r"[a-z]\s+$", before)
        if runs_on and inside and not _LEAD.search(before):
            continue
        letters_found.add(match.group())
    return letters_found


def has_letter_line(text: str, letters: str) -> bool:
    """Whether a text has a complete line with an option letter that stands alone.

    >>> has_letter_line("It is\\nB.", "ABCD"), has_letter_line("It is\\nB.\\n", "ABCD")
    (False, True)
    """
    ended = (line for line in text.splitlines(keepends=True) if line.splitlines()[0] != line)
    return any(letters_of(line, letters) for line in ended)
