"""The judges' panel on controls: a control on which the key no longer holds is not used."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from medstress.attacks.medfuzz.gates import Draft
from medstress.attacks.medfuzz.judges import Panel, picks_key
from medstress.core.errors import TrialError
from medstress.core.items import Candidate
from medstress.engine.study import Replies
from medstress.significance.controls import ControlSteps

FIRST_SAMPLE = 5_000_000
"""First sample index of these votes, so that they differ from gates and mentions."""
MAX_ROUNDS = 10
"""How often new controls are drawn for those that the panel refused."""


def passing(
    panel: Panel | None, made: Sequence[Candidate]
) -> Generator[Any, Replies, Sequence[bool]]:
    """Return which controls pass the panel, as the attack's edits must (METHODS 2.8, gate 6).

    All pass without a panel, or if none of its judges answers the clean item right.
    """
    if panel is None or not made:
        return [True] * len(made)
    questions = [_question(one) for one in made]
    all_votes = yield from panel.votes(questions, FIRST_SAMPLE)
    letters = [[letter for each in votes.values() for letter in each] for votes in all_votes]
    return [not each or picks_key(each, panel.item.key) for each in letters]


def _question(control: Candidate) -> str:
    return Draft(candidate=control, options={}).question


def drawn_until(n: int, draw: Callable[[int], ControlSteps], panel: Panel | None) -> ControlSteps:
    """Draw controls until n of them pass.

    Raises:
        TrialError: the panel keeps refusing them.
    """
    kept: list[Candidate] = []
    for _ in range(MAX_ROUNDS):
        made = yield from draw(n - len(kept))
        allowed = yield from passing(panel, made)
        kept += [one for one, passed in zip(made, allowed, strict=True) if passed]
        if len(kept) == n:
            return kept
    raise TrialError(f"not tested: judges still pick the key on only {len(kept)} of {n} controls")
