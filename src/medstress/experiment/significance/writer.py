"""Controls that the attacker's model writes: neutral insertions and paraphrases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from medstress.attacks.controls.neutral import Gate, is_about
from medstress.attacks.controls.slots import Slot, is_distinct, text_of
from medstress.attacks.medfuzz import ATTACKER
from medstress.calls import Decoding, Generate, Generated, Message
from medstress.errors import TrialError
from medstress.experiment.significance.controls import Making
from medstress.items import Candidate, Question
from medstress.prompts import PromptSet
from medstress.prompts.kinds import evidence_told
from medstress.prompts.replies import Reply, Unreadable, read_reply, schema_of
from medstress.queries import Consult
from medstress.text import Edit, told_apart_by

MAX_ROUNDS = 4
"""Times that a role is asked again for the controls that it owes."""


class Insertions(Reply):
    """Neutral insertions, one a marked place."""

    insertions: tuple[Annotated[str, Field(min_length=1)], ...]
    """In the order of the places."""


class Paraphrase(Reply):
    """The vignette in other words."""

    paraphrase: Annotated[str, Field(min_length=1)]
    """The whole text."""


@dataclass(slots=True, kw_only=True)
class RoleWriter:
    """Asks a role for controls; it sees neither key nor options nor what was inserted.

    Many are asked at once, as samples of one conversation each; what repeats an earlier
    control, has the wrong length or fails a gate is asked again. A role that goes on repeating
    itself has no other controls, and then they repeat.
    """

    item: Question
    """The clean item."""
    slots: Sequence[Slot]
    """Where to insert."""
    prompts: PromptSet
    """What is said."""
    decoding: Decoding
    """How the role generates; at temperature 0 all controls would be one."""
    gate: Gate
    """What every neutral control must pass."""
    first_sample: int = 1
    """Sample index of the first reply, so that another success reads back none of them."""
    _seen: set[str] = field(default_factory=set)
    _asked: dict[str, int] = field(default_factory=dict)

    def neutral(self, n: int) -> Making:
        """Write n further neutral controls, distinct as far as the role has others."""
        parts = [part for slot in self.slots for part in slot.parts]
        # A neutral detail names no kind of evidence, whatever the attack may name.
        evidence = evidence_told(allow_history=False)
        text = self.prompts.render(
            "control_neutral", marked=self._marked(), slots=parts, evidence=evidence
        )
        return (yield from self._written(text, Insertions, n))

    def paraphrases(self, n: int) -> Making:
        """Write n further paraphrases, distinct as far as the role has others."""
        text = self.prompts.render("control_paraphrase", text=self.item.text_of(self._field()))
        return (yield from self._written(text, Paraphrase, n))

    def _written(self, text: str, kind: type[Reply], n: int) -> Making:
        if self.decoding.temperature == 0:
            raise TrialError(
                "controls that a role writes must differ: give [role.attacker] a temperature "
                "above 0"
            )
        call = Generate(
            (Message("user", text),), self.decoding, schema=schema_of(kind, self.item.letters)
        )
        made: list[Candidate] = []
        again: list[Candidate] = []
        reason = "none was readable"
        for _ in range(MAX_ROUNDS):
            owed = n - len(made)
            start = self._asked.get(text, 0)
            self._asked[text] = start + owed
            answers = yield Consult(ATTACKER, (call,) * owed, self.first_sample + start)
            for answer in answers:
                assert isinstance(answer, Generated)
                found = self._read(answer.text, kind)
                if isinstance(found, str):
                    reason = found
                elif text_of(found) == text_of(Candidate(item=self.item)):
                    reason = "it changes nothing"
                elif is_distinct(found, self._seen, self.item):
                    made.append(found)
                else:
                    again.append(found)
            if len(made) == n:
                return made
        if len(made) + len(again) >= n:
            # It has no others: what repeats is counted once where p is computed.
            return [*made, *again][:n]
        raise TrialError(f"the role 'attacker' wrote {len(made)} of {n} controls; lately: {reason}")

    def _read(self, text: str, kind: type[Reply]) -> Candidate | str:
        """A usable control, or why it is none."""
        told = read_reply(text, kind)
        if isinstance(told, Unreadable):
            return told.reason
        return self._filled(told) if isinstance(told, Insertions) else self._reworded(told)

    def _filled(self, told: Insertions) -> Candidate | str:
        wanted = sum(len(slot.parts) for slot in self.slots)
        if len(told.insertions) != wanted:
            return f"{len(told.insertions)} insertions for {wanted} places"
        rest, edits = iter(told.insertions), []
        for slot in self.slots:
            words = [next(rest).strip().strip(",;").strip() for _ in slot.parts]
            for text, part in zip(words, slot.parts, strict=True):
                if not is_about(len(text.split()), part.n_words):
                    return f"{text!r} has not about {part.n_words} words"
            *before, last = words
            if slot.trail.startswith("."):
                last = last.rstrip(".")
            edits.append(slot.filled(*(text.rstrip(".") for text in before), last))
        made = Candidate(item=self.item, edits=tuple(edits))
        return self.gate(made) or made

    def _reworded(self, told: Reply) -> Candidate | str:
        assert isinstance(told, Paraphrase)
        name = self._field()
        old = self.item.text_of(name)
        if told_apart_by(told.paraphrase) == told_apart_by(old):
            return "it changes nothing"
        n_old, n_new = len(old.split()), len(told.paraphrase.split())
        if not is_about(n_new, n_old):
            return f"{n_new} words for {n_old}"
        missing = [
            token for token in old.split() if _digits(token) and token not in told.paraphrase
        ]
        if missing:
            return f"{missing[0]!r} is gone"
        edit = Edit(field=name, start=0, end=len(old), replacement=told.paraphrase)
        return Candidate(item=self.item, edits=(edit,))

    def _field(self) -> str:
        """What is put in other words: the vignette, or the stem of an item without one."""
        return "context" if self.item.context else "stem"

    def _marked(self) -> str:
        """The question with the numbered places; sentences in a row have one each."""
        edits, number = [], 0
        for slot in self.slots:
            places = "".join(f" [{number + i}] " for i in range(1, len(slot.parts) + 1))
            number += len(slot.parts)
            edits.append(Edit(field=slot.field, start=slot.at, end=slot.at, replacement=places))
        marked = Candidate(item=self.item, edits=tuple(edits))
        return " ".join(f"{marked.context} {marked.stem}".split())


def _digits(token: str) -> bool:
    return any(character.isdigit() for character in token)
