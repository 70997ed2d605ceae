"""One trial as straight code: baseline, attack, flip check. It asks only through `yield`.

The verdict comes from the recorded answers (see `referee`), never from the attack.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from medstress.attacks.controls.arm import ControlArm
from medstress.attacks.protocol import Attack
from medstress.core.calls import Reply
from medstress.core.errors import BudgetExhausted
from medstress.core.hashing import content_hash, rng_for
from medstress.core.items import Edited, Item
from medstress.core.outcomes import TOO_LONG, Outcome, Prediction, Verdict, is_too_long
from medstress.core.queries import Ask, CleanAnswer, Consult, Note, Predict, Replies, Step
from medstress.core.text import WHOLE
from medstress.engine.referee import AnswerRecorder, Judge, OneAnswer, Referee, TrialResult
from medstress.engine.work import (
    CallRound,
    Flows,
    Guard,
    OutOfTimeError,
    Purpose,
    UnansweredError,
    consult,
    flags_of,
    predict,
)
from medstress.tasks.victim import Victim

if TYPE_CHECKING:
    from numpy.random import Generator as Draws


class Session:
    """Wraps the generator of one attack on one item.

    Read `step`, answer with `tell`, until `step` is None; then `pick` is the candidate the
    attack prefers.
    """

    def __init__(self, attack: Attack, item: Any, rng: Draws, resources: Any) -> None:
        self._steps = attack.run(item, rng, resources)
        self.step: Step | None = None
        self.pick: Edited | None = None
        self._advance(self._steps.__next__)

    def tell(self, replies: Replies) -> None:
        """Send the answers to the current step, same length and order."""
        self._advance(self._steps.send, replies)

    def refuse(self, remaining: int) -> None:
        """Throw `BudgetExhausted` at the current step, which asks for more than is left."""
        self._advance(self._steps.throw, BudgetExhausted(remaining))

    def close(self) -> None:
        """Close the attack at its current step."""
        self.step = None
        self._steps.close()

    def _advance(self, move: Callable[..., Step], *values: Any) -> None:
        try:
            self.step = move(*values)
        except StopIteration as stop:
            self.step, self.pick = None, stop.value
        except BudgetExhausted:
            self.step = None
        else:
            if self.step is None:
                # None would read as the attack's end, and its next queries would be lost.
                raise TypeError("it yielded None; expected a step")


MAX_REFUSALS = 100
FLIP_CHECK_SAMPLE = 1_000_000
"""Offset of the flip check's sample index, so that it never reads back the stored answer. Repeats
(`Predict.sample`) have larger ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attack on one item, as planned."""

    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    item: Item
    """The item under attack."""
    victim: Victim
    """The model under attack."""
    attack_label: str
    """Label of the attack."""
    attack: Attack
    """The attack and its parameters."""
    resources: Any
    """Read-only data for the attack."""
    seed: int | None
    """None for deterministic attacks."""
    repeat: int = 0
    """Index of the repeat, if an attack runs several times per item."""
    place: int = 0
    """Number in the whole plan."""
    flip_check: bool = True
    """Whether a success is asked again, in a batch of its own."""
    has_deadline: ClassVar[bool] = True

    @property
    def id(self) -> str:
        """Content hash of labels, item and seed; independent of order."""
        unit = self.item.unit
        return content_hash(
            [
                self.dataset,
                self.group,
                self.item.id,
                self.item.hash,
                self.victim.label,
                self.attack_label,
                self.seed,
                self.repeat,
                *([unit] if unit != WHOLE else []),
            ]
        )

    @property
    def attack_spec(self) -> dict[str, Any]:
        """The attack's parameters, as stored with the arm."""
        return {"budget": self.attack.budget, **self.attack.spec()}

    def rng(self, attack: Attack) -> Draws:
        """Return the random numbers of this trial for an attack."""
        stream = f"{attack.stream}/{self.group}"
        return rng_for(self.seed or 0, stream, self.dataset, self.item.id, self.repeat)

    def start(self) -> TrialFlow:
        """See `conduct`."""
        return conduct(self)


