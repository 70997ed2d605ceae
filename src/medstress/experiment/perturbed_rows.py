"""Perturbed items as rows, and the files they are written to: medstress reads them back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from medstress.clusters import document_of
from medstress.datasets.iob import DOCUMENT
from medstress.errors import UsageError
from medstress.items import Edited
from medstress.kinds import Kind, kind_of
from medstress.kinds.kind import Layout
from medstress.sentences import OUTSIDE
from medstress.writing import write_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Which perturbation a row is of."""

    dataset: str
    """The data set's label."""
    attack: str
    """The attack's label."""
    seed: int | None
    """None where the attack draws nothing."""
    group: str | None = None
    """The entity group, of substitutions."""
    query: int | None = None
    """Which draw, from 1, of substitutions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One perturbed item."""

    id: str
    """The original item's."""
    values: dict[str, Any]
    """The fields that a reader of its kind needs, without the id."""
    edits: list[dict[str, Any]]
    """What was changed, in offsets of the original."""
    arm: Arm
    """Which perturbation."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """The item's further fields."""


def perturbed_row(candidate: Edited, arm: Arm) -> Row:
    """A perturbed item; mentions are left out, as their places have moved."""
    kind = kind_of(candidate.item)
    return Row(
        id=candidate.item.id,
        values=kind.values(candidate),
        edits=[kind.edit_row(edit) for edit in candidate.edits],
        arm=arm,
        metadata=dict(candidate.item.metadata),
    )


def write(rows: Sequence[Row], to: Path, kind: Kind) -> None:
    """Write rows in the layout that the name's ending says.

    Raises:
        UsageError: an ending that cannot hold these items, several arms for a file that cannot
            tell them apart, a text with a tab or a line end, or a file that cannot be written.
    """
    layout = kind.layouts.get(to.suffix.lower())
    if layout is None:
        raise UsageError(
            f"--to {to}: the name must end in {' or '.join(kind.layouts)} for {kind.name}"
        )
    lines = list(WRITERS[layout](rows, to))  # all refusals come before anything is written
    try:
        write_text(to, "".join(line + "\n" for line in lines))
    except OSError as error:
        raise UsageError(f"cannot write {to}: {error.strerror}; give another --to") from error


def _jsonl(rows: Sequence[Row], _: Path) -> Iterator[str]:
    is_alone = len({row.arm for row in rows}) == 1
    for row in rows:
        arm = {key: value for key, value in asdict(row.arm).items() if value is not None}
        # Several perturbations of an item would share its id, which must be unique in a file.
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
    # Only what stands before every mark belongs to no document.
    places = {name: place for place, name in enumerate(dict.fromkeys([None, *of_rows]))}
    document = None
    for row in sorted(rows, key=lambda row: places[document_of(row.metadata)]):
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
                f"--to {to}: the texts of item {row.id!r} hold a tab or a line end, which a .tsv "
                "file cannot; write .jsonl"
            )
        yield "\t".join(fields)


def _check_alone(rows: Sequence[Row], to: Path) -> None:
    arms = list(dict.fromkeys((row.arm.dataset, row.arm.attack, row.arm.seed) for row in rows))
    if len(arms) > 1:
        told = "; ".join(f"{d}, {a}, seed {s}" for d, a, s in arms[:3])
        raise UsageError(
            f"--to {to}: {len(arms)} perturbed copies ({told}{'; ...' if len(arms) > 3 else ''}) "
            "and a place for one; take one with --set experiment.seeds=[0] and --set "
            "attack.NAME.use=false, or write .jsonl"
        )


WRITERS: dict[Layout, Callable[[Sequence[Row], Path], Iterator[str]]] = {
    "jsonl": _jsonl,
    "iob": _iob,
    "pairs": _pairs,
}
"""By layout of the file."""
