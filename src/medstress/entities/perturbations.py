"""Perturbation sets: a vocabulary, the distance of each name from a key, and exclusion rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medstress.core.hashing import content_hash
from medstress.core.items import Question
from medstress.core.resources import Exclusions
from medstress.core.validity import VARIANT_CLASSES, Evidence
from medstress.entities.alike import (
    DUPLICATE,
    EQUAL,
    NameRules,
    Relations,
    forbidden_texts,
    option_evidence,
    option_texts,
)
from medstress.entities.distances import Distance, open_distance
from medstress.entities.embeddings import Embedder, name_vectors
from medstress.entities.encoders import Progress
from medstress.entities.names import DIFFERENT, VariantIndex, variant_index
from medstress.entities.vocabularies import SynonymGroups, Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

REASONS = (*VARIANT_CLASSES, EQUAL, DUPLICATE, "undefined_distance")
"""Why a name is not drawn, by code: its variant class (`different` excludes nothing), then the
reasons that take precedence over the classes."""

EQUAL_TO_OPTION, KEY_DUPLICATE, UNDEFINED_DISTANCE = range(len(VARIANT_CLASSES), len(REASONS))

RULES: dict[Exclusions, frozenset[int]] = {
    "exclude": frozenset(range(len(REASONS))) - {DIFFERENT},
    "mark": frozenset({EQUAL_TO_OPTION, KEY_DUPLICATE, UNDEFINED_DISTANCE}),
    # Xian et al. (2025): a name may repeat another wrong option or restate the key.
    "key_string": frozenset({KEY_DUPLICATE, UNDEFINED_DISTANCE}),
}
"""The codes that each rule excludes."""

_IS_DRAWN = {
    rule: np.array([code not in left_out for code in range(len(REASONS))])
    for rule, left_out in RULES.items()
}
"""By rule: whether a name with this code may be drawn, shape (n_reasons,)."""

_ITEMS = 256
"""Items whose codes are kept at least; those of all active trials should be."""
_CODES_BYTES = 32 << 20
"""Memory for codes where no name has a distance, as outside a hierarchy; else they are few."""
_ALLOWED_BYTES = 1 << 20


class VectorPerturbationSet:
    """Names with vectors, and a distance h(k, e) between key and name.

    Reading is thread-safe. The anchor of h is the key's whole option text, unchanged.

    References:
        R. Patrick Xian et al., "Assessing biomedical knowledge robustness in large language
        models by query-efficient sampling attacks", TMLR, 2025: h is 1 - cosine, and the
        samplers require only h >= 0.
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
            embedder: computes their vectors.
            synonyms: names that would be a second right answer.
            distance: see `open_distance`.
            base: folder that a function's relative file starts from; None: the working directory.

        Raises:
            UsageError: the distance is unknown.
        """
        self.vocabulary = vocabulary
        self.distance = distance
        self._embedder = embedder
        self._name_vectors = name_vectors(vocabulary.names, embedder)
        self._distance: Distance = open_distance(
            distance, vocabulary.names, self._name_vectors, base or Path()
        )
        self._synonyms = synonyms
        self._rules = NameRules(synonyms)
        self._relations = Relations([synonyms])
        n_items = max(_CODES_BYTES // (8 * len(self.names)), _ITEMS)
        self._codes = lru_cache(maxsize=n_items)(self._exclusion_codes)
        # Indices of allowed names are quickly recomputed from the codes.
        self._allowed = lru_cache(maxsize=max(_ALLOWED_BYTES // (8 * len(self.names)), 1))(
            self._allowed_names
        )

    @property
    def names(self) -> Sequence[str]:
        """All names, in the vocabulary's order, shape (n_names,)."""
        return self.vocabulary.names

    @cached_property
    def hash(self) -> str:
        """Content hash of vocabulary, embedding, synonyms and distance."""
        parts = [self.vocabulary.hash, self._embedder.identity, self._synonyms.hash]
        return content_hash([*parts, self._distance.identity])

    def vectors_of(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the unit vectors of some names, shape (n, n_dimensions)."""
        return self._name_vectors.vectors_of(indices)

    def cosines(self, direction: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the cosine of every name's vector and one direction, shape (n_names,)."""
        return self._name_vectors.cosines(direction)

    def vector(self, text: str) -> NDArray[np.float64]:
        """Return the unit vector of one text, shape (n_dimensions,); zeros if undefined.

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
            anchors: the key texts of the items that will be attacked, in the items' order, since
                the distances of neighbours are computed together.
            texts: others whose distance to an anchor will be requested.
            progress: called with (done, all) while vectors are computed.
        """
        self._distance.prepare(anchors, texts, progress)

    @cached_property
    def undefined(self) -> NDArray[np.int64]:
        """Indices of names without a distance from any anchor, never drawn; see `lack`."""
        return self._distance.undefined()

    @property
    def lack(self) -> str:
        """What is wrong with undefined names: `without a vector`, `outside MONDO`."""
        return self._distance.lack

    def obstacle(self, item: Question) -> str | None:
        """Return why no name has a distance from the item's key, or None."""
        _, codes = self._codes(item)
        if np.count_nonzero(codes == UNDEFINED_DISTANCE) < len(self.names):
            return None
        return f"the key {item.key_text!r} is {self.lack}, so no name has a distance from it"

    def distances(self, anchor: str) -> NDArray[np.float64]:
        """Return h(anchor, name) for every name.

        An anchor that was not prepared is embedded now.

        Returns:
            Shape (n_names,), >= 0, read-only; nan: undefined.
        """
        return self._distance.to_names(anchor)

    def distance_to(self, anchor: str, text: str) -> float:
        """Return h(anchor, text) for one text that need not be in the vocabulary.

        Texts that were not prepared are embedded now.
        """
        return self._distance.to_text(anchor, text)

    def allowed(self, item: Question, rule: Exclusions = "exclude") -> NDArray[np.int64]:
        """Return the indices of the names that may replace an entity of a wrong option.

        Every rule excludes names that equal the key's text after normalisation, have h < 1e-9 to
        it, or no distance to it. `key_string` excludes nothing else, as in Xian et al. (2025).
        `mark` also excludes names that equal any option or any entity in an option, or would make
        an option of several parts equal to another. `exclude`, our default, also excludes names
        whose class relative to the key's text or an entity in it is not `different`: they could be
        a second right answer.

        Args:
            item: the question.
            rule: `exclude`, `mark` or `key_string`.

        Returns:
            Ascending, read-only.
        """
        return self._allowed(item, rule)

    def _allowed_names(self, item: Question, rule: Exclusions) -> NDArray[np.int64]:
        coded, codes = self._codes(item)
        is_drawn = np.ones(len(self.names), np.bool_)
        is_drawn[coded] = _IS_DRAWN[rule][codes]
        allowed = np.flatnonzero(is_drawn)
        allowed.setflags(write=False)
        return allowed

    def n_excluded(self, item: Question, rule: Exclusions = "exclude") -> Mapping[str, int]:
        """Return how many names `allowed` excludes, by the first reason that fits.

        The reasons are tested in the order `undefined_distance`, `key_duplicate`,
        `equal_to_option`, variant classes.
        """
        _, codes = self._codes(item)
        counts = np.bincount(codes, minlength=len(REASONS))
        return {
            REASONS[code]: int(counts[code]) for code in sorted(RULES[rule]) if counts[code] > 0
        }

    def evidence(self, item: Question, name: str, field: str) -> tuple[Evidence, ...]:
        """Return what rules and tables say of a name in the option `field` next to the others."""
        return option_evidence(item, name, field, self._rules, self._relations)

    def objection(self, item: Question, name: str) -> str | None:
        """Return why `exclude` rejects a name for its wording, or None."""
        return self._rules.objection(item, name)

    def variant_class(self, item: Question, name: str) -> str:
        """Return the class of `name` relative to the key's text and the entities in it."""
        return self._rules.variant_class(item, name)

    def _exclusion_codes(self, item: Question) -> NDArray[np.int32]:
        """Return the names that are not `different`, and their codes in REASONS, shape (2, n)."""
        references, key = option_texts(item, item.key), item.key_text
        codes = self._index.variants(references, self._rules.synonyms_of(references))
        codes.update(dict.fromkeys(self._index.equal_to(forbidden_texts(item)), EQUAL_TO_OPTION))
        duplicates = [*self._index.equal_to([key]), *self._distance.duplicates(key).tolist()]
        codes.update(dict.fromkeys(duplicates, KEY_DUPLICATE))
        excluded = np.array([list(codes), list(codes.values())], np.int32)
        without = self._distance.undefined_from(key)
        if without.size == 0:
            return excluded
        undefined = np.stack([without, np.full(len(without), UNDEFINED_DISTANCE)])
        defined = excluded[:, ~np.isin(excluded[0], without)]
        return np.concatenate([defined, undefined], axis=1, dtype=np.int32)

    @cached_property
    def _index(self) -> VariantIndex:
        return variant_index(self.vocabulary.names)
