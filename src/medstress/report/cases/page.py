"""The case browser of a page: its markup, with the cases as JSON for its script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from medstress.report.cases.building import Cases, is_pair
from medstress.report.cases.differences import mark_changes
from medstress.report.cases.embedding import embed
from medstress.report.cases.record import CaseRecord
from medstress.report.cases.words import repeats_words, validity_words, verdict_words
from medstress.results import formats
from medstress.results.pages import templates

STYLES, SCRIPTS = ("cases.css",), ("cases.js",)
"""Names in `templates` of what the browser needs on its page."""
KEY_SCORE = "P(key)"
STATIC = 12
"""Cases that show where no script runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """The case browser, for a page to include."""

    html: Markup
    """The section, with its JSON; where no script runs it shows a few cases."""
    is_served: bool = False
    """Whether its script asks a server, so that the page's policy must let it."""


def render_cases(cases: Cases, salt: str, budget: int | None = None) -> Browser:
    """Render the case browser of a page that holds its cases.

    Args:
        cases: those of the run.
        salt: seed of the samples, such as the run's fingerprint.
        budget: most bytes of the cases; default by the size of the run.
    """
    held = embed(cases, salt, budget)
    shown = [_shown(cases.record(trial, most_tried=0)) for trial in held.trials[:STATIC]]
    counts = len(held.trials), held.n_successes
    return Browser(html=_html(held.script, held.notes, shown, *counts, score_word(cases)))


def render_served(script: str, n_cases: int, n_successes: int, score: str = KEY_SCORE) -> Browser:
    """Render the case browser of a page that asks its server for cases.

    Args:
        script: JSON with `served` true, filters and names (`shared`).
        n_cases: trials of the run so far.
        n_successes: successes among them.
        score: what the score of a case is called, see `score_word`.
    """
    made = _html(script, (), (), n_cases, n_successes, score)
    return Browser(html=made, is_served=True)


def score_word(cases: Cases) -> str:
    """Return what the score of the cases is called; the cases of a run are of one kind."""
    return "Similarity" if cases.trials and is_pair(cases.trials[0]) else KEY_SCORE


def _html(
    script: str,
    notes: Sequence[str],
    shown: Sequence[dict[str, Any]],
    n_cases: int,
    n_successes: int,
    score: str,
) -> Markup:
    made = templates("medstress.report").get_template("cases.html")
    html = made.render(
        data=Markup(script),
        notes=notes,
        shown=shown,
        n_cases=n_cases,
        n_successes=n_successes,
        score=score,
    )
    return Markup(html)


def _shown(record: CaseRecord) -> dict[str, Any]:
    before, after = record.shown_before, record.shown_after
    segments = () if before is None else mark_changes(before, before if after is None else after)
    return {
        "case": record,
        "segments": segments,
        "verdict": verdict_words(record.verdict),
        "valid": validity_words(record.valid, record.validity_reason),
        "repeats": repeats_words(record.repeats),
        "before": formats.decimal(record.confidence),
        "after": formats.decimal(record.confidence_after),
    }
