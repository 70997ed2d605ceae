"""The judges' panel on controls: where the key no longer holds there is nothing to compare with."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from medstress.attacks.edit_gates import Draft
from medstress.attacks.medfuzz import JUDGE, N_VOTES
from medstress.calls import Decoding, Generate, Generated, Message
from medstress.errors import TrialError
from medstress.items import Candidate
from medstress.prompts import PromptSet
from medstress.prompts.replies import Letter, Unreadable, read_reply, schema_of
from medstress.queries import Consult
from medstress.scheduler.study import Replies

Asking: TypeAlias = Generator[Any, Replies, list[Candidate]]
FIRST_SAMPLE = 5_000_000
"""Sample indices of these votes, apart from those of gates, mentions and slopes."""
MAX_ROUNDS = 10
"""Times that further controls are drawn for those the panel refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Judges who vote on controls as they do on the attack's edits (METHODS 2.8, gate 6)."""

    prompts: PromptSet
    """What they are asked."""
    decoding: Decoding
    """How they generate."""

    def passes(self, made: Sequence[Candidate]) -> Generator[Any, Replies, list[bool]]:
        """Ask about controls, all side by side: does the majority still pick the key?"""
        calls = tuple(self._call(one) for one in made for _ in range(N_VOTES))
        start = FIRST_SAMPLE if self.decoding.temperature > 0 else 0
        answers = yield Consult(JUDGE, calls, start)
        letters = [self._letter(each) for each in answers]
        return [
            letters[i * N_VOTES : (i + 1) * N_VOTES].count(one.item.key) * 2 > N_VOTES
            for i, one in enumerate(made)
        ]

    def _call(self, control: Candidate) -> Generate:
        item = control.item
        options = tuple(zip(item.letters, item.options, strict=True))
        shown = Draft(candidate=control, options=dict(options)).question
        request = self.prompts.render("judge_key", question=shown, options=options)
        schema = schema_of(Letter, item.letters)
        return Generate((Message("user", request),), self.decoding, schema=schema)

    def _letter(self, answer: Any) -> str | None:
        assert isinstance(answer, Generated)
        vote = read_reply(answer.text, Letter)
        return None if isinstance(vote, Unreadable) else vote.answer


def passing(
    panel: Panel | None, made: Sequence[Candidate]
) -> Generator[Any, Replies, Sequence[bool]]:
    """Which controls the panel lets pass; all of them where there is none."""
    if panel is None or not made:
        return [True] * len(made)
    return (yield from panel.passes(made))


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
