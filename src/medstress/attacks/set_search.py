"""Searches for the smallest set of edits that changes a prediction.

Each is a sub-generator under the budget of the trial: the first success ends the trial, so sets
are asked from small to large along one path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medstress.candidates import candidate_of
from medstress.outcomes import Prediction
from medstress.queries import CleanAnswer, Predict, Steps, ask
from medstress.text import Edit

if TYPE_CHECKING:
    from numpy.random import Generator


def greedy(item: Any, edits: Sequence[Edit], budget: int) -> Steps[Any]:
    """Ask single edits, then the most important ones together, more and more of them.

    The importance of an edit is how much the answer changes under it alone: labels that differ
    from those of the clean sentence, or the distance of the scores. An edit that succeeds alone
    is the smallest set there is, which is why edits are put in one by one here, and not left out
    one by one of all, as TextFooler ranks words. Half of the budget at least is left for sets.

    Args:
        item: an entity in its sentence, or a pair.
        edits: at least one, the most promising first; ties of importance keep this order.
        budget: queries that may be asked.

    Yields:
        Singles together, then sets one by one.

    Returns:
        The largest set asked.
    """
    (clean,) = yield CleanAnswer()
    assert isinstance(clean, Prediction)
    n_singles = min(len(edits), max(budget - budget // 2, 1))
    singles = [candidate_of(item, (edit,)) for edit in edits[:n_singles]]
    answers = yield from ask([Predict(one) for one in singles])
    order = sorted(range(n_singles), key=lambda i: -importance(clean, answers[i]))
    ranked = [*(edits[i] for i in order), *edits[n_singles:]]
    sets = [candidate_of(item, tuple(ranked[:n])) for n in range(2, len(ranked) + 1)]
    sets = sets[: budget - n_singles]
    for number, candidate in enumerate(sets):
        rest = [Predict(later) for later in sets[number + 1 :]]
        yield from ask([Predict(candidate)], then=rest)
    return sets[-1] if sets else singles[-1]


def random_growth(item: Any, edits: Sequence[Edit], budget: int, rng: Generator) -> Steps[Any]:
    """Put in one edit after the other in random order; once all are in, in another order.

    Args:
        item: an entity in its sentence, or a pair.
        edits: at least one.
        budget: queries that may be asked.
        rng: of the trial; the first orders do not depend on the budget.

    Yields:
        One set after the other.

    Returns:
        The set asked last.
    """
    sets: list[Any] = []
    while len(sets) < budget:
        order = rng.permutation(len(edits)).tolist()
        sets += [
            candidate_of(item, tuple(edits[i] for i in order[: n + 1])) for n in range(len(edits))
        ]
        if len(edits) == 1:
            break  # there is no other order
    sets = sets[:budget]
    for number, candidate in enumerate(sets):
        rest = [Predict(later) for later in sets[number + 1 :]]
        yield from ask([Predict(candidate)], then=rest)
    return sets[-1]


def importance(clean: Prediction, answer: Prediction) -> float:
    """How much an answer differs from the clean one.

    Labels that differ, those beyond the shorter sentence included; for pairs the distance of the
    scores.
    """
    if clean.scores is not None and answer.scores is not None:
        return abs(answer.scores[0] - clean.scores[0])
    before, after = (clean.text or "").split(), (answer.text or "").split()
    differing = sum(a != b for a, b in zip(before, after, strict=False))
    return float(differing + abs(len(before) - len(after)))
