"""Questions with the forms that others made of them, as an attack set.

An item is the original question, which is asked at baseline. Each of its forms is kept as edits of
the original, under the name of its kind; `[[attack]] name = "frozen"` asks them, so controls,
intervals, validity and ledger are those of every attack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from difflib import SequenceMatcher
from typing import Any

from medstress.core.attack_sets import FIELD, NAME, AttackSet, Selection, StoredArm
from medstress.core.errors import DataError
from medstress.core.items import TEXTS, Question
from medstress.core.text import Edit, token_spans
from medstress.datasets.questions import told
from medstress.datasets.source import Loaded
from medstress.datasets.tables.table import Table

Forms = Mapping[str, Sequence[tuple[Edit, ...]]]
"""Kind of form -> the edits of each form of it."""

PAGE = "docs/other-tools.md"


def edits_between(old: Question, new: Question) -> tuple[Edit, ...]:
    """Return the edits that turn a question into another with as many options.

    Whole words are replaced. Mentions, ids and keys are not compared.

    >>> old = Question(id="1", stem="Is aspirin safe?", options=("yes", "no"), key="A")
    >>> new = replace(old, stem="Is Bayer safe?")
    >>> [(e.field, e.start, e.end, e.replacement) for e in edits_between(old, new)]
    [('stem', 3, 10, 'Bayer')]
    """
    fields = (*TEXTS, *old.letters)
    return tuple(
        edit for field in fields for edit in _edits(field, old.text_of(field), new.text_of(field))
    )


def _edits(field: str, old: str, new: str) -> Iterator[Edit]:
    if old == new:
        return
    ours, theirs = _pieces(old), _pieces(new)
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    places = [0]
    for piece in ours:
        places.append(places[-1] + len(piece))
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag != "equal":
            text = "".join(theirs[start:end])
            yield Edit(field=field, start=places[first], end=places[last], replacement=text)


def _pieces(text: str) -> list[str]:
    """Return tokens and the white space between them, which join to the text."""
    pieces, at = [], 0
    for start, end in token_spans(text):
        pieces += [text[at:start], text[start:end]] if start > at else [text[start:end]]
        at = end
    return [*pieces, text[at:]] if at < len(text) else pieces


def put_before(item: Question, text: str) -> tuple[Edit, ...]:
    """Return the edit that puts a text before everything else that the question says."""
    ending = "\n" if item.context else ""
    return (Edit(field="context", start=0, end=0, replacement=f"{text.strip()}{ending}"),)


def with_forms(item: Question, forms: Forms) -> Question:
    """Return a question with its forms; forms that change nothing are left out."""
    entries = [
        {"arm": kind, "seed": None, "repeat": 0, "queries": [{"edits": _rows(e)} for e in kept]}
        for kind, each in forms.items()
        if (kept := list(dict.fromkeys(filter(None, each))))
    ]
    return replace(item, metadata={**item.metadata, FIELD: entries}) if entries else item


def _rows(edits: Iterable[Edit]) -> list[dict[str, Any]]:
    return [asdict(edit) for edit in edits]


def given_set(
    name: str, table: Table, questions: Sequence[Question], source_hash: str, **more: Any
) -> Loaded:
    """Return the questions of a file with the attack set that their forms are.

    Args:
        name: of the data set.
        table: the file's rows.
        questions: with forms.
        source_hash: of the file, or of several.
        more: further fields of `Loaded`.

    Raises:
        DataError: no question has a form.
    """
    entries = [entry for item in questions for entry in item.metadata.get(FIELD, ())]
    if not entries:
        raise DataError(
            f"{table.path}: no question has a form that differs from it, so there is nothing to "
            f"ask; see {PAGE} for what {name} reads"
        )
    kinds = dict.fromkeys(entry["arm"] for entry in entries)
    lone = sum(FIELD not in item.metadata for item in questions)
    notes = [f"{name}: who chose these items, and by whose answers, is not known here"]
    if lone:
        notes.append(f"{name}: questions without a form, which cannot be attacked: {lone}")
    n = sum(len(entry["queries"]) for entry in entries)
    return Loaded(
        questions=tuple(questions),
        source_hash=source_hash,
        understood=told(table, len(questions), f"{n:,} forms of theirs ({', '.join(kinds)})"),
        attack_set=AttackSet(
            hash=source_hash,
            source=_nobody(name),
            selection=Selection.GIVEN,
            arms=tuple(_arm(name, kind, entries) for kind in kinds),
        ),
        **{"skipped": (), **more, "notes": (*notes, *more.get("notes", ()))},
    )


def _nobody(name: str) -> dict[str, Any]:
    """Return the source of a set that no run of ours made."""
    return {
        "experiment": name,
        "fingerprint": "",
        "started": "",
        "victim": name,
        "model": "",
        "model_hash": "",
    }


def _arm(name: str, kind: str, entries: Iterable[Mapping[str, Any]]) -> StoredArm:
    own = [entry["queries"] for entry in entries if entry["arm"] == kind]
    fields = {edit["field"] for queries in own for query in queries for edit in query["edits"]}
    edits = (edit for queries in own for query in queries for edit in query["edits"])
    inserts = all(edit["start"] == edit["end"] and edit["field"] in TEXTS for edit in edits)
    return StoredArm(
        label=kind,
        control=None,
        spec={"name": NAME, "given": name, "form": kind},
        is_blind=True,
        changes_evidence=False,
        fields=tuple(sorted(fields)),
        seeds=(None,),
        n_repeats=1,
        most=max(map(len, own)),
        beside="neutral_insertion" if inserts else None,
    )


def check_columns(
    name: str, table: Table, needed: Sequence[str], among: Mapping[str, Sequence[str]]
) -> None:
    """Check that a file has the columns of a known set.

    Args:
        name: of the data set.
        table: its rows.
        needed: columns that all rows have.
        among: what a group of columns is called -> columns of which one is needed.

    Raises:
        DataError: a column is missing; says which and which there are.
    """
    rows = [row for _, row in table.rows if isinstance(row, dict)]
    known = dict.fromkeys(column for row in rows[:100] for column in row)
    lack = [repr(column) for column in needed if column not in known]
    lack += [what for what, group in among.items() if not any(c in known for c in group)]
    if lack:
        raise DataError(
            f"{table.path}: expected the columns of {name}, got none for {', '.join(lack)} (it has "
            f"{', '.join(map(str, known)) or 'none'}); another version of the set may name them "
            f"otherwise: {PAGE} lists what is read"
        )
