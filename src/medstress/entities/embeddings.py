"""Vectors of names, keys and prompts, and their cosine distances.

They come from a model or a file of word vectors, and then stay on disk, or from n-grams by TF-IDF.
"""

from __future__ import annotations

import math
import re
import threading
import tokenize
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash, file_hash
from medstress.core.writing import atomic_stream, cache_dir
from medstress.entities.encoders import (
    MAX_TOKENS,
    POOLINGS,
    POOLINGS_OF,
    RELEASED,
    Pooling,
    Progress,
    SentenceFolder,
    TransformerEncoder,
    default_pooling,
    library_version,
    minilm_folder,
    model_folder,
    read_folder,
    weights_hash,
)
from medstress.entities.names import normalise, words
from medstress.entities.vocabularies import existing_file, packed_lines

if TYPE_CHECKING:
    from numpy.typing import NDArray


NGRAM = "ngram"
"""The embedding without a model or file."""

_CHUNK = 1024
"""Texts that word vectors are computed for at a time."""
_MODEL_CHUNK = 16_384
"""Texts that a model gets at a time; it sorts them by length, so large chunks need less padding."""


class Embedder:
    """An embedding with its settings; it computes the vectors of a model or of word vectors.

    It loads nothing until a vector is requested that is not on disk. `ngram` has no such vectors:
    its space follows from the names (`name_vectors`).
    """

    def __init__(
        self,
        embedding: str,
        pooling: str | None = None,
        *,
        base: Path | None = None,
        choices: str = "default",
    ) -> None:
        """Check the arguments.

        Args:
            embedding: `minilm`, `ngram`, word vectors (.txt, .vec, .gz), or the path or hub id
                of an encoder for transformers or sentence-transformers.
            pooling: `cls`, `mean`, `first_token`; None: the model's usual one.
            base: folder that a relative model path starts from; None: the working directory.
            choices: with `as_released` every model's default pooling is `first_token`, as in the
                code released with Xian et al. (2025).

        Raises:
            UsageError: the pooling is unknown, or given to an embedding without one.
        """
        if pooling is not None and pooling not in POOLINGS:
            raise UsageError(
                f"entities, key 'pooling': expected one of {', '.join(POOLINGS)}, got {pooling!r}"
                f"{did_you_mean(pooling, POOLINGS)}"
            )
        self.embedding = embedding
        self._is_word_vectors = is_word_vectors(embedding)
        self.is_sparse = embedding == NGRAM
        """Whether texts have sparse vectors, without a model or file."""
        self._is_model = not (self.is_sparse or self._is_word_vectors)
        if pooling is not None and not self._is_model:
            what = "the ngram embedding has" if self.is_sparse else "word vectors have"
            raise UsageError(f"entities, key 'pooling': {what} no pooling; remove the key")
        self._requested: Pooling | None = pooling or (
            "first_token" if choices == RELEASED else None
        )
        self._base = base or Path()
        self._lock = threading.Lock()

    @cached_property
    def identity(self) -> str:
        """Hash of everything but the names: weights, pooling, versions.

        Raises:
            UsageError: the model is not installed or not found.
        """
        if self.is_sparse:
            return content_hash(NGRAMS)
        if self._is_word_vectors:
            return content_hash([MEANS, file_hash(self._word_file)])
        # First, since its error names the extra that a missing model needs.
        weights = weights_hash(self._folder.model)
        return content_hash([weights, self.pooling, f"transformers {library_version()}"])

    @cached_property
    def pooling(self) -> Pooling:
        """The requested pooling, else the one in the model's folder, else a guess by its name.

        Raises:
            UsageError: the model is not found, or its folder needs a pooling medstress lacks.
        """
        own = self._requested or POOLINGS_OF.get(self.embedding)
        return own or self._folder.pooling or default_pooling(self.embedding)

    def vectors(
        self, names: Sequence[str], progress: Progress | None = None, *, keep: bool = True
    ) -> NDArray[np.float32]:
        """Return the unit vectors of `names` (not normalised) in order; zero where undefined.

        Args:
            names: any texts.
            progress: called with (done, all) while vectors are computed, not on a cache hit.
            keep: use the cache on disk; the vectors are then memory-mapped and read-only, and
                written as they are computed, so memory does not grow with the names.

        Returns:
            Shape (n_names, n_dimensions).
        """
        if not keep:
            return np.concatenate(list(self._blocks(names, progress)))
        key = content_hash([self.identity, list(names)]).partition(":")[2]
        path = cache_dir("vectors") / f"{key}.npy"
        stored = stored_vectors(path, len(names))
        if stored is not None:
            return stored
        return store_vectors(path, len(names), self._blocks(names, progress))

    def _blocks(
        self, names: Sequence[str], progress: Progress | None
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors in chunks of names, at least one array."""
        if self._is_word_vectors:
            with self._lock:
                self._word_vectors.learn(names, progress)
        size = _MODEL_CHUNK if self._is_model else _CHUNK
        for start in range(0, max(len(names), 1), size):
            part = names[start : start + size]
            with self._lock:
                if self._is_model:
                    yield self._transformer.encode(part, _shifted(progress, start, len(names)))
                    continue
                vectors = self._word_vectors.encode(part)
            yield vectors
            if progress is not None:
                progress(start + len(part), len(names))

    @cached_property
    def _word_vectors(self) -> WordVectors:
        return WordVectors(self._word_file)

    @cached_property
    def _word_file(self) -> Path:
        path = self._base / Path(self.embedding).expanduser()
        existing_file(path, f"embedding {self.embedding!r}", "give the path of word vectors")
        return path

    @cached_property
    def _transformer(self) -> TransformerEncoder:
        library_version()
        folder = self._folder
        return TransformerEncoder(
            folder.model, self.pooling, max_tokens=folder.max_tokens, lower_case=folder.lower_case
        )

    @property
    def folder(self) -> SentenceFolder | None:
        """The model's folder; None if texts have no tokens (`ngram`, word vectors).

        Raises:
            UsageError: the model is not installed or not found.
        """
        return self._folder if self._is_model else None

    @cached_property
    def _folder(self) -> SentenceFolder:
        if self.embedding == "minilm":
            return read_folder(minilm_folder())
        return read_folder(model_folder(self.embedding, self._base))


def _shifted(progress: Progress | None, before: int, n_all: int) -> Progress | None:
    """Return a callback that reports the progress of a chunk as progress of the whole."""
    return None if progress is None else lambda done, _: progress(before + done, n_all)


_CACHE_BYTES = 8 << 20
"""Memory for distances: those of the keys whose trials draw next, and a few before."""
_BLOCK = 128
"""Names whose vectors are read at a time."""
_ANCHORS_AT_ONCE = 64
"""Anchors whose distances are computed together, fewer if they would not fit into the cache."""
_ROWS = 1 << 14
"""Rows of a memory map that are multiplied at a time."""


class DenseNames:
    """Names and the distances of any text from them, by vectors of a model or of words.

    Texts are embedded on demand. Vectors stay on disk and are read as needed.
    """

    def __init__(self, names: Sequence[str], embedder: Embedder) -> None:
        self.names = names
        self._embedder = embedder
        self._places: dict[str, tuple[NDArray[np.float32], int]] = {}
        self._order: dict[str, int] = {}
        self._anchors: list[str] = []
        # At most half the cache, or the last rows would push out the first.
        self._at_once = max(min(_CACHE_BYTES // (16 * len(names)), _ANCHORS_AT_ONCE), 1)
        self._together = lru_cache(maxsize=2)(self._cosine_distances)
        self._last = lru_cache(maxsize=1)(self._vector)

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        """Memory-mapped, shape (n_names, n_dimensions)."""
        return self._embedder.vectors(self.names)

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """Lengths of the vectors, shape (n_names,): 1, or 0 where undefined."""
        return np.concatenate([np.linalg.norm(block, axis=1) for block in self._blocks()])

    def prepare(
        self, anchors: Iterable[str], texts: Iterable[str] = (), progress: Progress | None = None
    ) -> None:
        """Embed the names, all anchors and all texts; later calls need no model.

        Args:
            anchors: in the order in which their distances will be requested; neighbours in this
                order are computed together.
            texts: other texts whose vectors will be requested.
            progress: called with (done, all) while vectors are computed.
        """
        if "_vectors" not in self.__dict__:
            self._vectors = self._embedder.vectors(self.names, progress)
        ordered = list(dict.fromkeys(anchors))
        new = sorted({*ordered, *texts} - self._places.keys())
        if new:
            vectors = self._embedder.vectors(new, progress)
            self._places.update((text, (vectors, row)) for row, text in enumerate(new))
        for anchor in ordered:
            if anchor not in self._order:
                self._order[anchor] = len(self._anchors)
                self._anchors.append(anchor)

    def vector(self, text: str) -> NDArray[np.float64]:
        """Return the unit vector of any text, shape (n_dimensions,); zero where undefined."""
        return self._last(text)  # requests for one anchor come in a row

    def _vector(self, text: str) -> NDArray[np.float64]:
        vectors, row = self._places.get(text) or (self._embedder.vectors([text], keep=False), 0)
        return np.asarray(vectors[row], np.float64)

    def vectors_of(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the unit vectors of some names, shape (n, n_dimensions)."""
        return np.asarray(self._vectors[indices], np.float64)

    def cosines(self, direction: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the cosine of every name's vector and a direction other than zero, (n_names,)."""
        # In blocks of float32, so that a memory map is read once from front to back.
        unit = (direction / np.linalg.norm(direction)).astype(np.float32)
        cosines = np.empty(len(self.names), np.float32)
        for start in range(0, len(self.names), _ROWS):
            block = slice(start, start + _ROWS)
            np.matmul(self._vectors[block], unit, out=cosines[block])
        return cosines

    def distance(self, anchor: str, text: str) -> float:
        """Return 1 - cos(anchor, text); nan if a vector is undefined."""
        one, other = self.vector(anchor), self._vector(text)
        lengths = math.sqrt(one @ one) * math.sqrt(other @ other)
        return max(1 - float(one @ other) / lengths, 0.0) if lengths else math.nan

    def distances(self, anchor: str) -> NDArray[np.float64]:
        """Return 1 - cos(anchor, name) for every name, shape (n_names,), read-only."""
        if (place := self._order.get(anchor)) is None:
            return np.asarray(self._together((anchor,))[0])
        start = place - place % self._at_once
        neighbours = tuple(self._anchors[start : start + self._at_once])
        return np.asarray(self._together(neighbours)[place - start])

    def _cosine_distances(self, anchors: tuple[str, ...]) -> NDArray[np.float64]:
        """Return 1 - cos of each anchor and every name, shape (n_anchors, n_names)."""
        vectors = np.stack([self._vector(anchor) for anchor in anchors])
        lengths = np.linalg.norm(vectors, axis=1)[:, None]
        distances = np.empty((len(anchors), len(self.names)))
        for start, block in zip(range(0, len(self.names), _BLOCK), self._blocks(), strict=True):
            part = slice(start, start + len(block))
            with np.errstate(divide="ignore", invalid="ignore"):
                cosines = (vectors @ block.T) / (lengths * self.lengths[None, part])
            distances[:, part] = np.maximum(1 - cosines, 0)
        distances.setflags(write=False)
        return distances

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        """Yield the vectors in blocks, since all of them in float64 may not fit into memory."""
        for start in range(0, len(self.names), _BLOCK):
            yield np.asarray(self._vectors[start : start + _BLOCK], np.float64)


class SparseNames:
    """As `DenseNames`, by the n-grams and words that names share (`Ngrams`); nothing is kept."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._distances = lru_cache(maxsize=max(_CACHE_BYTES // (8 * len(names)), 1))(self._from)

    @cached_property
    def _space(self) -> Ngrams:
        return space_of(tuple(self.names))

    def prepare(
        self, anchors: Iterable[str], texts: Iterable[str] = (), progress: Progress | None = None
    ) -> None:
        """Count the features of the names."""
        assert self._space

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """1 for a name with a character, else 0."""
        return np.asarray(np.diff(self._space.matrix.indptr) > 0, np.float64)

    def vector(self, text: str) -> NDArray[np.float64]:
        """The vector in features of the names; what else a text has is one more number."""
        return self._space.vector(text)

    def vectors_of(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Dense rows."""
        return np.asarray(self._space.matrix[indices].toarray())

    def cosines(self, direction: NDArray[np.float64]) -> NDArray[np.float32]:
        """Exact but for the last rounding."""
        unit = direction / np.linalg.norm(direction)
        return np.asarray(self._space.matrix @ unit, np.float32)

    def distance(self, anchor: str, text: str) -> float:
        """Exact also where neither text shares its features with any name."""
        one, other = self._space.weights(anchor), self._space.weights(text)
        if not one or not other:
            return math.nan
        return max(1 - math.fsum(v * other[f] for f, v in one.items() if f in other), 0.0)

    def distances(self, anchor: str) -> NDArray[np.float64]:
        """1 for names that share nothing with the anchor."""
        return self._distances(anchor)

    def _from(self, anchor: str) -> NDArray[np.float64]:
        distances = np.maximum(1 - self._space.cosines(anchor), 0)
        distances[(self.lengths == 0) | (not self._space.weights(anchor))] = np.nan
        distances.setflags(write=False)
        return distances


NameVectors: TypeAlias = DenseNames | SparseNames


def name_vectors(names: Sequence[str], embedder: Embedder) -> NameVectors:
    """Return the vectors of names by an embedding; they are computed when they are needed."""
    return SparseNames(names) if embedder.is_sparse else DenseNames(names, embedder)


CountTokens: TypeAlias = Callable[[list[str]], list[int]]
"""Returns the number of tokens of each text, without special tokens."""

WINDOWS = "windows of whole words, unit vectors averaged by tokens; version 1"
"""Identifies the treatment of long texts in hashes."""

SLACK = 8
"""Tokens of a window left free, since a word may have one more inside a text than alone."""

_WORD = re.compile(r"\S+\s*")


class PromptEncoder:
    """Computes unit vectors of whole prompts.

    *Differs from the paper*, whose library truncates prompts at the model's limit (128 to 512
    tokens), so that an edit of an option, near the end of the prompt, would be lost. Here a longer
    prompt is read in windows of whole words. Its vector is the mean of their unit vectors, weighted
    by their tokens and scaled to unit length. Shorter prompts are read whole.

    References:
        Xian et al., "Assessing biomedical knowledge robustness in large language models by
        query-efficient sampling attacks", TMLR 2025 (prompt semantic similarity).
    """

    def __init__(
        self, embedding: str, pooling: str | None = None, base: Path | None = None
    ) -> None:
        """Check the arguments; the first prompt loads the model.

        Args:
            embedding: as for a group, see `Embedder`.
            pooling: how token states become a vector; None: the model's usual one.
            base: folder that a relative model path starts from.

        Raises:
            UsageError: the pooling is unknown.
        """
        self._embedder = Embedder(embedding, pooling, base=base)

    @cached_property
    def identity(self) -> str:
        """Hash of everything that determines a vector.

        Raises:
            UsageError: the model is not installed or not found.
        """
        return content_hash([self._embedder.identity, WINDOWS, MAX_TOKENS, SLACK])

    def encode(self, prompts: Sequence[str]) -> NDArray[np.float64]:
        """Return unit vectors, shape (n_prompts, n_dimensions).

        Those of `ngram` can be compared with those of the same call alone.
        """
        if self._embedder.is_sparse:
            return np.asarray(Ngrams(prompts, is_weighted=False).matrix.toarray())
        counts = [[1]] * len(prompts)
        pieces = [[prompt] for prompt in prompts]
        if self._embedder.folder is not None:
            cut = [windows(prompt, self._limit, self._count) for prompt in prompts]
            pieces = [[text for text, _ in parts] for parts in cut]
            counts = [[n for _, n in parts] for parts in cut]
        texts = [text for parts in pieces for text in parts]
        vectors = self._embedder.vectors(texts, keep=False).astype(np.float64)
        weights = np.array([n for parts in counts for n in parts], dtype=np.float64)
        starts = np.cumsum([0, *(len(parts) for parts in pieces[:-1])])
        sums = np.add.reduceat(vectors * weights[:, None], starts, axis=0)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        return np.asarray(sums / np.where(lengths > 0, lengths, 1))

    @cached_property
    def _tokenizer(self) -> Callable[..., dict[str, list[list[int]]]]:
        from transformers import AutoTokenizer

        assert self._embedder.folder is not None
        tokenizer: Callable[..., dict[str, list[list[int]]]] = AutoTokenizer.from_pretrained(
            str(self._embedder.folder.model), local_files_only=True, trust_remote_code=False
        )
        return tokenizer

    @cached_property
    def _limit(self) -> int:
        tokenizer: object = self._tokenizer
        folder = self._embedder.folder
        folder_limit = (folder.max_tokens if folder else None) or MAX_TOKENS
        model_limit = int(getattr(tokenizer, "model_max_length", MAX_TOKENS))
        n_special = len(self._tokenizer([""])["input_ids"][0])
        return min(MAX_TOKENS, folder_limit, model_limit) - n_special - SLACK

    def _count(self, texts: list[str]) -> list[int]:
        tokens = self._tokenizer(texts, add_special_tokens=False, truncation=False, verbose=False)
        return [len(ids) for ids in tokens["input_ids"]]


def windows(text: str, limit: int, count: CountTokens) -> list[tuple[str, int]]:
    """Cut a text at white space into pieces of at most `limit` tokens.

    Args:
        text: any text.
        limit: most tokens of a piece, counted word by word.
        count: counts tokens.

    Returns:
        Pieces in order with their numbers of tokens (at least 1); joined they give the text. A word
        longer than the limit is split.

    >>> windows("one two three", 2, lambda texts: [len(text.split()) for text in texts])
    [('one two ', 2), ('three', 1)]
    """
    (n_tokens,) = count([text])
    if n_tokens <= limit:
        return [(text, max(n_tokens, 1))]
    step = max(limit // 4, 1)  # a character is four tokens at most
    words: list[str] = []
    matches = _WORD.findall(text)
    for word, n in zip(matches, count(matches), strict=True):
        if n > limit:
            words += [word[i : i + step] for i in range(0, len(word), step)]
        else:
            words.append(word)
    pieces: list[tuple[str, int]] = []
    for word, n in zip(words, count(words), strict=True):
        if pieces and pieces[-1][1] + n <= limit:
            piece, taken = pieces[-1]
            pieces[-1] = (piece + word, taken + n)
        else:
            pieces.append((word, n))
    return [(piece, max(n, 1)) for piece, n in pieces]


# -- vectors without a model -----------------------------------------------------------------------

NGRAMS = "character 3-5-grams and words, half each, TF-IDF, exact; version 2"
"""Identifies the vectors in hashes; change it whenever a vector changes."""

_LENGTHS = (3, 4, 5)
_HELD = 20_000
"""Names whose features are held while all are counted."""
_RECENT = 1_024
"""Texts whose weights are held."""
_OF_WORD = "\n"
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
        weights: the unit vector of any text: feature -> weight; empty if it has no character.
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
        # The right answer is compared with every option.
        self.weights = lru_cache(maxsize=_RECENT)(self._of_text)

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

    def cosines(self, text: str) -> NDArray[np.float64]:
        """Return the cosine of any text and every name, shape (n_names,)."""
        shared, ends = self._by_feature, self._by_feature.indptr
        rows: list[NDArray[np.int32]] = []
        products: list[NDArray[np.float64]] = []
        for feature, value in self.weights(text).items():
            if (column := self._columns.get(feature)) is not None:
                names = slice(ends[column], ends[column + 1])
                rows.append(shared.indices[names])
                products.append(shared.data[names] * value)
        cosines = np.zeros(self.matrix.shape[0])
        if rows:
            np.add.at(cosines, np.concatenate(rows), np.concatenate(products))
        return cosines

    @cached_property
    def _by_feature(self) -> Any:
        return self.matrix.tocsc()

    def _of_text(self, text: str) -> Mapping[str, float]:
        return self._weights(_counts(text))

    def _weights(self, counts: Mapping[str, int]) -> dict[str, float]:
        inverse, unseen = self._inverse, self._unseen
        row = {
            f: inverse.get(f, unseen) if n == 1 else (1 + math.log(n)) * inverse.get(f, unseen)
            for f, n in counts.items()
        }
        squares = [0.0, 0.0]
        for feature, value in row.items():
            squares[feature[0] == _OF_WORD] += value * value
        # Each part that is not empty has the same length, and the whole vector has length 1.
        n_parts = sum(square > 0 for square in squares)
        scale = [1 / math.sqrt(square * n_parts) if square else 0.0 for square in squares]
        return {feature: value * scale[feature[0] == _OF_WORD] for feature, value in row.items()}


@lru_cache(maxsize=2)
def space_of(names: tuple[str, ...]) -> Ngrams:
    """Return the vectors of names; those of the last two vocabularies are kept."""
    return Ngrams(names)


def _counts(name: str) -> Counter[str]:
    text = f" {normalise(name)} "
    grams = [text[i : i + n] for n in _LENGTHS for i in range(len(text) - n + 1)]
    return Counter(grams + [_OF_WORD + word for word in words(name)])


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
        self._kept_vectors: dict[str, NDArray[np.float64] | None] = {}

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
        new = (listed | {word.lower() for word in listed}) - self._kept_vectors.keys()
        if not new and self._size:
            return
        self._kept_vectors.update(dict.fromkeys(new))
        wanted = {word.encode(): word for word in new}
        is_checked = False
        for number, line, share in packed_lines(self._path, "embedding"):
            if number == 1:
                is_header = re.fullmatch(rb"\d{1,9} \d{1,9}", line) is not None
                self._size = int(line.split()[1]) if is_header else line.count(b" ")
                if is_header:
                    continue
            if progress is not None and number % _PROGRESS_LINES == 0:
                progress(min(int(share * len(names)), len(names)), len(names))
            is_long = line.count(b" ") != self._size
            # Of words that no one asked for only the first is parsed: prose can have as many words.
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
                self._kept_vectors[name] = vector
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
            if (vector := self._kept_vectors.get(form)) is not None:
                return [vector]
        parts = _PART.findall(word)
        return [] if parts == [word] else [v for part in parts for v in self._of_word(part)]


def _split(name: str) -> list[str]:
    """Split at white space and strip punctuation from the words."""
    return [word for piece in name.split() if (word := piece.strip(_EDGE))]


def _ends_in_number(word: bytes) -> bool:
    """Return whether one more number comes before the numbers, so that the line is too long."""
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
