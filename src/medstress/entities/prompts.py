"""Sentence embeddings of whole prompts, even those longer than the encoder's limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from medstress.core.hashing import content_hash
from medstress.entities.embeddings import Embedder
from medstress.entities.encoders import MAX_TOKENS

if TYPE_CHECKING:
    from numpy.typing import NDArray

CountTokens: TypeAlias = Callable[[list[str]], list[int]]
"""Returns the number of tokens of each text, without special tokens."""

ALGORITHM = "windows of whole words, unit vectors averaged by tokens; version 1"
"""Identifies the treatment of long texts in hashes."""

SLACK = 8
"""Tokens of a window left free, since a word may have one more inside a text than alone."""

_WORD = re.compile(r"\S+\s*")


class PromptEncoder:
    """Computes unit vectors of whole prompts.

    *Differs from the paper*, whose library truncates prompts at the model's limit (128 to 512
    tokens), so that an edit of an option, near the end of the prompt, would be lost. Here a longer
    prompt is read in windows of whole words. Its vector is the mean of their unit vectors, weighted
    by their tokens and scaled to unit length. Shorter prompts are read whole.

    References:
        Xian et al., "Assessing biomedical knowledge robustness in large language models by
        query-efficient sampling attacks", TMLR 2025 (prompt semantic similarity).
    """

    def __init__(
        self, embedding: str, pooling: str | None = None, base: Path | None = None
    ) -> None:
        """Check the arguments; the first prompt loads the model.

        Args:
            embedding: as for a group, see `Embedder`.
            pooling: how token states become a vector; None: the model's usual one.
            base: folder that a relative model path starts from.

        Raises:
            UsageError: the pooling is unknown.
        """
        self._embedder = Embedder(embedding, pooling, base=base)

    @cached_property
    def identity(self) -> str:
        """Hash of everything that determines a vector.

        Raises:
            UsageError: the model is not installed or not found.
        """
        return content_hash([self._embedder.identity, ALGORITHM, MAX_TOKENS, SLACK])

    def encode(self, prompts: Sequence[str]) -> NDArray[np.float64]:
        """Return unit vectors, shape (n_prompts, n_dimensions)."""
        counts = [[1]] * len(prompts)
        pieces = [[prompt] for prompt in prompts]
        if self._embedder.folder is not None:
            cut = [windows(prompt, self._limit, self._count) for prompt in prompts]
            pieces = [[text for text, _ in parts] for parts in cut]
            counts = [[n for _, n in parts] for parts in cut]
        texts = [text for parts in pieces for text in parts]
        vectors = self._embedder.vectors(texts, keep=False).astype(np.float64)
        weights = np.array([n for parts in counts for n in parts], dtype=np.float64)
        starts = np.cumsum([0, *(len(parts) for parts in pieces[:-1])])
        sums = np.add.reduceat(vectors * weights[:, None], starts, axis=0)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        return np.asarray(sums / np.where(lengths > 0, lengths, 1))

    @cached_property
    def _tokenizer(self) -> Callable[..., dict[str, list[list[int]]]]:
        from transformers import AutoTokenizer

        assert self._embedder.folder is not None
        found: Callable[..., dict[str, list[list[int]]]] = AutoTokenizer.from_pretrained(
            str(self._embedder.folder.model), local_files_only=True, trust_remote_code=False
        )
        return found

    @cached_property
    def _limit(self) -> int:
        tokenizer: object = self._tokenizer
        folder = self._embedder.folder
        folder_limit = (folder.max_tokens if folder else None) or MAX_TOKENS
        model_limit = int(getattr(tokenizer, "model_max_length", MAX_TOKENS))
        n_special = len(self._tokenizer([""])["input_ids"][0])
        return min(MAX_TOKENS, folder_limit, model_limit) - n_special - SLACK

    def _count(self, texts: list[str]) -> list[int]:
        found = self._tokenizer(texts, add_special_tokens=False, truncation=False, verbose=False)
        return [len(ids) for ids in found["input_ids"]]


def windows(text: str, limit: int, count: CountTokens) -> list[tuple[str, int]]:
    """Cut a text at white space into pieces of at most `limit` tokens.

    Args:
        text: any text.
        limit: most tokens of a piece, counted word by word.
        count: counts tokens.

    Returns:
        Pieces in order with their numbers of tokens (at least 1); joined they give the text. A word
        longer than the limit is split.

    >>> windows("one two three", 2, lambda texts: [len(text.split()) for text in texts])
    [('one two ', 2), ('three', 1)]
    """
    (n_tokens,) = count([text])
    if n_tokens <= limit:
        return [(text, max(n_tokens, 1))]
    step = max(limit // 4, 1)  # a character is four tokens at most
    words: list[str] = []
    found = _WORD.findall(text)
    for word, n in zip(found, count(found), strict=True):
        if n > limit:
            words += [word[i : i + step] for i in range(0, len(word), step)]
        else:
            words.append(word)
    pieces: list[tuple[str, int]] = []
    for word, n in zip(words, count(words), strict=True):
        if pieces and pieces[-1][1] + n <= limit:
            piece, taken = pieces[-1]
            pieces[-1] = (piece + word, taken + n)
        else:
            pieces.append((word, n))
    return [(piece, max(n, 1)) for piece, n in pieces]
