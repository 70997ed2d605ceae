"""Check whether a victim's clean answers are better than guesses, and whether they can be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from medstress.core.rows import TrialRow
from medstress.metrics.accuracies import accuracy
from medstress.metrics.bounds import accuracy_bounds
from medstress.metrics.chance import chance_of, is_by_letter
from medstress.metrics.counts import clean_items, is_answered, is_readable
from medstress.metrics.old_stats.estimates import Estimate

MANY_UNREADABLE = 0.1
"""From this share of unreadable clean answers on, a warning is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanAnswers:
    """How a victim answers the clean items of a place, each item once."""

    accuracy: Estimate
    """Accuracy of all answers; an unreadable one counts as not right."""
    chance: float | None
    """Accuracy of guessing on the same items."""
    readable: Estimate
    """Accuracy of the answers that could be read."""
    readable_chance: float | None
    """Accuracy of guessing on the items with readable answers."""
    by_letter: bool
    """True if guessing is at its best on them by always answering the commonest letter."""
    n_unreadable: int
    """Number of answers that could not be read."""
    guesses: bool
    """True if the readable answers are not above chance, counting failed ones as wrong."""
    has_many_unreadable: bool
    """True if the unreadable answers are `MANY_UNREADABLE` or more, or decide whether accuracy is
    above chance."""

    @property
    def unreadable_note(self) -> str:
        """How many answers are unreadable, as text, if they are many; else empty."""
        note = f"unreadable in {self.n_unreadable} of {self.accuracy.n} clean answers"
        return note if self.has_many_unreadable else ""


def clean_answers(trials: Iterable[TrialRow]) -> CleanAnswers:
    """Judge the clean answers of one victim's trials; failed answers count at their worst."""
    clean = clean_items(trials)
    items = list(filter(is_answered, clean))
    readable = list(filter(is_readable, items))
    n = len(items) - len(readable)
    sure = [item for item in clean if is_readable(item) or not is_answered(item)]
    return CleanAnswers(
        accuracy=accuracy(items),
        chance=chance_of(items),
        readable=accuracy(readable),
        readable_chance=chance_of(readable),
        by_letter=is_by_letter(readable),
        n_unreadable=n,
        guesses=bool(readable) and _is_low(sure),
        has_many_unreadable=n > 0 and (n >= MANY_UNREADABLE * len(items) or _is_low(clean)),
    )


def _is_low(clean: Sequence[TrialRow]) -> bool:
    """Return True if the low end of accuracy, failed items as wrong, is not above chance."""
    (low, _), level = accuracy_bounds(clean), chance_of(clean)
    return low is not None and level is not None and low <= level
