"""Tiny questions with invented names, so that no test depends on medical knowledge."""

from __future__ import annotations

from medstress.core.items import Mention, Question

TINY_TYPE = "T121"
"""UMLS semantic type of every mention in a tiny question (Pharmacologic Substance)."""

_OPTIONS = (
    "Abrotine",
    "Belcoxor",
    "Cylamide",
    "Dorvastat",
    "Emnitol",
    "Fuxapril",
    "Gantuzole",
    "Hervidol",
    "Ismocaine",
    "Jolteparin",
    "Kuvramil",
    "Lembactam",
)
REPLACEMENTS = (
    "mirozide",
    "nexodrel",
    "ovaquine",
    "pilbutan",
    "quortisone",
    "ruzolac",
    "sipthermin",
    "tavogrel",
    "umbracin",
    "voxetine",
    "wulfanib",
    "xedramol",
)
"""Twelve more invented names; none is an option of a tiny question."""


def tiny_questions(n: int) -> tuple[Question, ...]:
    """Make n questions with four options, each an invented drug.

    Ids start at ``tiny-0``, every stem is unique, keys cycle through A to D, and every option is
    one mention of type `TINY_TYPE`.

    >>> [(item.id, item.key, item.key_text) for item in tiny_questions(2)]
    [('tiny-0', 'A', 'Abrotine'), ('tiny-1', 'B', 'Fuxapril')]
    """
    return tuple(_question(i) for i in range(n))


def _question(i: int) -> Question:
    options = tuple(_OPTIONS[(4 * i + j) % len(_OPTIONS)] for j in range(4))
    mentions = tuple(
        Mention(field=letter, start=0, end=len(option), type=TINY_TYPE)
        for letter, option in zip("ABCD", options, strict=True)
    )
    return Question(
        id=f"tiny-{i}",
        context=f"This is made-up case number {i}.",
        stem=f"Which drug is right for case {i}?",
        options=options,
        key="ABCD"[i % 4],
        mentions=mentions,
    )
