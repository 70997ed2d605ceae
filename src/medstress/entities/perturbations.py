"""Perturbation sets: a vocabulary, how far each name lies from a key, which may replace what."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import numpy as np

from medstress.entities.embeddings import Embedder
from medstress.entities.encoders import Progress
from medstress.entities.names import (
    DIFFERENT,
    VARIANT_CLASSES,
    VariantIndex,
    normalise,
    variant_class,
)
from medstress.entities.synonyms import SynonymGroups
from medstress.entities.vocabularies import Vocabulary
from medstress.errors import UsageError, did_you_mean
from medstress.hashing import content_hash
from medstress.items import Question
from medstress.resources import Exclusions

if TYPE_CHECKING:
    from numpy.typing import NDArray

Distance = Literal["cosine", "euclidean"]
DISTANCES: tuple[Distance, ...] = ("cosine", "euclidean")

DUPLICATE = 1e-9
"""Names with 1 - cos below this to the key's text are the key itself in the embedding's eyes."""

REASONS = (*VARIANT_CLASSES, "equal_to_option", "key_duplicate", "undefined_distance")
"""Why a name is not drawn, by code: the class it varies the key in (`different` is no reason),
then what goes before the classes."""

EQUAL_TO_OPTION, KEY_DUPLICATE, UNDEFINED_DISTANCE = range(len(VARIANT_CLASSES), len(REASONS))

RULES: dict[Exclusions, frozenset[int]] = {
    "exclude": frozenset(range(len(REASONS))) - {DIFFERENT},
    "mark": frozenset({EQUAL_TO_OPTION, KEY_DUPLICATE, UNDEFINED_DISTANCE}),
    # Xian et al. (2025): a name may repeat another wrong option or restate the key.
    "key_string": frozenset({KEY_DUPLICATE, UNDEFINED_DISTANCE}),
}
"""The codes that each rule leaves out."""

Kind = TypeVar("Kind", np.float64, np.int64, np.int8)

_KEPT_ITEMS = 256
_KEPT_ANCHORS = 512
_BLOCK = 128
_TOGETHER = 64


class VectorPerturbationSet:
    """Names with vectors; h(k, e) is a distance between the vectors of key and name.

    Reading is thread-safe. The anchor of h is the key's whole option text, as it stands.

    References:
        R. Patrick Xian et al., "Assessing biomedical knowledge robustness in large language
        models by query-efficient sampling attacks", TMLR, 2025: h is 1 - cosine, and the
        samplers need no more of it than h >= 0.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        embedder: Embedder,
        synonyms: SynonymGroups,
        distance: str = "cosine",
    ) -> None:
        """Store the parts; `prepare` does the work.

        Raises:
            UsageError: the distance is unknown.
        """
        if distance not in DISTANCES:
            raise UsageError(
                f"entities, key 'distance': expected one of {', '.join(DISTANCES)}, got "
                f"{distance!r}{did_you_mean(distance, DISTANCES)}"
            )
        self.vocabulary = vocabulary
        self.distance = distance
        self._embedder = embedder
        self._synonyms = synonyms
        self._vectors: NDArray[np.float32] | None = None
        self._anchors: dict[str, NDArray[np.float64]] = {}
        self._order: list[str] = []
        self._places: dict[str, int] = {}
        self._gaps: _Recent[np.float64] = _Recent(_KEPT_ANCHORS)
        self._allowed: _Recent[np.int64] = _Recent(_KEPT_ITEMS)
        self._codes: _Recent[np.int8] = _Recent(_KEPT_ITEMS)

    @property
    def names(self) -> Sequence[str]:
        """All names, in the vocabulary's order, shape (n_names,)."""
        return self.vocabulary.names

    @cached_property
    def hash(self) -> str:
        """Content hash of vocabulary, embedding, synonyms and distance."""
        parts = [self.vocabulary.hash, self._embedder.identity, self._synonyms.hash, self.distance]
        return content_hash(parts)

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Unit vectors of the names, shape (n_names, n_dimensions)."""
        if self._vectors is None:
            self._vectors = self._embedder.vectors(self.names)
        return self._vectors

    def vector(self, text: str) -> NDArray[np.float64]:
        """Return the unit vector of one text, shape (n_dimensions,); zeros where it has none.

        A text that was not prepared is embedded now.
        """
        return self._anchor_vector(text)

    def prepare(
        self,
        anchors: Iterable[str],
        texts: Iterable[str] = (),
        progress: Progress | None = None,
    ) -> None:
        """Embed the vocabulary, all anchors and all texts; later calls need no model.

        Args:
            anchors: the key texts of the items that will be attacked, in the items' order:
                distances are computed for several neighbours of that order together.
            texts: others whose distance to an anchor will be asked for.
            progress: told (done, all) while vectors are computed.
        """
        if self._vectors is None:
            self._vectors = self._embedder.vectors(self.names, progress)
        anchors = list(anchors)
        for anchor in anchors:
            if anchor not in self._places:
                self._places[anchor] = len(self._order)
                self._order.append(anchor)
        new = sorted({*anchors, *texts} - self._anchors.keys())
        if new:
            found = self._embedder.vectors(new, progress).astype(np.float64)
            self._anchors.update(zip(new, found, strict=True))

    def distances(self, anchor: str) -> NDArray[np.float64]:
        """Return h(anchor, name) for every name.

        An anchor that was not prepared is embedded now.

        Returns:
            Shape (n_names,), not to be written to, >= 0: 1 - cos for `cosine`, the distance of
            the unit vectors for `euclidean`; nan where a vector is zero.
        """
        gap = self._gap(anchor)
        return gap if self.distance == "cosine" else np.sqrt(2 * gap)

    def distance_to(self, anchor: str, text: str) -> float:
        """Return h(anchor, text) for one text that need not be in the vocabulary.

        Texts that were not prepared are embedded now.
        """
        one, other = (self._anchor_vector(name) for name in (anchor, text))
        lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
        gap = max(1 - float(one @ other) / lengths, 0.0) if lengths else math.nan
        return gap if self.distance == "cosine" else math.sqrt(2 * gap)

    def allowed(self, item: Question, rule: Exclusions = "exclude") -> NDArray[np.int64]:
        """Return the indices of the names that may replace an entity of a wrong option.

        Never allowed: names that equal the key's text after normalisation, have 1 - cos < 1e-9
        to it, or no distance to it. By `key_string` nothing else is left out, as in Xian et al.
        (2025). By `mark` neither are names that equal any option or any entity in an option, or
        that would make an option of several parts equal to another. By `exclude`, our default,
        neither are names whose class against the key's text or an entity in it is other than
        `different`: they could be a second right answer.

        Args:
            item: the question.
            rule: `exclude`, `mark` or `key_string`.

        Returns:
            Ascending, read-only.
        """
        key = f"{item.hash}/{rule}"
        known = self._allowed.find(key)
        if known is None:
            left_out = sorted(RULES[rule])
            known = np.flatnonzero(~np.isin(self._reasons(item), left_out))
            self._allowed.keep(key, known)
        return known

    def n_excluded(self, item: Question, rule: Exclusions = "exclude") -> Mapping[str, int]:
        """Return how many names `allowed` leaves out, by the first of these reasons that fits.

        `undefined_distance`, `key_duplicate`, `equal_to_option`, then the variant classes.
        """
        counts = np.bincount(self._reasons(item), minlength=len(REASONS))
        return {
            REASONS[code]: int(counts[code]) for code in sorted(RULES[rule]) if counts[code] > 0
        }

    def objection(self, item: Question, name: str) -> str | None:
        """Return why `exclude` would leave a name out for what it says, or None."""
        normal = normalise(name)
        if normal == normalise(item.key_text):
            return REASONS[KEY_DUPLICATE]
        if any(normal == normalise(text) for text in _repeated(item)):
            return REASONS[EQUAL_TO_OPTION]
        found = self.variant_class(item, name)
        return None if found == VARIANT_CLASSES[DIFFERENT] else found

    def variant_class(self, item: Question, name: str) -> str:
        """Return the class of `name` against the key's text and the entities in it."""
        references = _texts(item, item.key)
        return variant_class(name, references, self._listed(references))

    def _reasons(self, item: Question) -> NDArray[np.int8]:
        """Positions in REASONS, shape (n_names,)."""
        known = self._codes.find(item.hash)
        if known is None:
            known = self._decide(item)
            self._codes.keep(item.hash, known)
        return known

    def _decide(self, item: Question) -> NDArray[np.int8]:
        references = _texts(item, item.key)
        found = self._index.classes(references, self._listed(references))
        found[self._index.equal_to(_repeated(item))] = EQUAL_TO_OPTION
        found[self._index.equal_to([item.key_text])] = KEY_DUPLICATE
        with np.errstate(invalid="ignore"):
            found[self._gap(item.key_text) < DUPLICATE] = KEY_DUPLICATE
        found[np.isnan(self.distances(item.key_text))] = UNDEFINED_DISTANCE
        return found

    def _gap(self, anchor: str) -> NDArray[np.float64]:
        """1 - cos(anchor, name), shape (n_names,)."""
        known = self._gaps.find(anchor)
        if known is not None:
            return known
        place = self._places.get(anchor)
        if place is None:
            together = [anchor]
        else:
            start = place - place % _TOGETHER
            together = self._order[start : start + _TOGETHER]
        found = self._cosine_gaps(together)
        gaps: dict[str, NDArray[np.float64]] = dict(zip(together, found, strict=True))
        for text, gap in gaps.items():
            self._gaps.keep(text, gap)
        return gaps[anchor]

    def _cosine_gaps(self, anchors: Sequence[str]) -> NDArray[np.float64]:
        """1 - cos of several anchors and every name, shape (n_anchors, n_names)."""
        vectors = np.stack([self._anchor_vector(anchor) for anchor in anchors])
        products = np.concatenate([vectors @ block.T for block in self._blocks()], axis=1)
        lengths = np.linalg.norm(vectors, axis=1)[:, None] * self._lengths[None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            gaps: NDArray[np.float64] = np.maximum(1 - products / lengths, 0)
        return gaps

    def _anchor_vector(self, text: str) -> NDArray[np.float64]:
        vector = self._anchors.get(text)
        if vector is None:
            vector = self._embedder.vectors([text], keep=False)[0].astype(np.float64)
        return vector

    def _blocks(self) -> Iterator[NDArray[np.float64]]:
        """The vectors in pieces: the file is float32 and may outgrow memory in float64."""
        for start in range(0, len(self.names), _BLOCK):
            yield self.vectors[start : start + _BLOCK].astype(np.float64)

    @cached_property
    def _lengths(self) -> NDArray[np.float64]:
        return np.concatenate([np.linalg.norm(block, axis=1) for block in self._blocks()])

    def _listed(self, references: Iterable[str]) -> frozenset[str]:
        return frozenset().union(*(self._synonyms.synonyms_of(text) for text in references))

    @cached_property
    def _index(self) -> VariantIndex:
        return VariantIndex(self.names)


def _texts(item: Question, letter: str) -> list[str]:
    """The text of one option, then the entities in it."""
    text = item.option(letter)
    return [text, *(text[m.start : m.end] for m in item.mentions if m.field == letter)]


def _repeated(item: Question) -> list[str]:
    """Texts that no replacement may equal: options, entities in them, and what would turn one
    option of several parts into another."""
    found = [text for letter in item.letters for text in _texts(item, letter)]
    options = {letter: item.option(letter).casefold() for letter in item.letters}
    for mention in item.mentions:
        if mention.field not in item.letters or mention.field == item.key:
            continue
        text = item.option(mention.field)
        before, after = text[: mention.start].casefold(), text[mention.end :].casefold()
        if not before and not after:
            continue
        for letter, other in options.items():
            fits = len(other) > len(before) + len(after) and letter != mention.field
            if fits and other.startswith(before) and other.endswith(after):
                found.append(other[len(before) : len(other) - len(after)])
    return found


class _Recent(Generic[Kind]):
    """The last `size` arrays by key, shared between threads and therefore read-only."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[str, NDArray[Kind]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: str) -> NDArray[Kind] | None:
        """Return the array of `key`, or None where it is not kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: str, made: NDArray[Kind]) -> None:
        """Keep an array; two threads may have made the same one."""
        made.setflags(write=False)
        with self._lock:
            self._kept[key] = made
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
