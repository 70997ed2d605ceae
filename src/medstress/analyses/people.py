"""What people say of successes: what raters agree on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from medstress.core.trials import Success, Trial, Validity
from medstress.core.validity import EVIDENCE_CHANGED, REVIEW, of_reason
from medstress.store.reviews import CANNOT_SAY, EXPECTED, KEY_RIGHT, VALID, Review
from medstress.store.trials import Folder

JUDGE = "judge"
"""The mode of a room that shows a sample of successes."""
LEAST_PLANTED = 4
"""Of fewer planted cases, chance alone may make a careful rater wrong in half."""


SPLIT = "split"
"""What is settled where raters disagree. "Cannot say" and "yes" disagree too: no one vouches for
what another expert could not see."""


def is_unbelieved(n_right: int, n: int) -> bool:
    """Return whether a rater's words on right answers count for nothing, by the planted cases.

    Half of these have a right key, so who always says the same is right in half of them: that
    tells nothing.

    Args:
        n_right: planted cases that the rater judged rightly.
        n: planted cases that the rater judged.

    >>> is_unbelieved(2, 4), is_unbelieved(3, 4), is_unbelieved(0, 3)
    (True, False, False)
    """
    return n >= LEAST_PLANTED and 2 * n_right <= n


def believed(reviews: Sequence[Review]) -> list[Review]:
    """Return the reviews without those of raters who are not believed."""
    right: dict[str, list[bool]] = defaultdict(list)
    for one in reviews:
        if one.control in EXPECTED and KEY_RIGHT in one.answers:
            right[one.reviewer.casefold()].append(one.answers[KEY_RIGHT] == EXPECTED[one.control])
    out = {name for name, marks in right.items() if is_unbelieved(sum(marks), len(marks))}
    return [one for one in reviews if one.reviewer.casefold() not in out]


def unheard(reviews: Sequence[Review]) -> frozenset[str]:
    """Return the trials that only raters judged who are not believed."""
    heard = believed(reviews)
    judged, of_believed = (
        {one.trial_id for one in some if one.trial_id and KEY_RIGHT in one.answers}
        for some in (reviews, heard)
    )
    return frozenset(judged - of_believed)


def settled(reviews: Iterable[Review], judgement: str) -> dict[str, str]:
    """Return trial -> the word of all raters on a judgement, or `SPLIT`, where somebody gave one.

    Planted cases are no trials and are left out.
    """
    by_rater: dict[str, dict[str, str]] = defaultdict(dict)
    for review in reviews:
        word = review.answers.get(judgement)
        if word is None or review.trial_id is None:
            continue
        by_rater[review.trial_id][review.reviewer.casefold()] = word
    words = {trial: set(own.values()) for trial, own in by_rater.items()}
    return {trial: SPLIT if len(own) > 1 else own.pop() for trial, own in words.items()}


def with_words_of_people(folder: Folder) -> list[Trial]:
    """Return the trials with the validity that people give them, and which were sampled."""
    if not (folder.reviews or folder.rooms):
        return list(folder.trials)
    words = settled(believed(folder.reviews), KEY_RIGHT)
    trials = [
        _reviewed(trial, words[trial.id]) if trial.id in words else trial for trial in folder.trials
    ]
    sampled = sampled_trials(folder, sum(map(is_judgeable, trials)))
    if sampled is None:
        return trials
    return [
        replace(trial, sampled=trial.id in sampled) if is_judgeable(trial) else trial
        for trial in trials
    ]


def is_judgeable(trial: Trial) -> bool:
    """Return whether people can judge a trial: a success whose right answer may still be right."""
    pick = trial.pick
    if pick is None or trial.arm.is_control:
        return False
    return pick.validity.reason != EVIDENCE_CHANGED


def sampled_trials(folder: Folder, n_judgeable: int) -> frozenset[str] | None:
    """Return the trials in random samples of all successes; None if no such sample was drawn.

    A sample that was drawn when the run had fewer successes is a sample of its beginning alone.

    Args:
        folder: holds the samples.
        n_judgeable: how many successes people can judge now.
    """
    rooms = [
        room for room in folder.rooms if room["mode"] == JUDGE and room["population"] == n_judgeable
    ]
    if not rooms:
        return None
    cases = (case for room in rooms for case in room["cases"] if not case.get("control"))
    return frozenset(trial for case in cases for trial in case["trials"])


def _reviewed(trial: Trial, key_right: str) -> Trial:
    """Return a success with the validity that its raters give it.

    Where they disagree it is unknown. No one can vouch for a success
    after which the evidence itself is another.
    """
    pick = trial.pick
    if pick is None or pick.validity.reason == EVIDENCE_CHANGED:
        return trial
    valid = VALID.get(key_right)
    evidence = (*pick.validity.evidence, *of_reason(REVIEW, valid))
    if key_right == CANNOT_SAY:
        validity = pick.validity._replace(evidence=evidence)
    else:
        validity = Validity(valid, REVIEW, evidence)
    judged: Success = replace(pick, validity=validity)
    return replace(trial, pick=judged, first=judged if trial.first is pick else trial.first)
