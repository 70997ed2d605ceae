"""Options of one character."""

from __future__ import annotations

import pytest

from medstress.option_letters.options_aware import options_aware

IONS = ["Na", "K", "Ca", "Mg"]
NUMBERS = ["Warfarin", "1", "3", "10"]
BLOOD = ["A", "B", "AB", "O"]
NERVES = ["I", "II", "III", "IV"]


@pytest.mark.parametrize(
    ("reply", "options", "expected"),
    [
        ("3", NUMBERS, "C"),
        ("10", NUMBERS, "D"),
        ("K", IONS, "B"),
        ("O", BLOOD, "D"),
        ("A", BLOOD, "A"),  # a letter where it may be one
        ("C", IONS, "C"),
        ("The answer is 3", NUMBERS, "C"),
        ("Answer: 1.", NUMBERS, "B"),
        ("Answer: **3**\nBecause of its half-life", NUMBERS, "C"),
        ("The answer is 3, because it is odd", NUMBERS, "C"),
        ("Answer: K", IONS, "B"),
        ("The answer is K because it is in cells", IONS, "B"),
        ("The answer is O.", BLOOD, "D"),
        ("The answer is B.", BLOOD, "B"),
        ("The nerve is answer: I", NERVES, "A"),
        # Said, and not called the answer, or another number or name that begins so.
        ("There are 3 of them", NUMBERS, None),
        ("The answer is 3.5", NUMBERS, None),
        ("The answer is 3 mg", NUMBERS, None),
        ("The answer is 3, 1", NUMBERS, None),
        ("The answer is 1:3", NUMBERS, None),
        ("The answer is 1/3", NUMBERS, None),
        ("The answer is -3", NUMBERS, None),
        ("So 3 is too low", NUMBERS, None),
        ("The answer is D, 3 days later", NUMBERS, "D"),
        ("The answer is vitamin K", IONS, None),
        ("The answer is K+", IONS, None),
    ],
)
def test_a_reply_is_read_as_what_it_says(
    reply: str, options: list[str], expected: str | None
) -> None:
    assert options_aware(reply, options) == expected
