"""Perturbation sets: a vocabulary, how far each name lies from a key, which may replace what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medstress.entities.distances import Distance, open_distance
from medstress.entities.embeddings import Embedder
from medstress.entities.encoders import Progress
from medstress.entities.name_vectors import NameVectors
from medstress.entities.names import (
    DIFFERENT,
    VARIANT_CLASSES,
    VariantIndex,
    normalise,
    variant_class,
)
from medstress.entities.recent import Recent
from medstress.entities.synonyms import SynonymGroups
from medstress.entities.vocabularies import Vocabulary
from medstress.hashing import content_hash
from medstress.items import Question
from medstress.resources import Exclusions

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

_IS_DRAWN = {
    rule: np.array([code not in left_out for code in range(len(REASONS))])
    for rule, left_out in RULES.items()
}
"""Whether a name with this code may be drawn, shape (n_reasons,)."""

_ALLOWED_BYTES = 1 << 20
"""Of indices that may be drawn: soon made again from the codes."""
_CODES_BYTES = 1 << 20
"""Of codes other than `different`, which are few: those of all trials under way."""
_ENTRY_BYTES = 300
"""What holds an item's codes besides these."""


class VectorPerturbationSet:
    """Names with vectors, and a distance h(k, e) between key and name.

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
        base: Path | None = None,
    ) -> None:
        """Store the parts; `prepare` does the work.

        Args:
            vocabulary: the names.
            embedder: gives their vectors.
            synonyms: which names are second right answers.
            distance: see `open_distance`.
            base: folder that a function's relative file starts from; None: the working directory.

        Raises:
            UsageError: the distance is unknown.
        """
        self.vocabulary = vocabulary
        self.distance = distance
        self._embedder = embedder
        self._name_vectors = NameVectors(vocabulary.names, embedder)
        self._distance: Distance = open_distance(
            distance, vocabulary.names, self._name_vectors, base or Path()
        )
        self._synonyms = synonyms
        self._allowed: Recent[np.int64] = Recent(_ALLOWED_BYTES)
        self._codes: Recent[np.int32] = Recent(_CODES_BYTES, _ENTRY_BYTES)

    @property
    def names(self) -> Sequence[str]:
        """All names, in the vocabulary's order, shape (n_names,)."""
        return self.vocabulary.names

    @cached_property
    def hash(self) -> str:
        """Content hash of vocabulary, embedding, synonyms and distance."""
        parts = [self.vocabulary.hash, self._embedder.identity, self._synonyms.hash]
        return content_hash([*parts, self._distance.identity])

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Unit vectors of the names, shape (n_names, n_dimensions)."""
        return self._name_vectors.vectors

    def vector(self, text: str) -> NDArray[np.float64]:
        """Return the unit vector of one text, shape (n_dimensions,); zeros where it has none.

        A text that was not prepared is embedded now.
        """
        return self._name_vectors.vector(text)

    def prepare(
        self,
        anchors: Iterable[str],
        texts: Iterable[str] = (),
        progress: Progress | None = None,
    ) -> None:
        """Embed the vocabulary, all anchors and all texts; later calls need no model.

        Distances that use no vectors embed nothing.

        Args:
            anchors: the key texts of the items that will be attacked, in the items' order:
                distances are computed for several neighbours of that order together.
            texts: others whose distance to an anchor will be asked for.
            progress: told (done, all) while vectors are computed.
        """
        self._distance.prepare(anchors, texts, progress)

    @cached_property
    def undefined(self) -> NDArray[np.int64]:
        """Names that have no distance from any anchor and are never drawn; see `lack`."""
        return self._distance.undefined()

    @property
    def lack(self) -> str:
        """What undefined names are: `without a vector`, `outside MONDO`."""
        return self._distance.lack

    def obstacle(self, item: Question) -> str | None:
        """Why no name has a distance from the item's key, or None."""
        _, codes = self._reasons(item)
        if np.count_nonzero(codes == UNDEFINED_DISTANCE) < len(self.names):
            return None
        return f"the key {item.key_text!r} is {self.lack}, so no name has a distance from it"

    def distances(self, anchor: str) -> NDArray[np.float64]:
        """Return h(anchor, name) for every name.

        An anchor that was not prepared is embedded now.

        Returns:
            Shape (n_names,), not to be written to, >= 0; nan where undefined.
        """
        return self._distance.between(anchor)

    def distance_to(self, anchor: str, text: str) -> float:
        """Return h(anchor, text) for one text that need not be in the vocabulary.

        Texts that were not prepared are embedded now.
        """
        return self._distance.to(anchor, text)

    def allowed(self, item: Question, rule: Exclusions = "exclude") -> NDArray[np.int64]:
        """Return the indices of the names that may replace an entity of a wrong option.

        Never allowed: names that equal the key's text after normalisation, have h < 1e-9 to it,
        or no distance to it. By `key_string` nothing else is left out, as in Xian et al. (2025).
        By `mark` neither are names that equal any option or any entity in an option, or that
        would make an option of several parts equal to another. By `exclude`, our default,
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
            named, codes = self._reasons(item)
            is_drawn = np.ones(len(self.names), np.bool_)
            is_drawn[named] = _IS_DRAWN[rule][codes]
            known = np.flatnonzero(is_drawn)
            self._allowed.keep(key, known)
        return known

    def n_excluded(self, item: Question, rule: Exclusions = "exclude") -> Mapping[str, int]:
        """Return how many names `allowed` leaves out, by the first of these reasons that fits.

        `undefined_distance`, `key_duplicate`, `equal_to_option`, then the variant classes.
        """
        _, codes = self._reasons(item)
        counts = np.bincount(codes, minlength=len(REASONS))
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

    def _reasons(self, item: Question) -> NDArray[np.int32]:
        """The names that are not `different`, and their positions in REASONS, shape (2, n)."""
        found = self._codes.find(item.hash)
        if found is None:
            found = self._decide(item)
            self._codes.keep(item.hash, found)
        return found

    def _decide(self, item: Question) -> NDArray[np.int32]:
        references, key = _texts(item, item.key), item.key_text
        codes = self._index.variants(references, self._listed(references))
        codes.update(dict.fromkeys(self._index.equal_to(_repeated(item)), EQUAL_TO_OPTION))
        same = [*self._index.equal_to([key]), *self._distance.same(key).tolist()]
        codes.update(dict.fromkeys(same, KEY_DUPLICATE))
        found = np.array([list(codes), list(codes.values())], np.int32)
        beyond = self._distance.beyond(key)
        if beyond.size == 0:
            return found
        undefined = np.stack([beyond, np.full(len(beyond), UNDEFINED_DISTANCE)])
        defined = found[:, ~np.isin(found[0], beyond)]
        return np.concatenate([defined, undefined], axis=1, dtype=np.int32)

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
    options = {letter: normalise(item.option(letter)) for letter in item.letters}
    for mention in item.mentions:
        if mention.field not in item.letters or mention.field == item.key:
            continue
        text = item.option(mention.field)
        before, after = normalise(text[: mention.start]), normalise(text[mention.end :])
        if not before and not after:
            continue
        for letter, other in options.items():
            fits = len(other) > len(before) + len(after) and letter != mention.field
            if fits and other.startswith(before) and other.endswith(after):
                found.append(other[len(before) : len(other) - len(after)])
    return found
