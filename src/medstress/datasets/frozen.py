"""Read what `medstress freeze` wrote: questions with the edits that a run asked about them.

The first line describes the file. Each further line is a question in the format of all sources,
with `item_hash` and `frozen`: its stored trials, each with `arm`, `seed`, `repeat`, `verdict` and
its `queries`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from medstress.core.attack_sets import (
    FIELD,
    FORMAT,
    LOGS,
    NAME,
    AttackSet,
    Selection,
    StoredArm,
)
from medstress.core.controls import CONTROLS
from medstress.core.errors import DataError
from medstress.core.hashing import content_hash
from medstress.core.items import FOLLOW_UP, TEXTS, Candidate, Question
from medstress.core.outcomes import Verdict
from medstress.core.text import Edit
from medstress.datasets.rows import question_from_row
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    collect,
    hash_files,
    required_file,
)
from medstress.datasets.tables.objects import jsonl_lines, parse_line
from medstress.datasets.values import shown

COUNTS = ("n_items", "n_trials", "n_queries")
"""What the first line counts."""
_SOURCE = ("experiment", "fingerprint", "started", "victim", "model", "model_hash")
_ARM = ("label", "control", "spec", "is_blind", "changes_evidence")


def load(options: DatasetOptions) -> Loaded:
    """Read a file of frozen attacks.

    Raises:
        UsageError: no path, a missing file, or a key that does not apply.
        DataError: the file is not what `medstress freeze` writes; names line and field.
    """
    check_keys(NAME, options, "path")
    path = required_file(NAME, "path", options.path)
    lines = jsonl_lines(path)
    head = _head(path, next(lines, None))
    labels = {arm["label"] for arm in head["arms"]}
    questions, skipped = collect(
        path,
        lines,
        lambda line: _question(parse_line(line), labels, is_judged="given" not in head),
        options.on_bad_row,
    )
    source_hash = hash_files(path)
    found = _set(head, questions, source_hash)
    return Loaded(
        questions=questions,
        skipped=skipped,
        source_hash=source_hash,
        notes=tuple(_notes(path, found)),
        attack_set=found,
    )


def _head(path: Path, first: tuple[str, bytes] | None) -> dict[str, Any]:
    """Read the first line.

    Raises:
        DataError: it is another; says how such a file is made.
    """
    try:
        head = parse_line(first[1]) if first else {}
    except DataError:
        head = {}
    if FIELD not in head or "arms" not in head:
        raise DataError(
            f"{path}: expected a first line that describes the frozen attacks, got none; write the "
            'file with medstress freeze, or read plain questions with name = "jsonl"'
        )
    if head[FIELD] != FORMAT:
        raise DataError(
            f"{path}, line 1: expected format {FORMAT} of frozen attacks, got {head[FIELD]!r}; use "
            "the version of medstress that wrote it"
        )
    arms, source = head["arms"], head.get("source")
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
            f"{path}, line 1: expected 'arms', 'source' and {', '.join(map(repr, COUNTS))} as "
            "medstress freeze writes them; write the file again"
        )
    return head


def _question(row: dict[str, Any], labels: Iterable[str], *, is_judged: bool) -> Question:
    """Turn a row into a question whose metadata holds its stored trials.

    Without verdicts and trials, where nobody's run made the edits, a row is a plain question.

    Raises:
        DataError: the question was changed since, or an edit does not fit it.
    """
    claimed, entries = row.pop("item_hash", None), row.get(FIELD)
    item = question_from_row(row)
    if not is_judged and entries is None:
        return item
    if claimed != item.hash:
        raise DataError(
            "field 'item_hash': the question is not the one that was attacked, so its edits may "
            "not fit; write the file again with medstress freeze"
        )
    if not isinstance(entries, list) or not entries:
        raise DataError(f"field {FIELD!r}: expected a list of trials, got {shown(entries)}")
    places = set()
    for n, entry in enumerate(entries, 1):
        where = f"field {FIELD!r}, trial {n}"
        _check_entry(item, entry, labels, where, is_judged=is_judged)
        place = (entry["arm"], entry["seed"], entry["repeat"])
        if place in places:
            raise DataError(f"{where}: arm {place[0]!r}, seed {place[1]} stands there twice")
        places.add(place)
    return item


def _check_entry(
    item: Question, entry: Any, labels: Iterable[str], where: str, *, is_judged: bool
) -> None:
    if not isinstance(entry, Mapping):
        raise DataError(f"{where}: expected an object, got {shown(entry)}")
    arm = entry.get("arm")
    if not isinstance(arm, str) or arm not in labels:
        raise DataError(f"{where}: expected an arm of line 1, got {shown(arm)}")
    seed, repeat = entry.get("seed"), entry.get("repeat")
    if not (seed is None or type(seed) is int) or type(repeat) is not int or repeat < 0:
        raise DataError(f"{where}: expected 'seed' and 'repeat' as whole numbers")
    if is_judged and entry.get("verdict") not in [each.value for each in Verdict]:
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


def _set(head: Mapping[str, Any], items: Iterable[Question], file_hash: str) -> AttackSet:
    trials = [entry for item in items for entry in item.metadata.get(FIELD, ())]
    counts = {
        "n_items": sum(1 for _ in items),
        "n_trials": len(trials),
        "n_queries": sum(len(entry["queries"]) for entry in trials),
    }
    controls = {arm["label"] for arm in head["arms"] if arm["control"] is not None}
    verdicts = {entry.get("verdict") for entry in trials if entry["arm"] not in controls}
    selection = Selection.GIVEN if "given" in head else Selection.ALL
    if "given" not in head and any(counts[key] != head[key] for key in COUNTS):
        is_successes = verdicts == {Verdict.FLIPPED.value}
        selection = Selection.FLIPPED if is_successes else Selection.FILTERED
    arms = tuple(
        _arm(arm, found)
        for arm in head["arms"]
        if (found := [entry for entry in trials if entry["arm"] == arm["label"]])
    )
    kept = {arm.label for arm in arms if arm.control is None}
    if head.get("given") == LOGS:
        # Metadata and order differ from tool to tool; questions and forms are the set.
        forms = [
            [item.hash, sorted(item.metadata.get(FIELD, ()), key=lambda entry: entry["arm"])]
            for item in sorted(items, key=lambda item: item.hash)
        ]
        file_hash = content_hash(forms)
    return AttackSet(
        hash=file_hash,
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


def _notes(path: Path, found: AttackSet) -> Iterable[str]:
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
    elif found.selection is Selection.GIVEN and found.source["model_hash"]:
        yield (
            f"{path} holds names that succeeded against {found.source['victim']} on other items; "
            f"its items are those that {found.source['victim']} answered right"
        )
    elif found.selection is Selection.FILTERED:
        yield (
            f"{path} holds fewer trials than medstress freeze wrote, and nobody knows which: it "
            "does not say which victim is better"
        )
