"""Letters that a reply rules out with all others in mind, and options that are part of a name."""

from __future__ import annotations

import pytest

from medstress.option_letters import is_decided
from medstress.option_letters.options_aware import options_aware

DRUGS = ["Aspirin", "Warfarin", "Heparin", "Digoxin"]
LIVER = ["Cirrhosis", "Hepatitis", "Hepatitis B", "Malaria"]
FACTORS = ["Factor", "Factor V", "Plasmin", "Protein C"]

CASES = [
    ("Everything but A", DRUGS, None),
    ("All but A", DRUGS, None),
    ("Anything but B", DRUGS, None),
    ("All of them but C.", DRUGS, None),
    ("Every option but (A)", DRUGS, None),
    ("All but A and B", DRUGS, None),
    ("The answer is everything but D", DRUGS, None),
    ("It could be all but option B.", DRUGS, None),
    ("It cannot be A.", DRUGS, None),
    ("All but A. So the answer is C", DRUGS, "C"),
    # What rules out all but one names that one, and so does "but" after a clause.
    ("Nothing but A", DRUGS, "A"),
    ("None but C", DRUGS, "C"),
    ("It can't be anything but B.", DRUGS, "B"),
    ("I can rule out everything but C", DRUGS, "C"),
    ("I considered all, but A is right", DRUGS, "A"),
    ("All are plausible but B is best", DRUGS, "B"),
    ("Not A but B", DRUGS, "B"),
    ("Answer: Hepatitis A", LIVER, None),
    ("The answer is Hepatitis C.", LIVER, None),
    ("Hepatitis A", LIVER, None),
    ("Answer: Hepatitis B", LIVER, "C"),
    ("Answer: Hepatitis", LIVER, "B"),
    ("The answer is Hepatitis, which is not rare", LIVER, "B"),
    ("The answer is Hepatitis I think", LIVER, "B"),
    ("Answer: Factor II", FACTORS, None),
    ("Answer: Factor V", FACTORS, "B"),
    ("Answer: Plasmin C", FACTORS, "C"),  # its own letter
]


@pytest.mark.parametrize(("reply", "options", "expected"), CASES)
def test_a_reply_is_read_as_a_careful_reader_reads_it(
    reply: str, options: list[str], expected: str | None
) -> None:
    assert options_aware(reply, options) == expected


@pytest.mark.parametrize(("reply", "options", "expected"), CASES)
def test_none_of_them_stops_a_generation(
    reply: str, options: list[str], expected: str | None
) -> None:
    """They begin with no label, so what follows may change how they are read."""
    assert not any(is_decided((reply + "\nSince")[:n], options) for n in range(len(reply) + 7))
