"""Pairs of texts with a label: JSONL, one object a line, or another table.

`text_a`, `text_b`, `label` and, where there is one, `id` (else the pairs are numbered from 1);
`columns = {text_a = "premise"}` names others. Questions about a text: `context` and `question`
instead of the texts. PubMedQA is read as it is published: on the hub (`question`, `context` with
`contexts`, `final_decision`, `pubid`) or as one JSON object by PubMed id (`QUESTION`, `CONTEXTS`);
its long answer, which gives the label away, is never shown. Other usual names (`premise`,
`hypothesis`, `sentence1`, `gold_label`) are recognised where the file has none of these.
Labels are those that occur in the file, or the list `labels` of a row. Mentions are optional, as
for questions, with the field `text_a` or `text_b`. Further fields become metadata.

Reference: Jin, Dhingra, Liu, Cohen, Lu. PubMedQA: a dataset for biomedical research question
answering. EMNLP 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.items import Mention
from medstress.datasets.forms.naming import called, columns_of
from medstress.datasets.rows import mentions_of
from medstress.datasets.source import (
    DatasetOptions,
    LoadedTexts,
    check_keys,
    collect,
    hash_files,
    required_file,
    single_columns,
)
from medstress.datasets.tables.columnar import is_saved, with_names
from medstress.datasets.tables.parts import parts_of
from medstress.datasets.tables.reading import ENDINGS, read_table
from medstress.datasets.tables.table import Row, RowOrError, Table, raise_error
from medstress.datasets.values import plain, shown
from medstress.kinds.nli.item import FIELDS, LabelledPair

_NAMED = ("id", *FIELDS, "label")
"""Fields whose column can be named."""
_OTHERS = ("labels", "mentions")
_ASKING = {"text_a": "context", "text_b": "question"}
_PUBMEDQA = {"id": "pubid", "label": "final_decision"}
_YES_NO_MAYBE = ("yes", "no", "maybe")
_PUBLISHED = {"text_a": "CONTEXTS", "text_b": "QUESTION", "label": "final_decision", "id": "id"}
_USUAL = {
    "id": ("id", "pairid", "uid", "guid"),
    "text_a": ("texta", "premise", "sentence1", "text1"),
    "text_b": ("textb", "hypothesis", "sentence2", "text2"),
    "label": ("label", "goldlabel"),
}
"""Field -> names it goes by, as `plain_name` writes them."""
_UNKNOWN = "\0"
"""Stands for a second label until all rows are read."""


def load(options: DatasetOptions) -> LoadedTexts:
    """Read labelled pairs from a file of rows.

    Raises:
        UsageError: no path, no such file, another ending, an unknown key of `columns`, or a key
            that means nothing here.
        DataError: an empty file, rows of one label alone, or a bad row where `on_bad_row` is
            ``error``.
    """
    check_keys("nli", options, "path", "columns", "encoding", "sheet")
    if options.path is None or not (is_saved(options.path) or parts_of(options.path)):
        required_file("nli", "path", options.path)
    path = options.path or Path()
    if path.suffix.lower() not in ENDINGS and not path.is_dir():
        raise UsageError(
            f"dataset 'nli': expected a file {' or '.join(ENDINGS)}, got {path}; convert it"
        )
    return read_labelled(read_table(path, encoding=options.encoding, sheet=options.sheet), options)


def read_labelled(table: Table, options: DatasetOptions) -> LoadedTexts:
    """Turn the rows of a table into labelled pairs; see `load`."""
    path, columns = table.path, single_columns(options.columns)
    for name in columns:
        if name not in _NAMED:
            raise UsageError(
                f"columns: expected {', '.join(_NAMED)}, got {name!r}{did_you_mean(name, _NAMED)}"
            )
    rows = [
        (place, with_names([row], table.names)[0] if isinstance(row, dict) else row)
        for place, row in table.rows
    ]
    _check_answered(path, [row for _, row in rows if isinstance(row, dict)], columns)
    recognised = _recognised([row for _, row in rows if isinstance(row, dict)])
    columns = {**recognised, **columns}
    numbered = ((place, (n, row)) for n, (place, row) in enumerate(rows, start=1))

    def convert(given: tuple[int, RowOrError]) -> LabelledPair:
        number, row = given
        return pair_from_row(raise_error(row), columns, str(number))

    items, skipped = collect(path, numbered, convert, options.on_bad_row)
    labels = _labels(items)
    if len(labels) < 2:
        raise DataError(
            f"{path}: all labels are {labels[0]!r}; give a file with several, or name them in the "
            'rows: "labels": ["...", "..."]'
        )
    return LoadedTexts(
        items=tuple(replace(item, labels=labels) for item in items),
        skipped=skipped,
        source_hash=hash_files(path),
        understood=_told(table, len(items), columns),
    )


def _check_answered(path: Path, rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    """Refuse PubMedQA where it is published without labels."""
    found = set(columns_of(rows))
    is_pubmedqa = {"QUESTION", "CONTEXTS"} <= found or {"pubid", "question", "context"} <= found
    if is_pubmedqa and "label" not in columns and not {"label", "final_decision"} & found:
        raise DataError(
            f"{path}: expected the field 'final_decision', got {', '.join(columns_of(rows))}: this "
            "split is published without answers; take one with labels, such as pqa_labeled"
        )


def _recognised(rows: Sequence[Row]) -> dict[str, str]:
    """Return the columns of a file that has none of the documented names; else nothing."""
    found = columns_of(rows)
    if {"QUESTION", "CONTEXTS", "final_decision"} <= set(found):
        return {name: own for name, own in _PUBLISHED.items() if own in found}
    if not rows or "question" in found or {"text_a", "text_b"} & set(found):
        return {}
    usual = {name: called(found, names) for name, names in _USUAL.items()}
    return {name: columns[0] for name, columns in usual.items() if len(columns) == 1}


def _told(table: Table, n: int, columns: Mapping[str, str]) -> str:
    """Return what was understood, in one line."""
    row = next(row for _, row in table.rows if isinstance(row, dict))
    how = f" ({table.told})" if table.told else ""
    found = _names(row, columns).items()
    names = ", ".join(f"{name} in {own!r}" for name, own in found if name != "id" or own in row)
    return f"{table.path.name}{how}: {n:,} labelled pair{'s' * (n != 1)}; {names}"


def pair_from_row(
    row: Mapping[str, Any], columns: Mapping[str, str], default_id: str
) -> LabelledPair:
    """Turn one row into a pair that knows its own label alone, or those that the row lists.

    Raises:
        DataError: naming the field, what was expected and what came, but not the file or line.

    >>> row = {"question": "Does it help?", "context": {"contexts": ["It", "does."]},
    ...        "final_decision": "yes", "pubid": 7}
    >>> pair = pair_from_row(row, {}, "1")
    >>> pair.id, pair.text_a, pair.label, pair.labels
    ('7', 'It does.', 'yes', ('yes', 'no', 'maybe'))
    """
    names = _names(row, columns)
    texts = [_text(row, names[name]) for name in FIELDS]
    label = row.get(names["label"])
    if not isinstance(label, str) or not label.strip():
        raise DataError(f"field {names['label']!r}: expected a label, got {shown(label)}")
    identifier = row.get(names["id"])
    used = {*names.values(), *_OTHERS}
    return LabelledPair(
        id=default_id if identifier is None else str(identifier),
        text_a=texts[0],
        text_b=texts[1],
        label=label,
        labels=_listed(row, label, names),
        asks=names["text_b"] in (_ASKING["text_b"], _PUBLISHED["text_b"]),
        mentions=_mentions(row),
        metadata={k: plain(v) for k, v in row.items() if k not in used},
    )


def _names(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, str]:
    """The row's name of each field."""
    names = {name: name for name in _NAMED}
    if "question" in row and "text_b" not in row and "text_b" not in columns:
        names |= _ASKING
        if "final_decision" in row:
            names |= _PUBMEDQA
    return {**names, **columns}