TrialFlow: TypeAlias = Generator[CallRound, tuple[Reply, ...], TrialResult]


def conduct(trial: Trial) -> TrialFlow:
    """Run one trial.

    Yields:
        Rounds of calls; expects one reply per request, in order.

    Returns:
        The result, judged from the answers alone.
    """
    result, attack = TrialResult(unit=trial.item.unit), trial.attack
    clean = trial.item.candidate()
    with Guard(result) as guard:
        is_copied = attack.asks_copy_of(trial.item)
        way = trial.dataset, trial.item.id, "turns" in attack.needs
        too_long = trial.victim.too_long.get(way)
        reason = too_long or _unseen(trial) or attack.obstacle(trial.item, trial.resources)
        if reason is not None:
            result.verdict, result.note = Verdict.NOT_ATTACKABLE, reason
            result.at = None if too_long is None else TOO_LONG
            if too_long is not None or not is_copied:
                return result
        elif isinstance(attack, ControlArm):
            attack = attack.at(trial.item, trial.rng(attack.of), trial.resources)
            trial = replace(trial, attack=attack)
        result.before = yield from predict(
            trial.victim.flow(clean),
            clean,
            Purpose.BASELINE,
            0,
            stores_requests=trial.victim.stores_requests,
        )
    if result.before is None:
        result.verdict, result.at = guard.failure or Verdict.FAILED, "baseline"
        if is_too_long(result.note):  # as a server says that does not tell before
            result.verdict, result.at = Verdict.NOT_ATTACKABLE, None
        return result
    result.n_ties += result.before.is_tied
    if result.before.rationale is not None:
        result.records.append(turn_record(Predict(clean, attempt=0), 0, result.before))
    judge: Judge | None = AnswerRecorder(result) if is_copied else None
    if result.verdict is not Verdict.NOT_ATTACKABLE and result.before.outcome is not Outcome.RIGHT:
        wrong = result.before.outcome is Outcome.WRONG
        result.verdict = Verdict.ALREADY_WRONG if wrong else Verdict.UNREADABLE
        if attack.every_item and not attack.is_copy:
            judge = Referee(attack, trial.resources, result, trial.item)
        elif wrong and attack.is_control and "turns" not in attack.needs:
            judge = OneAnswer(result)
    if (lost := result.verdict) is not Verdict.HELD:
        with Guard(result) as guard:
            if judge is not None:  # asked all the same; its verdict stays, unless it could not end
                yield from _attack(trial, result, judge)
        if isinstance(judge, Referee):
            result = result.of_wrong_item(lost)
        if guard.failure is not None:
            # Not at `attack`: that would make the trial eligible.
            result.verdict, result.at = guard.failure, "baseline"
        return result
    referee = Referee(attack, trial.resources, result, trial.item)
    with Guard(result) as guard:
        yield from _attack(trial, result, referee)
    # Earlier queries stay counted, or the ledger would not add up.
    referee.close(clean, failed=guard.failure is not None)
    if guard.failure is not None and result.first_success is None:
        result.verdict, result.at = guard.failure, "attack"
        return result
    # A success before a failure stays; only the search for an unrefuted one was cut off.
    if result.first_success is not None:
        assert result.pick is not None
        assert result.first_pick is not None
        shown = [clean, result.pick, result.first_pick]
        different = result.first_pick is not result.pick
        result.listings = trial.victim.kept_listings(shown if different else shown[:2])
        if trial.flip_check:
            yield from _check_flips(trial, result, referee)
    return result


def _unseen(trial: Trial) -> str | None:
    """Say that the model's prompt shows no field that the attack edits; None if it shows one."""
    if not trial.attack.is_unseen_by(trial.victim):
        return None
    if trial.attack.fields == {"options"}:
        return "the model's prompt lists no options"
    return f"the model's prompt shows no {' and no '.join(sorted(trial.attack.fields))}"


