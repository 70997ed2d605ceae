"""Tokenises texts with their continuations; a beginning that texts share is encoded once.

Byte-pair tokenizers split a text into words from left to right and encode each word separately.
A continuation therefore changes only the tokens of the last words, so only these are encoded again.
In the same way the common beginning of an item's candidates is encoded once per batch. For a small
model that answers by one of four letters, tokenising took an eighth of a batch's time. Encoding
only the last words brought that to a fortieth, and sharing beginnings halved it again (MedQA).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from medstress.backends.models.token_tree import shared_length

Tokens: TypeAlias = tuple[int, ...]
Encode: TypeAlias = Callable[[Sequence[str], bool], list[Tokens]]
"""Maps texts, and whether to add special tokens, to the tokens of each text."""

_LAST_WORDS = 4
"""More words than a continuation can change: it may extend the last word and split the space
before it differently."""
_MIN_SHARED = 0.5
"""The share of a text that it must have in common with another one to join its group."""
_MIN_KEPT = 0.9
"""The share of a group's common beginning that must remain when one more text joins."""
_PROBE = "a drug was given"


@dataclass(frozen=True, slots=True)
class Continued:
    """A text and its continuations."""

    text: str
    continuations: tuple[str, ...]
    is_whole: bool
    """True if it already contains its special tokens, because a chat template wrote it."""


def reads_by_words(tokenizer: Any) -> bool:
    """Return whether a tokenizer is byte-pair and splits words before their spaces."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or backend.pre_tokenizer is None:
        return False
    if type(backend.model).__name__ != "BPE" or backend.model.dropout:
        return False
    if backend.normalizer is not None and type(backend.normalizer).__name__ != "NFC":
        return False
    if any(len(added.content.split()) > 1 for added in backend.get_added_tokens_decoder().values()):
        return False
    places = [start for _, (start, _) in backend.pre_tokenizer.pre_tokenize_str(_PROBE)]
    return places == [0, *(place for place, letter in enumerate(_PROBE) if letter == " ")]


def tokens_of_each(
    texts: Sequence[Continued], encode: Encode, *, by_words: bool
) -> list[list[Tokens]]:
    """Return the tokens of each text alone, then of the text with each continuation.

    Args:
        texts: any.
        encode: the tokenizer.
        by_words: the result of `reads_by_words`.
    """
    alone = [(one.text, not one.is_whole) for one in texts]
    of_text = _from_beginnings(alone, encode) if by_words else _encoded(alone, encode)
    ends = [_last_words(one.text) if by_words and one.continuations else "" for one in texts]
    of_end = _encoded(
        [
            (end + added, False)
            for one, end in zip(texts, ends, strict=True)
            if end
            for added in ("", *one.continuations)
        ],
        encode,
    )
    kept = [
        _before(of_text[one.text, not one.is_whole], of_end[end, False]) if end else None
        for one, end in zip(texts, ends, strict=True)
    ]
    of_whole = _encoded(
        [
            (one.text + added, not one.is_whole)
            for one, before in zip(texts, kept, strict=True)
            if before is None
            for added in one.continuations
        ],
        encode,
    )
    return [
        [
            of_text[one.text, not one.is_whole],
            *(
                of_whole[one.text + added, not one.is_whole]
                if before is None
                else before + of_end[end + added, False]
                for added in one.continuations
            ),
        ]
        for one, end, before in zip(texts, ends, kept, strict=True)
    ]


def _from_beginnings(
    texts: Sequence[tuple[str, bool]], encode: Encode
) -> dict[tuple[str, bool], Tokens]:
    """Return the same as `_encoded`, but encode a beginning that several texts share once."""
    groups = [(group, _rest(group)) for group in _alike(texts)]
    tokens = _encoded([group[0] for group, _ in groups], encode)
    ends = _encoded([(text[at:], False) for group, at in groups for text, _ in group if at], encode)
    in_full = []
    for group, at in groups:
        before = _before(tokens[group[0]], ends[group[0][0][at:], False]) if at else None
        if before is None:
            in_full += group[1:]
        else:
            tokens.update({one: before + ends[one[0][at:], False] for one in group[1:]})
    return {**tokens, **_encoded(in_full, encode)}


def _alike(texts: Sequence[tuple[str, bool]]) -> list[list[tuple[str, bool]]]:
    """Group distinct texts by long common beginnings.

    >>> _alike([("abc", True), ("x", True), ("abd", True)])
    [[('abc', True), ('abd', True)], [('x', True)]]
    """
    groups: list[list[tuple[str, bool]]] = []
    common = 0
    for text, special in sorted(set(texts), key=lambda one: one[::-1]):
        first, how = groups[-1][0] if groups else ("", special)
        shared = shared_length(first, text) if how is special else 0
        if shared > max(_MIN_SHARED * len(text), _MIN_KEPT * common):
            groups[-1].append((text, special))
            common = shared
        else:
            groups.append([(text, special)])
            common = 0
    return groups


def _rest(group: Sequence[tuple[str, bool]]) -> int:
    """Return where to cut the texts of a group, in characters; 0 for no cut."""
    # In sorted order the first and the last text share the least.
    common = group[0][0][: shared_length(group[0][0], group[-1][0])] if len(group) > 1 else ""
    return len(common) - len(last) if (last := _last_words(common)) else 0


def _last_words(text: str) -> str:
    """Return the last words with the space before them; empty if the text has no more words.

    >>> _last_words("Does it help? A. yes  B. no\\nAnswer:")
    ' yes  B. no\\nAnswer:'
    """
    first, *last = text.rsplit(maxsplit=_LAST_WORDS) or [""]
    return text[len(first) :] if len(last) == _LAST_WORDS else ""


def _before(tokens: Tokens, of_end: Tokens) -> Tokens | None:
    """Return the tokens before `of_end`; None if the end is encoded differently on its own."""
    n = len(tokens) - len(of_end)
    return tokens[:n] if n >= 0 and tokens[n:] == of_end else None


def _encoded(texts: Sequence[tuple[str, bool]], encode: Encode) -> dict[tuple[str, bool], Tokens]:
    """Return tokens by text and by whether special tokens are added; one batch for each kind."""
    encoded: dict[tuple[str, bool], Tokens] = {}
    for special in (False, True):
        chosen = list(dict.fromkeys(text for text, how in texts if how is special))
        if chosen:
            tokens = encode(chosen, special)
            encoded.update(zip([(text, special) for text in chosen], tokens, strict=True))
    return encoded
