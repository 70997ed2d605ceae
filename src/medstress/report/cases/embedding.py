"""Choose which cases a page holds, and how much of each, so that it stays small enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.rows import TrialRow
from medstress.report.cases.building import Cases
from medstress.report.cases.choosing import is_success, ranked
from medstress.report.cases.listing import Line, facets, line_of
from medstress.report.cases.packing import Texts, as_script, pack, size_of
from medstress.report.cases.words import all_words
from medstress.results.formats import plural

ALL_WITHIN = 2_000
"""Trials up to which a page holds every case."""
REST = 1_000
"""Cases beside the successes that a page of a larger run holds."""
BYTES = 2_500_000
"""Bytes of the cases of a run of up to 10,000 trials."""
BYTES_A_TRIAL = 130
"""More bytes for each further trial."""
MOST_BYTES = 14_000_000
"""Bytes of the cases of any run."""
WHOLE = 2_500
"""Most cases with everything that was tried before; each takes milliseconds to read back."""
_RESERVE = 170
"""Bytes kept for each case that is not packed yet: its change, where its question is known."""
_LEVELS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The cases of a page."""

    script: str
    """JSON for the page's script."""
    trials: tuple[TrialRow, ...]
    """The trials it holds, successes first."""
    n_trials: int
    """Trials of the run."""
    n_successes: int
    """Successes of the run."""
    notes: tuple[str, ...]
    """Sentences on what the page holds and lacks."""


def embed(cases: Cases, salt: str, budget: int | None = None) -> Embedded:
    """Choose and pack the cases of a page.

    All successes come first. Where the page would become too large, parts of records are left out
    before any case is.

    Args:
        cases: those of the run.
        salt: seed of the samples, such as the run's fingerprint.
        budget: bytes of all cases; default by the size of the run.
    """
    n = len(cases.trials)
    if budget is None:
        budget = min(MOST_BYTES, BYTES + BYTES_A_TRIAL * max(0, n - 10_000))
    won, rest = _order(cases.trials, salt)
    chosen = won + (rest if n <= ALL_WITHIN else rest[:REST])
    lines, left = _lines(cases, chosen, budget)
    kept = chosen[: len(lines)]
    details, texts, lacks = _details(cases, kept, left)
    columns = list(lines[0]) if lines else []
    data = {
        "served": False,
        **shared(cases, lines),
        "columns": columns,
        "rows": [list(line.values()) for line in lines],
        "details": details,
        "texts": list(texts.known),
    }
    return Embedded(
        script=as_script(data),
        trials=tuple(kept),
        n_trials=n,
        n_successes=len(won),
        notes=tuple(_notes(n, len(won), len(rest), kept, lacks)),
    )


def shared(cases: Cases, lines: Sequence[Line]) -> dict[str, Any]:
    """Return what a page knows beside its cases: filters with their values, and all words."""
    found = facets(lines)
    words = {
        factor: {key: cases.names.of(factor, key) for key, _ in found[factor]}
        for factor in ("attack", "dataset", "group", "victim")
    }
    return {"facets": found, "names": {**all_words(), **words}}


def _order(trials: Sequence[TrialRow], salt: str) -> tuple[list[TrialRow], list[TrialRow]]:
    """Return the successes and the rest, each in the seeded order in which they are chosen."""
    won = ranked([trial for trial in trials if is_success(trial)], salt)
    # Spread over how the trials ended as well: most of the rest may be one verdict.
    rest = ranked(
        [trial for trial in trials if not is_success(trial)],
        salt,
        by=lambda trial: (trial.attack, trial.verdict),
    )
    return won, rest


def _lines(cases: Cases, chosen: Sequence[TrialRow], budget: int) -> tuple[list[Line], int]:
    """Return the lines that fit, and how many bytes are left."""
    lines: list[Line] = []
    for trial in chosen:
        line = line_of(cases, trial)
        budget -= size_of(list(line.values())) + 1
        if budget < 0 and lines:
            return lines, 0
        lines.append(line)
    return lines, budget


def _details(
    cases: Cases, kept: Sequence[TrialRow], left: int
) -> tuple[list[Any], Texts, dict[int, int]]:
    """Return the details of each case, None where there is no room; the texts; level -> cases."""
    texts, details = Texts(), []
    lacks = dict.fromkeys(range(_LEVELS + 1), 0)
    for i, trial in enumerate(kept):
        reserve = _RESERVE * (len(kept) - i - 1)
        found, cost, level = None, 0, _LEVELS
        if left > _RESERVE:
            found, cost, level = _fitting(cases, trial, texts, left - reserve, whole=i < WHOLE)
        left -= cost
        lacks[level] += 1
        details.append(found)
    return details, texts, lacks


def _fitting(
    cases: Cases, trial: TrialRow, texts: Texts, room: int, *, whole: bool
) -> tuple[Any, int, int]:
    """Return the fullest details that fit, their bytes and level; None where nothing fits."""
    record = cases.record(trial) if whole else cases.record(trial, most_tried=0)
    for level in range(_LEVELS):
        packed = pack(record, texts, level=level)
        cost = size_of(packed) + sum(size_of(text) + 1 for text in texts.waiting)
        if cost <= room:
            texts.keep()
            return packed, cost, level if whole else max(level, 1)
        texts.drop()
    return None, 0, _LEVELS


def _notes(
    n: int, n_won: int, n_rest: int, kept: Sequence[TrialRow], lacks: dict[int, int]
) -> list[str]:
    shown_won = sum(map(is_success, kept))
    shown_rest = len(kept) - shown_won
    if len(kept) == n:
        notes = [f"All {plural(n, 'trial')} of the run."] if n else []
    else:
        notes = [
            f"{shown_won:,} of {plural(n_won, 'success', 'successes')}, and a seeded sample of "
            f"{shown_rest:,} of the {n_rest:,} other trials; medstress view DIR has all."
        ]
    if lacks[_LEVELS]:
        notes.append(
            f"For the size of this page, {plural(lacks[_LEVELS], 'case')} of these have only their "
            "line: medstress case DIR ID and medstress view DIR show the rest."
        )
    short = lacks[1] + lacks[2]
    if short:
        notes.append(
            f"For the size of this page, {plural(short, 'case')} of these lack what was tried "
            "before: medstress case DIR ID and medstress view DIR show it."
        )
    return notes
