"""Vectors of names, computed once and cached on disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash, file_hash
from medstress.entities import ngrams, word_vectors
from medstress.entities.encoders import (
    KNOWN_POOLINGS,
    POOLINGS,
    RELEASED,
    Pooling,
    Progress,
    TransformerEncoder,
    default_pooling,
    library_version,
    minilm_folder,
    model_folder,
    weights_hash,
)
from medstress.entities.sentence_folders import SentenceFolder, read_folder
from medstress.entities.tables import existing_file
from medstress.entities.vector_files import VectorFile, open_vectors, write_vectors
from medstress.files.cache_folders import cache_dir

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 1024
"""Texts that n-grams and word vectors are computed for at a time."""
_MODEL_CHUNK = 16_384
"""Texts that a model gets at a time; it sorts them by length, so large chunks need less padding."""


class Embedder:
    """Computes the vectors of names and other texts in one space.

    It loads nothing until a vector is requested that is not on disk.
    """

    def __init__(
        self,
        embedding: str,
        pooling: str | None = None,
        *,
        corpus: Sequence[str] = (),
        base: Path | None = None,
        choices: str = "default",
    ) -> None:
        """Check the arguments.

        Args:
            embedding: `minilm`, `ngram`, word vectors (.txt, .vec, .gz), or the path or hub id
                of an encoder for transformers or sentence-transformers.
            pooling: `cls`, `mean`, `first_token`; None: the model's usual one.
            corpus: names whose document frequencies weight the features of `ngram`, usually
                the vocabulary; models ignore it.
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
        self._is_word_vectors = word_vectors.is_word_vectors(embedding)
        self._is_model = embedding != "ngram" and not self._is_word_vectors
        if pooling is not None and not self._is_model:
            what = "the ngram embedding has" if embedding == "ngram" else "word vectors have"
            raise UsageError(f"entities, key 'pooling': {what} no pooling; remove the key")
        self._requested: Pooling | None = pooling or (
            "first_token" if choices == RELEASED else None
        )
        self._corpus = tuple(corpus) if embedding == "ngram" else ()
        self._base = base or Path()
        self._lock = threading.Lock()

    @cached_property
    def identity(self) -> str:
        """Hash of everything but the names: weights, pooling, versions, corpus.

        Raises:
            UsageError: the model is not installed or not found.
        """
        if self.embedding == "ngram":
            return content_hash([ngrams.ALGORITHM, list(self._corpus)])
        if self._is_word_vectors:
            return content_hash([word_vectors.ALGORITHM, file_hash(self._word_file)])
        # First, since its error names the extra that a missing model needs.
        weights = weights_hash(self._folder.model)
        return content_hash([weights, self.pooling, f"transformers {library_version()}"])

    @cached_property
    def pooling(self) -> Pooling:
        """The requested pooling, else the one in the model's folder, else a guess by its name.

        Raises:
            UsageError: the model is not found, or its folder needs a pooling medstress lacks.
        """
        known = self._requested or KNOWN_POOLINGS.get(self.embedding)
        return known or self._folder.pooling or default_pooling(self.embedding)

    def vectors(
        self, names: Sequence[str], progress: Progress | None = None, *, keep: bool = True
    ) -> NDArray[np.float32]:
        """Return the unit vectors of `names` (not normalised) in order; zero where undefined.

        Args:
            names: any texts.
            progress: called with (done, all) while vectors are computed, not on a cache hit.
            keep: use the cache on disk; the vectors are then memory-mapped and read-only.

        Returns:
            Shape (n_names, n_dimensions).
        """
        if keep:
            return self.vector_file(names, progress).mapped()
        return np.concatenate(list(self._blocks(names, progress)))

    def vector_file(self, names: Sequence[str], progress: Progress | None = None) -> VectorFile:
        """Return the cache file with the result of `vectors`, which can be read in parts.

        Vectors are written as they are computed, so memory does not grow with the names.
        """
        key = content_hash([self.identity, list(names)]).partition(":")[2]
        path = cache_dir("vectors") / f"{key}.npy"
        known = open_vectors(path, key, len(names))
        if known is not None:
            return known
        return write_vectors(path, key, len(names), self._blocks(names, progress))

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
                encoder = self._word_vectors if self._is_word_vectors else self._ngrams
                found = encoder.encode(part)
            yield found
            if progress is not None:
                progress(start + len(part), len(names))

    @cached_property
    def _ngrams(self) -> ngrams.NgramEncoder:
        return ngrams.NgramEncoder(self._corpus)

    @cached_property
    def _word_vectors(self) -> word_vectors.WordVectors:
        return word_vectors.WordVectors(self._word_file)

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
