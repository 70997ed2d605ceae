"""Turns prompts and continuations into token sequences, and names what does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_core import to_jsonable_python

from medstress.backends.turns import ChatTemplate
from medstress.core.calls import Call, Failure, Generate, Prompt
from medstress.core.hashing import canonical_json

Tokens: TypeAlias = tuple[int, ...]
_LAST_WORDS = 4
"""More words than a continuation can change: it may extend the last word and split the space
before it differently."""
_PROBE = "a drug was given"
_TEMPLATE_TOKENS = 512
"""More than a chat template adds to a conversation."""


@dataclass(frozen=True, slots=True)
class Target:
    """A token sequence whose tail is scored."""

    tokens: Tokens
    """Prompt and continuation."""
    start: int
    """The first scored token; at least 1, since the first token has nothing before it."""

    @property
    def context(self) -> Tokens:
        """The tokens to forward: all but the last, whose prediction is not needed."""
        return self.tokens[:-1]

    @property
    def scored(self) -> Tokens:
        """The tokens whose log probabilities are needed."""
        return self.tokens[self.start :]


def shared_length(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Return the length of the longest common prefix of two lists of tokens, or two texts.

    >>> shared_length([5, 6, 7], [5, 6, 8, 9])
    2
    >>> shared_length((5, 6), (7,)), shared_length((5, 6), (5, 6, 7)), shared_length((), (1,))
    (0, 2, 0)
    >>> shared_length("heart", "hearing")
    4
    """
    one, other = (first, second) if type(first) is type(second) else (tuple(first), tuple(second))
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    # Bisect, because comparing slices is much faster than comparing elements one by one.
    same, differs = 0, most
    while differs - same > 1:
        middle = (same + differs) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            differs = middle
    return same