def _text(row: Mapping[str, Any], name: str) -> str:
    """A text; of PubMedQA's parts of an abstract all, one after the other."""
    value = row.get(name)
    if isinstance(value, Mapping):
        value = value.get("contexts")
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        value = " ".join(value)
    if not isinstance(value, str):
        hint = did_you_mean(name, [key for key in row if isinstance(row[key], str)])
        raise DataError(
            f"field {name!r}: expected a text, got {shown(row.get(name))}{hint}; name the column "
            'with columns = {text_a = "..."}'
        )
    return value


def _listed(row: Mapping[str, Any], label: str, names: Mapping[str, str]) -> tuple[str, ...]:
    listed = row.get("labels")
    if listed is None:
        return _YES_NO_MAYBE if names["label"] == "final_decision" else (label, _UNKNOWN)
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise DataError(f"field 'labels': expected a list of labels, got {shown(listed)}")
    return tuple(listed)


def _mentions(row: Mapping[str, Any]) -> tuple[Mention, ...]:
    back = {theirs: ours for ours, theirs in _ASKING.items()}
    return tuple(replace(m, field=back.get(m.field, m.field)) for m in mentions_of(row))


def _labels(items: tuple[LabelledPair, ...]) -> tuple[str, ...]:
    """All labels: in the order in which rows list them, else sorted."""
    listed = dict.fromkeys(x for item in items for x in item.labels if _UNKNOWN not in item.labels)
    found = {item.label for item in items}
    return (*listed, *sorted(found - set(listed)))
