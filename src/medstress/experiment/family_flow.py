"""One flow of questions that tests all successes of a family (METHODS 2.6), and its controls.

It is deterministic: the same answers lead to the same questions in every process. Calls are bought
as they are used: loops go round the successes in turn until the calls of the family are spent, and
none begins that could not be paid to its end, so that no loop is lost for what it costs.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from math import exp, floor
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from medstress.analyses.significance import STOP_AT, ControlPrice, Null, Statistic
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
from medstress.core.outcomes import Goal, Outcome, Prediction
from medstress.core.queries import ATTACKER, Consult
from medstress.core.text import Edit
from medstress.engine.asking import Held
from medstress.engine.inquiry import ConversationRequest, HoldConversations, Replies, StudyFlow
from medstress.tasks.prompt_sets import say
from medstress.tasks.replies import Reply, Unreadable, read_reply, schema_of
from medstress.tasks.victim import Victim

FIRST_STOCK, LEAST_STOCK, LEAST_ASKED = 30, 20, 10
"""Texts that a writer is asked for first; fewer are too few; the fewest replies of a round."""
MOST_USELESS = 30
"""So many replies in a row that bring nothing new mean that the writer has no more."""
TIE = 1e-9
"""Statistics that differ by no more than this are ties, which count against significance."""
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
    _objections: dict[tuple[Edit, ...], str | None] = field(default_factory=dict)
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
        if isinstance(made, Candidate):
            if made.edits not in self._objections:
                self._objections[made.edits] = self.gate(made)
            made = self._objections[made.edits] or made
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


WIDTH, MOST_ROUNDS = 32, 10
"""Controls side by side, as far as full rounds over the open tests allow; the most rounds."""

Asked = Generator[HoldConversations | Consult, Replies, list[Held]]
Step = Generator[HoldConversations | Consult, Replies, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How a family is tested."""

    null: Null
    attempts: int
    """K of the attack."""
    n_controls: int
    """Controls of null `neutral`."""
    max_calls: int
    """Calls for each success, on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A success that is tested."""

    trial: str
    """Its identifier."""
    fuzz: Candidate
    """The edited item that brought the error."""
    goal: Goal
    """What ends the attack's loop."""
    victim: Victim
    """Who is asked, as in the trial."""
    sampled: Victim
    """The same at the temperature of the statistic."""
    stock: Stock
    """The texts of its controls."""


@dataclass(slots=True)
class Running:
    """T of one text, sample by sample.

    A control need not be sampled to the end: it is decided once the lowest T that it can still
    reach is above the attack's.
    """

    n_left: int
    total: float = 0.0
    n_read: int = 0

    def add(self, value: float | None) -> None:
        """Count a sample; one that could not be read has no value."""
        self.n_left -= 1
        if value is not None:
            self.total += value
            self.n_read += 1

    def missing(self, observed: float) -> int:
        """Return the fewest further samples that may decide; 0 if it is decided.

        >>> Running(20).missing(0.1), Running(17, total=3.0, n_read=3).missing(0.1)
        (3, 0)
        """
        short = (observed + TIE) * (self.n_read + self.n_left) - self.total
        return 0 if short < 0 else min(self.n_left, floor(short) + 1)

    def is_as_hard(self, observed: float) -> bool:
        """Whether T is no larger; ties, and texts without T, count against significance.

        >>> Running(0, total=2.0, n_read=20).is_as_hard(0.1), Running(0).is_as_hard(0.1)
        (True, True)
        """
        return not self.n_left and self.total <= (observed + TIE) * self.n_read


