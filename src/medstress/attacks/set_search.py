"""Searches for the smallest set of edits that changes a prediction.

Each is a sub-generator under the budget of the trial. Sets are asked from small to large along
one path; edits are then removed from the first that succeeds, while queries remain
(`ends = "smallest"`). A single edit that succeeds ends the trial.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from medstress.core.outcomes import Prediction
from medstress.core.queries import CleanAnswer, Predict, Steps, ask
from medstress.core.sentences import projected_labels
from medstress.core.text import Edit

if TYPE_CHECKING:
    from numpy.random import Generator


def greedy(item: Any, edits: Sequence[Edit], budget: int) -> Steps[Any]:
    """Ask single edits, then growing sets of the most important ones.

    The importance of an edit is how much the answer changes under it alone: labels that differ
    from those of the clean sentence, or the distance of the scores, for questions of the key's. An
    edit that succeeds alone is the smallest set possible, so edits are added one by one;
    TextFooler, which ranks words, removes them one by one. About half of the budget is kept for
    sets.

    Args:
        item: an entity in its sentence, a pair, or a question.
        edits: at least one, the most promising first; ties of importance keep this order.
        budget: queries that may be asked.

    Yields:
        Singles together, then sets one by one.

    Returns:
        The smallest set that succeeded, else the largest asked.
    """
    (clean,) = yield CleanAnswer()
    assert isinstance(clean, Prediction)
    n_singles = min(len(edits), max(budget - budget // 2, 1))
    singles = [item.candidate((edit,)) for edit in edits[:n_singles]]
    answers = yield from ask([Predict(one) for one in singles])
    place = item.choices.index(item.key) if item.choices else 0
    changes = [importance(clean, *pair, place) for pair in zip(answers, edits, strict=False)]
    order = sorted(range(n_singles), key=lambda i: -changes[i])
    ranked = [*(edits[i] for i in order), *edits[n_singles:]]
    sets = [tuple(ranked[:n]) for n in range(2, len(ranked) + 1)][: budget - n_singles]
    if not sets:
        return singles[-1]
    return (yield from _ask_growing(item, sets, edits[:n_singles], budget - n_singles))


def random_growth(item: Any, edits: Sequence[Edit], budget: int, rng: Generator) -> Steps[Any]:
    """Add one edit after another in random order; once all are in, begin again in another order.

    No set is asked twice.

    Args:
        item: an entity in its sentence, a pair, or a question.
        edits: at least one.
        budget: queries that may be asked.
        rng: of the trial; the first orders do not depend on the budget.

    Yields:
        One set after another.

    Returns:
        The smallest set that succeeded, else the one asked last.
    """
    sets: dict[frozenset[int], tuple[Edit, ...]] = {}
    n_sets = min(budget, 2 ** len(edits) - 1)
    while len(sets) < n_sets:
        order = rng.permutation(len(edits)).tolist()
        for n in range(1, len(order) + 1):
            sets.setdefault(frozenset(order[:n]), tuple(edits[i] for i in order[:n]))
    return (yield from _ask_growing(item, list(sets.values())[:n_sets], (), budget))


def _ask_growing(
    item: Any, sets: Sequence[tuple[Edit, ...]], failed: Sequence[Edit], budget: int
) -> Steps[Any]:
    """Ask sets in order, then shrink the first that succeeds.

    Args:
        item: what is attacked.
        sets: at least one, at most as many as the budget.
        failed: edits that alone did not succeed.
        budget: queries that may be asked.
    """
    candidates = [item.candidate(edits) for edits in sets]
    failures = {frozenset((edit,)) for edit in failed}
    for number, candidate in enumerate(candidates):
        rest = [Predict(later) for later in candidates[number + 1 :]]
        (answer,) = yield from ask([Predict(candidate)], then=rest)
        if answer.is_success:
            return (yield from _shrink(item, sets[number], failures, budget - number - 1))
        failures.add(frozenset(sets[number]))
    return candidates[-1]


def _shrink(
    item: Any, edits: tuple[Edit, ...], failed: Collection[frozenset[Edit]], budget: int
) -> Steps[Any]:
    """Remove edits one by one from a set that succeeded, the last first.

    An edit stays out if the others still succeed. Sets that failed before are not asked again.
    """
    kept = edits
    for edit in reversed(edits):
        fewer = tuple(one for one in kept if one is not edit)
        if not budget or not fewer:
            break
        if frozenset(fewer) in failed:
            continue
        (answer,) = yield from ask([Predict(item.candidate(fewer))])
        budget -= 1
        if answer.is_success:
            kept = fewer
    return item.candidate(kept)


def importance(
    clean: Prediction, answer: Prediction, edit: Edit | None = None, place: int = 0
) -> float:
    """Return how much an answer differs from the clean one.

    For sentences, the number of labels that differ from the clean ones, which are carried over if
    the edit changes the number of tokens. For pairs and questions, the distance of the scores at
    one place; for a question, log probabilities, at the place of its key.
    """
    if clean.scores is not None and answer.scores is not None:
        return abs(answer.scores[place] - clean.scores[place])
    before, after = tuple((clean.text or "").split()), (answer.text or "").split()
    if edit is not None and edit.end <= len(before):  # an answer may be unreadable
        change = (edit.start, edit.end, tuple(edit.replacement.split()))
        before = projected_labels(before, [change])
    differing = sum(a != b for a, b in zip(before, after, strict=False))
    return float(differing + abs(len(before) - len(after)))
