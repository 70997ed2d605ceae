"""Perturbed items as rows, and the files they are written to: medstress reads them back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from medstress.attacks.noise import Perturbed
from medstress.attacks.protocol import PAIRS, QUESTIONS, TAGGED
from medstress.clusters import document_of
from medstress.datasets.iob import DOCUMENT
from medstress.errors import UsageError
from medstress.items import Candidate
from medstress.sentences import OUTSIDE, SentencePair, TaggedText
from medstress.text import Edit
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


def tagged_row(item: TaggedText, perturbed: Perturbed, arm: Arm) -> Row:
    """A perturbed tagged text."""
    return Row(
        id=item.id,
        values={"tokens": list(perturbed.tokens), "labels": list(perturbed.labels)},
        edits=[{**asdict(edit), "replacement": list(edit.replacement)} for edit in perturbed.edits],
        arm=arm,
        metadata=dict(item.metadata),
    )


def pair_row(pair: SentencePair, edits: Sequence[Edit], arm: Arm) -> Row:
    """A perturbed sentence pair."""
    return Row(
        id=pair.id,
        values={"text_a": pair.text_a, "text_b": pair.text_b, "score": pair.score},
        edits=[asdict(edit) for edit in edits],
        arm=arm,
        metadata=dict(pair.metadata),
    )


def question_row(candidate: Candidate, arm: Arm) -> Row:
    """A perturbed question; its mentions are left out, as their places have moved."""
    item = candidate.item
    return Row(
        id=item.id,
        values={
            "context": candidate.context,
            "stem": candidate.stem,
            "options": dict(zip(item.letters, candidate.options, strict=True)),
            "answer_idx": item.key,
        },
        edits=[asdict(edit) for edit in candidate.edits],
        arm=arm,
        metadata=dict(item.metadata),
    )


def write(rows: Sequence[Row], to: Path, kind: str) -> None:
    """Write rows in the layout that the name's ending says.

    Raises:
        UsageError: an ending that cannot hold these items, several arms for a file that cannot
            tell them apart, a text with a tab or a line end, or a file that cannot be written.
    """
    writer = WRITERS[kind].get(to.suffix.lower())
    if writer is None:
        raise UsageError(f"--to {to}: the name must end in {' or '.join(WRITERS[kind])} for {kind}")
    lines = list(writer(rows, to))  # all refusals come before anything is written
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


WRITERS: dict[str, dict[str, Callable[[Sequence[Row], Path], Iterator[str]]]] = {
    TAGGED: {".jsonl": _jsonl, ".tsv": _iob, ".iob": _iob, ".conll": _iob},
    PAIRS: {".jsonl": _jsonl, ".tsv": _pairs},
    QUESTIONS: {".jsonl": _jsonl},
}
"""By kind of items and ending of the file's name."""
