"""Read what `medstress export --table attacked` wrote: questions with the edits that a run asked.

A row is a question in the format of all sources, with `item_hash`, `attacked` (its stored trials,
each with `arm`, `seed`, `repeat`, `verdict` and its `queries`) and `attack_set`, which describes
the whole set and is the same in every row.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from medstress.core.arms import CONTROLS
from medstress.core.attacked import (
    COUNTS,
    FIELD,
    FORMAT,
    HEAD,
    NAME,
    AttackSet,
    Selection,
    StoredArm,
)
from medstress.core.errors import DataError, UsageError
from medstress.core.frames import Reader
from medstress.core.hashing import content_hash
from medstress.core.items import FOLLOW_UP, TEXTS, Candidate, Question
from medstress.core.outcomes import Verdict
from medstress.core.reading import check_json
from medstress.core.tables import (
    Row,
    RowOrError,
    raise_error,
    read_decoded,
    read_table,
    shown,
    wrong,
)
from medstress.core.text import Edit
from medstress.datasets.questions import question_from_row
from medstress.datasets.source import DatasetOptions, Loaded, check_keys, collect, required_file

ENDINGS = (".jsonl", ".csv", ".parquet")
_WRITTEN = f"medstress export --table {NAME}"
_SOURCE = ("experiment", "fingerprint", "started", "victim", "model", "model_hash")
_NESTED = ("options", "mentions", "metadata", FIELD)
"""Fields that a CSV file holds as JSON text."""
_LONGEST = 2**31 - 1
"""Characters of a cell; Python's own limit is 131,072."""


class _Stored(BaseModel):
    model_config = ConfigDict(strict=True)


class _Arm(_Stored):
    label: str
    control: str | None
    spec: dict[str, Any]
    is_blind: bool
    changes_evidence: bool
    beside: Literal[*CONTROLS] | None = None  # type: ignore[valid-type]
    is_probe: bool = False


class _Head(_Stored):
    """What describes a set."""

    format: int
    arms: Annotated[list[_Arm], Field(min_length=1)]
    source: dict[str, Any]
    n_items: int
    n_trials: int
    n_queries: int


class _Query(_Stored):
    edits: list[dict[str, Any]]


class _Entry(_Stored):
    """One stored trial."""

    arm: str
    seed: int | None
    repeat: Annotated[int, Field(ge=0)]
    verdict: Literal[*(str(one.value) for one in Verdict)]  # type: ignore[valid-type]
    queries: Annotated[list[_Query], Field(min_length=1)]


_ENTRIES = TypeAdapter(Annotated[list[_Entry], Field(min_length=1)], config=ConfigDict(strict=True))


def load(options: DatasetOptions) -> Loaded:
    """Read an attacked set.

    Raises:
        UsageError: no path, a missing file, another ending, or a key that does not apply.
        DataError: the file is not what `medstress export` writes; names row and field.
    """
    check_keys(NAME, options, "path")
    path = required_file(NAME, "path", options.path)
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(
            f"dataset {NAME!r}: expected a file {' or '.join(ENDINGS)} that {_WRITTEN} wrote, got "
            f"{path}"
        )
    rows = _csv_rows(path) if path.suffix.lower() == ".csv" else read_table(path).rows
    written = next((row.get(HEAD) for _, row in rows if isinstance(row, dict)), None)
    head, stored = _head(path, written)
    labels = {arm.label for arm in head.arms}
    questions, skipped = collect(
        path, rows, lambda row: _question(raise_error(row), written, labels), options.on_bad_row
    )
    made = _set(head, stored, questions)
    return Loaded(
        items=questions,
        skipped=skipped,
        source_hash=made.hash,
        notes=tuple(_notes(path, made)),
        attack_set=made,
    )


def _csv_rows(path: Path) -> Sequence[tuple[str, RowOrError]]:
    """Return the rows of a CSV file, whose cells are texts as they were, white space included."""
    csv.field_size_limit(_LONGEST)
    try:
        rows = list(Reader(StringIO(read_decoded(path)[0], newline="")))
    except csv.Error as error:
        raise DataError(f"{path}: expected a CSV file ({error}); write it again") from error
    return [(f"row {n}", row) for n, row in enumerate(rows, start=1)]


def _head(path: Path, written: Any) -> tuple[_Head, dict[str, Any]]:
    """Read what describes the set, checked and as it is stored."""
    if not written:
        raise DataError(
            f"{path}: expected rows with {HEAD!r}, as {_WRITTEN} writes them, got none; write the "
            'file with it, or read plain questions with name = "table"'
        )
    try:
        stored = _parsed(HEAD, written)
        head = _Head.model_validate(stored)
    except (DataError, ValidationError) as error:
        raise DataError(f"{path}, field {HEAD!r}: {_why(error)}; write the file again") from error
    missing = [f"source.{key}" for key in _SOURCE if key not in head.source]
    if missing or head.format != FORMAT:
        what, got = (missing[0], "none") if missing else (f"format {FORMAT}", head.format)
        raise DataError(
            f"{path}, field {HEAD!r}: expected {what}, got {got}; use the version of medstress "
            "that wrote it"
        )
    return head, stored


def _why(error: DataError | ValidationError) -> str:
    if isinstance(error, DataError):
        return str(error)
    fault = error.errors()[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'value'}: {fault['msg']}"


