"""Vectors of names, computed once and kept on disk."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medstress.entities import ngrams
from medstress.entities.encoders import (
    POOLINGS,
    Pooling,
    Progress,
    TransformerEncoder,
    default_pooling,
    library_version,
    minilm_folder,
    model_folder,
    weights_hash,
)
from medstress.errors import UsageError, did_you_mean
from medstress.hashing import content_hash
from medstress.paths import cache_dir

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Embedder:
    """Gives the vectors of names and of ad-hoc texts in one space.

    Nothing is loaded before the first vector that is not on disk is asked for.
    """

    def __init__(
        self,
        embedding: str,
        pooling: str | None = None,
        *,
        corpus: Sequence[str] = (),
        base: Path | None = None,
    ) -> None:
        """Check the arguments.

        Args:
            embedding: `minilm`, `ngram`, or the path or hub id of a transformers encoder.
            pooling: `cls`, `mean`, `first_token`; None: the model's usual one.
            corpus: names whose document frequencies weigh the features of `ngram`, usually
                the vocabulary; models ignore it.
            base: folder that a relative model path starts from; None: the working directory.

        Raises:
            UsageError: the pooling is unknown, or `ngram` is given one.
        """
        if pooling is not None and pooling not in POOLINGS:
            raise UsageError(
                f"entities, key 'pooling': expected one of {', '.join(POOLINGS)}, got {pooling!r}"
                f"{did_you_mean(pooling, POOLINGS)}"
            )
        if pooling is not None and embedding == "ngram":
            raise UsageError("entities, key 'pooling': the ngram embedding has none; remove it")
        self.embedding = embedding
        self.pooling: Pooling = pooling or default_pooling(embedding)
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
        weights = weights_hash(self._folder)  # first: names the extra that carries the model
        return content_hash([weights, self.pooling, f"transformers {library_version()}"])

    def vectors(
        self, names: Sequence[str], progress: Progress | None = None, *, keep: bool = True
    ) -> NDArray[np.float32]:
        """Return the unit vectors of `names`, as they stand, in order.

        Args:
            names: any texts.
            progress: told (done, all) while vectors are computed; not called on a cache hit.
            keep: read them from and write them to the cache on disk; then they are
                memory-mapped and read-only.

        Returns:
            Shape (n_names, n_dimensions).
        """
        if not keep:
            return self._compute(names, progress)
        key = content_hash([self.identity, list(names)]).partition(":")[2]
        path = cache_dir("vectors") / f"{key}.npy"
        try:
            return _read(path)
        except (FileNotFoundError, ValueError, EOFError):  # not there yet, or damaged
            _write(path, self._compute(names, progress))
        return _read(path)

    def _compute(self, names: Sequence[str], progress: Progress | None) -> NDArray[np.float32]:
        with self._lock:
            if self.embedding != "ngram":
                return self._transformer.encode(names, progress)
            vectors = self._ngrams.encode(names)
        if progress is not None:
            progress(len(names), len(names))
        return vectors

    @cached_property
    def _ngrams(self) -> ngrams.NgramEncoder:
        return ngrams.NgramEncoder(self._corpus)

    @cached_property
    def _transformer(self) -> TransformerEncoder:
        library_version()
        return TransformerEncoder(self._folder, self.pooling)

    @cached_property
    def _folder(self) -> Path:
        if self.embedding == "minilm":
            return minilm_folder()
        return model_folder(self.embedding, self._base)


def embed_names(
    names: Sequence[str],
    embedding: str,
    pooling: str | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Return the unit vectors of `names`, shape (n_names, n_dimensions), from disk if known.

    For `ngram` the names are their own corpus. See `Embedder`, which also embeds further texts
    in the same space.
    """
    return Embedder(embedding, pooling, corpus=names).vectors(names, progress)


def embedding_identity(embedding: str, pooling: str | None = None) -> str:
    """Return the embedding's hash for a manifest: weights, pooling and library version.

    >>> embedding_identity("ngram") == embedding_identity("ngram")
    True
    """
    return Embedder(embedding, pooling).identity


def _read(path: Path) -> NDArray[np.float32]:
    vectors: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
    return vectors


def _write(path: Path, vectors: NDArray[np.float32]) -> None:
    """Write under another name, then rename: a reader never meets half a file."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            np.save(stream, vectors, allow_pickle=False)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
