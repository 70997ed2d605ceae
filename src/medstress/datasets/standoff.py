"""Annotated documents, PubTator and brat, read to tagged sentences: documents, mentions, sentences.

*PubTator*: `ID|t|title`, `ID|a|abstract`, then a line for each mention, `ID start end mention type
concept`, separated by tabs; offsets count title, one space and abstract. Empty lines separate
documents. A line whose second field is a word, such as `ID CID chemical disease`, is a relation and
ignored, however many columns it has.

*brat*: `NAME.txt` with `NAME.ann` next to it. From an `.ann` file only the mentions are read: `T1
TAB Type start end TAB words`, with character offsets into the text. Relations, events, attributes,
normalisations and notes are ignored. A line end also ends a sentence, except inside a mention.

`path` is a file or a folder, of brat with its subfolders. Token labels cannot express a mention of
several parts with text between them, so it is left out and counted. A mention covers every token it
touches. Of mentions that overlap the one that begins first is kept, and of those that begin
together the longest.

Reference: Stenetorp, Pyysalo, Topic, Ohta, Ananiadou, Tsujii. brat: a web-based tool for
NLP-assisted text annotation. EACL demonstrations, 2012.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from medstress.core.errors import DataError, UsageError
from medstress.core.items import Marked, labels_of
from medstress.core.reading import data_lines, decode_utf8, read_data
from medstress.core.sentences import TaggedText, entities_of
from medstress.core.tables import attempt
from medstress.core.text import sentence_spans, token_spans
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    collect,
    hash_files,
    label_of_type,
    refuse_other_formats,
    required_file,
)

PUBTATOR = (".txt", ".pubtator")
"""Endings of PubTator files in a folder."""
_MARK = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8, which some editors write at the beginning of a file."""
_TEXT = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
_MENTION = re.compile(r"(\S+) (\d{1,9} \d{1,9}(?:;\d{1,9} \d{1,9})*)")
_IGNORED = frozenset("REAMN#*")
"""First characters of brat's lines with relations, events, attributes, modifications,
normalisations, notes and equivalences."""


@dataclass(slots=True, kw_only=True)
class Document:
    """A text with mentions."""

    id: str
    """Unique within its file or folder."""
    text: str
    """Title and abstract, or lines."""
    passages: Sequence[int] = (0,)
    """Where each passage begins; no sentence crosses from one passage into the next."""
    mentions: list[Marked] = field(default_factory=list)
    """Those of one part: first character, one past the last, type; in any order, may overlap."""
    n_parted: int = 0
    """Mentions of several parts, which are left out."""


_LOST = {
    "overlapping": "overlap others and were left out",
    "crossing": "cross the border of a passage and were left out",
    "widened": "begin or end inside a word and were widened to all of it",
    "parted": "are discontinuous and were left out",
}
"""What token labels cannot express as it is -> what becomes of it."""


def _notes(path: Path, tally: Counter[str]) -> tuple[str, ...]:
    """Return one sentence for each kind of loss.

    Raises:
        DataError: most entities would be widened, or all are left out: labels of tokens cannot
            express them.
    """
    if 2 * tally["widened"] > tally["kept"]:
        raise DataError(
            f"{path}: {tally['widened']:,} of {tally['kept']:,} entities begin or end inside a "
            "word, as in languages that join words; cut the words where the entities end, and give "
            'rows of tokens and labels (name = "iob")'
        )
    n = tally.total() - tally["widened"]
    lost = ((tally[kind], what) for kind, what in _LOST.items() if tally[kind])
    notes = tuple(f"{path}: {m:,} of {n:,} entities {what}" for m, what in lost)
    if notes and not tally["kept"]:
        raise DataError(f"{'; '.join(notes)}; no other entity was found")
    return notes


