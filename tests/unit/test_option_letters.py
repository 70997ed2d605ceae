from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.option_letters import is_decided
from medstress.tasks.parsers import PARSERS

TEXTS = st.text(alphabet="ABCDEab. \n\r():", max_size=30)


@given(TEXTS, TEXTS)
def test_what_is_decided_reads_the_same_to_every_parser_whatever_follows(
    text: str, more: str
) -> None:
    if is_decided(text, "ABCD"):
        for parser in PARSERS.values():
            assert parser(text, "ABCD") == parser(text + more, "ABCD")


@pytest.mark.parametrize("text", ["", "B", " B\n", "B.", "Let me think.\n", "A patient\n", "E.\n"])
def test_what_may_still_change_is_not_decided(text: str) -> None:
    assert not is_decided(text, "ABCD")


@pytest.mark.parametrize("text", ["(B)\n", "B\nS", "Hm.\nThe answer is C.\n", "A or B\n"])
def test_an_ended_line_with_a_letter_decides(text: str) -> None:
    assert is_decided(text, "ABCD")
