"""Apply edits of tokens and label the new tokens; no other label changes."""

from __future__ import annotations

from collections.abc import Iterable

from medstress.attacks.noise.protocol import Perturbed, TokenEdit
from medstress.core.sentences import OUTSIDE, TaggedText, project


def apply_edits(item: TaggedText, edits: Iterable[TokenEdit]) -> Perturbed:
    """Apply edits, given in the tokens of the original item, and project its labels.

    New tokens take the label of the first token replaced; a B- is followed by I- of its type. The
    number of entities stays.

    Raises:
        ValueError: an edit is empty, lies outside the item, overlaps another, or crosses the
            border of an entity.

    >>> item = TaggedText(id="1", tokens=("no", "aspirin"), labels=("O", "B-Chemical"))
    >>> edit = TokenEdit(start=1, end=2, replacement=("acetylsalicylic", "acid"))
    >>> apply_edits(item, [edit])[:2]
    (('no', 'acetylsalicylic', 'acid'), ('O', 'B-Chemical', 'I-Chemical'))
    """
    applied = tuple(sorted(edits))
    position = 0
    for edit in applied:
        _check(item, edit, position)
        position = edit.end
    tokens, labels = project(item, [(e.start, e.end, e.replacement) for e in applied])
    return Perturbed(tokens, labels, applied)


def same_unit(item: TaggedText, start: int, end: int) -> bool:
    """Whether the tokens of a range lie in one entity, or all outside."""
    first = item.labels[start]
    inside = OUTSIDE if first == OUTSIDE else f"I-{first[2:]}"
    return all(label == inside for label in item.labels[start + 1 : end])


def _check(item: TaggedText, edit: TokenEdit, position: int) -> None:
    where = f"edit [{edit.start}, {edit.end})"
    if not position <= edit.start < edit.end <= len(item.tokens):
        raise ValueError(f"{where} is empty, overlaps or leaves the {len(item.tokens)} tokens")
    if not edit.replacement:
        raise ValueError(f"{where} puts in no token, so its label would be lost")
    if not same_unit(item, edit.start, edit.end):
        raise ValueError(f"{where} crosses the border of an entity")
