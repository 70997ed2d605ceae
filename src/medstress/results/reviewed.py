"""What raters agree on about a trial, and what an adjudicator decides where they do not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from medstress.store.reviews import ADJUDICATOR, Review


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