def load_pubtator(options: DatasetOptions) -> Loaded:
    """Read a PubTator file, or all in a folder; `types` selects or renames what becomes labels.

    Raises:
        UsageError: no path, nothing there, a type that no mention has, or a key that does not
            apply.
        DataError: an empty file; a malformed line (names file and line), if `on_bad_row` is
            ``error``.
    """
    check_keys("pubtator", options, "path", "types")
    path = options.path
    if path is None or not path.is_dir():
        path = required_file("pubtator", "path", path)
    return read_pubtator(path, options)


def is_pubtator(path: Path) -> bool:
    """Return whether a file begins as PubTator files do."""
    if path.suffix.lower() not in PUBTATOR or not path.is_file():
        return False
    with path.open("rb") as stream:
        return b"|t|" in stream.readline(1 << 16)


def read_pubtator(path: Path, options: DatasetOptions) -> Loaded:
    """Read one file, or the files of a folder; see `load_pubtator`."""
    files = [path]
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if is_pubtator(file)]
        if not files:
            refuse_other_formats(path)
            raise UsageError(
                f"dataset 'pubtator': expected files {' or '.join(PUBTATOR)} that begin with "
                f"ID|t|TITLE in {path}, got none; give the folder that holds them"
            )
    for file in files:
        refuse_other_formats(file)
    documents = (document for file in files for document in _pubtator_documents(file))
    return _tagged(path, documents, files, options)


def load_brat(options: DatasetOptions) -> Loaded:
    """Read a folder, or one of its texts; `types` selects or renames what becomes labels.

    Raises:
        UsageError: nothing there, a folder without texts, a type that no mention has, or a key
            that does not apply.
        DataError: a malformed line (names file and line), or a text without annotations, if
            `on_bad_row` is ``error``.
    """
    check_keys("brat", options, "path", "types")
    if options.path is None or not options.path.is_dir():
        path = required_file("brat", "path", options.path)
        refuse_other_formats(path)
        path = path.with_suffix(".txt")
        folder, texts = path.parent, [required_file("brat", "path", path)]
    else:
        # Links to folders are not followed.
        path = folder = options.path
        places = ((place, name) for place, _, names in os.walk(folder) for name in names)
        texts = sorted(Path(place, name) for place, name in places if name.endswith(".txt"))
    if not texts:
        refuse_other_formats(folder)
        raise UsageError(
            f"dataset 'brat': expected texts with annotations (NAME.txt and NAME.ann) in {folder}, "
            "got no .txt file; give the folder that holds them"
        )
    pairs = [(text, text.with_suffix(".ann")) for text in texts]
    files = [file for pair in pairs for file in pair if file.is_file()]
    documents = (attempt(_brat_document, *pair, folder) for pair in pairs)
    return _tagged(path, documents, files, options)


def _tagged(
    path: Path,
    documents: Iterator[Document | DataError],
    files: Sequence[Path],
    options: DatasetOptions,
) -> Loaded:
    """Return the sentences of documents; an error takes the place of a bad document."""
    good, left_out, tally = list[Document](), list[str](), Counter[str]()
    for document in documents:
        if isinstance(document, Document):
            good.append(document)
        elif options.on_bad_row == "error":
            raise document
        else:
            left_out.append(str(document))
    if left_out and not good:
        raise DataError(f"{path}: no document is usable; the first error: {left_out[0]}")
    types = {type_ for document in good for *_, type_ in document.mentions}
    label_of = label_of_type(options.types, types, path)
    for document in good:
        named = ((start, end, label_of(type_)) for start, end, type_ in document.mentions)
        document.mentions = [(a, b, name) for a, b, name in named if name is not None]
    rows = (
        (f"document {document.id}", item)
        for document in good
        for item in tagged_sentences(document, tally)
    )
    items, skipped = collect(path, rows, lambda item: item, options.on_bad_row)
    return Loaded(
        items=items,
        skipped=(*left_out, *skipped),
        source_hash=hash_files(*files),
        notes=_notes(path, tally),
    )


