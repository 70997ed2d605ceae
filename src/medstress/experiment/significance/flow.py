"""The test of one success: fresh samples of it, and as many controls as the plan needs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import exp, fsum
from typing import Any

from medstress.analyses.families import Null, Statistic
from medstress.attacks.controls.slots import text_of
from medstress.core.errors import TrialError
from medstress.core.items import Candidate
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.text import edit_rows
from medstress.engine.inquiry import ConversationRequest, HoldConversations, Replies, StudyFlow
from medstress.experiment.significance.controls import Controls, drawn_until, passing
from medstress.experiment.significance.settings import Settings
from medstress.stats.permutation import LEAST_CONTROLS, ControlPlan, is_as_hard

KEPT = 30
"""How many controls are stored with their text, for reviewers."""
BLOCK = 10
"""Controls made side by side in an adaptive test; as many as can end it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What one conversation says about the right answer."""

    outcome: Outcome
    """Right, wrong or unreadable."""
    probability: float | None = None
    """P(right answer) over the options; None without scores."""

    def value(self, statistic: Statistic) -> float | None:
        """Return what this conversation adds to T; None if it adds nothing."""
        if statistic is Statistic.KEY_PROBABILITY:
            return self.probability
        return None if self.outcome is Outcome.UNREADABLE else float(self.outcome is Outcome.RIGHT)


def usable(samples: Sequence[Sampled]) -> Statistic:
    """Return the statistic that a model allows, from conversations about the clean item."""
    if any(one.probability is not None for one in samples):
        return Statistic.KEY_PROBABILITY
    return Statistic.SHARE_CORRECT


def readable_values(samples: Sequence[Sampled], statistic: Statistic) -> list[float]:
    """Return the values of the samples that have one; unreadable answers are left out."""
    return [value for one in samples if (value := one.value(statistic)) is not None]


def hardness(samples: Sequence[Sampled], statistic: Statistic) -> float | None:
    """Return T of one candidate, the mean over its samples; None if no sample has a value.

    The sum is exact, so that the same samples in another order give the same T.

    >>> right, wrong = Sampled(outcome=Outcome.RIGHT), Sampled(outcome=Outcome.WRONG)
    >>> hardness([right, wrong, right, right], Statistic.SHARE_CORRECT)
    0.75
    """
    values = readable_values(samples, statistic)
    return fsum(values) / len(values) if values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """The success that is tested."""

    fuzz: Candidate
    """The edited item that the victim got wrong."""
    attempts: int
    """K: attempts that the attack had."""
    likely_statistic: Statistic | None = None
    """The statistic that will probably estimate T; None if it cannot be known yet."""


@dataclass(slots=True)
class _Drawn:
    """The controls so far, in the order drawn."""

    values: list[float | None] = field(default_factory=list)
    """T of each; None if no sample could be read, or if the loop held."""
    as_hard: list[bool] = field(default_factory=list)
    """Whether each is at least as hard as the fuzz. A control without T counts as hard, against
    significance; a loop that held counts as easy."""
    edits: list[list[list[Any]]] = field(default_factory=list)
    """Edits of the first `KEPT` controls."""
    texts: set[str] = field(default_factory=set)
    """All texts that controls tried."""
    n_tried: int = 0
    """Number of texts tried, counting repeats."""

    def record_tried(self, candidates: Sequence[Candidate]) -> None:
        """Record the texts that are tried."""
        self.texts.update(map(text_of, candidates))
        self.n_tried += len(candidates)

    def n_distinct(self, null: Null) -> int | None:
        """Return how many controls the distinct texts make up; None if no text repeats.

        Loops consist of several texts: thirty distinct texts make six loops of five, however many
        loops are run.
        """
        n = len(self.texts)
        if n == self.n_tried:
            return None
        return len(self.values) * n // self.n_tried if null is Null.MATCHED else n


def significance_flow(success: Success, settings: Settings, controls: Controls) -> StudyFlow:
    """Test one success.

    The answers that made the attack succeed are not used: T of the fuzz comes from fresh samples,
    and so does T of every control once its loop has ended.

    Yields:
        Steps of a study.

    Returns:
        The statistic used, the samples of clean item and fuzz, the greatest number of controls
        and their T, from which `analyses` computes p-values.

    Raises:
        TrialError: no sample of the clean item or of the fuzz could be read, `max_calls` buys no
            control, or no control can be made.
    """
    item = success.fuzz.item
    if success.likely_statistic is not None:
        _plan(success, settings, success.likely_statistic)
    clean = Candidate(item=item)
    first = yield from _samples(clean, 0, Statistic.KEY_PROBABILITY.n_samples)
    statistic = usable(first)
    plan = _plan(success, settings, statistic)
    missing = statistic.n_samples - len(first)
    if missing > 0:
        first += yield from _samples(clean, len(first), missing)
    fuzz = yield from _samples(success.fuzz, 0, statistic.n_samples)
    observed = hardness(fuzz, statistic)
    if observed is None or hardness(first, statistic) is None:
        which = "edited" if observed is None else "clean"
        raise TrialError(f"not tested: no sampled answer about the {which} item could be read")
    drawn = _Drawn()
    while not plan.is_done(drawn.as_hard):
        n = min(LEAST_CONTROLS if plan.fixed else BLOCK, plan.most - len(drawn.values))
        made = yield from _block(n, success, settings, controls, drawn)
        yield from _measure(made, statistic, observed, drawn)
    return {
        "statistic": statistic.value,
        "original": readable_values(first, statistic),
        "fuzz": readable_values(fuzz, statistic),
        "most": plan.most,
        "controls": drawn.values,
        "as_hard": drawn.as_hard,
        "n_distinct": drawn.n_distinct(settings.null),
        "edits": drawn.edits,
    }


def _plan(success: Success, settings: Settings, statistic: Statistic) -> ControlPlan:
    """Return how many controls to draw; raise a TrialError if `max_calls` buys none."""
    cost = settings.cost(success.attempts, statistic)
    plan = settings.plan(cost)
    if plan.most < 1:
        raise TrialError(cost.too_dear(settings.max_calls or 0))
    return plan


def _block(
    n: int, success: Success, settings: Settings, controls: Controls, drawn: _Drawn
) -> Generator[Any, Replies, Sequence[Candidate | None]]:
    """Make the next n controls; None is a loop that held."""
    if settings.null is Null.MATCHED:
        return (yield from _loops(n, controls, success.attempts, drawn))
    singles = yield from drawn_until(n, controls.neutral, controls.panel)
    drawn.record_tried(singles)
    return singles


def _loops(
    n: int, controls: Controls, limit: int, drawn: _Drawn
) -> Generator[Any, Replies, list[Candidate | None]]:
    """Run the attack's loop with neutral insertions, one loop per control, side by side.

    A loop ends at its first error, as the attack's does, or after `limit` attempts; None stands
    for a loop that held. The panel is asked only about errors, since its votes on the others would
    change nothing. An error that it refuses is a lost attempt.
    """
    erred: dict[int, Candidate] = {}
    for _ in range(limit):
        open_ = [number for number in range(n) if number not in erred]
        if not open_:
            break
        tried = yield from controls.neutral(len(open_))
        drawn.record_tried(tried)
        replies = yield HoldConversations(
            tuple(ConversationRequest(candidate) for candidate in tried)
        )
        wrong = {
            number: candidate
            for number, candidate, reply in zip(open_, tried, replies, strict=True)
            if _outcome(reply) is Outcome.WRONG
        }
        allowed = yield from passing(controls.panel, list(wrong.values()))
        erred |= {
            number: one for (number, one), ok in zip(wrong.items(), allowed, strict=True) if ok
        }
    return [erred.get(number) for number in range(n)]


def _outcome(reply: Any) -> Outcome:
    assert isinstance(reply, Prediction)
    return reply.outcome


def _measure(
    made: Sequence[Candidate | None], statistic: Statistic, observed: float, drawn: _Drawn
) -> Generator[Any, Replies, None]:
    """Estimate T of controls from fresh samples, all side by side; loops that held need none."""
    n, start = statistic.n_samples, len(drawn.values)
    talks = tuple(
        ConversationRequest(candidate, (start + i) * n + j)
        for i, candidate in enumerate(made)
        if candidate is not None
        for j in range(n)
    )
    replies = iter((yield HoldConversations(talks)) if talks else ())
    for candidate in made:
        value, is_hard = None, False
        if candidate is not None:
            given = [_sampled(candidate, reply) for reply in islice(replies, n)]
            value = hardness(given, statistic)
            is_hard = value is None or is_as_hard(value, observed)
        drawn.values.append(value)
        drawn.as_hard.append(is_hard)
        if len(drawn.edits) < KEPT and candidate is not None:
            drawn.edits.append(edit_rows(candidate.edits))


def _samples(candidate: Candidate, start: int, n: int) -> Generator[Any, Replies, list[Sampled]]:
    replies = yield HoldConversations(
        tuple(ConversationRequest(candidate, start + j) for j in range(n))
    )
    return [_sampled(candidate, reply) for reply in replies]


def _sampled(candidate: Candidate, reply: Any) -> Sampled:
    assert isinstance(reply, Prediction)
    item, scores = candidate.item, reply.scores
    probability = None if scores is None else exp(scores[item.letters.index(item.key)])
    return Sampled(outcome=reply.outcome, probability=probability)
