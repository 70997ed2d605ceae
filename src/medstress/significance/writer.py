"""Let the attacker's model write controls: neutral insertions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from medstress.attacks.controls.neutral import Gate, is_similar_length
from medstress.attacks.controls.slots import Slot, is_distinct, text_of
from medstress.attacks.medfuzz.attack import ATTACKER
from medstress.core.calls import Decoding, Generate, Generated, Message
from medstress.core.errors import TrialError
from medstress.core.items import Candidate, Question
from medstress.core.queries import Consult
from medstress.core.text import Edit
from medstress.significance.controls import ControlSteps
from medstress.tasks.prompt_sets import PromptSet, evidence_for_prompt
from medstress.tasks.replies import Reply, Unreadable, read_reply, schema_of

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
