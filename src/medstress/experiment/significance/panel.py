"""The judges' panel on controls: where the key no longer holds there is nothing to compare with."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias

from medstress.attacks.edit_gates import Draft
from medstress.attacks.judges import Panel, picks_key
from medstress.errors import TrialError
from medstress.items import Candidate
from medstress.scheduler.study import Replies

Asking: TypeAlias = Generator[Any, Replies, list[Candidate]]
FIRST_SAMPLE = 5_000_000
"""Sample indices of these votes, apart from those of gates, mentions and slopes."""
MAX_ROUNDS = 10
"""Times that further controls are drawn for those the panel refused."""


def passing(
    panel: Panel | None, made: Sequence[Candidate]
) -> Generator[Any, Replies, Sequence[bool]]:
    """Which controls the panel lets pass, by the rule of the attack's edits (METHODS 2.8, gate 6).

    All of them where there is no panel, or none of its judges knows the item.
    """
    if panel is None or not made:
        return [True] * len(made)
    questions = [_question(one) for one in made]
    found = yield from panel.votes(questions, FIRST_SAMPLE)
    letters = [[letter for each in votes.values() for letter in each] for votes in found]
    return [not each or picks_key(each, panel.item.key) for each in letters]


def _question(control: Candidate) -> str:
    return Draft(candidate=control, options={}).question


def drawn_until(n: int, draw: Callable[[int], Asking], panel: Panel | None) -> Asking:
    """Draw controls until n of them pass.

    Raises:
        TrialError: the panel goes on refusing them.
    """
    kept: list[Candidate] = []
    for _ in range(MAX_ROUNDS):
        made = yield from draw(n - len(kept))
        allowed = yield from passing(panel, made)
        kept += [one for one, passed in zip(made, allowed, strict=True) if passed]
        if len(kept) == n:
            return kept
    raise TrialError(f"judges still pick the key on {len(kept)} of {n} controls alone: no test")


def hardest_passing(
    tried: Mapping[int, Sequence[tuple[float, Candidate]]], panel: Panel | None
) -> Generator[Any, Replies, dict[int, Candidate]]:
    """The hardest candidate of every loop that passes; the first of equals.

    Args:
        tried: loop -> (how easy it looked, candidate), in the order tried.
        panel: the judges.

    Raises:
        TrialError: none of a loop's candidates passes.
    """
    rest = {number: sorted(rows, key=lambda row: row[0]) for number, rows in tried.items()}
    found: dict[int, Candidate] = {}
    while rest:
        if not all(rest.values()):
            raise TrialError("judges pick the key on no control of a loop: no test")
        asked = {number: rows.pop(0)[1] for number, rows in rest.items()}
        allowed = yield from passing(panel, list(asked.values()))
        for (number, candidate), passed in zip(asked.items(), allowed, strict=True):
            if passed:
                found[number] = candidate
                del rest[number]
    return found
