"""Entity spans of answer options, as Xian et al. published them for MedQA and MedMCQA.

The file is a JSON list with one record per question, ``{letter: {"text": [...], "labels": [...],
"boundaries": [[start, end], ...]}}``. The three lists are parallel: labels are UMLS semantic type
identifiers or ``""``, boundaries are character offsets into the option's text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medstress.core.errors import DataError
from medstress.core.items import Mention, Question
from medstress.core.text import cut_word
from medstress.datasets.source import required_file
from medstress.datasets.values import shown
from medstress.files.bounded import read_json_data

_LISTS = ("text", "labels", "boundaries")


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """The records of one annotation file."""

    path: Path
    """The annotation file."""
    records: list[Any]
    """One per question, not validated yet."""
    cut: list[str] = field(default_factory=list)
    """The word that each rejected span cuts; `mentions` adds to it."""

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence about rejected spans; empty if there are none."""
        if not self.cut:
            return ()
        n, first = len(self.cut), self.cut[0]
        return (f"{self.path}: skipped spans that cut a word: {n}; the first word is {first!r}",)

    def mentions(self, item: Question, position: int) -> tuple[Mention, ...]:
        """Return the item's mentions and the spans of record `position` (from 0), no duplicates.

        Spans that begin or end inside a word are skipped and counted. The published file cannot be
        fixed, and one bad span is no reason to reject thousands of good ones.

        Raises:
            DataError: the record is malformed or does not match the options.
        """
        where = f"annotations {self.path}, record {position + 1}"
        record = self.records[position]
        if not isinstance(record, Mapping):
            raise DataError(f"{where}: expected an object keyed by letter, got {shown(record)}")
        spans: list[Mention] = []
        for letter in sorted(record):
            if letter not in tuple(item.letters):
                raise DataError(
                    f"{where}: expected a letter among {', '.join(item.letters)}, got {letter!r}"
                )
            text = item.option(letter)
            for span in _spans(record[letter], letter, text, f"{where}, option {letter}"):
                word = cut_word(text, span.start, span.end)
                if word is None:
                    spans.append(span)
                else:
                    self.cut.append(word)
        return tuple(dict.fromkeys((*item.mentions, *spans)))


def read_annotations(source: str, path: Path) -> Annotations:
    """Read an annotation file.

    Raises:
        UsageError: the file does not exist.
        DataError: the file is not a JSON list.
    """
    required_file(source, "annotations", path)
    records = read_json_data(path, "a JSON list")
    if not isinstance(records, list):
        raise DataError(f"{path}: expected a JSON list, got {shown(records)}")
    return Annotations(path=path, records=records)


def _spans(entry: Any, letter: str, option: str, where: str) -> list[Mention]:
    lists = [entry.get(name) if isinstance(entry, Mapping) else None for name in _LISTS]
    if not all(isinstance(part, list) for part in lists):
        raise DataError(
            f"{where}: expected the lists 'text', 'labels', 'boundaries', got {shown(entry)}"
        )
    texts, labels, boundaries = (part or [] for part in lists)
    if not len(texts) == len(labels) == len(boundaries):
        raise DataError(
            f"{where}: expected three lists of the same length, got {len(texts)}, {len(labels)} "
            f"and {len(boundaries)}"
        )
    rows = zip(texts, labels, boundaries, strict=True)
    return [_span(text, label, pair, letter, option, where) for text, label, pair in rows]


def _span(text: Any, label: Any, pair: Any, letter: str, option: str, where: str) -> Mention:
    if not isinstance(label, str):
        raise DataError(f"{where}: expected a type identifier or '', got {shown(label)}")
    match pair:
        case [int(start), int(end)] if 0 <= start < end <= len(option):
            if option[start:end] != text:
                raise DataError(
                    f"{where}: expected {text!r} at [{start}, {end}), got {option[start:end]!r}"
                )
            return Mention(field=letter, start=start, end=end, type=label)
    raise DataError(
        f"{where}: expected boundaries [start, end] within the {len(option)} characters of the "
        f"option, got {shown(pair)}"
    )
