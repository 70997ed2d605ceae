"""Vectors without a model: n-grams by TF-IDF, files of word vectors; and vectors on disk."""

from __future__ import annotations

import gzip
import math
import re
import tokenize
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medstress.core.errors import UsageError
from medstress.core.writing import atomic_stream
from medstress.entities.encoders import Progress
from medstress.entities.names import normalise, words

if TYPE_CHECKING:
    from numpy.typing import NDArray


NGRAMS = "character 3-5-grams and words, half each, TF-IDF, exact; version 2"
"""Identifies the vectors in hashes; change it whenever a vector changes."""

_LENGTHS = (3, 4, 5)
_HELD = 20_000
"""Names whose features are held while all are counted."""
_WORD = "\n"
"""Marks words among the features; no n-gram of a name has it."""


class Ngrams:
    """TF-IDF vectors of names over the n-grams of their characters and their words, sparse.

    A vector has two parts of equal length: n-grams of 3 to 5 characters of the normalised name,
    and its folded words. The cosine of two names is thus the mean of their similarity in spelling
    and in words; it is 0 if they share neither. Each feature weighs 1 + log of its count, times its
    inverse document frequency among the names, ln((1 + N) / (1 + df)) + 1.

    Attributes:
        matrix: unit vectors of the names, sparse, shape (n_names, n_features + 1); a row of zeros
            for a name without any character. The last column holds the length of what a text has in
            features that no name has.
    """

    def __init__(self, names: Sequence[str], *, is_weighted: bool = True) -> None:
        """Count the features of all names.

        Args:
            names: the vocabulary.
            is_weighted: whether rare features weigh more.
        """
        from scipy.sparse import csr_array

        # The features of many names take much memory, so those are counted twice.
        held = list(map(_counts, names)) if len(names) <= _HELD else None
        frequencies = Counter(chain.from_iterable(held or map(_counts, names)))
        n = len(names) if is_weighted else 0
        # Without weights all are 1, as if there were no names.
        self._inverse = {
            feature: math.log((1 + n) / (1 + df * is_weighted)) + 1
            for feature, df in frequencies.items()
        }
        self._unseen = math.log(1 + n) + 1
        self._columns = {feature: column for column, feature in enumerate(frequencies)}
        values, columns, ends = array("d"), array("i"), array("q", [0])
        for counts in held or map(_counts, names):
            row = self._weights(counts)
            values.extend(row.values())
            columns.extend(map(self._columns.__getitem__, row))
            ends.append(len(values))
        parts = (np.asarray(values), np.asarray(columns), np.asarray(ends))
        self.matrix = csr_array(parts, shape=(len(names), len(self._columns) + 1))

    def vector(self, text: str) -> NDArray[np.float64]:
        """Return the unit vector of any text, dense, shape (n_features + 1,)."""
        vector, rest = np.zeros(self.matrix.shape[1]), 0.0
        for feature, value in self.weights(text).items():
            if (column := self._columns.get(feature)) is None:
                rest += value * value
            else:
                vector[column] = value
        vector[-1] = math.sqrt(rest)
        return vector

    def weights(self, text: str) -> dict[str, float]:
        """Return the unit vector of any text: feature -> weight; empty if it has no character."""
        return self._weights(_counts(text))

    def _weights(self, counts: Mapping[str, int]) -> dict[str, float]:
        row = {f: (1 + math.log(n)) * self._inverse.get(f, self._unseen) for f, n in counts.items()}
        squares = [0.0, 0.0]
        for feature, value in row.items():
            squares[feature[0] == _WORD] += value * value
        # Each part that is not empty has the same length, and the whole vector has length 1.
        n_parts = sum(square > 0 for square in squares)
        scale = [1 / math.sqrt(square * n_parts) if square else 0.0 for square in squares]
        return {feature: value * scale[feature[0] == _WORD] for feature, value in row.items()}