# -- PubTator ---------------------------------------------------------------------------------
def _pubtator_documents(path: Path) -> Iterator[Document | DataError]:
    """Yield the documents of a file with all their mentions, or what is wrong with one."""
    block: list[tuple[int, str]] = []
    for number, line in [*data_lines(path), (0, "")]:
        begins = (title := _TEXT.fullmatch(line)) is not None and title[2] == "t"
        if block and (begins or not line.strip()):
            yield attempt(_pubtator_document, path, block)
            block = []
        if line.strip():
            block.append((number, line))


def _pubtator_document(path: Path, lines: Sequence[tuple[int, str]]) -> Document:
    document: Document | None = None
    for number, line in lines:
        where, fields = f"{path}, line {number}", line.split("\t")
        text = _TEXT.fullmatch(line)
        if text is not None and text[2] == "t":
            document = Document(id=text[1], text=text[3])
        elif document is None:
            raise DataError(f"{where}: expected a title ID|t|TEXT, got {line[:60]!r}; fix the line")
        elif text is not None:
            if document.id != text[1] or len(document.passages) > 1:
                raise DataError(
                    f"{where}: expected one abstract of document {document.id!r} below its title, "
                    f"got {line[:60]!r}"
                )
            document.passages = (0, len(document.text) + 1)
            document.text = f"{document.text} {text[3]}"
        elif len(fields) > 1 and fields[0] != document.id:
            raise DataError(
                f"{where}: expected an entity of document {document.id!r}, got one of "
                f"{fields[0]!r}; move it below the title of its document"
            )
        elif not _is_relation(fields, document.text):
            document.mentions.append(_pubtator_mention(document.text, fields, where))
    assert document is not None
    return document


def _is_relation(fields: Sequence[str], text: str) -> bool:
    """Return whether a line names a kind of relation and two identifiers, and no words of the text.

    >>> _is_relation(["1", "Cause", "12", "34"], "It cures pain.")
    True
    >>> _is_relation(["1", "2O", "14", "pain", "Sign"], "It cures pain.")
    False
    """
    if len(fields) < 3 or not fields[1][:1].isalpha():
        return False
    if len(fields) < 5 or fields[3] not in text:
        return True
    ends_there = fields[2].isdecimal() and text[: int(fields[2][:9])].endswith(fields[3])
    return not (ends_there or re.search("[a-z]{3}", fields[3]))  # an identifier may occur too


def _pubtator_mention(text: str, fields: Sequence[str], where: str) -> Marked:
    if len(fields) < 5 or not all(one.isdecimal() and len(one) < 10 for one in fields[1:3]):
        raise DataError(
            f"{where}: expected ID, start, end, mention and type separated by tabs, got "
            f"{' '.join(fields)[:60]!r}; fix the line"
        )
    start, end, mention, type_ = int(fields[1]), int(fields[2]), fields[3], fields[4].strip()
    if text[start:end] != mention:
        raise DataError(
            f"{where}: expected {mention!r} at [{start}, {end}), got {text[start:end][:60]!r}; "
            "offsets count characters of title, one space and abstract"
        )
    if not mention.strip() or type_.split() != [type_]:
        raise DataError(f"{where}: expected a mention and a type of one word, got {type_!r}")
    return start, end, type_


# -- brat -------------------------------------------------------------------------------------
def _brat_document(path: Path, annotations: Path, folder: Path) -> Document:
    for file in (path, annotations):
        if file.is_symlink():
            raise DataError(f"{file}: expected a file, got a link, which is not followed")
    data = read_data(path)
    if not annotations.is_file():
        raise DataError(
            f"{path}: there is no {annotations.name} next to it; add it (empty if nothing is "
            "annotated) or remove the text"
        )
    document = Document(
        id="_".join(path.relative_to(folder).with_suffix("").as_posix().split()),
        text=decode_utf8(data.removeprefix(_MARK), path),
    )
    lines = list(data_lines(annotations))
    try:
        _read_mentions(document, lines, annotations, first=0)
    except DataError:
        # brat itself counts the mark as a character, other programs do not.
        if not data.startswith(_MARK):
            raise
        if attempt(_read_mentions, document, lines, annotations, first=1) is not None:
            raise
    document.passages = _lines(document)
    return document


