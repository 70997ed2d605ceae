"""Tokens whose concatenation is the text, masked texts, and the tree over tokens."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.core.calls import Message, Score
from medstress.experiment.shapley import (
    Masker,
    first_masks,
    pieces,
    with_texts,
    word_cuts,
)

HARD = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" \t\r\n\u00a0\u2028é💊"))
)


def masked(text: str, shown: str, mask: str = "...") -> str:
    """The words of a text whose place in `shown` is 1."""
    masker = Masker(texts=(pieces(text, word_cuts),), mask=mask)
    (found,) = masker(np.array([each == "1" for each in shown]))
    return found


@settings(max_examples=25)
@given(st.lists(HARD, min_size=1, max_size=3), st.lists(st.integers(-5, 60)), st.text(max_size=3))
def test_with_everything_shown_the_texts_come_back_byte_for_byte(texts, starts, mask):
    for cuts in (word_cuts, lambda _: starts):
        cut = tuple(pieces(text, cuts) if text else () for text in texts)
        masker = Masker(texts=cut, mask=mask)
        whole = masker(np.ones(masker.n_tokens, dtype=bool))
        assert [each.encode() for each in whole] == [each.encode() for each in texts]


@given(HARD.filter(bool), st.data())
def test_what_is_shown_stands_in_the_masked_text_in_order(text, data):
    words = pieces(text, word_cuts)
    shown = data.draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
    (found,) = Masker(texts=(words,), mask="")(np.array(shown, dtype=bool))
    kept = [
        word for word, is_shown in zip(words, shown, strict=True) if is_shown or not word.strip()
    ]
    assert found == "".join(kept)


@pytest.mark.parametrize(
    ("text", "shown", "mask", "expected"),
    [
        ("Take the red pill.", "1001", "...", "Take ... pill."),
        ("Take the red pill.", "0000", "...", "..."),
        ("Take the red pill.", "0110", "", " the red"),
        ("  A\r\nB\r\n", "01", "...", "  ...\r\nB\r\n"),
        ("  A\r\nB\r\n", "10", "...", "  A\r\n...\r\n"),
        ("A. x\nB. y", "1101", "[MASK]", "A. x\n[MASK] y"),
    ],
)
def test_a_run_of_masked_words_becomes_one_mask_and_white_space_stays(text, shown, mask, expected):
    assert masked(text, shown, mask) == expected


def test_the_first_masks_are_those_of_all_pairs_of_context_and_half():
    found = {tuple(mask.tolist()) for mask in first_masks(((0, 1), (2, 3)), 4, 1)}
    assert found == {
        (False,) * 4,
        (True,) * 4,
        (True, True, False, False),
        (False, False, True, True),
    }
    deeper = {tuple(mask.tolist()) for mask in first_masks(((0, 1), (2, 3)), 4, 2)}
    assert len(deeper) == 4 + 8
    assert all(any(mask[:2]) or any(mask[2:]) or not any(mask) for mask in deeper)


SYSTEM, USER = Message("system", "Be brief."), Message("user", "Is it? A. yes")
FIRST = "User: Is it?\n\nAssistant:"


def test_later_turns_repeat_the_masked_turn_and_other_calls_stay():
    later = Score((SYSTEM, USER, Message("assistant", "Hm."), Message("user", "Now?")), ("A",))
    (_, shown, *others) = with_texts(later, (USER.content,), ("...",)).prompt  # type: ignore[union-attr]
    assert shown == Message("user", "...")
    assert others == list(later.prompt[2:])
    flat = Score(FIRST + " Hm.\n\nUser: Now?", ("A",))
    assert with_texts(flat, (FIRST,), ("...",)).prompt == "... Hm.\n\nUser: Now?"  # type: ignore[union-attr]
    alone = Score("Answer:", (" yes",))
    assert with_texts(alone, ("Is it?",), ("...",)) == alone
