"""Controls that the attacker's model writes: neutral insertions and paraphrases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from medstress.attacks.controls.neutral import SLACK, Gate
from medstress.attacks.controls.slots import Slot, is_distinct
from medstress.calls import Decoding, Generate, Generated, Message
from medstress.errors import TrialError
from medstress.experiment.significance.controls import Making
from medstress.items import Candidate, Question
from medstress.prompts import PromptSet
from medstress.prompts.kinds import evidence_told
from medstress.prompts.replies import Reply, Unreadable, read_reply, schema_of
from medstress.queries import Consult
from medstress.text import Edit

ROLE = "attacker"
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
    control, has the wrong length or fails a gate is asked again.
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
    _seen: set[str] = field(default_factory=set)
    _asked: dict[str, int] = field(default_factory=dict)

    def neutral(self, n: int) -> Making:
        """Write n further distinct neutral controls."""
        marked = self._marked()
        # A neutral detail names no kind of evidence, whatever the attack may name.
        evidence = evidence_told(allow_history=False)
        text = self.prompts.render(
            "control_neutral", marked=marked, slots=self.slots, evidence=evidence
        )
        return (yield from self._written(text, Insertions, n))

    def paraphrases(self, n: int) -> Making:
        """Write n further distinct paraphrases."""
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
        reason = "none was readable"
        for _ in range(MAX_ROUNDS):
            owed = n - len(made)
            start = self._asked.get(text, 0)
            self._asked[text] = start + owed
            answers = yield Consult(ROLE, (call,) * owed, start + 1)
            for answer in answers:
                assert isinstance(answer, Generated)
                found = self._read(answer.text, kind)
                if isinstance(found, str):
                    reason = found
                else:
                    made.append(found)
            if len(made) == n:
                return made
        raise TrialError(f"the role 'attacker' wrote {len(made)} of {n} controls; lately: {reason}")

    def _read(self, text: str, kind: type[Reply]) -> Candidate | str:
        """A usable control, or why it is none."""
        told = read_reply(text, kind)
        if isinstance(told, Unreadable):
            return told.reason
        made = self._filled(told) if isinstance(told, Insertions) else self._reworded(told)
        if isinstance(made, str):
            return made
        return made if is_distinct(made, self._seen, self.item) else "it repeats an earlier one"

    def _filled(self, told: Insertions) -> Candidate | str:
        if len(told.insertions) != len(self.slots):
            return f"{len(told.insertions)} insertions for {len(self.slots)} places"
        edits = []
        for slot, words in zip(self.slots, told.insertions, strict=True):
            bare = words.strip().strip(",;").strip()
            if abs(len(bare.split()) - slot.n_words) > max(SLACK * slot.n_words, 1):
                return f"{bare!r} has not about {slot.n_words} words"
            edits.append(slot.filled(bare.rstrip(".") if slot.trail.startswith(".") else bare))
        made = Candidate(item=self.item, edits=tuple(edits))
        return self.gate(made) or made

    def _reworded(self, told: Reply) -> Candidate | str:
        assert isinstance(told, Paraphrase)
        name = self._field()
        old = self.item.text_of(name)
        n_old, n_new = len(old.split()), len(told.paraphrase.split())
        if abs(n_new - n_old) > max(SLACK * n_old, 1):
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
        """The question with the numbered places."""
        edits = [
            Edit(field=slot.field, start=slot.at, end=slot.at, replacement=f" [{i}] ")
            for i, slot in enumerate(self.slots, start=1)
        ]
        marked = Candidate(item=self.item, edits=tuple(edits))
        return " ".join(f"{marked.context} {marked.stem}".split())


def _digits(token: str) -> bool:
    return any(character.isdigit() for character in token)
