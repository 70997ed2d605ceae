"""What the probes of the passage share."""

from __future__ import annotations

from dataclasses import dataclass

from medstress.attacks.probes.protocol import Probe, distractors
from medstress.attacks.probes.protocol import whole as _whole
from medstress.attacks.protocol import AttackTraits
from medstress.core.items import Candidate, Question
from medstress.core.passages import named_at
from medstress.core.text import Edit, copy_case

FIELD = "passage"
NO_PASSAGE = "it has no passage"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageProbe(Probe):
    """The base: asks candidates whose passage alone is edited, until the victim errs."""

    @property
    def needs_passages(self) -> bool:
        """Whether it reads other passages of the data set."""
        return False

    @property
    def changes_evidence(self) -> bool:
        """Whether the edited passage no longer supports the key, or not it alone."""
        return True

    @property
    def traits(self) -> AttackTraits:
        """See `AttackTraits`."""
        return AttackTraits(
            stream=self.name,
            budget=self.most,
            deterministic=self.deterministic,
            needs_entities=False,
            needs_passages=self.needs_passages,
            may_be_refuted=False,
            edits_only=frozenset({FIELD}),
            changes_evidence=self.changes_evidence,
        )


def key_at(item: Question, text: str) -> list[tuple[int, int]]:
    """Return where a text names the key, but not as a part of another option (iron in iron
    dextran)."""
    found = named_at(text, item.key_text)
    longer = [item.option(x) for x in distractors(item) if named_at(item.option(x), item.key_text)]
    inside = [span for option in longer for span in named_at(text, option)] if found else []
    return [(a, b) for a, b in found if not any(start <= a and b <= end for start, end in inside)]


def with_name(text: str, spans: list[tuple[int, int]], name: str) -> list[Edit]:
    """Return the edits that put a name into spans of the passage, in the case of what stood there.

    Spaces at the ends of the name are left out.
    """
    name = name.strip()
    return [
        Edit(field=FIELD, start=start, end=end, replacement=copy_case(name, text[start:end]))
        for start, end in spans
    ]


def whole(item: Question, text: str) -> Candidate:
    """Return the item with another passage."""
    return Candidate(item=item, edits=(_whole(item, FIELD, text),))
