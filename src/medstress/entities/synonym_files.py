"""Synonyms from UMLS (MRCONSO.RRF) and from OBO files, read line by line."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

from medstress.core.errors import UsageError
from medstress.entities.names import normalise

_MRCONSO_FIELDS = 18
_CUI, _LANGUAGE, _NAME, _SUPPRESS = 0, 1, 14, 16

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*([A-Z]+)?')
_MAX_LINE = 100_000
"""Most bytes of a line; the longest lines of published ontologies have a few thousand."""
_BLANKS = re.compile(r"[ \t]{2,}")
_MODIFIERS = re.compile(r"\s*(?<!\\)(\{[^{}]*\}\s*)?(?<!\\)(!.*)?$")
_ESCAPE = re.compile(r"\\(.)")


def is_mrconso(path: Path) -> bool:
    """True for a path that ends in .RRF, compressed (.gz) or not."""
    return path.name.lower().removesuffix(".gz").endswith(".rrf")


def is_obo(path: Path) -> bool:
    """True for a path that ends in .obo, compressed (.gz) or not."""
    return path.name.lower().removesuffix(".gz").endswith(".obo")


def mrconso_rows(path: Path, needed: Collection[str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield (concept, name) for the English names of UMLS concepts.

    Names that UMLS marks as suppressed (obsolete, or ambiguous outside their source) are left
    out. With `needed`, the file of some gigabytes is read twice: for the concepts, then for their
    names.

    Args:
        path: MRCONSO.RRF, 18 fields per line, each ended by a bar.
        needed: only concepts with one of these names, after `normalise`; None: all.

    Raises:
        UsageError: a line is malformed; names file and line.
    """
    if needed is None:
        yield from _mrconso(path)
        return
    wanted = {normalise(name) for name in needed}
    concepts = {concept for concept, name in _mrconso(path) if normalise(name) in wanted}
    yield from ((concept, name) for concept, name in _mrconso(path) if concept in concepts)


def obo_rows(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (concept, name) for the names and exact synonyms of the terms of an OBO file.

    Synonyms of other scopes (broad, narrow, related) mean something else, and are left out, as are
    obsolete terms.

    Raises:
        UsageError: a line is malformed; names file and line.
    """
    term: dict[str, list[str]] | None = None
    for number, line in _lines(path):
        if line.startswith("["):
            yield from _named(term)
            term = {} if line == "[Term]" else None
        elif term is not None and line and not line.startswith("!"):
            tag, colon, value = line.partition(":")
            if not colon:
                raise _malformed(path, number, "a line 'tag: value'", line)
            if tag in ("id", "name", "is_obsolete"):
                term.setdefault(tag, []).append(_plain(value))
            elif tag in ("synonym", "exact_synonym"):
                found = _QUOTED.match(value.strip())
                if found is None:
                    raise _malformed(path, number, "a synonym in double quotes", line)
                if tag == "exact_synonym" or found[2] == "EXACT":
                    term.setdefault("name", []).append(_ESCAPE.sub(r"\1", found[1]))
    yield from _named(term)


def _mrconso(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in _lines(path):
        fields = line.split("|")
        if len(fields) != _MRCONSO_FIELDS + 1 or not fields[_CUI]:
            raise _malformed(path, number, f"{_MRCONSO_FIELDS} fields, each ended by a bar", line)
        if fields[_LANGUAGE] == "ENG" and fields[_SUPPRESS] == "N":
            yield fields[_CUI], fields[_NAME]


def _named(term: dict[str, list[str]] | None) -> Iterator[tuple[str, str]]:
    if term and "id" in term and term.get("is_obsolete") != ["true"]:
        for name in term.get("name", ()):
            yield term["id"][0], name


def _plain(value: str) -> str:
    """Return a value without trailing modifiers (in braces) and comment."""
    return _ESCAPE.sub(r"\1", _MODIFIERS.sub("", _BLANKS.sub(" ", value.strip())))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            for number, line in enumerate(iter(partial(stream.readline, _MAX_LINE), b""), start=1):
                if len(line) == _MAX_LINE:
                    raise OSError(f"line {number} is longer than {_MAX_LINE:,} bytes")
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if text:
                    yield number, text
    except UnicodeDecodeError as error:
        raise UsageError(
            f"synonyms: {path}:{number}: expected UTF-8 text, but it cannot be decoded ({error}); "
            "save it as UTF-8"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"synonyms: {path} cannot be read ({error}); give another file") from error
    if number == 0:
        raise UsageError(
            f"synonyms: {path} is empty; expected lines of MRCONSO.RRF or of an OBO ontology: "
            "give another file"
        )


def _malformed(path: Path, number: int, expected: str, line: str) -> UsageError:
    return UsageError(
        f"synonyms: {path}:{number}: expected {expected}, got {line[:60]!r}; fix the line"
    )
