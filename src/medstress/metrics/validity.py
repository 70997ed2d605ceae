"""The fields of a summary row about valid successes: rate, bounds, labels and corrections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.corrected import corrected, known_of, worded
from medstress.metrics.counts import is_flipped
from medstress.metrics.measured import Known, Source, said_by
from medstress.metrics.valid_bounds import asr_valid_bounds, n_censored, n_validity_unknown
from medstress.metrics.vouched import Vouched, truth_of, vouched_or_why


def validity_fields(trials: Sequence[TrialRow], sources: Mapping[str, Source]) -> dict[str, Any]:
    """Return `asr_valid`, its bounds, the counts of what is unknown, and `validity`.

    `validity` says what the rate is of (`truth`), why there is none (`why`), how many successes
    are in a random sample (`n_sampled`), and has a row for each panel or checker that judged
    successes (`checkers`), with the rate corrected by its measured errors.

    Args:
        trials: of one row.
        sources: from `medstress.metrics.measured.measured`, over the whole run.
    """
    found = vouched_or_why(trials, sources)
    successes = [row for row in trials if is_flipped(row)]
    return {
        "asr_valid": found.as_json() if isinstance(found, Vouched) else None,
        "asr_valid_bounds": asr_valid_bounds(trials),
        "n_validity_unknown": n_validity_unknown(trials),
        "n_censored": n_censored(trials),
        "validity": {
            "truth": truth_of(successes) if successes else None,
            "why": found if isinstance(found, str) else None,
            "n_sampled": sum(row.sampled is True for row in successes),
            "checkers": [
                {**known.as_json(), **_corrected(trials, known)}
                for name, source in sources.items()
                if any(said_by(row, name) is not None for row in successes)
                for known in [known_of(trials, source)]
            ],
        },
    }


def _corrected(trials: Sequence[TrialRow], known: Known) -> dict[str, Any]:
    """Return the rate of valid successes by a source's words and errors, and what it assumes."""
    why = known.why_not
    if why is None and not worded(trials, known.source)[0]:
        why = f"the {known.source} has a word only on successes that a rule refuted"
    if why is not None:
        return {
            "asr_valid_corrected": None,
            "assumes": None,
            "corrected_by": None,
            "why": why,
        }
    found = corrected(trials, known)
    return {
        "asr_valid_corrected": found.estimate.as_json(),
        "assumes": known.assumes,
        "corrected_by": found.by,
        "why": None,
    }
