"""What reviewers said, as tables: judgements and agreement, planted controls, people's answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medstress.metrics.old_stats.estimates import Estimate, read_score, read_share
from medstress.results.table import Cell, Column, Format, Row, Table, as_row

CALLED = {
    "key_right": "The key is right",
    "misleading": "A careful clinician would be misled",
    "plausible": "The text is plausible",
    "harmful": "Harm is likely",
}
"""Judgement -> what yes says of a case."""
_CONTROLS = {
    "all": "all",
    "unchanged": "unchanged, so the key is right",
    "wrong_key": "another option marked as key",
    "second_answer": "a second option that is right too",
}
_COEFFICIENTS = (
    ("raw", "Agreeing pairs"),
    ("cohen", "Cohen's kappa"),
    ("fleiss", "Fleiss' kappa"),
    ("krippendorff", "Krippendorff's alpha"),
)


def review_section(summary: Mapping[str, Any]) -> list[Table]:
    """Return the tables of the review, most important first; none if nobody judged anything.

    Args:
        summary: as `medstress summary --json`.
    """
    review = summary.get("review") or {}
    found = [_judgements(review), _agreement(review), _controls(review), _answers(review)]
    return [table for table in found if table is not None and table.rows]


def _judgements(review: Mapping[str, Any]) -> Table | None:
    rows = [each for each in review.get("judgements") or () if each["n_cases"]]
    numbers = ("Cases", "Split", "Decided", "Open")
    return Table(
        name="review-judgements",
        caption="What reviewers say of the sampled cases",
        columns=(
            Column(heading="Judgement"),
            Column(heading="Yes", format=Format.SHARE, tip="of the settled cases"),
            *(Column(heading=each, format=Format.COUNT) for each in numbers),
        ),
        rows=tuple(
            as_row(
                CALLED[each["judgement"]],
                read_share(each["yes"]) if each["yes"]["n"] else None,
                *(each[name] for name in ("n_cases", "n_split", "n_decided", "n_open")),
            )
            for each in rows
        ),
        notes=tuple(_sample_notes(review)),
    )


def _sample_notes(review: Mapping[str, Any]) -> list[str]:
    return [
        f"Drawn: {each['drawn']} of {each['population']} "
        f"{'attacked items' if each['mode'] == 'answer' else 'successes'}, seed {each['seed']}."
        for each in review.get("samples") or ()
    ] + [
        "A case is settled if all raters say the same or an adjudicator decided; “cannot say” "
        "beside another word is a split."
    ]


def _agreement(review: Mapping[str, Any]) -> Table | None:
    rows = [each for each in review.get("judgements") or () if each["agreement"]["n_raters"] > 1]
    reasons: dict[str, None] = {}
    table_rows: list[Row] = []
    for each in rows:
        cells = []
        for name, _ in _COEFFICIENTS:
            found = read_score(each["agreement"][name])
            if found.value is None:
                reasons.setdefault(found.method)
            cells.append(Cell(value=found))
        table_rows.append(as_row(CALLED[each["judgement"]], *cells))
    return Table(
        name="review-agreement",
        caption="How far raters agree, planted cases left out",
        columns=(
            Column(heading="Judgement"),
            *(Column(heading=heading, format=Format.SCORE) for _, heading in _COEFFICIENTS),
        ),
        rows=tuple(table_rows),
        notes=tuple(f"{reason}." for reason in reasons),
    )


def _controls(review: Mapping[str, Any]) -> Table | None:
    return Table(
        name="review-controls",
        caption="Raters on planted cases, whose right judgement of the key is known",
        columns=(
            Column(heading="Rater"),
            Column(heading="Planted"),
            Column(heading="Right", format=Format.SHARE),
        ),
        rows=tuple(
            as_row(each["rater"], _CONTROLS[each["control"]], read_share(each["right"]))
            for each in review.get("controls") or ()
        ),
        n_labels=2,
    )


def _answers(review: Mapping[str, Any]) -> Table | None:
    answers = review.get("answers")
    if not answers:
        return None

    def shares(found: Mapping[str, Any]) -> tuple[Estimate | None, Estimate | None]:
        clean, attacked = read_share(found["clean"]), read_share(found["attacked"])
        return (clean if clean.n else None), (attacked if attacked.n else None)

    people = [(each["rater"], each) for each in answers["raters"]]
    rows = [("people", answers["people"]), *people, ("models", answers["models"])]
    return Table(
        name="review-answers",
        caption="People and models on the same items, clean and attacked",
        columns=(
            Column(heading="Who answered"),
            Column(heading="Clean", format=Format.SHARE),
            Column(heading="Attacked", format=Format.SHARE),
        ),
        rows=tuple(as_row(name, *shares(each)) for name, each in rows),
        notes=(
            "Only items that a model answered rightly are attacked, so models are right on all "
            "clean ones.",
        ),
    )