def _parsed(field: str, value: Any) -> Any:
    """Return a value that may be JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return check_json(json.loads(value))
    except (ValueError, RecursionError) as error:
        raise wrong(field, "JSON", value) from error


def _question(row: Row, written: Any, labels: set[str]) -> Question:
    """Turn a row into a question whose metadata holds its stored trials.

    Raises:
        DataError: the question was changed since, or an edit does not fit it.
    """
    if row.get(HEAD) != written:
        raise DataError(
            f"field {HEAD!r}: expected what the first row says, got another set; keep the rows of "
            "one run and one model"
        )
    plain = {name: _parsed(name, row[name]) for name in _NESTED if row.get(name)}
    metadata, stored = plain.pop("metadata", {}), plain.pop(FIELD, None)
    if not isinstance(metadata, Mapping):
        raise wrong("metadata", "an object", metadata)
    own = ("id", "context", "stem", "passage", "answer_idx")
    plain |= {name: row[name] for name in own if row.get(name) or name == "stem"}
    kept = {name: row.get(name) for name in ("dataset", "original_id")}
    item = question_from_row({**metadata, **kept, **plain, FIELD: stored})
    if row.get("item_hash") != item.hash:
        raise DataError(
            "field 'item_hash': the question is not the one that was attacked, so its edits may "
            f"not fit; write the file again with {_WRITTEN}"
        )
    try:
        entries = _ENTRIES.validate_python(stored)
    except ValidationError as error:
        raise DataError(
            f"field {FIELD!r}: expected trials as {_WRITTEN} writes them, got {_why(error)}"
        ) from error
    places = set()
    for n, entry in enumerate(entries, start=1):
        where = f"field {FIELD!r}, trial {n}"
        if entry.arm not in labels:
            raise DataError(f"{where}: expected an arm of {HEAD!r}, got {shown(entry.arm)}")
        if (place := (entry.arm, entry.seed, entry.repeat)) in places:
            raise DataError(f"{where}: arm {entry.arm!r}, seed {entry.seed} is there twice")
        places.add(place)
        for query in entry.queries:
            _check_edits(item, query.edits, where)
    return item


def _check_edits(item: Question, edits: Sequence[Mapping[str, Any]], where: str) -> None:
    try:
        made = tuple(Edit(**edit) for edit in edits)
        candidate = Candidate(item=item, edits=made)
        unknown = {edit.field for edit in made} - {*item.letters, *TEXTS, FOLLOW_UP}
        if unknown or not all(isinstance(edit.replacement, str) for edit in made):
            raise ValueError(f"there is no field {', '.join(sorted(unknown))}")
        _ = (candidate.options, *(getattr(candidate, name) for name in (*TEXTS, FOLLOW_UP)))
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(f"{where}: an edit does not fit the question: {error}") from error


def _set(head: _Head, stored: dict[str, Any], items: Sequence[Question]) -> AttackSet:
    """Describe the attacks of a set; its controls are read and not asked again."""
    trials = [entry for item in items for entry in item.metadata[FIELD]]
    counts = {
        "n_items": len(items),
        "n_trials": len(trials),
        "n_queries": sum(len(entry["queries"]) for entry in trials),
    }
    of_arm: dict[str, list[Any]] = {arm.label: [] for arm in head.arms if arm.control is None}
    for entry in trials:
        if entry["arm"] in of_arm:
            of_arm[entry["arm"]].append(entry)
    selection = Selection.ALL
    if any(counts[key] != stored[key] for key in COUNTS):
        verdicts = {entry["verdict"] for entries in of_arm.values() for entry in entries}
        is_successes = verdicts == {Verdict.FLIPPED.value}
        selection = Selection.FLIPPED if is_successes else Selection.FILTERED
    return AttackSet(
        hash=content_hash([stored, [[item.id, item.hash, item.metadata] for item in items]]),
        source={key: head.source[key] for key in _SOURCE},
        selection=selection,
        arms=tuple(_arm(arm, of_arm[arm.label]) for arm in head.arms if of_arm.get(arm.label)),
    )


def _arm(arm: _Arm, trials: list[Any]) -> StoredArm:
    queries = chain.from_iterable(entry["queries"] for entry in trials)
    fields = {edit["field"] for query in queries for edit in query["edits"]}
    seeds = sorted({entry["seed"] for entry in trials}, key=lambda seed: (seed is None, seed))
    return StoredArm(
        **arm.model_dump(exclude={"control"}),
        fields=tuple(sorted(fields)),
        seeds=tuple(seeds),
        n_repeats=1 + max(entry["repeat"] for entry in trials),
        most=max(len(entry["queries"]) for entry in trials),
    )


def _notes(path: Path, made: AttackSet) -> Iterator[str]:
    if probes := [arm.label for arm in made.arms if arm.is_probe]:
        yield (
            f"{path} holds variants of probes ({', '.join(probes)}) of items that were right "
            "before: they are asked as an attack's edits are, until one takes the answer, and "
            "accuracy over variants and consistency are not measured; run the probe itself for them"
        )
    if made.selection is Selection.FLIPPED:
        yield (
            f"{path} holds successes against {made.source['victim']} alone: it says which of "
            "these failures another model repeats, and not which model is better"
        )
    elif made.selection is Selection.FILTERED:
        yield (
            f"{path} holds fewer trials than {_WRITTEN} wrote, and which is unknown: it does not "
            "say which model is better"
        )
