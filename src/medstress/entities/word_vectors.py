"""Embeddings without a model: hashed n-grams weighted by TF-IDF, and files of word vectors."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from zlib import crc32

import numpy as np

from medstress.core.errors import UsageError
from medstress.entities.encoders import Progress
from medstress.entities.names import normalise, words

if TYPE_CHECKING:
    from numpy.typing import NDArray


NGRAMS = "character 3-5-grams 768 + words 256, on 1 and 4 dimensions, crc32, TF-IDF; version 1"
"""Identifies the vectors in hashes; change it whenever a vector changes."""

N_CHARACTER_DIMENSIONS = 768
N_WORD_DIMENSIONS = 256
N_DIMENSIONS = N_CHARACTER_DIMENSIONS + N_WORD_DIMENSIONS

_LENGTHS = (3, 4, 5)

_CHUNK = 1024
"""Names of a corpus counted at a time, since Python's lists of their features are large."""

# Odd constants: one multiplication spreads a 32-bit hash over the high bits.
_MULTIPLIERS = (2654435761, 2246822519, 3266489917, 668265263)

# How many dimensions a character n-gram and a word are written to. With one dimension, two names
# of a single word would be equal if their words collide; on all four no two words collide.
_COPIES = (1, 4)


class NgramEncoder:
    """Turns names into unit vectors of hashed n-grams (the hashing trick with signs).

    A vector has two parts of equal length: n-grams of 3 to 5 characters of the normalised
    name, and its folded words. The cosine of two names is thus the mean of their similarity in
    spelling and in words. Each feature weighs 1 + log of its count, times its inverse document
    frequency in `corpus`. Features on the same dimension add up with random signs, so that
    collisions cancel on average.

    References:
        K. Weinberger et al., "Feature hashing for large scale multitask learning", ICML, 2009.
    """

    def __init__(self, corpus: Sequence[str] = ()) -> None:
        """Count document frequencies in `corpus`, the vocabulary's names; empty: no weighting."""
        self._frequencies = [_Frequencies(), _Frequencies()]
        for start in range(0, len(corpus), _CHUNK):
            features = _features(corpus[start : start + _CHUNK])
            for frequencies, rows in zip(self._frequencies, features, strict=True):
                frequencies.count(rows)

    def encode(self, names: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape (n_names, 1024); zero for a name without any character."""
        vectors = np.zeros((len(names), N_DIMENSIONS))
        halves = np.split(vectors, [N_CHARACTER_DIMENSIONS], axis=1)
        features = _features(names)
        for half, rows, frequencies, copies in zip(
            halves, features, self._frequencies, _COPIES, strict=True
        ):
            row, feature, count = _counted(*rows)
            weight = (1 + np.log(count)) * frequencies.inverse(feature)
            for multiplier in _MULTIPLIERS[:copies]:
                dimension, sign = _placed(feature, multiplier, half.shape[1])
                np.add.at(half, (row, dimension), sign * weight)
            half /= np.maximum(np.linalg.norm(half, axis=1, keepdims=True), 1e-12)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors.astype(np.float32)


Rows = tuple["NDArray[np.int64]", "NDArray[np.uint32]"]


class _Frequencies:
    """The number of names of a corpus in which each feature occurs."""

    def __init__(self) -> None:
        self._features = np.zeros(0, np.uint32)
        self._counts = np.zeros(0, np.int64)
        self._n_names = 0

    def count(self, rows: Rows) -> None:
        """Count names that were not counted before."""
        row, feature, _ = _counted(*rows)
        found, counts = np.unique(feature, return_counts=True)
        both = np.concatenate([self._features, found])
        self._features, place = np.unique(both, return_inverse=True)
        self._counts = np.bincount(place, np.concatenate([self._counts, counts])).astype(np.int64)
        self._n_names += len(np.unique(row))

    def inverse(self, feature: NDArray[np.uint32]) -> NDArray[np.float64]:
        """ln((1 + N) / (1 + df)) + 1, shape of `feature`."""
        found = np.zeros(len(feature))
        if self._features.size:
            place = np.searchsorted(self._features, feature).clip(max=len(self._features) - 1)
            known = self._features[place] == feature
            found[known] = self._counts[place[known]]
        return np.asarray(np.log((1 + self._n_names) / (1 + found)) + 1)


def _placed(
    feature: NDArray[np.uint32], multiplier: int, n_dimensions: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return a dimension and a sign for every feature."""
    spread = (feature.astype(np.uint64) * multiplier) & 0xFFFFFFFF
    dimension = ((spread & 0x7FFFFFFF) * n_dimensions) >> 31
    return dimension.astype(np.int64), np.where(spread >> 31, 1.0, -1.0)


def _features(names: Sequence[str]) -> tuple[Rows, Rows]:
    """Return (row, hash) of every character n-gram, and of every word."""
    return _hashed(map(_ngrams, names)), _hashed(map(words, names))


def _hashed(features: map[list[str]]) -> Rows:
    rows: list[int] = []
    hashes: list[int] = []
    for row, found in enumerate(features):
        rows += [row] * len(found)
        hashes += [crc32(feature.encode()) for feature in found]
    return np.array(rows, np.int64), np.array(hashes, np.uint32)


def _ngrams(name: str) -> list[str]:
    text = f" {normalise(name)} "
    return [text[i : i + n] for n in _LENGTHS for i in range(len(text) - n + 1)]


def _counted(
    row: NDArray[np.int64], feature: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64]]:
    """Merge equal (row, feature) pairs; return rows, features and counts."""
    pairs, counts = np.unique((row << 32) | feature, return_counts=True)
    return pairs >> 32, (pairs & 0xFFFFFFFF).astype(np.uint32), counts


