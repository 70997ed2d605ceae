"""Perturbed items as rows, and the files that hold them; medstress can read these files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from medstress.core.clusters import document_of
from medstress.core.errors import UsageError
from medstress.core.items import Edited
from medstress.core.sentences import OUTSIDE
from medstress.datasets.iob import DOCUMENT
from medstress.files.writing import write_text
from medstress.kinds import Kind, kind_of
from medstress.kinds.kind import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedArm:
    """The perturbation of a row."""

    dataset: str
    """The data set's label."""
    attack: str
    """The attack's label."""
    seed: int | None
    """None if the attack uses no random numbers."""
    group: str | None = None
    """Substitutions: the entity group."""
    query: int | None = None
    """Substitutions: number of the draw, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One perturbed item."""

    id: str
    """Id of the original item."""
    values: dict[str, Any]
    """The fields that a reader of its kind needs, without the id."""
    edits: list[dict[str, Any]]
    """The edits, in offsets of the original."""
    arm: PerturbedArm
    """The perturbation."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Other fields of the item."""


def perturbed_row(candidate: Edited, arm: PerturbedArm) -> Row:
    """Return a perturbed item as a row; mentions are left out, because their places have moved."""
    kind = kind_of(candidate.item)
    return Row(
        id=candidate.item.id,
        values=kind.values(candidate),
        edits=[kind.edit_row(edit) for edit in candidate.edits],
        arm=arm,
        metadata=dict(candidate.item.metadata),
    )


def write(rows: Sequence[Row], to: Path, kind: Kind) -> None:
    """Write rows in the layout of the file's extension.

    Raises:
        UsageError: the extension does not suit these items, the layout holds one arm and there are
            several, a text has a tab or a line end, or the file cannot be written.
    """
    layout = kind.layouts.get(to.suffix.lower())
    if layout is None:
        raise UsageError(
            f"--to {to}: the name must end in {' or '.join(kind.layouts)} for {kind.name}"
        )
    lines = list(WRITERS[layout](rows, to))  # all checks come before anything is written
    try:
        write_text(to, "".join(line + "\n" for line in lines))
    except OSError as error:
        raise UsageError(f"cannot write {to}: {error.strerror}; give another --to") from error


def _jsonl(rows: Sequence[Row], _: Path) -> Iterator[str]:
    is_alone = len({row.arm for row in rows}) == 1
    for row in rows:
        arm = {key: value for key, value in asdict(row.arm).items() if value is not None}
        # Ids must be unique in a file, so several perturbations of an item get longer ids.
        identifier = row.id if is_alone else "/".join([row.id, *map(str, arm.values())])
        yield json.dumps(
            {
                **row.metadata,
                "id": identifier,
                **row.values,
                "original_id": row.id,
                **arm,
                "edits": row.edits,
            },
            ensure_ascii=False,
        )


def _iob(rows: Sequence[Row], to: Path) -> Iterator[str]:
    _check_alone(rows, to)
    of_rows = [document_of(row.metadata) for row in rows]
    # Rows without a document come first: every later row belongs to the mark before it.
    order = {name: place for place, name in enumerate(dict.fromkeys([None, *of_rows]))}
    document = None
    for row in sorted(rows, key=lambda row: order[document_of(row.metadata)]):
        values = row.values
        if document_of(row.metadata) != document:
            document = document_of(row.metadata)
            yield from (f"{DOCUMENT}\t{OUTSIDE}", "")
        yield from (f"{t}\t{label}" for t, label in zip(*values.values(), strict=True))
        yield ""


def _pairs(rows: Sequence[Row], to: Path) -> Iterator[str]:
    _check_alone(rows, to)
    yield "id\ttext_a\ttext_b\tscore"
    for row in rows:
        fields = [row.id, *map(str, row.values.values())]
        if any(character in part for part in fields for character in "\t\n\r"):
            raise UsageError(
                f"--to {to}: the texts of item {row.id!r} have a tab or a line end, which a .tsv "
                "file cannot hold; write .jsonl"
            )
        yield "\t".join(fields)


def _check_alone(rows: Sequence[Row], to: Path) -> None:
    arms = list(dict.fromkeys((row.arm.dataset, row.arm.attack, row.arm.seed) for row in rows))
    if len(arms) > 1:
        listed = "; ".join(f"{d}, {a}, seed {s}" for d, a, s in arms[:3])
        raise UsageError(
            f"--to {to}: the file holds one perturbed copy, and there are {len(arms)} "
            f"({listed}{'; ...' if len(arms) > 3 else ''}); select one with "
            "--set experiment.seeds=[0] and --set attack.NAME.use=false, or write .jsonl"
        )


WRITERS: dict[Layout, Callable[[Sequence[Row], Path], Iterator[str]]] = {
    "jsonl": _jsonl,
    "iob": _iob,
    "pairs": _pairs,
}
"""Writer by layout of the file."""
