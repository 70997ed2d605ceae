"""An embedding without a model: hashed character n-grams and words, weighted by TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from medstress.entities.names import normalise, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALGORITHM = "character 3-5-grams 768 + words 256, on 1 and 4 dimensions, crc32, TF-IDF; version 1"
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
