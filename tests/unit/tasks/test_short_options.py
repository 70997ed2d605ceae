"""Options of one character."""

from __future__ import annotations

import pytest

from medstress.option_letters.options_aware import options_aware

IONS = ["Na", "K", "Ca", "Mg"]
NUMBERS = ["Warfarin", "1", "3", "10"]
BLOOD = ["A", "B", "AB", "O"]


@pytest.mark.parametrize(
    ("reply", "options", "expected"),
    [
        ("3", NUMBERS, "C"),
        ("10", NUMBERS, "D"),
        ("K", IONS, "B"),
        ("O", BLOOD, "D"),
        ("A", BLOOD, "A"),  # a letter where it may be one
        ("C", IONS, "C"),
    ],
)
def test_a_reply_is_read_as_what_it_says(
    reply: str, options: list[str], expected: str | None
) -> None:
    assert options_aware(reply, options) == expected
