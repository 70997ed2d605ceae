"""Annotated texts in brat's standoff format: `NAME.txt` with `NAME.ann` beside it, in a folder.

From an `.ann` file only the entities are read: `T1 TAB Type start end TAB mention`, with character
offsets into the text. A discontinuous entity (`start end;start end`) also covers the text between
its parts, since token labels cannot express a gap. Relations, events, attributes, normalisations
and notes are ignored. As in brat, a line end also ends a sentence, except inside an entity.
Subfolders are read too; ids begin with the file's path within the folder.

Reference: Stenetorp, Pyysalo, Topic, Ohta, Ananiadou, Tsujii. brat: a web-based tool for
NLP-assisted text annotation. EACL demonstrations, 2012.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from medstress.core.errors import DataError, UsageError
from medstress.datasets.documents import Annotation, Document, Tally, tagged_sentences
from medstress.datasets.label_types import keep_types
from medstress.datasets.source import (
    DatasetOptions,
    LoadedTexts,
    check_keys,
    collect,
    hash_files,
)
from medstress.files.bounded import MAX_LINES, check_most, read_data
from medstress.files.reading import decode_utf8

_ENTITY = re.compile(r"(\S+) (\d{1,9} \d{1,9}(?:;\d{1,9} \d{1,9})*)")
_IGNORED = frozenset("REAMN#*")
"""First characters of lines with relations, events, attributes, modifications, normalisations,
notes and equivalences."""


def load(options: DatasetOptions) -> LoadedTexts:
    """Read a folder; `types` selects or renames the entities that become labels.

    Raises:
        UsageError: no folder, a folder without texts, a type that no entity has, or a key that
            does not apply.
        DataError: a malformed line (names file and line), or a text without annotations.
    """
    check_keys("brat", options, "path", "types")
    folder = _folder(options.path)
    # Links to folders are not followed.
    places = ((place, name) for place, _, names in os.walk(folder) for name in names)
    texts = sorted(Path(place, name) for place, name in places if name.endswith(".txt"))
    if not texts:
        raise UsageError(
            f"dataset 'brat': expected texts with annotations (NAME.txt and NAME.ann) in {folder}, "
            "found no .txt file; give the folder that holds them"
        )
    tally = Tally()
    documents, left_out, files = list[Document](), list[str](), list[Path]()
    for text in texts:
        annotations = text.with_suffix(".ann")
        try:
            documents.append(_document(text, annotations, folder, tally))
        except DataError as error:
            if options.on_bad_row == "error" or len(left_out) == len(texts) - 1:
                raise
            left_out.append(str(error))
        files += [path for path in (text, annotations) if path.is_file()]
    keep_types(documents, options.types, folder)
    rows = (
        (f"document {document.id}", item)
        for document in documents
        for item in tagged_sentences(document, tally)
    )
    items, skipped = collect(folder, rows, lambda item: item, options.on_bad_row)
    return LoadedTexts(
        items=items,
        skipped=(*left_out, *skipped),
        source_hash=hash_files(*files),
        notes=tally.notes(folder),
    )


def _folder(path: Path | None) -> Path:
    if path is None:
        raise UsageError("dataset 'brat' needs the key 'path', the folder to read")
    if not path.is_dir():
        what = "a file" if path.exists() else "nothing there"
        raise UsageError(
            f"dataset 'brat': expected path = a folder with NAME.txt and NAME.ann, got {path} "
            f"({what}); give the folder"
        )
    return path


def _document(path: Path, annotations: Path, folder: Path, tally: Tally) -> Document:
    for file in (path, annotations):
        if file.is_symlink():
            raise DataError(
                f"{file}: expected a file, got a link, which is not followed; put the file there"
            )
    text = decode_utf8(read_data(path), path)
    if not annotations.is_file():
        raise DataError(
            f"{path}: {annotations.name} is missing beside it; add it (empty if nothing is "
            "annotated) or remove the text"
        )
    identifier = path.relative_to(folder).with_suffix("").as_posix()
    document = Document(id="_".join(identifier.split()), text=text)
    marks = decode_utf8(read_data(annotations), annotations)
    check_most(annotations, marks.count("\n"), MAX_LINES, "lines")
    for number, line in enumerate(marks.split("\n"), start=1):
        where = f"{annotations}, line {number}"
        if line.startswith("T"):
            document.annotations.append(_entity(line.rstrip("\r"), text, where, tally))
        elif line.strip() and line[0] not in _IGNORED:
            raise DataError(
                f"{where}: expected a line of brat's standoff format such as 'T1<TAB>Type 0 "
                f"5<TAB>words', got {line[:60]!r}; fix the line"
            )
    document.passages = _passages(document)
    return document


def _entity(line: str, text: str, where: str, tally: Tally) -> Annotation:
    fields = line.split("\t")
    found = _ENTITY.fullmatch(fields[1]) if len(fields) >= 3 else None
    if found is None:
        raise DataError(
            f"{where}: expected T1, a tab, type, start and end, a tab and the mention, got "
            f"{line[:60]!r}; fix the line"
        )
    parts = sorted(
        (int(start), int(end)) for start, end in (p.split() for p in found[2].split(";"))
    )
    covered = " ".join(text[start:end] for start, end in parts)
    mention = "\t".join(fields[2:])
    # brat writes a line end within a mention as a space.
    if covered.split() != mention.split() or not covered.strip():
        raise DataError(
            f"{where}: expected {mention[:60]!r} at {found[2]}, got {covered[:60]!r}; offsets "
            "count the characters of the text, line ends included"
        )
    tally.discontinuous += len(parts) > 1
    return Annotation(start=parts[0][0], end=max(end for _, end in parts), type=found[1])


def _passages(document: Document) -> tuple[int, ...]:
    """Return where lines begin, without those that begin inside an entity."""
    inside = sorted((a.start, a.end) for a in document.annotations)
    begins, reach, at = [0], 0, 0
    for found in re.finditer("\n+", document.text):
        while at < len(inside) and inside[at][0] < found.end():
            reach = max(reach, inside[at][1])
            at += 1
        if reach <= found.end() < len(document.text):
            begins.append(found.end())
    return tuple(begins)