def targets_of(
    prompt: Sequence[int], sequences: Sequence[Tokens], *, first_token: bool
) -> list[Target]:
    """Return which tokens of each sequence are scored (METHODS 1.2).

    The scored tokens begin where a sequence departs from the prompt. That may be before the
    prompt's end, because a continuation can change how the last characters are tokenised.

    Args:
        prompt: the tokens of the prompt.
        sequences: the tokens of prompt + continuation, one sequence per continuation.
        first_token: score only the first such token, or all of them for continuations that share
            the first one.

    >>> options = [(1, 2, 8), (1, 2, 9, 7)]
    >>> [target.scored for target in targets_of([1, 2], options, first_token=True)]
    [(8,), (9,)]
    >>> options = [(1, 2, 9), (1, 2, 9, 7)]
    >>> [target.scored for target in targets_of([1, 2], options, first_token=True)]
    [(9,), (9, 7)]
    >>> targets_of([1, 2], [(1, 3, 9)], first_token=False)
    [Target(tokens=(1, 3, 9), start=1)]
    """
    targets = [Target(tokens, shared_length(prompt, tokens)) for tokens in sequences]
    if not first_token:
        return targets
    heads = [target.tokens[: target.start + 1] for target in targets]
    uses = Counter(heads)
    return [
        Target(head, target.start) if uses[head] == 1 else target
        for head, target in zip(heads, targets, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLong(Failure):
    """A call that is longer than the model reads."""


def too_long(n_tokens: int, max_positions: int | None) -> Failure | None:
    """Return a failure if a call is longer than the model's positions, otherwise None."""
    if max_positions is None or n_tokens <= max_positions:
        return None
    return TooLong(
        error=f"{n_tokens} tokens are more than the {max_positions} positions of the model; "
        "shorten the prompt or choose a model with a longer context"
    )


def surely_fits(call: Call, most: int) -> bool:
    """Return whether a call has at most `most` tokens however it is tokenised: none is empty."""
    new = call.decoding.max_new_tokens if isinstance(call, Generate) else 0
    return len(canonical_json(call.canonical()).encode()) + _TEMPLATE_TOKENS + new <= most


def out_of_memory(n_tokens: int) -> Failure:
    """Return the failure of a call that does not fit into memory, even alone."""
    return Failure(
        error=f"the machine ran out of memory on one call of {n_tokens} tokens; shorten the "
        "prompt or choose a smaller model or dtype"
    )


class PromptTokenizer:
    """Turns prompts into tokens in the way the model expects.

    Args:
        tokenizer: a tokenizer of transformers.
        name: the model's name, for messages.
        open_end: True drops the end token that the tokenizer adds by default, because the text will
            be continued.
    """

    def __init__(self, tokenizer: Any, name: str, *, open_end: bool) -> None:
        self._tokenizer = tokenizer
        # Counted by the mask, because a token at the end may also occur inside.
        mask = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"][::-1]
        self._trailing = mask.index(0) if open_end and 0 in mask else 0
        self._by_words = reads_by_words(tokenizer)
        self.template = ChatTemplate(
            tokenizer.get_chat_template() if tokenizer.chat_template else None,
            to_jsonable_python(tokenizer.special_tokens_map, fallback=str),
            name,
        )
        """The chat template; false if the model has none."""

    def tokens(self, texts: Sequence[str], *, chat: bool) -> list[Tokens]:
        """Return the tokens of texts.

        Args:
            texts: one or more.
            chat: True if a chat template made the texts, with special tokens included; otherwise
                the tokenizer adds its own.
        """
        encoded = self._tokenizer(list(texts), add_special_tokens=not chat, verbose=False)
        drop = 0 if chat else self._trailing
        return [tuple(ids[: len(ids) - drop]) for ids in encoded["input_ids"]]

    def counts(self, prompts: Sequence[Prompt]) -> list[int]:
        """Return the number of tokens of each prompt."""
        return [
            len(self.tokens([self.template.text(one)], chat=not isinstance(one, str))[0])
            for one in prompts
        ]

    def starts(self, text: str) -> list[int] | None:
        """Return where the tokens of a text begin, in characters; None if that is unknown.

        Several tokens of one character begin at the same place.
        """
        if not getattr(self._tokenizer, "is_fast", False):
            return None
        encoded = self._tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return [int(start) for start, _ in encoded["offset_mapping"]]

    def continued(self, texts: Sequence[tuple[str, Sequence[str], bool]]) -> list[list[Tokens]]:
        """Return the tokens of each text alone, then of the text with each continuation.

        Byte-pair tokenizers split a text into words and encode each word separately. A continuation
        therefore changes only the tokens of the last words, so only these are encoded again: for a
        small model that answers by letters, whole texts took an eighth of a batch's time, last
        words a fortieth (MedQA).

        Args:
            texts: (text, continuations, whether a chat template made it).
        """
        alone = self._encoded([(text, chat) for text, _, chat in texts])
        ends = [_last_words(text) if self._by_words and more else "" for text, more, _ in texts]
        # Without special tokens, as in the middle of a text.
        of_end = self._encoded(
            [
                (end + added, True)
                for (_, more, _), end in zip(texts, ends, strict=True)
                if end
                for added in ("", *more)
            ]
        )
        befores: list[Tokens | None] = []
        for (text, _, chat), end in zip(texts, ends, strict=True):
            whole, last = alone[text, chat], of_end.get((end, True), ())
            # An end may be encoded differently on its own.
            n = len(whole) - len(last)
            befores.append(whole[:n] if end and n >= 0 and whole[n:] == last else None)
        in_full = self._encoded(
            [
                (text + added, chat)
                for (text, more, chat), before in zip(texts, befores, strict=True)
                if before is None
                for added in more
            ]
        )
        return [
            [
                alone[text, chat],
                *(
                    in_full[text + added, chat]
                    if before is None
                    else before + of_end[end + added, True]
                    for added in more
                ),
            ]
            for (text, more, chat), end, before in zip(texts, ends, befores, strict=True)
        ]

    def _encoded(self, texts: Sequence[tuple[str, bool]]) -> dict[tuple[str, bool], Tokens]:
        """Return tokens by text and by whether it is a chat; one batch for each kind."""
        encoded: dict[tuple[str, bool], Tokens] = {}
        for chat in (True, False):
            chosen = list(dict.fromkeys(text for text, how in texts if how is chat))
            if chosen:
                tokens = self.tokens(chosen, chat=chat)
                encoded.update(zip([(text, chat) for text in chosen], tokens, strict=True))
        return encoded

    def decoded(self, tokens: Sequence[int]) -> str:
        """Return generated tokens as text, without special tokens."""
        return str(
            self._tokenizer.decode(
                list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )


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


def _last_words(text: str) -> str:
    """Return the last words with the space before them; empty if the text has no more words.

    >>> _last_words("Does it help? A. yes  B. no\\nAnswer:")
    ' yes  B. no\\nAnswer:'
    """
    first, *last = text.rsplit(maxsplit=_LAST_WORDS) or [""]
    return text[len(first) :] if len(last) == _LAST_WORDS else ""
