"""Questions whose options are shown in another order, and answers put back to the original one."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from medstress.core.items import LETTERS, Candidate, Question
from medstress.core.outcomes import Prediction


def order_of(candidate: Candidate) -> tuple[int, ...] | None:
    """Return the order in which a candidate's edits put the options, as original places.

    None unless the edits do that and nothing else: each replaces the whole text of one option by
    that of another, and no text is lost. Options are distinct, so the order is unique.
    """
    edits, item = candidate.edits, candidate.item
    if len(edits) < 2:
        return None  # most candidates; no single edit exchanges options
    places = {text: at for at, text in enumerate(item.options)}
    order = list(range(len(item.options)))
    for edit in edits:
        at = LETTERS.find(edit.field) if len(edit.field) == 1 else -1
        is_whole = 0 <= at < len(order) and (edit.start, edit.end) == (0, len(item.options[at]))
        if not is_whole or edit.replacement not in places:
            return None
        order[at] = places[edit.replacement]
    return tuple(order) if len(set(order)) == len(order) else None


@lru_cache(maxsize=4096)
def shown_in(item: Question, order: tuple[int, ...]) -> Question:
    """Return a question with its options in another order."""
    letters = letters_in(order)
    mentions = (replace(m, field=letters.get(m.field, m.field)) for m in item.mentions)
    return replace(
        item,
        options=tuple(item.options[i] for i in order),
        key=letters[item.key],
        mentions=tuple(mentions),
    )


def letters_in(order: tuple[int, ...]) -> dict[str, str]:
    """Return original letter -> the letter under which its option is shown."""
    return {LETTERS[original]: LETTERS[shown] for shown, original in enumerate(order)}


def put_back(item: Question, prediction: Prediction, order: tuple[int, ...]) -> Prediction:
    """Translate a prediction about an order to the original letters."""
    places = [order.index(i) for i in range(len(order))]
    scores, confidences, answer = prediction.scores, prediction.confidences, prediction.answer
    return replace(
        prediction,
        answer=None if answer is None else item.letters[order[LETTERS.index(answer)]],
        scores=None if scores is None else tuple(scores[i] for i in places),
        confidences=None if confidences is None else tuple(confidences[i] for i in places),
    )
