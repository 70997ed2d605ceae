"""Tokens whose concatenation is the text, masked texts, and the tree over tokens."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.core.calls import Message, Score
from medstress.experiment.explain import masked, pieces, with_texts, word_cuts

HARD = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" \t\r\n\u00a0\u2028é💊"))
)


@settings(max_examples=25)
@given(st.lists(HARD, min_size=1, max_size=3), st.lists(st.integers(-5, 60)))
def test_with_everything_shown_the_texts_come_back_byte_for_byte(texts, starts):
    for cuts in (word_cuts, lambda _: starts):
        cut = [pieces(text, cuts) if text else () for text in texts]
        whole = masked(cut, np.ones(sum(map(len, cut)), dtype=bool))
        assert [each.encode() for each in whole] == [each.encode() for each in texts]


@pytest.mark.parametrize(
    ("text", "shown", "expected"),
    [
        ("Take the red pill.", "1001", "Take ... pill."),
        ("Take the red pill.", "0000", "..."),
        ("Take the red pill.", "0110", "... the red ..."),
        ("  A\r\nB\r\n", "01", "  ...\r\nB\r\n"),
        ("  A\r\nB\r\n", "10", "  A\r\n...\r\n"),
        (" \n", "0", " \n"),
    ],
)
def test_a_run_of_masked_words_becomes_one_mask_and_white_space_stays(text, shown, expected):
    mask = np.array([each == "1" for each in shown])
    assert masked([pieces(text, word_cuts)], mask) == (expected,)


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
