"""Tasks that are asked in one call and without a prompt: entities of a sentence, and similarity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medstress.core.calls import Compare, Compared, Request, Tag, Tagged
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.items import OUTSIDE, EditedTexts
from medstress.core.label_schemes import are_bare
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.sentences import TaggedCandidate, entities_of
from medstress.tasks.multiple_choice import Flow


@dataclass(frozen=True, kw_only=True)
class EntityTagging:
    """The task of a victim that labels tokens.

    An entity is found if the victim marks exactly its tokens with its type (strict match). Types
    that the data do not annotate are read as outside, so that a victim that knows more types than
    the data is not penalised. Marks without a type (B, I) are of the data's only type.
    """

    types: tuple[str, ...]
    """The types that the data annotate, sorted."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The victim's type -> the data's type, where they differ."""

    def spec(self) -> dict[str, Any]:
        """Return what defines the task, for fingerprints."""
        return {"kind": "ner", "types": list(self.types), "names": dict(sorted(self.names.items()))}

    def listing(self, candidate: TaggedCandidate) -> str:
        """Return the sentence, tokens joined by spaces."""
        return " ".join(candidate.tokens)

    def flow(self, candidate: TaggedCandidate) -> Flow:
        """Ask for the labels of one candidate, and look for its entity."""
        (reply,) = yield (Request(Tag(candidate.tokens)),)
        assert isinstance(reply, Tagged)
        if len(reply.labels) != len(candidate.tokens):
            raise UsageError(
                f"the model returned {len(reply.labels)} labels for the {len(candidate.tokens)} "
                f"words of {self.listing(candidate)[:60]!r}; expected one for each word"
            )
        labels = self.read(reply.labels)
        entity = candidate.entity
        if entity is None:
            # Without an entity, what the victim marks only counts for precision.
            return Prediction(outcome=Outcome.RIGHT, answer=None, text=" ".join(labels))
        found = entity in entities_of(labels)
        return Prediction(
            outcome=Outcome.RIGHT if found else Outcome.WRONG,
            answer=" ".join(labels[entity.start : entity.end]),
            text=" ".join(labels),
        )

    def read(self, labels: Sequence[str]) -> list[str]:
        """Translate a victim's labels to the types of the data.

        Raises:
            UsageError: a mark without a type may be of several.
        """
        read = []
        for label in labels:
            type_ = self.type_of(label)
            read.append(f"{label[0]}-{type_}" if type_ in self.types else OUTSIDE)
        return read

    def type_of(self, label: str) -> str:
        """Return the type that a victim's label means, by the data's names; empty for O."""
        if label == OUTSIDE or len(label) > 1:
            return self.names.get(label[2:], label[2:])
        if len(self.types) > 1:
            raise UsageError(
                f"the model marks {label!r} without a type, and the data have the types "
                f"{', '.join(self.types)}: keep one of them with types in [[dataset]], as in types "
                f'= ["{self.types[0]}"]'
            )
        return self.types[0] if self.types else ""

    def check(self, victim: str, labels: Sequence[str]) -> None:
        """Check that a model's labels cover the types of the data.

        Args:
            victim: its label, for the message.
            labels: the model's labels; empty if it declares none.

        Raises:
            UsageError: a label is not IOB, or a type of the data is missing; names both.
        """
        theirs = [label for label in labels if label != OUTSIDE]
        data = ", ".join(self.types)
        if are_bare(theirs, "iob2"):
            self.read(theirs)
            return
        for label in theirs:
            if label[:2] not in ("B-", "I-") or not label[2:]:
                raise UsageError(
                    f"victim {victim!r}: its labels are {', '.join(labels)}, and the data's types "
                    f"are {data}; expected IOB labels such as 'B-{self.types[0]}': set id2label in "
                    "the model's config.json"
                )
        types = sorted({label[2:] for label in theirs})
        if not types:
            return
        for name in self.names:
            if name not in types:
                raise UsageError(
                    f"victim {victim!r}: labels: it has no type {name!r}"
                    f"{did_you_mean(name, types)} (it has: {', '.join(types)})"
                )
        known = {self.names.get(type_, type_) for type_ in types}
        if missing := [type_ for type_ in self.types if type_ not in known]:
            raise UsageError(
                f"victim {victim!r} knows the types {', '.join(types)}, and the data's types are "
                f"{data}: say which of its types is {missing[0]!r}, e.g. "
                f'labels = {{"{types[0]}" = "{missing[0]}"}}, or take another model'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Similarity:
    """The task of a victim that scores pairs.

    Every answer counts as right, because no distance from the gold score is defined as wrong.
    """

    def spec(self) -> dict[str, Any]:
        """Return what defines the task, for fingerprints."""
        return {"kind": "similarity"}

    def listing(self, candidate: EditedTexts) -> str:
        """Return both texts, one on each line."""
        return "\n".join(candidate.texts.values())

    def flow(self, candidate: EditedTexts) -> Flow:
        """Ask for the similarity of one candidate."""
        (reply,) = yield (Request(Compare(*candidate.texts.values())),)
        assert isinstance(reply, Compared)
        return Prediction(outcome=Outcome.RIGHT, answer=None, scores=(reply.score,))
