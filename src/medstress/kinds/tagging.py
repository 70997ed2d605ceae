"""Tagged texts: sentences with gold entities; a trial is about one entity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from medstress.attacks.noise.texts import Field, Side
from medstress.attacks.protocol import TAGGED
from medstress.core.errors import UsageError
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.sentences import EntityUnit, TaggedCandidate, TaggedText
from medstress.core.text import Edit
from medstress.kinds.kind import Kind, Marked, Tasks, VictimRequest, Words
from medstress.tasks.entity_tagging import EntityTagging


class Tagging(Kind):
    """Named-entity recognition."""

    name = TAGGED
    task = "ner"
    item = TaggedText
    unit_type = EntityUnit
    has_controls = True
    keeps_metadata = False
    layouts = {".jsonl": "jsonl", ".tsv": "iob", ".iob": "iob", ".conll": "iob"}  # noqa: RUF012
    learner = "medstress.training.tagging:open_learner"
    may_be_folded = True

    def shown(self, item: TaggedText) -> dict[str, str]:
        """The sentence, and its entities with their types.

        >>> labels = ("O", "B-Drug")
        >>> TAGGING.shown(TaggedText(id="1", tokens=("no", "aspirin"), labels=labels))
        {'text': 'no aspirin', 'entities': 'aspirin (Drug)'}
        """
        entities = (f"{' '.join(item.tokens[e.start : e.end])} ({e.type})" for e in item.entities)
        return {"text": " ".join(item.tokens), "entities": "; ".join(entities)}

    def answered(self, unit: EntityUnit, *, right: bool) -> Prediction:
        """All gold labels, or none."""
        labels = unit.text.labels if right else ("O",) * len(unit.text.labels)
        outcome = Outcome.RIGHT if right else Outcome.WRONG
        return Prediction(outcome=outcome, answer=None, text=" ".join(labels))

    def changed(self, candidate: TaggedCandidate) -> TaggedText:
        """The sentence with its new tokens and their labels."""
        return replace(candidate.item.text, tokens=candidate.tokens, labels=candidate.labels)

    def values(self, candidate: TaggedCandidate) -> dict[str, Any]:
        """Tokens and labels."""
        return {"tokens": list(candidate.tokens), "labels": list(candidate.labels)}

    def edit_row(self, edit: Edit) -> dict[str, Any]:
        """In tokens."""
        return {"start": edit.start, "end": edit.end, "replacement": edit.replacement.split()}

    def words(
        self,
        item: TaggedText,
        mentions: Mapping[str, tuple[Marked, ...]],
        side: Side = "random",
        field: Field | None = None,
    ) -> Iterable[Words]:
        """The sentence itself."""
        return [(item.tokens, item.labels)]

    def classes(self, items: Iterable[TaggedText]) -> tuple[str, ...]:
        """The types of entities."""
        found = {label[2:] for item in items for label in item.labels if len(label) > 2}
        return tuple(sorted(found))

    def check(self, classes: tuple[str, ...], sources: str) -> None:
        """Refuse texts without any entity."""
        if not classes:
            raise UsageError(
                f"dataset: expected at least one entity in {sources}, got tagged texts with O "
                "alone; give a file with labels B-TYPE and I-TYPE in its last column"
            )

    def tasks(self, asked: VictimRequest) -> Tasks:
        """The labels of a sentence."""
        self.refuse_keys(asked, "answer_by", "shots_from", "wrap")
        traits = asked.backend.traits
        if "tag" not in traits.calls:
            raise UsageError(
                f"victim {asked.label!r}: backend {asked.table.backend!r} cannot answer "
                f"{self.name}; use transformers, python or spacy"
            )
        task = EntityTagging(types=asked.classes, names=asked.table.labels or {})
        task.check(asked.label, traits.labels)
        return Tasks(default=task)

    def task_from_spec(
        self, spec: Mapping[str, Any], prompt: Mapping[str, Any] | None
    ) -> EntityTagging:
        """By its types and the victim's names for them."""
        return EntityTagging(types=tuple(spec["types"]), names=spec["names"])


TAGGING = Tagging()