@dataclass(slots=True)
class Test:
    """What is known of one success so far."""

    success: Success
    original: list[float] = field(default_factory=list)
    """Samples of the clean item that could be read."""
    fuzz: list[float] = field(default_factory=list)
    """Samples of the edited item that could be read."""
    n: int = 0
    """Controls."""
    n_hard: int = 0
    """Controls at least as hard as the attack."""
    n_calls: int = 0
    """Calls to the victim."""
    note: str | None = None
    """Why it cannot be tested."""
    has_failed: bool = False
    """Whether a call failed, so that it may be asked again."""

    @property
    def calls(self) -> int:
        """Calls so far, to the victim and to the role that writes."""
        return self.n_calls + self.success.stock.n_asked

    @property
    def observed(self) -> float:
        """T of the attack's edit."""
        return sum(self.fuzz) / len(self.fuzz)

    def has_ended(self, design: Design) -> bool:
        """Whether more controls would change nothing."""
        if self.note is None and design.null is Null.NEUTRAL:
            return self.n >= design.n_controls
        return self.note is not None or self.n_hard >= STOP_AT

    def as_json(self) -> dict[str, Any]:
        """Return what was found.

        A loop consists of several texts: thirty distinct texts make six loops of five.
        """
        n_texts, n_tried = self.success.stock.n_distinct, self.success.stock.n_taken
        return {
            "trial": self.success.trial,
            "original": self.original,
            "fuzz": self.fuzz,
            "n": self.n,
            "hard": self.n_hard,
            "distinct": n_texts * self.n // n_tried if n_texts < n_tried else None,
            "calls": self.calls,
            "note": self.note if self.n or self.note else "its calls were spent on T and on texts",
        }


@dataclass(slots=True)
class _Control:
    """A control that is being made: a loop, or one insertion."""

    test: Test
    number: int
    """Controls of the test before it."""
    text: Candidate | None = None
    """The last text tried."""
    is_hit: bool = False
    """Whether that ended the loop; a loop that holds has none."""
    t: Running = field(default_factory=lambda: Running(0))

    @property
    def is_open(self) -> bool:
        """Whether its test can go on."""
        return self.test.note is None

    def draw(self) -> None:
        """Take the next text."""
        try:
            self.text = self.test.success.stock.take()
        except TrialError as error:
            self.test.note = str(error)