MEANS = "mean of word vectors, as written else in lower case; version 1"
"""Identifies the vectors in hashes; change it whenever a vector changes."""

ENDINGS = (".txt", ".vec")

_PART = re.compile(r"\w+")
_EDGE = "".join(map(chr, range(33, 48))) + ":;<=>?@[\\]^_`{|}~"
_PROGRESS_LINES = 20_000
"""Lines of the file between two reports of progress."""


def is_word_vectors(embedding: str) -> bool:
    """True for a path that ends in .txt or .vec, compressed (.gz) or not."""
    return embedding.lower().removesuffix(".gz").endswith(ENDINGS)


class WordVectors:
    """Turns names into unit vectors with a file of word vectors.

    A line holds a word and its numbers, separated by spaces. A first line with two whole numbers,
    as word2vec writes it, is skipped. Only the requested words are kept in memory.

    References:
        J. Pennington, R. Socher, C. D. Manning, "GloVe: global vectors for word
        representation", EMNLP, 2014: the format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        self._known: dict[str, NDArray[np.float64] | None] = {}

    def learn(self, names: Sequence[str], progress: Progress | None = None) -> None:
        """Read the words of all names in one pass, since the file may be large.

        Args:
            names: any texts.
            progress: called with (done, all) in names, estimated from the share of the file read.

        Raises:
            UsageError: the file is missing or malformed, with the line.
        """
        listed = {word for name in names for word in _split(name)}
        listed.update(part for word in tuple(listed) for part in _PART.findall(word))
        wanted = listed | {word.lower() for word in listed}
        new = wanted - self._known.keys()
        if new or not self._size:
            self._known.update(dict.fromkeys(new))
            self._read({word.encode(): word for word in new}, len(names), progress)

    def encode(self, names: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape (n_names, n_dimensions); zero if no word is known.

        Raises:
            UsageError: the file is missing or malformed, with the line.
        """
        self.learn(names)
        vectors = np.zeros((len(names), self._size))
        for row, name in enumerate(names):
            found = [v for word in _split(name) for v in self._of_word(word)]
            if found:
                vectors[row] = np.mean(found, axis=0)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors.astype(np.float32)

    def _of_word(self, word: str) -> list[NDArray[np.float64]]:
        """Return the vector of a word as written or in lower case, else those of its parts."""
        for form in (word, word.lower()):
            if (vector := self._known.get(form)) is not None:
                return [vector]
        parts = _PART.findall(word)
        return [] if parts == [word] else [v for part in parts for v in self._of_word(part)]

    def _read(self, wanted: dict[bytes, str], n_names: int, progress: Progress | None) -> None:
        found: set[bytes] = set()
        checked = False
        for number, line, share in self._lines():
            if number == 1:
                if re.fullmatch(rb"\d{1,9} \d{1,9}", line):
                    self._size = int(line.split()[1])
                    continue
                self._size = line.count(b" ")
            self._size = self._size or line.count(b" ")
            if progress is not None and number % _PROGRESS_LINES == 0:
                progress(min(int(share * n_names), n_names), n_names)
            word = line[: line.find(b" ")]
            if checked and line.count(b" ") == self._size and word not in wanted:
                continue  # not requested and of the right length; its numbers are not parsed
            pieces = line.rsplit(b" ", self._size)
            if len(pieces) != self._size + 1 or self._size == 0 or _is_number(pieces[0]):
                self._refuse(number, line)
            # The first word's numbers are always parsed, since prose can have as many words a line.
            if not checked or (pieces[0] in wanted and pieces[0] not in found):
                vector = self._numbers(number, line, pieces[1:])
                checked = True
                if pieces[0] in wanted:
                    found.add(pieces[0])
                    self._known[wanted[pieces[0]]] = vector
        if not checked:
            raise UsageError(
                f"embedding: expected word vectors in {self._path}, got an empty file; give "
                "another file"
            )

    def _lines(self) -> Iterator[tuple[int, bytes, float]]:
        """Yield (line number, line, share of the file read)."""
        try:
            size = max(self._path.stat().st_size, 1)
            with self._path.open("rb") as raw:
                packed = self._path.suffix.lower() == ".gz"
                stream = gzip.GzipFile(fileobj=raw) if packed else raw
                for number, line in enumerate(stream, start=1):
                    share = raw.tell() / size if number % _PROGRESS_LINES == 0 else 0.0
                    if text := line.strip(b" \t\r\n"):
                        yield number, text, share
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(
                f"embedding: expected word vectors in {self._path}, but it cannot be read "
                f"({error}); give another file"
            ) from error

    def _numbers(self, number: int, line: bytes, pieces: Sequence[bytes]) -> NDArray[np.float64]:
        try:
            vector = np.array([float(piece) for piece in pieces])
        except ValueError:
            self._refuse(number, line)
        if not (np.abs(vector) < np.finfo(np.float32).max).all():
            self._refuse(number, line)
        return vector

    def _refuse(self, number: int, line: bytes) -> NoReturn:
        shown = line[:30].decode("utf-8", "replace")
        raise UsageError(
            f"embedding: {self._path}:{number}: expected a word and {self._size or 'some'} finite "
            f"numbers separated by spaces, as in the first line, got {shown!r}; fix the line or "
            "give another file"
        )


def _split(name: str) -> list[str]:
    """Split at white space and strip punctuation from the words."""
    return [word for piece in name.split() if (word := piece.strip(_EDGE))]


def _is_number(word: bytes) -> bool:
    """True if the text before the numbers ends in another number, so the line is too long."""
    last = word.rpartition(b" ")[2]
    if last == word:
        return False
    try:
        return math.isfinite(float(last))
    except ValueError:
        return False
