"""Choose which cases a page holds, and how much of each, so that it stays small enough."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.rows import TrialRow
from medstress.report.cases.building import Cases
from medstress.report.cases.choosing import is_success, ranked
from medstress.report.cases.listing import Line, facets, line_of
from medstress.report.cases.packing import Texts, as_script, pack, size_of
from medstress.report.cases.record import CaseRecord
from medstress.report.cases.words import all_words
from medstress.results.formats import plural

ALL_WITHIN = 2_000
"""Trials up to which a page holds every case."""
REST = 1_000
"""Cases beside the successes that a page of a larger run holds."""
BYTES = 2_700_000
"""Bytes of the cases of a run of up to 10,000 trials."""
BYTES_A_TRIAL = 160
"""More bytes for each further trial."""
MOST_BYTES = 17_000_000
"""Bytes of the cases of any run."""
WHOLE = 2_500
"""Most cases with everything that was tried before; each takes milliseconds to read back."""
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
    lines, rows, left = _lines(cases, chosen, budget)
    kept = chosen[: len(lines)]
    details, texts, lacks = _details(cases, kept, left)
    data = {
        "served": False,
        **shared(cases, lines),
        **rows.as_json(),
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


_CODED = ("verdict", "attack", "dataset", "group", "victim", "item", "key", "before", "after",
          "reason", "replaced", "slices")  # fmt: skip
"""Columns of the list whose values repeat: a row has the place of its value."""


class _Rows:
    """Lines of the list as rows: a value that repeats stands once, and rows have its place."""

    def __init__(self) -> None:
        self._codes: dict[str, dict[str, int]] = {column: {} for column in _CODED}
        self.rows: list[list[Any]] = []
        self.columns: list[str] = []

    def add(self, line: Line) -> int:
        """Add a line and return its bytes."""
        self.columns = list(line)
        cost = 0
        row = []
        for column, value in line.items():
            if column in self._codes:
                codes, text = self._codes[column], as_script(value)
                if text not in codes:
                    codes[text] = len(codes)
                    cost += len(text.encode()) + 1
                row.append(codes[text])
            else:
                row.append(value)
        self.rows.append(row)
        return cost + size_of(row) + 1

    def as_json(self) -> dict[str, Any]:
        """Return columns, codes and rows."""
        codes = {name: [json.loads(text) for text in known] for name, known in self._codes.items()}
        return {"columns": self.columns, "codes": codes, "rows": self.rows}


def _lines(cases: Cases, chosen: Sequence[TrialRow], budget: int) -> tuple[list[Line], _Rows, int]:
    """Return the lines that fit, the same as rows, and how many bytes are left."""
    lines: list[Line] = []
    rows = _Rows()
    for trial in chosen:
        line = line_of(cases, trial)
        budget -= rows.add(line)
        if budget < 0 and lines:
            rows.rows.pop()
            return lines, rows, 0
        lines.append(line)
    return lines, rows, budget


@dataclass(slots=True)
class _Need:
    """How many bytes the cases that are not packed yet need at least."""

    n_cases: int
    n_texts: int
    """Questions not packed yet."""
    a_case: float = 220.0
    """Mean bytes of a case at the last level, without new texts."""
    a_text: float = 0.0
    """Mean bytes of the texts of a new question."""
    _cases: int = 1
    _texts: int = 0

    def bytes(self) -> int:
        """Return the bytes."""
        return round(self.n_cases * self.a_case + self.n_texts * self.a_text)

    def note(self, cost: int, texts: int, *, is_new: bool) -> None:
        """Take a packed case off what is left, and learn from it."""
        self.n_cases -= 1
        self._cases += 1
        self.a_case += (cost - self.a_case) / self._cases
        if is_new:
            self.n_texts -= 1
            self._texts += 1
            self.a_text += (texts - self.a_text) / self._texts


def _details(
    cases: Cases, kept: Sequence[TrialRow], left: int
) -> tuple[list[Any], Texts, dict[int, int]]:
    """Return the details of each case, None where there is no room; the texts; level -> cases."""
    texts, details = Texts(), []
    lacks = dict.fromkeys(range(_LEVELS + 1), 0)
    places = [(trial.dataset, trial.item_id, trial.unit, trial.victim) for trial in kept]
    seen: set[tuple[str, ...]] = set()
    need = _Need(n_cases=len(kept), n_texts=len(set(places)))
    for trial, place in zip(kept, places, strict=True):
        whole = lacks[0] < WHOLE
        found, cost, level = None, 0, _LEVELS
        if left > 0:
            record = cases.record(trial) if whole else cases.record(trial, most_tried=0)
            found, cost, level = _fitting(record, texts, need, left, is_new=place not in seen)
            if level == 0 and not whole:
                level = 1
        seen.add(place)
        left -= cost
        lacks[level] += 1
        details.append(found)
    return details, texts, lacks


def _cost(packed: Any, texts: Texts) -> tuple[int, int]:
    """Return the bytes of details, and of the texts that are new with them."""
    return size_of(packed) + 1, sum(size_of(text) + 1 for text in texts.waiting)


def _fitting(
    record: CaseRecord, texts: Texts, need: _Need, left: int, *, is_new: bool
) -> tuple[Any, int, int]:
    """Return the fullest details that fit, their bytes and level; None where nothing fits.

    Args:
        record: the case.
        texts: those of the page.
        need: of the cases not packed yet, this one included.
        left: bytes of the page.
        is_new: whether no case of its question is packed yet.
    """
    last = _LEVELS - 1
    packed = pack(record, texts, level=last)
    own, new = _cost(packed, texts)
    need.note(own, new, is_new=is_new)
    # What is left for this case if all later ones are to have the last level.
    room = left - need.bytes()
    if own + new < room:
        texts.drop()
        for level in range(last):
            fuller = pack(record, texts, level=level)
            cost = sum(_cost(fuller, texts))
            if cost <= room:
                texts.keep()
                return fuller, cost, level
            texts.drop()
        packed = pack(record, texts, level=last)
    if own + new <= left:
        texts.keep()
        return packed, own + new, last
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
