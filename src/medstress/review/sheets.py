"""Sheets: MedFuzz cases with all that is known of them, and judgements as CSV."""

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
from medstress.review.form import QUESTIONS, WORDS, read_name
from medstress.review.sample import keep_told_sample
from medstress.review.sheet_cases import cases_of
from medstress.store.review_store import ReviewStore
from medstress.store.reviews import KEY_RIGHT, Place, Review, place

YES_NO = ("yes", "no")
INTEREST = ("clinical", "advocacy", "both", "none")
ROOM = tuple(name for name in QUESTIONS if name != KEY_RIGHT)
HUMAN_VALID = "human_valid"
"""What the sheet calls the judgement `key_right`; either name is read."""
FORM: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("reviewer", "Your name or initials", ()),
    (HUMAN_VALID, "Is the keyed answer still the right one after the edit?", WORDS),
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
    *((name, QUESTIONS[name], WORDS) for name in ROOM),
    ("note", "Anything else", ()),
)
"""(column, question, allowed answers; empty: free text). The paper asks these questions about its
cases; the last three but the note are those of the review room."""
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
    """Write the successes of MedFuzz as an HTML or CSV sheet and return their number.

    A sheet shows model, attack, plan and reasoning: it is not blinded.

    Raises:
        UsageError: the file cannot be written.
    """
    cases = cases_of(run)
    if to.suffix == ".html":
        form = [(column, question, " / ".join(values)) for column, question, values in FORM]
        text = render_sheet(cases, run.manifest["config"]["experiment"]["name"], form)
    else:
        text = _as_csv(cases)
    try:
        write_text(to, text)
    except OSError as error:
        raise UsageError(f"{to}: cannot write it: {error.strerror}") from error
    return len(cases)


def import_sheet(
    run: StoredRun, store: ReviewStore, path: Path, drawn_with: int | None = None
) -> tuple[int, int]:
    """Store experts' judgements from a CSV sheet; return how many it has, and how many are new.

    A row without answers is not reviewed yet: it is left out, but stays one of a random sample. A
    reviewer who judges a case again in another sheet replaces the earlier judgement; the same sheet
    read twice adds nothing.

    Args:
        run: the run.
        store: its reviews.
        path: the sheet.
        drawn_with: the seed with which its trials were drawn at random from all successes; None:
            they are of no random sample.

    Raises:
        UsageError: a wrong cell; the message names file, row and column. Or two rows in which one
            reviewer judges one case unlike, or a random sample of which nothing is judged.
    """
    latest = {place(one): one for one in store.reviews()}
    rows = list(_read(path, {trial_id for trial_id, _ in run.trial_numbers().values()}))
    found = [one for _, one in rows if one is not None]
    if drawn_with is not None:
        if not any(KEY_RIGHT in one.answers for one in found):
            raise UsageError(
                f"--import {path}: expected labels of a random sample, got {len(rows)} rows with "
                f"none in the column {HUMAN_VALID!r}; fill in yes, no or cannot say"
            )
        keep_told_sample(run, store, [trial for trial, _ in rows], drawn_with)
    new = [one for one in found if not _is_known(one, latest)]
    store.add(new)
    return len(found), len(new)


def _is_known(one: Review, latest: Mapping[Place, Review]) -> bool:
    known = latest.get(place(one))
    return known is not None and (dict(known.answers), known.note) == (dict(one.answers), one.note)


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


def _read(path: Path, known: set[str]) -> Iterator[tuple[str, Review | None]]:
    """Yield the trial of each row, and what it says; None if nothing is filled in."""
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
    is_named = KEY_RIGHT in rows.fields and HUMAN_VALID not in rows.fields
    needed = ("trial_id", "reviewer", KEY_RIGHT if is_named else HUMAN_VALID)
    if missing := [name for name in needed if name not in rows.fields]:
        raise UsageError(
            f"--import {path}: the column {missing[0]!r} is missing; write a sheet with: medstress "
            "review DIR --export FILE.csv"
        )
    judged: dict[tuple[Place, str], tuple[int, str]] = {}
    for number, row in enumerate(given, start=2):
        if is_named:
            row = {**row, HUMAN_VALID: row[KEY_RIGHT]}
        trial = row["trial_id"].strip()
        review = _review(row, trial, f"--import {path}, row {number}", known)
        if review is not None:
            _check_agrees(review, number, judged, f"--import {path}")
        if review is not None or trial:
            yield trial, review


def _review(row: Mapping[str, str], trial: str, where: str, known: set[str]) -> Review | None:
    given = {column: row.get(column, "").strip() for column, *_ in FORM}
    if not any(value for column, value in given.items() if column != "reviewer"):
        return None
    if trial not in known:
        raise UsageError(f"{where}, column 'trial_id': the run has no trial {trial!r}")
    answers = {
        column: _word(given[column], values, f"{where}, column {column!r}")
        for column, _, values in FORM
        if values
    }
    key_right = {KEY_RIGHT: answers.pop(HUMAN_VALID)}
    return Review(
        trial_id=trial,
        reviewer=read_name(given["reviewer"], f"{where}, column 'reviewer'"),
        answers={name: word for name, word in (key_right | answers).items() if word is not None},
        note=given["note"],
        time=manifests.now(),
    )


def _check_agrees(
    review: Review, row: int, judged: dict[tuple[Place, str], tuple[int, str]], where: str
) -> None:
    """Refuse a row whose reviewer says otherwise of the same trial in an earlier one."""
    for name, word in review.answers.items():
        earlier, said = judged.setdefault((place(review), name), (row, word))
        if said != word:
            column = HUMAN_VALID if name == KEY_RIGHT else name
            raise UsageError(
                f"{where}, rows {earlier} and {row}, column {column!r}: expected one answer of "
                f"{review.reviewer!r} on the trial {review.trial_id!r}, got {said!r} and {word!r}; "
                "keep the row that holds"
            )


def _word(given: str, allowed: Sequence[str], where: str) -> str | None:
    word = given.casefold()
    if not word:
        return None
    if word not in allowed:
        hint = did_you_mean(word, allowed)
        raise UsageError(f"{where}: expected {' or '.join(allowed)}, got {given!r}{hint}")
    return word
