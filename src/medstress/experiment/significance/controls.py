"""The controls of one test, made from the lexicon or by a role, and the panel that judges them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import Field

from medstress.attacks.controls.neutral import Gate, is_similar_length, neutral_controls
from medstress.attacks.controls.slots import Slot, is_distinct, text_of
from medstress.attacks.medfuzz.gates import Draft
from medstress.attacks.medfuzz.judges import Panel, picks_key
from medstress.core.calls import Decoding, Generate, Generated, Message
from medstress.core.errors import TrialError
from medstress.core.items import Candidate, Question
from medstress.core.queries import ATTACKER, Consult
from medstress.core.text import Edit
from medstress.engine.inquiry import Replies
from medstress.tasks.prompt_sets import PromptSet, evidence_for_prompt
from medstress.tasks.replies import Reply, Unreadable, read_reply, schema_of

ControlSteps = Generator[Any, Replies, list[Candidate]]
"""Yields requests and returns the controls."""
RngOf = Callable[[str, int], np.random.Generator]
"""(purpose, number) -> random stream of its own."""


class Writer(Protocol):
    """Writes controls with a role."""

    def neutral(self, n: int) -> ControlSteps:
        """Write n more neutral controls, distinct unless the role repeats itself."""


@dataclass(slots=True, kw_only=True)
class Controls:
    """The controls of one success."""

    item: Question
    """The clean item."""
    slots: Sequence[Slot]
    """The fuzz's insertions without their words."""
    rng_of: RngOf
    """Makes the random streams."""
    gate: Gate
    """The check that every neutral control must pass."""
    writer: Writer | None = None
    """Writes them; None if the lexicon does."""
    panel: Panel | None = None
    """Judges who must still pick the key on a control; None without a panel."""
    _drawn: Iterator[Candidate] | None = None
    _n_starts: int = 0

    def neutral(self, n: int) -> ControlSteps:
        """Return the next n neutral controls; none repeats in a test until all are used up.

        The attempts of loops also come from here. If loops drew again from a fixed pool, they
        would be alike, and a success unlike the few texts of the pool would look too rare.

        Raises:
            TrialError: no control can be made.
        """
        if self.writer is not None:
            return (yield from self.writer.neutral(n))
        return [self._next() for _ in range(n)]

    def _next(self) -> Candidate:
        if self._drawn is not None:
            try:
                return next(self._drawn)
            except TrialError:
                # The words for the slots are used up; from here on controls repeat.
                self._n_starts += 1
        rng = self.rng_of("neutral", self._n_starts)
        self._drawn = neutral_controls(self.item, self.slots, rng, self.gate)
        return next(self._drawn)


FIRST_SAMPLE = 5_000_000
"""First sample index of these votes, so that they differ from gates and mentions."""
MAX_DRAWS = 10
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
    for _ in range(MAX_DRAWS):
        made = yield from draw(n - len(kept))
        allowed = yield from passing(panel, made)
        kept += [one for one, passed in zip(made, allowed, strict=True) if passed]
        if len(kept) == n:
            return kept
    raise TrialError(f"not tested: judges still pick the key on only {len(kept)} of {n} controls")


MAX_ROUNDS = 4
"""How often a role is asked for the controls that are still missing."""


class Insertions(Reply):
    """Neutral insertions, one for each marked place."""

    insertions: tuple[Annotated[str, Field(min_length=1)], ...]
    """In the order of the places."""


@dataclass(slots=True, kw_only=True)
class RoleWriter:
    """Asks a role for controls; it sees neither key nor options nor the attack's insertions.

    Many replies are requested at once, as samples of the same conversation. A reply that repeats
    an earlier control, has the wrong length or fails a gate is requested again. If the role keeps
    repeating itself, repeated controls are used.
    """

    item: Question
    """The clean item."""
    slots: Sequence[Slot]
    """Where to insert."""
    prompts: PromptSet
    """Prompts of the attack."""
    decoding: Decoding
    """How the role generates; at temperature 0 all controls would be equal."""
    gate: Gate
    """The check that every neutral control must pass."""
    first_sample: int = 1
    """Sample index of the first reply, so that other successes get other replies."""
    _seen: set[str] = field(default_factory=set)
    _n_asked: int = 0

    def neutral(self, n: int) -> ControlSteps:
        """Write n more neutral controls, distinct unless the role repeats itself.

        Raises:
            TrialError: the role writes too few that can be used.
        """
        if self.decoding.temperature == 0:
            raise TrialError(
                "controls that a role writes must differ: set [role.attacker] temperature above 0"
            )
        parts = [part for slot in self.slots for part in slot.parts]
        # A neutral detail names no kind of evidence, even if the attack is allowed to.
        evidence = evidence_for_prompt(allow_history=False)
        text = self.prompts.render(
            "control_neutral", marked=self._marked(), slots=parts, evidence=evidence
        )
        schema = schema_of(Insertions, self.item.letters)
        call = Generate((Message("user", text),), self.decoding, schema=schema)
        made: list[Candidate] = []
        repeats: list[Candidate] = []
        reason = "none was readable"
        for _ in range(MAX_ROUNDS):
            missing = n - len(made)
            first = self.first_sample + self._n_asked
            self._n_asked += missing
            answers = yield Consult(ATTACKER, (call,) * missing, first)
            for answer in answers:
                assert isinstance(answer, Generated)
                control = self._read(answer.text)
                if isinstance(control, str):
                    reason = control
                elif text_of(control) == text_of(Candidate(item=self.item)):
                    reason = "it changes nothing"
                elif is_distinct(control, self._seen, self.item):
                    made.append(control)
                else:
                    repeats.append(control)
            if len(made) == n:
                return made
        if len(made) + len(repeats) >= n:
            # The role has no others; repeats count once when p is computed.
            return [*made, *repeats][:n]
        raise TrialError(
            f"the role 'attacker' wrote only {len(made)} of {n} controls; last reason: {reason}"
        )

    def _read(self, text: str) -> Candidate | str:
        """Return a control, or the reason why the reply is not usable."""
        reply = read_reply(text, Insertions)
        if isinstance(reply, Unreadable):
            return reply.reason
        n_places = sum(len(slot.parts) for slot in self.slots)
        if len(reply.insertions) != n_places:
            return f"{len(reply.insertions)} insertions for {n_places} places"
        rest, edits = iter(reply.insertions), []
        for slot in self.slots:
            words = [next(rest).strip().strip(",;").strip() for _ in slot.parts]
            for text, part in zip(words, slot.parts, strict=True):
                if not is_similar_length(len(text.split()), part.n_words):
                    return f"{text!r} does not have about {part.n_words} words"
            *before, last = words
            if slot.trail.startswith("."):
                last = last.rstrip(".")
            edits.append(slot.filled(*(text.rstrip(".") for text in before), last))
        made = Candidate(item=self.item, edits=tuple(edits))
        return self.gate(made) or made

    def _marked(self) -> str:
        """Return the question with numbered places; consecutive sentences have one place each."""
        edits, number = [], 0
        for slot in self.slots:
            places = "".join(f" [{number + i}] " for i in range(1, len(slot.parts) + 1))
            number += len(slot.parts)
            edits.append(Edit(field=slot.field, start=slot.at, end=slot.at, replacement=places))
        marked = Candidate(item=self.item, edits=tuple(edits))
        return " ".join(f"{marked.context} {marked.stem}".split())
