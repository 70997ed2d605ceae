"""The test of one success: fresh samples of it, and controls until their number suffices."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from medstress.errors import TrialError
from medstress.experiment.significance.controls import Controls
from medstress.experiment.significance.panel import drawn_until, hardest_passing, passing
from medstress.experiment.significance.settings import Settings
from medstress.items import Candidate
from medstress.metrics.hardness import Sampled, Statistic, hardness, sampled, told, usable
from medstress.metrics.monte_carlo import LEAST, is_as_hard
from medstress.metrics.significance import Null
from medstress.outcomes import Outcome, Prediction
from medstress.scheduler.study import Converse, Look, Replies, Studying

KEPT = 30
"""Controls whose text is kept for reviewers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """The success that is tested."""

    fuzz: Candidate
    """The edited item that brought the error."""
    attempts: int
    """K: attempts the attack had."""
    used: int
    """Attempts it used."""


@dataclass(slots=True)
class _Drawn:
    """The controls so far, in the order drawn."""

    values: list[float | None] = field(default_factory=list)
    """T of each; None where no sample told."""
    as_hard: list[bool] = field(default_factory=list)
    """At least as hard as the fuzz; a control without T counts against significance."""
    flipped: list[bool] = field(default_factory=list)
    """Whether its loop ended in an error."""
    edits: list[list[list[Any]]] = field(default_factory=list)
    """Of the first `KEPT`."""
    n_loops: int = 0
    """Controls begun, held ones included."""


def significance_flow(success: Success, settings: Settings, controls: Controls) -> Studying:
    """Test one success.

    Nothing of what made the attack succeed is used again: T of the fuzz comes from fresh
    samples, and so does T of every control after its loop has ended.

    Yields:
        Steps of a study.

    Returns:
        The statistic used, the samples of clean item and fuzz, and the controls' T, from which
        `metrics` computes p-values.

    Raises:
        TrialError: no sample of the clean item or of the fuzz tells T, or no further control
            can be made.
    """
    item = success.fuzz.item
    clean = Candidate(item=item)
    first = yield from _samples(clean, 0, Statistic.KEY_PROBABILITY.n_samples)
    statistic = usable(settings.statistic, first)
    more = statistic.n_samples - len(first)
    if more > 0:
        first += yield from _samples(clean, len(first), more)
    ours = yield from _samples(success.fuzz, 0, statistic.n_samples)
    observed = hardness(ours, statistic)
    if observed is None or hardness(first, statistic) is None:
        which = "edited" if observed is None else "clean"
        raise TrialError(f"no sampled answer about the {which} item could be read: no test")
    drawn = _Drawn()
    while not _suffices(drawn, settings):
        made = yield from _block(success, settings, controls, drawn)
        yield from _measure(made, statistic, observed, drawn)
    return {
        "statistic": statistic.value,
        "original": told(first, statistic),
        "fuzz": told(ours, statistic),
        "controls": drawn.values,
        "as_hard": drawn.as_hard,
        "flipped": drawn.flipped,
        "n_loops": drawn.n_loops,
        "edits": drawn.edits,
    }


def _suffices(drawn: _Drawn, settings: Settings) -> bool:
    plan = settings.controls
    if settings.null is not Null.FLIPPED:
        return plan.is_done(drawn.as_hard)
    # Loops that held are paid for and do not count: their number, not that of the counted, is
    # limited, and thirty in a row that held tell that there is nothing to compare with.
    futile = drawn.n_loops >= LEAST and not drawn.as_hard
    enough = plan.fixed is None and plan.is_done(drawn.as_hard)
    return futile or enough or drawn.n_loops >= plan.most


def _block(
    success: Success, settings: Settings, controls: Controls, drawn: _Drawn
) -> Generator[Any, Replies, list[tuple[Candidate, bool]]]:
    """Make the next controls: candidates, and whether they brought an error while being made."""
    n = min(LEAST, settings.controls.most - drawn.n_loops)
    numbers = range(drawn.n_loops, drawn.n_loops + n)
    drawn.n_loops += n
    match settings.null:
        case Null.MATCHED | Null.FLIPPED:
            limit = success.attempts * settings.loops
            made = yield from _loops(numbers, controls, limit)
            return [pair for pair in made if pair[1] or settings.null is Null.MATCHED]
        case Null.BEST_OF_K:
            best = yield from _hardest_of(numbers, controls, success.used)
            return [(candidate, False) for candidate in best]
        case Null.NEUTRAL:
            draw = controls.neutral
        case Null.PARAPHRASE:
            draw = controls.paraphrases
        case Null.SCRAMBLED:
            draw = controls.scrambled
    singles = yield from drawn_until(n, draw, controls.panel)
    return [(candidate, False) for candidate in singles]