def turn_record(query: Predict, number: int, prediction: Prediction) -> dict[str, Any]:
    """Return the answer of a conversation as an entry of the trial's records."""
    return {
        "attempt": query.attempt,
        "query": number,
        "answer": prediction.answer,
        "scores": prediction.scores,
        "rationale": prediction.rationale,
        "confidences": prediction.confidences,
        **({"finish_reason": prediction.finish_reason} if prediction.finish_reason else {}),
        **({"cut_turn": prediction.cut_turn} if prediction.cut_turn else {}),
    }


def _attack(
    trial: Trial, result: TrialResult, referee: Judge
) -> Generator[CallRound, tuple[Reply, ...], None]:
    attack = trial.attack
    session = Session(attack, trial.item, trial.rng(attack), trial.resources)
    flows, n_refused, has_ended = Flows(trial.victim), 0, False
    try:
        while (step := session.step) is not None:
            if isinstance(step, Ask):
                if has_ended:
                    return
                left = attack.budget - result.n_asked
                if len(step.queries) > left:
                    n_refused += 1
                    if n_refused > MAX_REFUSALS:
                        raise RuntimeError("it goes on asking for more than its budget")
                    session.refuse(left)
                    continue
                predictions = yield from _ask(step, left, result, flows, referee)
                # A success that reaches the goal ends the search: the rest of the list is not
                # asked, and further steps of the attack would change nothing.
                has_ended = bool(predictions) and predictions[-1].reached_goal
                if has_ended and not step.keeps_open:
                    return
                session.tell(predictions)
            elif isinstance(step, Consult):
                session.tell((yield from consult(step)))
            elif isinstance(step, Note):
                result.records.append(json.loads(step.text))
                session.tell(())
            elif isinstance(step, CleanAnswer):
                assert result.before is not None
                session.tell((result.before,))
            else:
                raise TypeError(f"it yielded {step!r}; expected a step")
    finally:
        session.close()


def _ask(
    step: Ask, left: int, result: TrialResult, flows: Flows, referee: Judge
) -> Generator[CallRound, tuple[Reply, ...], tuple[Prediction, ...]]:
    predictions: list[Prediction] = []
    for i, query in enumerate(step.queries):
        upcoming = chain(step.queries[i + 1 :], step.then)
        flow = flows.take(query)  # may raise; a query that never becomes a call does not count
        result.n_asked += 1
        left -= 1
        try:
            prediction = yield from predict(
                flow,
                query.candidate,
                Purpose.ATTACK,
                result.n_asked,
                sample=flows.offset(query),
                flags=flags_of(query),
                ahead=flows.first_requests(upcoming, left),
                ahead_is_certain=referee.asks_all,
                stores_requests=flows.stores_requests,
            )
        except OutOfTimeError as overdue:
            # A query without any answered call is not in the ledger and does not count.
            result.n_asked -= overdue.n_answered == 0
            raise
        if prediction.rationale is not None:
            result.records.append(turn_record(query, result.n_asked, prediction))
        predictions.append(referee.judge(query, prediction))
        if predictions[-1].reached_goal:
            break
    return tuple(predictions)


def _check_flips(
    trial: Trial, result: TrialResult, referee: Referee
) -> Generator[CallRound, tuple[Reply, ...], None]:
    """Ask the first success again, and the pick if it is another candidate."""
    successes = {result.first_success: result.first_pick, result.pick_success: result.pick}
    repeats: list[bool | None] = []
    for number, candidate in successes.items():
        assert candidate is not None
        try:
            again = yield from predict(
                trial.victim.flow(candidate),
                candidate,
                Purpose.FLIP_CHECK,
                number,
                sample=FLIP_CHECK_SAMPLE,
                alone=True,
                stores_requests=trial.victim.stores_requests,
            )
            repeats.append(referee.goal.reached(again, candidate.edits))
        except UnansweredError as error:  # the verdict stays
            result.overtime = str(error) if isinstance(error, OutOfTimeError) else result.overtime
            repeats.append(None)
    result.first_repeats = repeats[0]
    # If a success could not be asked again, the result is unknown unless the other did not repeat.
    result.repeats = False if False in repeats else None if None in repeats else True
