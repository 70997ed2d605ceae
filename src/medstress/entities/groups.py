"""Entity groups: UMLS types, the options that mention one, and the group without names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash
from medstress.core.items import Question
from medstress.core.resources import Exclusions

if TYPE_CHECKING:
    from medstress.core.resources import FloatArray, IndexArray, SimilarityArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticType:
    """One type of the UMLS Semantic Network."""

    identifier: str
    """Its identifier (TUI), such as ``T047``."""
    name: str
    """Its name, such as ``Disease or Syndrome``."""
    group: str
    """The UMLS semantic group it belongs to, such as ``Disorders``."""


_TABLE = (files("medstress.entities") / "data" / "semantic_types.tsv").read_text("utf-8")
SEMANTIC_TYPES: dict[str, SemanticType] = {
    identifier: SemanticType(identifier=identifier, name=name, group=group)
    for identifier, name, group in (line.split("\t") for line in _TABLE.splitlines()[1:])
}
"""All 127 semantic types by identifier."""


GROUPS: dict[str, frozenset[str]] = {
    name: frozenset(row.identifier for row in SEMANTIC_TYPES.values() if row.group == group)
    for name, group in (("drugs", "Chemicals & Drugs"), ("diseases", "Disorders"))
}
"""The identifiers of the 20 types of drugs and the 12 of diseases. Users may attack any other type
with a vocabulary of their own, for example procedures (T060, T061)."""


def types_of(group_type: str | Sequence[str]) -> frozenset[str]:
    """Return the mention types that belong to an entity group.

    A group also contains its own name, so that users without UMLS identifiers may type mentions
    ``drugs`` or ``diseases``. The two groups are those of Xian et al. (2025): the UMLS groups
    Chemicals & Drugs, and Disorders.

    Args:
        group_type: ``drugs``, ``diseases``, or a list of UMLS type identifiers, which may
            contain the two names too.

    Raises:
        UsageError: a type is unknown, or the list is empty.

    >>> len(types_of("drugs")), len(types_of("diseases"))
    (21, 13)
    >>> sorted(types_of(["T047", "T191"]))
    ['T047', 'T191']

    References:
        R. Patrick Xian et al., "Assessing biomedical knowledge robustness in large language
        models by query-efficient sampling attacks", TMLR, 2025. A. T. McCray et al.,
        "Aggregating UMLS semantic types for reducing conceptual complexity", MEDINFO, 2001.
    """
    if reason := wrong_type(group_type):
        raise UsageError(f"entities, key 'type': {reason}")
    names = [group_type] if isinstance(group_type, str) else group_type
    return frozenset(type_ for name in names for type_ in (name, *GROUPS.get(name, ())))


def wrong_type(group_type: str | Sequence[str]) -> str | None:
    """Return why a word or list is not an entity group; None if it is one."""
    expected = "expected drugs, diseases or a list of UMLS type identifiers such as T047"
    if not group_type:
        return f"{expected}; {'got none' if isinstance(group_type, str) else 'the list is empty'}"
    for name in [group_type] if isinstance(group_type, str) else group_type:
        if name not in GROUPS and name not in SEMANTIC_TYPES:
            hint = did_you_mean(name, [*GROUPS, *sorted(SEMANTIC_TYPES)])
            return f"{expected}; got {name!r}{hint}"
    return None


def typed_options(item: Question, types: frozenset[str]) -> tuple[str, ...]:
    """Return the letters of the wrong options that mention an entity of one of `types`.

    An item belongs to a group, such as drug-mention questions, if there is at least one: the rule
    of Xian et al. (2025). The key does not count.

    >>> from medstress.core.items import Mention
    >>> span = Mention(field="B", start=0, end=4, type="T047")
    >>> item = Question(id="q", stem="?", options=("rest", "gout"), key="A", mentions=(span,))
    >>> typed_options(item, frozenset({"T047"}))
    ('B',)
    """
    mentioned = {mention.field for mention in item.mentions if mention.type in types}
    return tuple(letter for letter in item.letters if letter in mentioned and letter != item.key)


LABEL = "all"


class NoNames:
    """A perturbation set without names; attacks that need names can attack no item."""

    names: Sequence[str] = ()
    undefined: Sequence[int] = ()
    lack = ""
    hash = content_hash("no names")

    def vectors_of(self, indices: IndexArray) -> FloatArray:
        """Empty, shape (0, 0)."""
        import numpy as np

        return np.empty((0, 0))

    def cosines(self, direction: FloatArray) -> SimilarityArray:
        """Empty, shape (0,)."""
        import numpy as np

        return np.empty(0, dtype=np.float32)

    def vector(self, text: str) -> FloatArray:
        """Empty, shape (0,)."""
        return self.distances(text)

    def distances(self, anchor: str) -> FloatArray:
        """Empty, shape (0,)."""
        import numpy as np

        return np.empty(0)

    def distance_to(self, anchor: str, text: str) -> float:
        """Always nan."""
        return float("nan")

    def obstacle(self, item: Question) -> str | None:
        """Always an obstacle: there is nothing to draw."""
        return "the group has no names"

    def allowed(self, item: Question, rule: Exclusions = "exclude") -> IndexArray:
        """Empty, shape (0,)."""
        import numpy as np

        return np.empty(0, dtype=np.int64)

    def n_excluded(self, item: Question, rule: Exclusions = "exclude") -> Mapping[str, int]:
        """Empty."""
        return {}

    def evidence(self, item: Question, name: str, field: str) -> tuple[()]:
        """Always empty."""
        return ()

    def objection(self, item: Question, name: str) -> str | None:
        """Always None."""
        return None

    def variant_class(self, item: Question, name: str) -> str:
        """Always `different`."""
        return "different"