def _read_mentions(
    document: Document, lines: Sequence[tuple[int, str]], path: Path, *, first: int
) -> None:
    """Add the mentions of an `.ann` file, whose offsets call the text's first character `first`."""
    text, document.mentions, document.n_parted = document.text, [], 0
    for number, line in lines:
        where, fields = f"{path}, line {number}", line.split("\t")
        if not line.startswith("T"):
            if line.strip() and line[0] not in _IGNORED:
                raise DataError(
                    f"{where}: expected a line of brat's standoff format such as 'T1<TAB>Type 0 "
                    f"5<TAB>words', got {line[:60]!r}; fix the line"
                )
            continue
        mention = _MENTION.fullmatch(fields[1]) if len(fields) >= 3 else None
        if mention is None:
            raise DataError(
                f"{where}: expected T1, a tab, type, start and end, a tab and the mention, got "
                f"{line[:60]!r}; fix the line"
            )
        parts = sorted(
            tuple(max(int(place) - first, 0) for place in part.split())
            for part in mention[2].split(";")
        )
        covered, words = " ".join(text[a:b] for a, b in parts), "\t".join(fields[2:])
        # brat writes a line end within a mention as a space.
        if covered.split() != words.split() or not covered.strip():
            raise DataError(
                f"{where}: expected {words[:60]!r} at {mention[2]}, got {covered[:60]!r}; offsets "
                "count the characters of the text, line ends included"
            )
        start, end = parts[0][0], max(end for _, end in parts)
        # So brat writes a mention that goes on in the next line.
        if all(not text[a[1] : b[0]].strip() for a, b in pairwise(parts)):
            document.mentions.append((start, end, mention[1]))
        else:
            document.n_parted += 1


def _lines(document: Document) -> tuple[int, ...]:
    """Return where lines begin, without those that begin inside a mention."""
    inside = sorted(mention[:2] for mention in document.mentions)
    begins, reach, at = [0], 0, 0
    for gap in re.finditer("\n+", document.text):
        while at < len(inside) and inside[at][0] < gap.end():
            reach = max(reach, inside[at][1])
            at += 1
        if reach <= gap.end() < len(document.text):
            begins.append(gap.end())
    return tuple(begins)


# -- sentences --------------------------------------------------------------------------------
def tagged_sentences(document: Document, tally: Counter[str]) -> Iterator[TaggedText]:
    """Yield the sentences of a document; an id is the document's id and the sentence's number."""
    number, used = 0, 0
    kept = sorted(document.mentions, key=lambda mention: (mention[0], -mention[1], mention[2]))
    begins = [start for start, *_ in kept]
    for first, last in pairwise([*document.passages, len(document.text)]):
        here = kept[bisect_left(begins, first) : bisect_left(begins, last)]
        inside = [mention for mention in here if mention[1] <= last]
        used += len(inside)
        starts = [start for start, *_ in inside]
        passage = document.text[first:last]
        unbroken = [(a - first, b - first) for a, b, _ in inside]
        for start, end in sentence_spans(passage, unbroken):
            at = first + start
            spans = [(at + a, at + b) for a, b in token_spans(passage[start:end])]
            if not spans:
                continue
            number += 1
            mentions = inside[bisect_left(starts, at) : bisect_left(starts, first + end)]
            labels = labels_of(spans, mentions)
            entities, exact = entities_of(labels), {(a, b) for a, b, _ in mentions}
            whole = [(spans[e.start][0], spans[e.end - 1][1]) in exact for e in entities]
            tally["kept"] += len(entities)
            tally["overlapping"] += len(mentions) - len(entities)
            tally["widened"] += whole.count(False)
            yield TaggedText(
                id=f"{document.id}.{number}",
                tokens=tuple(document.text[a:b] for a, b in spans),
                labels=labels,
                metadata={"document": document.id},
            )
    tally["crossing"] += len(kept) - used
    tally["parted"] += document.n_parted
