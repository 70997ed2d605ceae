"""Pairs of texts with a label: JSONL, one object a line.

`text_a`, `text_b`, `label` and, where there is one, `id` (else the pairs are numbered from 1);
`columns = {text_a = "premise"}` names others. Questions about a text: `context` and `question`
instead of the texts. PubMedQA is read as it is published on the hub: `question`, `context` with
`contexts`, `final_decision`, `pubid`; its long answer, which gives the label away, is never shown.
Labels are those that occur in the file, or the list `labels` of a row. Mentions are optional, as
for questions, with the field `text_a` or `text_b`. Further fields become metadata.

Reference: Jin, Dhingra, Liu, Cohen, Lu. PubMedQA: a dataset for biomedical research question
answering. EMNLP 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.items import Mention
from medstress.datasets.pairs import RowOrError, jsonl_rows, raise_error
from medstress.datasets.rows import mentions_of, plain, shown
from medstress.datasets.source import (
    DatasetOptions,
    LoadedTexts,
    check_keys,
    collect,
    hash_files,
    required_file,
    single_columns,
)
from medstress.kinds.nli.item import FIELDS, LabelledPair

_NAMED = ("id", *FIELDS, "label")
"""Fields whose column can be named."""
_OTHERS = ("labels", "mentions")
_ASKING = {"text_a": "context", "text_b": "question"}
_PUBMEDQA = {"id": "pubid", "label": "final_decision"}
_YES_NO_MAYBE = ("yes", "no", "maybe")
_UNKNOWN = "\0"
"""Stands for a second label until all rows are read."""


def load(options: DatasetOptions) -> LoadedTexts:
    """RowOrError labelled pairs from a .jsonl file.

    Raises:
        UsageError: no path, no such file, another ending, an unknown key of `columns`, or a key
            that means nothing here.
        DataError: an empty file, rows of one label alone, or a bad row where `on_bad_row` is
            ``error``.
    """
    check_keys("nli", options, "path", "columns")
    path = required_file("nli", "path", options.path)
    if path.suffix.lower() != ".jsonl":
        raise UsageError(f"dataset 'nli': expected a file .jsonl, got {path}; convert it")
    columns = single_columns(options.columns)
    for name in columns:
        if name not in _NAMED:
            raise UsageError(
                f"columns: expected {', '.join(_NAMED)}, got {name!r}{did_you_mean(name, _NAMED)}"
            )
    numbered = ((place, (n, row)) for n, (place, row) in enumerate(jsonl_rows(path), start=1))

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
    )


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
        asks=names["text_b"] == _ASKING["text_b"],
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