def _loops(
    numbers: Sequence[int], controls: Controls, limit: int
) -> Generator[Any, Replies, list[tuple[Candidate, bool]]]:
    """Run the attack's loop with neutral insertions, one loop a control, side by side.

    A loop ends at its first error, as the attack's does. Where K attempts hold it starts over,
    up to `limit` attempts: only what ended in an error is comparable with a success. A loop
    that holds throughout gives its hardest attempt.

    The panel is asked about errors alone, and about the hardest attempts of loops that held:
    what it would say of the others changes nothing. What it refuses is an attempt lost.
    """
    held: dict[int, list[tuple[float, Candidate]]] = {number: [] for number in numbers}
    erred: dict[int, Candidate] = {}
    sources = {number: controls.loop(number) for number in numbers}
    for _ in range(limit):
        open_ = [number for number in numbers if number not in erred]
        if not open_:
            break
        tried = []
        for number in open_:
            tried.append((yield from sources[number].draw()))
        replies = yield Look(tuple(Converse(candidate) for candidate in tried))
        wrong: dict[int, Candidate] = {}
        for number, candidate, reply in zip(open_, tried, replies, strict=True):
            assert isinstance(reply, Prediction)
            if reply.outcome is Outcome.WRONG:
                wrong[number] = candidate
            else:
                held[number].append((_ease(candidate, reply), candidate))
        allowed = yield from passing(controls.panel, list(wrong.values()))
        erred |= {
            number: one for (number, one), ok in zip(wrong.items(), allowed, strict=True) if ok
        }
    rest = {number: held[number] for number in numbers if number not in erred}
    hardest = yield from hardest_passing(rest, controls.panel)
    return [
        (erred[number], True) if number in erred else (hardest[number], False) for number in numbers
    ]


def _hardest_of(
    numbers: Sequence[int], controls: Controls, used: int
) -> Generator[Any, Replies, list[Candidate]]:
    """The hardest of as many neutral insertions as the attack used attempts."""
    tried: list[list[Candidate]] = []
    for number in numbers:
        source, row = controls.loop(number), []
        for _ in range(used):
            row.append((yield from source.draw()))
        tried.append(row)
    replies = yield Look(tuple(Converse(candidate) for row in tried for candidate in row))
    given = iter(replies)
    shown: dict[int, list[tuple[float, Candidate]]] = {}
    for number, row in zip(numbers, tried, strict=True):
        shown[number] = []
        for candidate in row:
            reply = next(given)
            assert isinstance(reply, Prediction)
            shown[number].append((_ease(candidate, reply), candidate))
    hardest = yield from hardest_passing(shown, controls.panel)
    return [hardest[number] for number in numbers]


def _ease(candidate: Candidate, reply: Prediction) -> float:
    """How easy one conversation looked: P(key) or stated confidence, below 0 where wrong."""
    one = _sampled(candidate, reply)
    shown = one.probability if one.probability is not None else one.confidence
    return (shown if shown is not None else 1.0) - (one.outcome is Outcome.WRONG)


def _measure(
    made: Sequence[tuple[Candidate, bool]], statistic: Statistic, observed: float, drawn: _Drawn
) -> Generator[Any, Replies, None]:
    """Estimate T of controls from fresh samples, all side by side."""
    if not made:
        return
    n, start = statistic.n_samples, len(drawn.values)
    talks = tuple(
        Converse(candidate, (start + i) * n + j)
        for i, (candidate, _) in enumerate(made)
        for j in range(n)
    )
    replies = yield Look(talks)
    for i, (candidate, flipped) in enumerate(made):
        given = [_sampled(candidate, reply) for reply in replies[i * n : (i + 1) * n]]
        value = hardness(given, statistic)
        drawn.values.append(value)
        drawn.as_hard.append(value is None or is_as_hard(value, observed))
        drawn.flipped.append(flipped)
        if len(drawn.edits) < KEPT:
            drawn.edits.append([[e.field, e.start, e.end, e.replacement] for e in candidate.edits])


def _samples(candidate: Candidate, start: int, n: int) -> Generator[Any, Replies, list[Sampled]]:
    replies = yield Look(tuple(Converse(candidate, start + j) for j in range(n)))
    return [_sampled(candidate, reply) for reply in replies]


def _sampled(candidate: Candidate, reply: Any) -> Sampled:
    assert isinstance(reply, Prediction)
    item = candidate.item
    return sampled(reply, item.letters.index(item.key), reply.confidences)
