"""Data sets under names of their own: the sample, MedQA-USMLE, MedMCQA, BC5CDR and BIOSSES.

The sample comes with medstress. MedQA (jind11/MedQA) and MedMCQA (medmcqa/medmcqa) are MIT; the
typed subset of MedMCQA and the entity spans of both come from the project qstab (RealPolitiX/qstab,
CC BY-NC-ND 4.0). medstress ships none of these.

BC5CDR: 1,500 PubMed abstracts with chemicals and diseases, 500 each for train, devel and test.
`path` is a PubTator file, an IOB file, or a folder in which the names of files tell the splits
(`train.txt`, `CDR_TestSet.PubTator.txt`, `devel.tsv`). Of a folder with both, PubTator is read,
which names the abstract of each sentence. Its tokens are those of the IOB files, its sentences
nearly so (4,552 instead of 4,560 in train). `hub` takes any layout that the module `hub` reads.
Splits joined by a plus (`train+devel`) are read one after the other; ids and documents then begin
with the name of the split.

BIOSSES: 100 pairs of biomedical sentences with the mean similarity of five annotators, 0 to 4.
There is no official split. With `split`, a hash of their ids divides the pairs 64 / 16 / 20 into
train, dev and test (other work shares the sizes only); `all` takes all of them, as does leaving the
key out. `path` is a table with `pair_id`, `sentence1`, `sentence2`, `mean_score`.

References:
    Jin, Pan, Oufattole, Weng, Fang, Szolovits. What Disease does this Patient Have? A Large-scale
    Open Domain Question Answering Dataset from Medical Exams. Applied Sciences 11(14), 2021.
    Pal, Umapathi, Sankarasubbu. MedMCQA: A Large-scale Multi-Subject Multi-Choice Dataset for
    Medical domain Question Answering. CHIL 2022.
    Xian et al. TMLR 2025, arXiv 2402.10527: the typed subset, the spans and their use.
    Li, Sun, Johnson, Sciaky, Wei, Leaman, Davis, Mattingly, Wiegers, Lu. BioCreative V CDR task
    corpus: a resource for chemical disease relation extraction. Database, 2016.
    Soğancıoğlu, Öztürk, Özgür. BIOSSES: a semantic sentence similarity estimation system for the
    biomedical domain. Bioinformatics 33(14), 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.hashing import content_hash, digest
from medstress.core.items import Mention, Question
from medstress.core.reading import read_data, read_json_data
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.tables import parse_line, read_table, shown
from medstress.core.text import cut_word
from medstress.datasets.hub import choose_file, read_hub
from medstress.datasets.questions import question_from_row, read_questions
from medstress.datasets.sentences import read_iob, read_pairs
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    collect,
    hash_files,
    refuse_other_formats,
    required_file,
)
from medstress.datasets.standoff import is_pubtator, read_pubtator

_DATA = resources.files("medstress.datasets").joinpath("data")
SAMPLE = {
    "questions": _DATA.joinpath("sample.jsonl"),
    "vignettes": _DATA.joinpath("vignettes.jsonl"),
}
"""Part of the sample -> its file."""


def load_sample(options: DatasetOptions) -> Loaded:
    """Read a part of the shipped sample; the metadata of its items has `source` and `topic`.

    Args:
        options: `sample` names the part: 200 short `questions`, each with a passage, or 24
            `vignettes` of a patient each. No clinician has reviewed either.

    Raises:
        UsageError: a key is given that the sample does not accept.
    """
    check_keys("sample", options, "sample")
    with resources.as_file(SAMPLE[options.sample]) as path:
        lines = enumerate(read_data(path).splitlines(), start=1)
        rows = ((f"line {n}", line) for n, line in lines)
        questions, skipped = collect(
            path, rows, lambda line: question_from_row(parse_line(line)), options.on_bad_row
        )
        return Loaded(
            items=questions,
            skipped=skipped,
            source_hash=hash_files(path),
            has_optional_passages=options.sample == "questions",
        )


# -- MedQA ---------------------------------------------------------------------------------------


def load_medqa(options: DatasetOptions) -> Loaded:
    """Read MedQA as JSONL or in another format of questions, with four or five options.

    The files do not name their split, so `split` does; it becomes metadata. With annotations, a
    row's `train_index` is the position of its record; rows without one get no spans.

    Raises:
        UsageError: no path, a missing file, an unknown split, or annotations for dev or test.
        DataError: an empty file, annotations that match no row, or a bad row, if `on_bad_row` is
            ``error``.
    """
    check_keys("medqa", options, "path", "annotations", "split")
    split, splits = options.split, ("train", "dev", "test")
    if split not in (None, *splits):
        raise UsageError(
            f"dataset 'medqa': expected a split among {', '.join(splits)}, got {split!r}"
            f"{did_you_mean(str(split), splits)}"
        )
    if options.annotations and split in ("dev", "test"):
        raise UsageError(
            f"dataset 'medqa': annotations exist for the train split only, got split {split!r}"
        )
    path = required_file("medqa", "path", options.path)
    spans = read_annotations("medqa", options.annotations) if options.annotations else None

    def finish(_: int, item: Question) -> Question:
        if split is not None:
            item = replace(item, metadata={**item.metadata, "split": split})
        position = item.metadata.get("train_index")
        if spans is None or position is None:
            return item
        last = len(spans.records) - 1
        if type(position) is int and 0 <= position <= last:
            return item.with_mentions(spans.mentions(item, position))
        raise DataError(
            f"field 'train_index': expected a position from 0 to {last} in {spans.path}, got "
            f"{shown(position)}"
        )

    loaded = read_questions(read_table(path), options, finish)
    if spans and all(item.metadata.get("train_index") is None for item in loaded.items):
        raise DataError(
            f"{path}: expected rows with 'train_index', the position in {spans.path}, got none; "
            "leave the annotations out, since they exist for the train split only"
        )
    return spans.noted(loaded, path) if spans else loaded


# -- MedMCQA -------------------------------------------------------------------------------------


def load_medmcqa(options: DatasetOptions) -> Loaded:
    """Read MedMCQA, or its typed subset, with the spans of its options if annotations are given.

    The original files and those of the hub have `opa` to `opd` and `cop`. The typed subset is a
    parquet file of the train split, and a JSON file with the spans of its distractors.
    `columns = {passage = "reference"}` makes the explanations passages (`exp` in the original).

    Raises:
        UsageError: no path, a missing file, or annotations for another split than train.
        DataError: annotations of another length, or a bad row, if `on_bad_row` is ``error``.
    """
    check_keys("medmcqa", options, "path", "annotations", "split", "columns", "answer_base")
    path = required_file("medmcqa", "path", options.path)
    table = read_table(path)
    if options.annotations is None:
        return read_questions(table, options)
    if options.split not in (None, "train"):
        raise UsageError(
            "dataset 'medmcqa': annotations exist for the split 'train' only, got split "
            f"{options.split!r}"
        )
    spans = read_annotations("medmcqa", options.annotations)
    if len(table.rows) != len(spans.records):
        raise DataError(
            f"{spans.path}: expected {len(table.rows)} records, one for each row of {path}, got "
            f"{len(spans.records)}"
        )

    def finish(number: int, item: Question) -> Question:
        mentions = spans.mentions(item, number)
        if not any(mention.field == item.key for mention in mentions):
            # The published records cover the three distractors only. Xian et al. (2025) measure
            # distances from the whole answer string, so that is the key's entity, of unknown type.
            text = item.key_text
            start, end = len(text) - len(text.lstrip()), len(text.rstrip())
            mentions = (*mentions, Mention(field=item.key, start=start, end=end, type=""))
        return item.with_mentions(mentions)

    return spans.noted(read_questions(table, options, finish), path)


# -- entity spans, as Xian et al. published them ---------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """The records of one annotation file.

    The file is a JSON list with one record per question, ``{letter: {"text": [...], "labels":
    [...], "boundaries": [[start, end], ...]}}``. The three lists are parallel: labels are UMLS
    semantic type identifiers or ``""``, boundaries are character offsets into the option's text.
    """

    path: Path
    """The annotation file."""
    records: list[Any]
    """One per question, not validated yet."""
    cut: list[str] = field(default_factory=list)
    """The word that each rejected span cuts; `mentions` adds to it."""

    def noted(self, loaded: Loaded, path: Path) -> Loaded:
        """Return what was read from a file with these spans, and a note on rejected ones."""
        notes = loaded.notes
        if self.cut:
            n, first = len(self.cut), self.cut[0]
            cut = f"{self.path}: skipped spans that cut a word: {n}; the first word is {first!r}"
            notes = (cut, *notes)
        return replace(loaded, source_hash=hash_files(path, self.path), notes=notes)

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
                letters = ", ".join(item.letters)
                raise DataError(f"{where}: expected a letter among {letters}, got {letter!r}")
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


class _Entry(BaseModel):
    """The spans of one option."""

    text: list[str]
    labels: list[str]
    boundaries: list[tuple[int, int]]


def _spans(entry: Any, letter: str, option: str, where: str) -> list[Mention]:
    try:
        read = _Entry.model_validate(entry)
        rows = list(zip(read.text, read.labels, read.boundaries, strict=True))
    except ValueError as error:
        raise DataError(
            f"{where}: expected the lists 'text', 'labels' (types or ''), 'boundaries' ([start, "
            f"end]) of one length, got {shown(entry)}"
        ) from error
    for text, _, (start, end) in rows:
        if not 0 <= start < end <= len(option) or option[start:end] != text:
            raise DataError(
                f"{where}: expected {text!r} at [{start}, {end}), got {option[start:end]!r}"
            )
    return [Mention(field=letter, start=a, end=b, type=label) for _, label, (a, b) in rows]


# -- BC5CDR and BIOSSES --------------------------------------------------------------------------

SPLITS = {"train": "train", "devel": "devel", "dev": "devel", "validation": "devel", "test": "test"}
"""Split of BC5CDR, as users write it -> its name in ids."""
IOB = (".tsv", ".iob", ".conll")
"""Endings of IOB files in a folder."""
SIZES = {"train": 0.64, "dev": 0.16, "test": 0.2}
"""Split of BIOSSES -> its share."""
ALL = "all"
"""For `--set`, which can set `split` but not unset it."""
COLUMNS = {
    "id": "pair_id",
    "text_a": "sentence1",
    "text_b": "sentence2",
    "score": "mean_score",
}
"""Of BIOSSES."""
_KEYS = ("path", "hub", "split", "types")


def load_bc5cdr(options: DatasetOptions) -> Loaded:
    """Read one split of BC5CDR, or several.

    Raises:
        UsageError: neither path nor hub, a missing file, an unknown or repeated split, or a folder
            without a split.
        DataError: a bad line, if `on_bad_row` is ``error``.
    """
    check_keys("bc5cdr", options, *_KEYS, "scheme", "tag", "on_bad_labels")
    splits = options.split.split("+") if options.split is not None else []
    for split in splits:
        if split not in SPLITS:
            raise UsageError(
                "dataset 'bc5cdr': expected the split train, devel or test, or several such as "
                f"train+devel, got {options.split!r}{did_you_mean(split, SPLITS)}"
            )
    if len({SPLITS[split] for split in splits}) < len(splits):
        raise UsageError(f"dataset 'bc5cdr': expected each split once, got {options.split!r}")
    if len(splits) < 2:
        return _read(options)
    if options.hub is None and options.path is not None and options.path.is_file():
        raise UsageError(
            f"dataset 'bc5cdr': {options.path} is a single file and holds one split; give the "
            f"folder with the files of {options.split}"
        )
    parts = [_read(replace(options, split=split)) for split in splits]
    return Loaded(
        items=tuple(
            _with_prefix(item, SPLITS[split])
            for split, part in zip(splits, parts, strict=True)
            for item in part.items
        ),
        skipped=tuple(sentence for part in parts for sentence in part.skipped),
        source_hash=content_hash([part.source_hash for part in parts]),
        notes=tuple(sentence for part in parts for sentence in part.notes),
    )


def _read(options: DatasetOptions) -> Loaded:
    if options.hub is not None:
        return read_hub("bc5cdr", options, TaggedText)
    path = options.path
    if path is None or not path.is_dir():
        path = required_file("bc5cdr", "path", path)
    else:
        files = [file for file in sorted(path.iterdir()) if file.is_file()]
        names = [file.name for file in files if is_pubtator(file)]
        names = names or [file.name for file in files if file.suffix.lower() in IOB]
        if not names:
            refuse_other_formats(path)
        names = names or [file.name for file in path.iterdir()]
        path = path / choose_file("bc5cdr", str(path), names, options.split)
    if is_pubtator(path):
        check_keys("bc5cdr", options, *_KEYS)
        return read_pubtator(path, options)
    return read_iob(path, options)


def _with_prefix(item: TaggedText, split: str) -> TaggedText:
    metadata = dict(item.metadata)
    if "document" in metadata:
        metadata["document"] = f"{split}-{metadata['document']}"
    return replace(item, id=f"{split}-{item.id}", metadata=metadata)


def load_biosses(options: DatasetOptions) -> Loaded:
    """Read BIOSSES.

    Raises:
        UsageError: neither path nor hub, a missing file, or an unknown split.
        DataError: a bad row, if `on_bad_row` is ``error``.
    """
    check_keys("biosses", options, "path", "hub", "split", "columns", "scale")
    split, splits = options.split, (*SIZES, ALL)
    if split is not None and split not in splits:
        raise UsageError(
            f"dataset 'biosses': expected the split {', '.join(splits)}, got {split!r}"
            f"{did_you_mean(split, splits)}"
        )
    if options.hub is not None:
        loaded = read_hub("biosses", replace(options, split=None), SentencePair)
    else:
        path = required_file("biosses", "path", options.path)
        columns = {**COLUMNS, **options.columns}
        loaded = read_pairs(read_table(path), replace(options, columns=columns))
    if split in (None, ALL):
        return loaded
    # The splits are disjoint and cover all pairs.
    pairs = loaded.items
    ranked = sorted(pairs, key=lambda pair: digest(["biosses", pair.id]))
    train = round(SIZES["train"] * len(pairs))
    dev = train + round(SIZES["dev"] * len(pairs))
    first, last = {"train": (0, train), "dev": (train, dev), "test": (dev, len(pairs))}[str(split)]
    chosen = {pair.id for pair in ranked[first:last]}
    return replace(loaded, items=tuple(pair for pair in pairs if pair.id in chosen))