def _counts(name: str) -> Counter[str]:
    text = f" {normalise(name)} "
    grams = (text[i : i + n] for n in _LENGTHS for i in range(len(text) - n + 1))
    return Counter(chain(grams, (_WORD + word for word in words(name))))


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
        new = (listed | {word.lower() for word in listed}) - self._known.keys()
        if not new and self._size:
            return
        self._known.update(dict.fromkeys(new))
        wanted = {word.encode(): word for word in new}
        is_checked = False
        for number, line, share in self._lines():
            if number == 1:
                is_header = re.fullmatch(rb"\d{1,9} \d{1,9}", line) is not None
                self._size = int(line.split()[1]) if is_header else line.count(b" ")
                if is_header:
                    continue
            if progress is not None and number % _PROGRESS_LINES == 0:
                progress(min(int(share * len(names)), len(names)), len(names))
            is_long = line.count(b" ") != self._size
            # Of words that nobody asked for only the first is parsed: prose can have as many words.
            if is_checked and not is_long and line[: line.find(b" ")] not in wanted:
                continue
            word, *numbers = line.rsplit(b" ", self._size) if self._size else [line]
            try:
                vector = np.array([float(piece) for piece in numbers])
                is_bad = len(vector) != self._size or not self._size or _ends_in_number(word)
                if is_bad or not (np.abs(vector) < np.finfo(np.float32).max).all():
                    raise ValueError
            except ValueError:
                shown = line[:30].decode("utf-8", "replace")
                raise UsageError(
                    f"embedding: {self._path}:{number}: expected a word and "
                    f"{self._size or 'some'} finite numbers separated by spaces, as in the first "
                    f"line, got {shown!r}; fix the line or give another file"
                ) from None
            is_checked = True
            if (name := wanted.pop(word, None)) is not None:
                self._known[name] = vector
        if not is_checked:
            raise UsageError(
                f"embedding: expected word vectors in {self._path}, got an empty file; give "
                "another file"
            )

    def encode(self, names: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape (n_names, n_dimensions); zero if no word is known.

        Raises:
            UsageError: the file is missing or malformed, with the line.
        """
        self.learn(names)
        vectors = np.zeros((len(names), self._size))
        for row, name in enumerate(names):
            of_words = [v for word in _split(name) for v in self._of_word(word)]
            if of_words:
                vectors[row] = np.mean(of_words, axis=0)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors.astype(np.float32)

    def _of_word(self, word: str) -> list[NDArray[np.float64]]:
        """Return the vector of a word as written or in lower case, else those of its parts."""
        for form in (word, word.lower()):
            if (vector := self._known.get(form)) is not None:
                return [vector]
        parts = _PART.findall(word)
        return [] if parts == [word] else [v for part in parts for v in self._of_word(part)]

    def _lines(self) -> Iterator[tuple[int, bytes, float]]:
        """Yield (line number, line, share of the file read)."""
        try:
            size = max(self._path.stat().st_size, 1)
            with self._path.open("rb") as raw:
                packed = self._path.suffix.lower() == ".gz"
                stream = gzip.GzipFile(fileobj=raw) if packed else raw
                for number, line in enumerate(stream, start=1):
                    if text := line.strip(b" \t\r\n"):
                        yield number, text, raw.tell() / size
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(
                f"embedding: expected word vectors in {self._path}, but it cannot be read "
                f"({error}); give another file"
            ) from error


def _split(name: str) -> list[str]:
    """Split at white space and strip punctuation from the words."""
    return [word for piece in name.split() if (word := piece.strip(_EDGE))]


def _ends_in_number(word: bytes) -> bool:
    """Return whether one more number stands before the numbers, so that the line is too long."""
    try:
        return b" " in word and math.isfinite(float(word.rpartition(b" ")[2]))
    except ValueError:
        return False


# -- on disk ----------------------------------------------------------------------------------
def stored_vectors(path: Path, n_rows: int) -> NDArray[np.float32] | None:
    """Return the vectors in a file, memory-mapped; None if it is missing or damaged.

    Args:
        path: named by a hash of all that determines its content.
        n_rows: the number of vectors that it should hold.
    """
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, tokenize.TokenError):  # TokenError: a damaged header
        return None
    is_sound = vectors.ndim == 2 and len(vectors) == n_rows and vectors.dtype == np.float32
    return vectors if is_sound else None


def store_vectors(
    path: Path, n_rows: int, blocks: Iterable[NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Write vectors block by block, so that memory does not grow with them; return them mapped.

    The file gets its name when it is complete. Two processes may write it at once.

    Raises:
        UsageError: the folder cannot be written to.
    """
    try:
        with atomic_stream(path) as stream:
            for number, block in enumerate(blocks):
                if number == 0:
                    header = {"descr": "<f4", "fortran_order": False}
                    shape = (n_rows, block.shape[1])
                    np.lib.format.write_array_header_1_0(stream, {**header, "shape": shape})
                stream.write(np.ascontiguousarray(block, "<f4").data)
    except OSError as error:
        raise UsageError(
            f"embedding: the vectors cannot be written to {path.parent} ({error.strerror}); free "
            "some space there, or set MEDSTRESS_CACHE to another folder"
        ) from error
    vectors: NDArray[np.float32] = np.load(path, mmap_mode="r" if n_rows else None)
    return vectors
