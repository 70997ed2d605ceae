"""What raters agree on about a trial, and what an adjudicator decides where they do not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.rows import TrialRow
from medstress.core.validity import EVIDENCE_CHANGED
from medstress.metrics.controls import is_control
from medstress.metrics.counts import is_flipped
from medstress.store.reviews import ADJUDICATOR, EXPECTED, KEY_RIGHT, Review

JUDGE = "judge"
"""The mode of a room that shows a sample of successes."""
LEAST_PLANTED = 4
"""Of fewer planted cases, chance alone may make a careful rater wrong in half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One judgement of one case, from all who gave it."""

    words: tuple[str, ...]
    """What raters said, sorted by their names."""
    decided: str | None
    """What the adjudicator decided; None if nobody did."""

    @property
    def is_split(self) -> bool:
        """True if raters disagree, whatever an adjudicator decided."""
        return len(set(self.words)) > 1

    @property
    def word(self) -> str | None:
        """The word that counts: the adjudicator's, else that of all raters; None if they disagree.

        "Cannot say" beside "yes" is a disagreement too: nobody vouches for what another expert
        looked at and could not see.
        """
        if self.decided is not None:
            return self.decided
        return self.words[0] if self.words and not self.is_split else None


def is_unbelieved(n_right: int, n: int) -> bool:
    """Return whether what a rater says of keys counts for nothing, by the planted cases.

    Half of these have a right key, so one who always says the same is right in half of them:
    sensitivity and specificity add up to 1, which tells nothing.

    Args:
        n_right: planted cases that the rater judged rightly.
        n: planted cases that the rater judged.

    >>> is_unbelieved(2, 4), is_unbelieved(3, 4), is_unbelieved(0, 3)
    (True, False, False)
    """
    return n >= LEAST_PLANTED and 2 * n_right <= n


def believed(reviews: Sequence[Review]) -> list[Review]:
    """Return the reviews without those of raters who are not believed; who decides always is."""
    told: dict[str, list[bool]] = defaultdict(list)
    for one in reviews:
        if one.control in EXPECTED and KEY_RIGHT in one.answers and one.role != ADJUDICATOR:
            is_right = one.answers[KEY_RIGHT] == EXPECTED[one.control]
            told[one.reviewer.casefold()].append(is_right)
    out = {name for name, right in told.items() if is_unbelieved(sum(right), len(right))}
    return [one for one in reviews if one.role == ADJUDICATOR or one.reviewer.casefold() not in out]


def settled(reviews: Iterable[Review], judgement: str) -> dict[str, Settled]:
    """Return trial -> what is settled about a judgement, for trials of which somebody gave it.

    Planted controls are no trials and left out.
    """
    said: dict[str, dict[str, str]] = defaultdict(dict)
    decided: dict[str, str] = {}
    for review in reviews:
        word = review.answers.get(judgement)
        if word is None or review.trial_id is None:
            continue
        if review.role == ADJUDICATOR:
            decided[review.trial_id] = word
        else:
            said[review.trial_id][review.reviewer.casefold()] = word
    return {
        trial: Settled(
            words=tuple(word for _, word in sorted(said[trial].items())),
            decided=decided.get(trial),
        )
        for trial in [*said, *(trial for trial in decided if trial not in said)]
    }


def is_judgeable(row: TrialRow) -> bool:
    """Return whether people can judge a trial: a success whose key may still be right."""
    has_key = row.key != "" and row.validity_reason != EVIDENCE_CHANGED
    return is_flipped(row) and has_key and not is_control(row)


def sampled_trials(rooms: Iterable[Mapping[str, Any]], n_judgeable: int) -> frozenset[str] | None:
    """Return the trials in random samples of all successes that a run has.

    A sample that was drawn when the run had fewer successes is a sample of its beginning alone.

    Args:
        rooms: the stored samples.
        n_judgeable: how many successes the run has now that people can judge.

    Returns:
        None if no such sample was drawn.
    """
    drawn = [room for room in rooms if room["mode"] == JUDGE and room["population"] == n_judgeable]
    trials = (
        trial
        for room in drawn
        for case in room["cases"]
        if not case.get("control")
        for trial in case["trials"]
    )
    return frozenset(trials) if drawn else None
