"""Read what `medstress export --table attacked` wrote: questions with the edits that a run asked.

A row is a question in the format of all sources, with `item_hash`, `attacked` (its stored trials,
each with `arm`, `seed`, `repeat`, `verdict` and its `queries`) and `attack_set`, which describes
the whole set and is the same in every row.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

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
from medstress.core.controls import CONTROLS
from medstress.core.errors import DataError, UsageError
from medstress.core.hashing import content_hash
from medstress.core.items import FOLLOW_UP, TEXTS, Candidate, Question
from medstress.core.outcomes import Verdict
from medstress.core.text import Edit
from medstress.datasets.questions import question_from_row
from medstress.datasets.source import DatasetOptions, Loaded, check_keys, collect, required_file
from medstress.datasets.tables import Row, RowOrError, raise_error, read_decoded, read_table, shown
from medstress.files.reading import check_json
from medstress.files.spreadsheets import Reader

ENDINGS = (".jsonl", ".csv", ".parquet")
_WRITTEN = f"medstress export --table {NAME}"
_SOURCE = ("experiment", "fingerprint", "started", "victim", "model", "model_hash")
_ARM = ("label", "control", "spec", "is_blind", "changes_evidence")
_NESTED = ("options", "mentions", "metadata", FIELD)
"""Fields that a CSV file holds as JSON text."""
_LONGEST = 2**31 - 1
"""Characters of a cell; Python's own limit is 131,072."""


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
    told = next((row.get(HEAD) for _, row in rows if isinstance(row, dict)), None)
    head = _head(path, told)
    labels = {arm["label"] for arm in head["arms"]}
    questions, skipped = collect(
        path, rows, lambda row: _question(raise_error(row), told, labels), options.on_bad_row
    )
    found = _set(head, questions)
    return Loaded(
        questions=questions,
        skipped=skipped,
        source_hash=found.hash,
        notes=tuple(_notes(path, found)),
        attack_set=found,
    )


def _csv_rows(path: Path) -> Sequence[tuple[str, RowOrError]]:
    """Return the rows of a CSV file, whose cells are texts as they were, white space included.

    Raises:
        DataError: it is no CSV.
    """
    csv.field_size_limit(_LONGEST)
    try:
        rows = list(Reader(StringIO(read_decoded(path)[0], newline="")))
    except csv.Error as error:
        raise DataError(f"{path}: expected a CSV file ({error}); write it again") from error
    return [(f"row {n}", row) for n, row in enumerate(rows, start=1)]


def _head(path: Path, told: Any) -> dict[str, Any]:
    """Read what describes the set.

    Raises:
        DataError: there is none, or another; says how such a file is made.
    """
    if not told:
        raise DataError(
            f"{path}: expected rows with {HEAD!r}, as {_WRITTEN} writes them, got none; write the "
            'file with it, or read plain questions with name = "table"'
        )
    try:
        head = _parsed(HEAD, told)
    except DataError as error:
        raise DataError(f"{path}, {error}; write the file again") from error
    if not isinstance(head, dict):
        raise DataError(f"{path}, field {HEAD!r}: expected an object, got {shown(head)}")
    if head.get("format") != FORMAT:
        raise DataError(
            f"{path}, field {HEAD!r}: expected format {FORMAT}, got {head.get('format')!r}; use "
            "the version of medstress that wrote it"
        )
    arms, source = head.get("arms"), head.get("source")
    is_whole = (
        isinstance(arms, list)
        and bool(arms)
        and all(isinstance(a, dict) and all(key in a for key in _ARM) for a in arms)
        and all(isinstance(a["label"], str) and isinstance(a["spec"], dict) for a in arms)
        and all(a.get("beside") in (None, *CONTROLS) for a in arms)
        and isinstance(source, dict)
        and all(key in source for key in _SOURCE)
        and all(type(head.get(key)) is int for key in COUNTS)
    )
    if not is_whole:
        raise DataError(
            f"{path}, field {HEAD!r}: expected 'arms', 'source' and {', '.join(map(repr, COUNTS))} "
            f"as {_WRITTEN} writes them; write the file again"
        )
    return head


def _parsed(field: str, value: Any) -> Any:
    """Return a value that may be JSON text.

    Raises:
        DataError: it is text, and no JSON.
    """
    if not isinstance(value, str):
        return value
    try:
        return check_json(json.loads(value))
    except (ValueError, RecursionError) as error:
        raise DataError(f"field {field!r}: expected JSON, got {shown(value)}") from error


def _question(row: Row, told: Any, labels: Iterable[str]) -> Question:
    """Turn a row into a question whose metadata holds its stored trials.

    Raises:
        DataError: the question was changed since, or an edit does not fit it.
    """
    if row.get(HEAD) != told:
        raise DataError(
            f"field {HEAD!r}: expected what the first row says, got another set; keep the rows of "
            "one run and one victim"
        )
    plain = {name: _parsed(name, row[name]) for name in _NESTED if row.get(name)}
    metadata, entries = plain.pop("metadata", {}), plain.pop(FIELD, None)
    if not isinstance(metadata, Mapping):
        raise DataError(f"field 'metadata': expected an object, got {shown(metadata)}")
    own = ("id", "context", "stem", "passage", "answer_idx")
    plain |= {name: row[name] for name in own if row.get(name) or name == "stem"}
    kept = {name: row.get(name) for name in ("dataset", "original_id")}
    item = question_from_row({**metadata, **kept, **plain, FIELD: entries})
    if row.get("item_hash") != item.hash:
        raise DataError(
            "field 'item_hash': the question is not the one that was attacked, so its edits may "
            f"not fit; write the file again with {_WRITTEN}"
        )
    if not isinstance(entries, list) or not entries:
        raise DataError(f"field {FIELD!r}: expected a list of trials, got {shown(entries)}")
    places = set()
    for n, entry in enumerate(entries, 1):
        where = f"field {FIELD!r}, trial {n}"
        _check_entry(item, entry, labels, where)
        place = (entry["arm"], entry["seed"], entry["repeat"])
        if place in places:
            raise DataError(f"{where}: arm {place[0]!r}, seed {place[1]} stands there twice")
        places.add(place)
    return item