def family_flow(successes: Sequence[Success], design: Design, price: ControlPrice) -> StudyFlow:
    """Test the successes of a family.

    The answers that made an attack succeed are not used: T of its edit comes from fresh samples,
    and so does T of every control once its loop has ended.

    Args:
        successes: in the order in which they are served.
        design: says what a control is, and how many calls there are.
        price: of one control; its statistic is the likely one.

    Yields:
        Steps of a study.

    Returns:
        The statistic, and the tests; a `note` if a call failed.

    Raises:
        TrialError: the calls buy no control.
    """
    tests = [Test(one) for one in successes]
    _check(design, price)
    statistic = yield from _observed(tests)
    price = replace(price, statistic=statistic)
    _check(design, price)

    def left() -> int:
        return design.max_calls * len(tests) - sum(test.calls for test in tests)

    while controls := _next(tests, design, left() // price.most):
        if price.is_written:
            yield from _written(tests, controls, design, left())
            controls = controls[: left() // price.most]
        yield from _made(controls, design)
        yield from _measured(controls, statistic)
        for control in controls:
            test = control.test
            if not test.has_ended(design):  # later ones of the round change nothing
                test.n += 1
                test.n_hard += control.is_hit and control.t.is_as_hard(test.observed)
    found: dict[str, Any] = {
        "statistic": statistic.value,
        "tests": [test.as_json() for test in tests],
    }
    failed = next((test.note for test in tests if test.has_failed), None)
    return found if failed is None else {**found, "note": failed}


def _check(design: Design, price: ControlPrice) -> None:
    if design.max_calls < price.least:
        raise TrialError(
            f"max_calls = {design.max_calls} is too small for one control: give {price.least} or "
            "more"
        )


def _held(requests: Sequence[tuple[Test, ConversationRequest]]) -> Asked:
    """Hold conversations, each on the bill of a test; a test ends where a call fails."""
    if not requests:
        return []
    held = yield HoldConversations(tuple(request for _, request in requests))
    answers = [one for one in held if isinstance(one, Held)]
    for (test, _), one in zip(requests, answers, strict=True):
        test.n_calls += one.n_calls
        if one.prediction is None:
            test.note, test.has_failed = one.error, True
    return answers


def _observed(
    tests: Sequence[Test],
) -> Generator[HoldConversations | Consult, Replies, Statistic]:
    """Sample the clean items and the attacks' edits; return the statistic that the model allows."""
    first = Statistic.KEY_PROBABILITY.n_samples
    clean = [(test, _sample(test, _clean(test), j)) for test in tests for j in range(first)]
    held = yield from _held(clean)
    has_scores = any(one.prediction and one.prediction.scores is not None for one in held)
    statistic = Statistic.KEY_PROBABILITY if has_scores else Statistic.SHARE_CORRECT
    more = [
        (test, _sample(test, candidate, j))
        for test in tests
        if test.note is None
        for candidate, start in ((_clean(test), first), (test.success.fuzz, 0))
        for j in range(start, statistic.n_samples)
    ]
    held += yield from _held(more)
    for (test, request), one in zip(clean + more, held, strict=True):
        value = _value(one.prediction, request.candidate, statistic)
        if value is not None:
            (test.fuzz if request.candidate is test.success.fuzz else test.original).append(value)
    for test in tests:
        if test.note is None and not (test.original and test.fuzz):
            which = "edited" if test.original else "clean"
            test.note = f"no sampled answer about the {which} question could be read"
    return statistic


def _clean(test: Test) -> Candidate:
    return Candidate(item=test.success.fuzz.item)


def _sample(test: Test, candidate: Candidate, number: int) -> ConversationRequest:
    return ConversationRequest(test.success.sampled, candidate, number)


def _value(
    prediction: Prediction | None, candidate: Candidate, statistic: Statistic
) -> float | None:
    """Return what one conversation adds to T; None if it could not be read."""
    if prediction is None:
        return None
    if statistic is Statistic.SHARE_CORRECT:
        is_read = prediction.outcome is not Outcome.UNREADABLE
        return float(prediction.outcome is Outcome.RIGHT) if is_read else None
    item, scores = candidate.item, prediction.scores
    return None if scores is None else exp(scores[item.letters.index(item.key)])


def _next(tests: Sequence[Test], design: Design, n_paid: int) -> list[_Control]:
    """Return the next controls, up to a number: of every open test in turn, round by round."""
    open_ = [(i, test) for i, test in enumerate(tests) if not test.has_ended(design)]
    n_rounds = min(MOST_ROUNDS, max(1, WIDTH // max(len(open_), 1)))
    queue = sorted((test.n + j, i) for i, test in open_ for j in range(n_rounds))
    if design.null is Null.NEUTRAL:
        queue = [one for one in queue if one[0] < design.n_controls]
    return [_Control(tests[i], number) for number, i in queue[: max(n_paid, 0)]]


def _written(
    tests: Sequence[Test], controls: Sequence[_Control], design: Design, n_left: int
) -> Step:
    """Have the role write the texts that controls may need."""
    looks = design.attempts if design.null is Null.MATCHED else 1
    needs = [
        (test, looks * sum(control.test is test for control in controls))
        for test in tests
        if not test.has_ended(design)
    ]
    n_asked = sum(test.success.stock.n_asked for test in tests)
    yield from write([(test.success.stock, n) for test, n in needs], n_asked, n_left)
    for test, _ in needs:
        test.note = test.success.stock.shortage


def _made(controls: Sequence[_Control], design: Design) -> Step:
    """Run the attack's loop with neutral insertions, all controls side by side.

    A loop ends at its first success, as the attack's does, or holds. Of null `neutral` a control
    is one insertion.
    """
    if design.null is Null.NEUTRAL:
        for control in controls:
            control.draw()
            control.is_hit = True
        return
    for _ in range(design.attempts):
        going = [one for one in controls if not one.is_hit and one.is_open]
        for control in going:
            control.draw()
        asked = [
            (one, ConversationRequest(one.test.success.victim, one.text))
            for one in going
            if one.is_open and one.text is not None
        ]
        held = yield from _held([(one.test, request) for one, request in asked])
        for (control, request), one in zip(asked, held, strict=True):
            goal, edits = control.test.success.goal, request.candidate.edits
            if one.prediction is not None and goal.reached(one.prediction, edits):
                control.is_hit = True


def _measured(controls: Sequence[_Control], statistic: Statistic) -> Step:
    """Estimate T of what ended the loops, all side by side, as far as it takes to decide."""
    for control in controls:
        control.t = Running(statistic.n_samples)
    while True:
        asked = []
        for control in controls:
            test, t = control.test, control.t
            if control.is_hit and control.is_open and control.text is not None:
                first = (control.number + 1) * statistic.n_samples - t.n_left
                asked += [
                    (control, _sample(test, control.text, first + j))
                    for j in range(t.missing(test.observed))
                ]
        if not asked:
            return
        held = yield from _held([(control.test, request) for control, request in asked])
        for (control, request), one in zip(asked, held, strict=True):
            control.t.add(_value(one.prediction, request.candidate, statistic))
