"""The texts of the controls of one success: from the lexicon, or from a role that writes them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from medstress.attacks.controls.neutral import (
    Gate,
    Slot,
    is_distinct,
    is_similar_length,
    neutral_control,
)
from medstress.core.calls import Decoding, Generate, Generated, Message
from medstress.core.errors import TrialError
from medstress.core.items import Candidate, Question
from medstress.core.queries import ATTACKER, Consult
from medstress.core.text import Edit
from medstress.tasks.prompt_sets import say
from medstress.tasks.replies import Reply, Unreadable, read_reply, schema_of

FIRST_STOCK, LEAST_STOCK, LEAST_ASKED = 30, 20, 10
"""Texts that a writer is asked for first; fewer are too few; the fewest replies of a round."""
MOST_USELESS = 30
"""So many replies in a row that bring nothing new mean that the writer has no more."""
MAX_TRIES = 200
"""So many draws that bring nothing new mean that the lexicon has no more."""


class Insertions(Reply):
    """Neutral insertions, one for each numbered place."""

    insertions: tuple[Annotated[str, Field(min_length=1)], ...]
    """In the order of the places."""


@dataclass(slots=True, kw_only=True)
class Stock:
    """Texts for the controls of one success; none comes again before all have come."""

    item: Question
    """The clean item."""
    slots: Sequence[Slot]
    """The insertions of the attack without their words."""
    gate: Gate
    """Says why a text must not be asked; the attack's own rules."""
    rng: np.random.Generator
    """Draws from the lexicon."""
    writer: Generate | None = None
    """Asks a role for texts; None if the lexicon makes them."""
    n_asked: int = 0
    """Calls to the writer."""
    shortage: str | None = None
    """Why there are too few texts."""
    n_taken: int = 0
    """Texts given out, repeats included."""
    _texts: list[Candidate] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _n_useless: int = 0
    _reason: str = "the lexicon has no text of this form and length"

    @property
    def n_distinct(self) -> int:
        """Different texts given out."""
        return min(self.n_taken, len(self._texts))

    def take(self) -> Candidate:
        """Return the next text; from the first again once there are no others.

        Raises:
            TrialError: there is no text at all.
        """
        for _ in range(MAX_TRIES if self.writer is None and self._n_useless < MAX_TRIES else 0):
            if self.n_taken < len(self._texts):
                break
            self._keep(neutral_control(self.item, self.slots, self.rng))
        if not self._texts:
            raise TrialError(f"no control can be made: {self._reason}")
        self.n_taken += 1
        return self._texts[(self.n_taken - 1) % len(self._texts)]

    def missing(self, n: int) -> int:
        """Return how many replies the writer should give so that n more texts are there."""
        first = 0 if self.n_asked else FIRST_STOCK
        short = max(self.n_taken + n, LEAST_STOCK, first) - len(self._texts)
        if short <= 0 or self._n_useless >= MOST_USELESS:
            return 0
        return max(short, LEAST_ASKED)

    def read(self, answer: Generated, decoding: Decoding) -> None:
        """Keep what the writer wrote if it can be used."""
        self.n_asked += 1
        made = self._made(answer.text)
        if isinstance(made, str) and answer.is_cut:
            n = decoding.max_new_tokens
            made = f"it was cut off at {n:,} tokens ([role.{ATTACKER}] max_new_tokens)"
        self._keep(made)

    def close(self) -> None:
        """Say so if the writer gave too few texts."""
        if self._n_useless >= MOST_USELESS and len(self._texts) < LEAST_STOCK:
            self.shortage = (
                f"the role 'attacker' wrote only {len(self._texts)} controls that can be used, of "
                f"{LEAST_STOCK} that a test needs at least; last reason: {self._reason}"
            )

    def _keep(self, made: Candidate | str | None) -> None:
        if isinstance(made, Candidate) and (objection := self.gate(made)) is not None:
            made = objection
        if isinstance(made, Candidate):
            if is_distinct(made, self._seen, self.item):
                self._texts.append(made)
                self._n_useless = 0
                return
            made = "it repeats an earlier one"
        self._reason = made or self._reason
        self._n_useless += 1

    def _made(self, text: str) -> Candidate | str:
        """Return a control, or why the reply cannot be used."""
        reply = read_reply(text, Insertions)
        if isinstance(reply, Unreadable):
            return reply.reason
        n_places = sum(len(slot.parts) for slot in self.slots)
        if len(reply.insertions) != n_places:
            return f"{len(reply.insertions)} insertions for {n_places} places"
        rest, edits = iter(reply.insertions), []
        for slot in self.slots:
            words = [next(rest).strip().strip(",;").strip() for _ in slot.parts]
            for own, part in zip(words, slot.parts, strict=True):
                if not is_similar_length(len(own.split()), part.n_words):
                    return f"{own!r} does not have about {part.n_words} words"
            *before, last = words
            last = last.rstrip(".") if slot.trail.startswith(".") else last
            edits.append(slot.filled(*(own.rstrip(".") for own in before), last))
        return Candidate(item=self.item, edits=tuple(edits))


def asks_writer(
    item: Question, slots: Sequence[Slot], forbidden: Sequence[str], decoding: Decoding
) -> Generate:
    """Return what a role is asked; it sees neither key nor plan nor the target's answers.

    Args:
        item: the clean item; its key is not read.
        slots: where to insert, and what.
        forbidden: what no insertion may name.
        decoding: how the role generates; at temperature 0 all controls would be equal.
    """
    edits, places = [], list[str]()
    for slot in slots:
        marks = ""
        for part in slot.parts:
            about = f" about the patient's {part.category}" if part.category else ""
            places.append(f"[{len(places) + 1}] {part.form.words} of {part.n_words} words{about}")
            marks += f" [{len(places)}] "
        edits.append(Edit(field=slot.field, start=slot.at, end=slot.at, replacement=marks))
    marked = Candidate(item=item, edits=tuple(edits))
    text = say(
        "control_neutral",
        marked=" ".join(f"{marked.context} {marked.stem}".split()),
        places="\n".join(places),
        forbidden="\n".join(f"- {one}" for one in forbidden),
    )
    schema = schema_of(Insertions, item.letters)
    return Generate((Message("user", text),), decoding, schema=schema)


def write(
    needs: Sequence[tuple[Stock, int]], n_asked: int, n_left: int
) -> Generator[Any, Any, None]:
    """Have texts written until each stock has as many new ones as it needs, or gets no others.

    Args:
        needs: stocks with a writer, and how many texts their next controls may take.
        n_asked: replies of the writer so far. Samples are counted over all stocks, because two
            may ask the same.
        n_left: how many calls may still be made.
    """
    while n_left > 0:
        asked = [stock for stock, n in needs for _ in range(stock.missing(n))][:n_left]
        calls = tuple(stock.writer for stock in asked if stock.writer is not None)
        if not calls:
            break
        for stock, answer in zip(asked, (yield Consult(ATTACKER, calls, n_asked)), strict=True):
            assert isinstance(answer, Generated)
            stock.read(answer, calls[0].decoding)
        n_asked, n_left = n_asked + len(calls), n_left - len(calls)
    for stock, _ in needs:
        stock.close()
