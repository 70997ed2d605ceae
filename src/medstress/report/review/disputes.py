"""Cases on which raters disagree, for the adjudicator: judgements without names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from medstress.analyses.people import JUDGE, Settled, settled
from medstress.analyses.run import Run
from medstress.report.review.records import record_of
from medstress.report.review.sample import population
from medstress.store.reviews import ADJUDICATOR, JUDGEMENTS, Review


def disputes(run: Run, key: bytes) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return (record, what was said) of every case with an undecided disagreement, by its code.

    What was said: `ask`, the judgements to decide; `said`, how often each word was given; `notes`.

    Args:
        run: a run with reviews.
        key: secret of the codes.
    """
    reviews = run.folder.reviews
    by_judgement = {name: settled(reviews, name) for name in JUDGEMENTS}
    notes = _notes(reviews)
    records: dict[str, dict[str, Any]] = {}
    told: dict[str, dict[str, Any]] = {}
    for one in population(run, JUDGE):
        split = {
            name: found[one.trial_id]
            for name, found in by_judgement.items()
            if one.trial_id in found and _is_open(found[one.trial_id])
        }
        if not split:
            continue
        record = record_of(key, one)
        if (known := records.get(record["id"])) is not None:
            known["trials"].append(one.trial_id)
            continue
        records[record["id"]] = record
        told[record["id"]] = {
            "ask": list(split),
            "said": {name: dict(Counter(found.words)) for name, found in split.items()},
            "notes": sorted(notes[one.trial_id]),
        }
    return [(records[name], told[name]) for name in sorted(records)]


def _is_open(found: Settled) -> bool:
    return found.is_split and found.decided is None


def _notes(reviews: Sequence[Review]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for review in reviews:
        if review.trial_id is not None and review.note and review.role != ADJUDICATOR:
            found[review.trial_id].add(review.note)
    return found
