"""Whole prompts: read in windows where they are long, never cut off."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.entities.embeddings import PromptEncoder, windows


def by_words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def by_characters(texts: list[str]) -> list[int]:
    return [len(text.strip()) for text in texts]


@settings(max_examples=100, deadline=None)
@given(text=st.text("ab \n", max_size=60), limit=st.integers(4, 12))
def test_windows_hold_the_whole_text_and_no_more_than_the_limit(text: str, limit: int) -> None:
    pieces = windows(text, limit, by_characters)
    if by_characters([text])[0] <= limit:
        assert [piece for piece, _ in pieces] == [text]
    else:
        assert "".join(piece for piece, _ in pieces).strip() == text.strip()
        assert all(n <= limit for _, n in pieces)


def test_words_are_cut_only_where_one_alone_is_too_long() -> None:
    assert windows("aa bb cc", 2, by_words) == [("aa bb ", 2), ("cc", 1)]
    assert [piece for piece, _ in windows("x" * 12, 8, by_characters)] == ["x" * 8, "x" * 4]


def test_prompts_of_the_model_free_embedding_have_unit_vectors_and_order() -> None:
    encoder = PromptEncoder("ngram")
    first, same, near, far = encoder.encode(
        [
            "What treats it? A: aspirin",
            "What treats it? A: aspirin",
            "What treats it? A: zinc",
            "?!x",
        ]
    )
    assert np.linalg.norm(first) == pytest.approx(1)
    assert first @ same == pytest.approx(1)
    assert first @ far < first @ near < 1
