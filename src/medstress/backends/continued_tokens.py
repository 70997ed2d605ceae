"""Tokens of a text with each of its continuations; what many texts begin with is encoded once.

Byte-pair tokenizers cut a text into words, from its beginning to its end, and encode each word
alone. What is written behind a text therefore changes the tokens of its last words only: the last
words are encoded again with each continuation, and all before them is kept. So it is with the
candidates of an item: their common beginning is encoded once a batch. Where a small model answers
by one of four letters, encoding took an eighth of the time of a batch; since continuations are
encoded by their last words, a fortieth; with common beginnings, half of that (MedQA).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from medstress.backends.token_tree import shared_length

Tokens: TypeAlias = tuple[int, ...]
Encode: TypeAlias = Callable[[Sequence[str], bool], list[Tokens]]
"""Texts, and whether special tokens are added, to the tokens of each."""

_LAST_WORDS = 4
"""More than what follows can change: a word at the end of a text may go on, and the space before
it may be split otherwise."""
_LEAST_SHARED = 0.5
"""Of a text, what it has to have in common with another to be encoded from there on."""
_LEAST_KEPT = 0.9
"""Of what others have in common, what has to be left of it where one more text joins them."""
_PROBE = "a drug was given"


@dataclass(frozen=True, slots=True)
class Continued:
    """A text, and what is written behind it."""

    text: str
    continuations: tuple[str, ...]
    is_whole: bool
    """Whether it has its special tokens already: a chat template wrote it."""


def reads_by_words(tokenizer: Any) -> bool:
    """Whether a tokenizer is of the kind this module is about, with words cut before spaces."""
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
    """Return the tokens of each text, and of it with each of its continuations.

    Args:
        texts: any.
        encode: the tokenizer.
        by_words: what `reads_by_words` said.
    """
    given = [(one.text, not one.is_whole) for one in texts]
    of_text = _from_beginnings(given, encode) if by_words else _encoded(given, encode)
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
    """What `_encoded` finds; of texts that begin alike the first one is encoded whole."""
    groups = [(group, _rest(group)) for group in _alike(texts)]
    found = _encoded([group[0] for group, _ in groups], encode)
    ends = _encoded([(text[at:], False) for group, at in groups for text, _ in group if at], encode)
    whole = []
    for group, at in groups:
        before = _before(found[group[0]], ends[group[0][0][at:], False]) if at else None
        if before is None:
            whole += group[1:]
        else:
            found.update({one: before + ends[one[0][at:], False] for one in group[1:]})
    return {**found, **_encoded(whole, encode)}


def _alike(texts: Sequence[tuple[str, bool]]) -> list[list[tuple[str, bool]]]:
    """Distinct texts, in groups of those that have enough in common with the first of them.

    >>> _alike([("abc", True), ("x", True), ("abd", True)])
    [[('abc', True), ('abd', True)], [('x', True)]]
    """
    groups: list[list[tuple[str, bool]]] = []
    common = 0
    for text, special in sorted(set(texts), key=lambda one: one[::-1]):
        first, how = groups[-1][0] if groups else ("", special)
        shared = shared_length(first, text) if how is special else 0
        if shared > max(_LEAST_SHARED * len(text), _LEAST_KEPT * common):
            groups[-1].append((text, special))
            common = shared
        else:
            groups.append([(text, special)])
            common = 0
    return groups


def _rest(group: Sequence[tuple[str, bool]]) -> int:
    """Where the texts of a group are to be cut; 0 for not at all."""
    # In lexicographic order the first and the last one differ first.
    common = group[0][0][: shared_length(group[0][0], group[-1][0])] if len(group) > 1 else ""
    return len(common) - len(last) if (last := _last_words(common)) else 0


def _last_words(text: str) -> str:
    """The last words with the space before them; empty where there are not more than these.

    >>> _last_words("Does it help? A. yes  B. no\\nAnswer:")
    ' yes  B. no\\nAnswer:'
    """
    first, *last = text.rsplit(maxsplit=_LAST_WORDS) or [""]
    return text[len(first) :] if len(last) == _LAST_WORDS else ""


def _before(tokens: Tokens, of_end: Tokens) -> Tokens | None:
    """The tokens before those of the text's end; None where it is not encoded as if alone."""
    n = len(tokens) - len(of_end)
    return tokens[:n] if n >= 0 and tokens[n:] == of_end else None


def _encoded(texts: Sequence[tuple[str, bool]], encode: Encode) -> dict[tuple[str, bool], Tokens]:
    """Tokens by text and by whether special tokens are added; all of a kind encoded together."""
    found: dict[tuple[str, bool], Tokens] = {}
    for special in (False, True):
        chosen = list(dict.fromkeys(text for text, how in texts if how is special))
        if chosen:
            tokens = encode(chosen, special)
            found.update(zip([(text, special) for text in chosen], tokens, strict=True))
    return found
