"""Turns prompts and continuations into token sequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from medstress.backends.models.continued_tokens import Continued, reads_by_words, tokens_of_each
from medstress.backends.models.token_tree import Target, shared_length
from medstress.core.calls import Prompt
from medstress.core.errors import PermanentBackendError, TrialError, UsageError
from medstress.files.jinja_texts import render


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
        self._name = name
        self._trailing = _trailing_tokens(tokenizer) if open_end else 0
        self._by_words = reads_by_words(tokenizer)

    @property
    def has_turns(self) -> bool:
        """Whether the model has a chat template."""
        return bool(self._tokenizer.chat_template)

    def text(self, prompt: Prompt) -> str:
        """Return the prompt as one text; a conversation is rendered by the chat template.

        Raises:
            UsageError: the prompt is a conversation, but the model has no chat template, or one
                that does not terminate.
            PermanentBackendError: the template refuses this conversation.
        """
        if isinstance(prompt, str):
            return prompt
        if not self._tokenizer.chat_template:
            raise UsageError(
                f"model {self._name!r} has no chat template, so it cannot be asked in turns; "
                "use a plain prompt (chat = false) or an instruction-tuned model"
            )
        turns = [{"role": turn.role, "content": turn.content} for turn in prompt]
        special = to_jsonable_python(self._tokenizer.special_tokens_map, fallback=str)
        values = {**special, "messages": turns, "add_generation_prompt": True}
        name = f"the chat template of {self._name!r}"
        try:
            return render(self._tokenizer.get_chat_template(), values, name=name, chat=True).text
        except TrialError as error:
            raise PermanentBackendError(f"{error}; it refuses this conversation") from error

    def tokens(self, texts: Sequence[str], *, chat: bool) -> list[tuple[int, ...]]:
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
            len(self.tokens([self.text(prompt)], chat=not isinstance(prompt, str))[0])
            for prompt in prompts
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

    def tokens_of_each(self, texts: Sequence[Continued]) -> list[list[tuple[int, ...]]]:
        """Return the tokens of each text alone, then of the text with each continuation."""
        return tokens_of_each(
            texts,
            lambda chosen, special: self.tokens(chosen, chat=not special),
            by_words=self._by_words,
        )

    def decoded(self, tokens: Sequence[int]) -> str:
        """Return generated tokens as text, without special tokens."""
        return str(
            self._tokenizer.decode(
                list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )


def targets_of(
    prompt: Sequence[int], sequences: Sequence[tuple[int, ...]], *, first_token: bool
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


def _trailing_tokens(tokenizer: Any) -> int:
    """Count the special tokens that the tokenizer adds after a text by default."""
    # Counted by the mask, because a token at the end may also occur inside.
    mask = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
    return mask[::-1].index(0) if 0 in mask else 0