def _check_entry(item: Question, entry: Any, labels: Iterable[str], where: str) -> None:
    if not isinstance(entry, Mapping):
        raise DataError(f"{where}: expected an object, got {shown(entry)}")
    arm = entry.get("arm")
    if not isinstance(arm, str) or arm not in labels:
        raise DataError(f"{where}: expected an arm of {HEAD!r}, got {shown(arm)}")
    seed, repeat = entry.get("seed"), entry.get("repeat")
    if not (seed is None or type(seed) is int) or type(repeat) is not int or repeat < 0:
        raise DataError(f"{where}: expected 'seed' and 'repeat' as whole numbers")
    if entry.get("verdict") not in [each.value for each in Verdict]:
        raise DataError(f"{where}: expected a verdict, got {shown(entry.get('verdict'))}")
    queries = entry.get("queries")
    if not isinstance(queries, list) or not queries:
        raise DataError(f"{where}: expected a list of queries, got {shown(queries)}")
    for query in queries:
        edits = query.get("edits") if isinstance(query, Mapping) else None
        if not isinstance(edits, list) or not all(isinstance(each, Mapping) for each in edits):
            raise DataError(f"{where}: expected queries with a list of edits, got {shown(query)}")
        _check_edits(item, edits, where)


def _check_edits(item: Question, edits: Iterable[Mapping[str, Any]], where: str) -> None:
    try:
        made = tuple(Edit(**edit) for edit in edits)
        candidate = Candidate(item=item, edits=made)
        unknown = {edit.field for edit in made} - {*item.letters, *TEXTS, FOLLOW_UP}
        if unknown or not all(isinstance(edit.replacement, str) for edit in made):
            raise ValueError(f"there is no field {', '.join(sorted(unknown))}")
        _ = (candidate.options, *(getattr(candidate, name) for name in (*TEXTS, FOLLOW_UP)))
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(f"{where}: an edit does not fit the question: {error}") from error


def _set(head: Mapping[str, Any], items: Sequence[Question]) -> AttackSet:
    trials = [entry for item in items for entry in item.metadata[FIELD]]
    counts = {
        "n_items": len(items),
        "n_trials": len(trials),
        "n_queries": sum(len(entry["queries"]) for entry in trials),
    }
    controls = {arm["label"] for arm in head["arms"] if arm["control"] is not None}
    verdicts = {entry["verdict"] for entry in trials if entry["arm"] not in controls}
    selection = Selection.ALL
    if any(counts[key] != head[key] for key in COUNTS):
        is_successes = verdicts == {Verdict.FLIPPED.value}
        selection = Selection.FLIPPED if is_successes else Selection.FILTERED
    arms = tuple(
        _arm(arm, found)
        for arm in head["arms"]
        if (found := [entry for entry in trials if entry["arm"] == arm["label"]])
    )
    kept = {arm.label for arm in arms if arm.control is None}
    return AttackSet(
        hash=content_hash([head, [[item.id, item.hash, item.metadata] for item in items]]),
        source={key: head["source"][key] for key in _SOURCE},
        selection=selection,
        arms=tuple(arm for arm in arms if arm.attack_label in kept),
    )


def _arm(arm: Mapping[str, Any], trials: list[Any]) -> StoredArm:
    queries = list(chain.from_iterable(entry["queries"] for entry in trials))
    fields = {edit["field"] for query in queries for edit in query["edits"]}
    order = sorted({entry["seed"] for entry in trials}, key=lambda seed: (seed is None, seed))
    return StoredArm(
        label=arm["label"],
        control=arm["control"],
        spec=arm["spec"],
        is_blind=bool(arm["is_blind"]),
        changes_evidence=bool(arm["changes_evidence"]),
        fields=tuple(sorted(fields)),
        seeds=tuple(order),
        n_repeats=1 + max(entry["repeat"] for entry in trials),
        most=max(len(entry["queries"]) for entry in trials),
        beside=arm.get("beside"),
        is_probe=bool(arm.get("is_probe")),
    )


def _notes(path: Path, found: AttackSet) -> Iterator[str]:
    if probes := [arm.label for arm in found.arms if arm.is_probe]:
        yield (
            f"{path} holds variants of probes ({', '.join(probes)}) of items that were right "
            f"before: they are asked as an attack's edits are, until one takes the answer, and "
            "accuracy over variants and consistency are not measured; run the probe itself for them"
        )
    if found.selection is Selection.FLIPPED:
        yield (
            f"{path} holds successes against {found.source['victim']} alone: it says which of "
            "these failures another victim repeats, and not which victim is better"
        )
    elif found.selection is Selection.FILTERED:
        yield (
            f"{path} holds fewer trials than {_WRITTEN} wrote, and nobody knows which: it does not "
            "say which victim is better"
        )
