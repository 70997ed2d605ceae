"""Write cases to sheets for experts, and read their judgements."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from medstress.core.errors import UsageError, did_you_mean
from medstress.experiment.plan import manifest as manifests
from medstress.files.spreadsheets import Reader, Writer
from medstress.files.writing import write_text
from medstress.report.case import Case, render_sheet
from medstress.results.load import StoredRun
from medstress.review.cases import cases_of
from medstress.store.reviews import Review
from medstress.store.run_store import RunStore

YES_NO = ("yes", "no")
INTEREST = ("clinical", "advocacy", "both", "none")
FORM: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("reviewer", "Your name or initials", ()),
    ("human_valid", "Is the keyed answer still the right one after the edit?", YES_NO),
    (
        "assumption_violated",
        "Is the assumption of the exam violated in a way that raises concern in practice?",
        YES_NO,
    ),
    (
        "misled_by_violation",
        "Is the model misled because of that violation, rather than by a harder question?",
        YES_NO,
    ),
    ("interest", "Of clinical or of advocacy interest?", INTEREST),
    ("note", "Anything else", ()),
)
"""(column, question, allowed answers; empty: free text). The paper asks these questions about its
cases."""
SHOWN = (
    "trial_id",
    "dataset",
    "item_id",
    "victim",
    "attack",
    "original",
    "edited",
    "options",
    "key",
    "answer_after",
    "plan",
    "reasoning",
    "confidences",
    "gates",
    "p",
    "faithful",
    "clean_p_key",
    "clean_confidence",
    "guess",
    "valid",
)
"""Columns for the reader of the sheet; the import reads only `trial_id`."""


def export_sheet(run: StoredRun, to: Path) -> int:
    """Write the cases of a run as an HTML or CSV sheet and return their number.

    Raises:
        UsageError: another extension, or the file cannot be written.
    """
    cases = cases_of(run)
    if to.suffix == ".html":
        form = [(column, question, " / ".join(values)) for column, question, values in FORM]
        text = render_sheet(cases, run.manifest["config"]["experiment"]["name"], form)
    elif to.suffix == ".csv":
        text = _as_csv(cases)
    else:
        raise UsageError(f"--export {to}: the name must end in .html or .csv")
    try:
        write_text(to, text)
    except OSError as error:
        raise UsageError(f"--export {to}: cannot write it: {error.strerror}") from error
    return len(cases)


def import_sheet(store: RunStore, known: Sequence[str], path: Path) -> int:
    """Store experts' judgements from a CSV sheet and return their number.

    A row without answers is not reviewed yet and is left out. A reviewer who judges a case again
    replaces the earlier judgement.

    Args:
        store: the run, open for writing.
        known: the identifiers of its trials.
        path: the sheet.

    Raises:
        UsageError: a wrong cell; the message names file, row and column.
    """
    reviews = list(_read(path, set(known)))
    store.write_reviews(reviews)
    return len(reviews)


def _as_csv(cases: Sequence[Case]) -> str:
    stream = io.StringIO(newline="")
    writer = Writer(stream, [*SHOWN, *(column for column, *_ in FORM)])
    for case in cases:
        writer.write(_csv_row(case))
    return stream.getvalue()


def _csv_row(case: Case) -> dict[str, Any]:
    item, success = case.item, case.success
    options = " | ".join(f"{k}: {v}" for k, v in zip(item.letters, item.options, strict=True))
    stated = [
        f"{attempt.number}: " + ", ".join(f"{c:g}" for c in attempt.confidences)
        for attempt in case.attempts
        if attempt.confidences
    ]
    gates = [
        f"attempt {attempt.number}: {objection}"
        for attempt in case.attempts
        for objection in attempt.objections
    ]
    return {
        "trial_id": case.trial_id,
        "dataset": case.dataset,
        "item_id": item.id,
        "victim": case.victim,
        "attack": case.attack,
        "original": case.original,
        "edited": case.marked,
        "options": options,
        "key": item.key,
        "answer_after": case.answer or "",
        "plan": case.plan,
        "reasoning": (success.rationale if success else None) or "",
        "confidences": "; ".join(stated),
        "gates": "; ".join(gates),
        "p": case.p,
        "faithful": case.faithful,
        "clean_p_key": "" if case.clean_p_key is None else f"{case.clean_p_key:.4f}",
        "clean_confidence": "" if case.clean_confidence is None else f"{case.clean_confidence:.4f}",
        "guess": "guess" if case.guess else "",
        "valid": "" if case.valid is None else "yes" if case.valid else "no",
    }


def _read(path: Path, known: set[str]) -> Iterator[Review]:
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise UsageError(f"--import {path}: cannot read it: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"--import {path}: not a UTF-8 text; save the sheet as CSV, UTF-8"
        ) from error
    head = text.partition("\n")[0]
    # In many countries, spreadsheets separate with semicolons.
    separator = ";" if head.count(";") > head.count(",") else ","
    try:
        rows = Reader(io.StringIO(text, newline=""), separator)
        given = list(rows)
    except csv.Error as error:
        raise UsageError(
            f"--import {path}: not a CSV file ({error}); save the sheet as CSV, UTF-8"
        ) from error
    needed = ("trial_id", "reviewer", "human_valid")
    if missing := [name for name in needed if name not in rows.fields]:
        raise UsageError(
            f"--import {path}: the column {missing[0]!r} is missing; write a sheet with: medstress "
            "review DIR --export FILE.csv"
        )
    for number, row in enumerate(given, start=2):
        review = _review(row, f"--import {path}, row {number}", known)
        if review is not None:
            yield review


def _review(row: Mapping[str, str], where: str, known: set[str]) -> Review | None:
    given = {column: row.get(column, "").strip() for column, *_ in FORM}
    if not any(value for column, value in given.items() if column != "reviewer"):
        return None
    trial = row["trial_id"].strip()
    if trial not in known:
        raise UsageError(f"{where}, column 'trial_id': the run has no trial {trial!r}")
    if not given["reviewer"]:
        raise UsageError(f"{where}, column 'reviewer': expected a name or initials, got nothing")
    answers = {
        column: _word(given[column], values, f"{where}, column {column!r}")
        for column, _, values in FORM
        if values
    }
    valid = answers.pop("human_valid")
    return Review(
        trial_id=trial,
        reviewer=given["reviewer"],
        human_valid=None if valid is None else valid == "yes",
        answers={column: value for column, value in answers.items() if value is not None},
        note=given["note"],
        time=manifests.now(),
    )


def _word(given: str, allowed: Sequence[str], where: str) -> str | None:
    word = given.casefold()
    if not word:
        return None
    if word not in allowed:
        hint = did_you_mean(word, allowed)
        raise UsageError(f"{where}: expected {' or '.join(allowed)}, got {given!r}{hint}")
    return word
