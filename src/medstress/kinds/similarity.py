"""Sentence pairs with a gold similarity; answers are measured, not judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from medstress.attacks.noise.texts import Field, Side
from medstress.attacks.protocol import PAIRS
from medstress.core.errors import UsageError
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.sentences import PairCandidate, SentencePair
from medstress.kinds.kind import Kind, Marked, Tasks, VictimRequest, Words
from medstress.kinds.noise_words import two_texts
from medstress.tasks.similarity import Similarity as SimilarityTask


class Similarity(Kind):
    """Semantic similarity."""

    name = PAIRS
    task = "similarity"
    item = SentencePair
    keeps_metadata = False
    layouts = {".jsonl": "jsonl", ".tsv": "pairs"}  # noqa: RUF012
    learner = "medstress.training.pairs:open_learner"
    may_be_folded = True
    may_be_vectors = True

    def answered(self, unit: SentencePair, *, right: bool) -> Prediction:
        """A high or a low score."""
        outcome = Outcome.RIGHT if right else Outcome.WRONG
        return Prediction(outcome=outcome, answer=None, scores=(0.9 if right else 0.1,))

    def changed(self, candidate: PairCandidate) -> SentencePair:
        """The pair with its new texts."""
        return replace(candidate.item, text_a=candidate.text_a, text_b=candidate.text_b)

    def values(self, candidate: PairCandidate) -> dict[str, Any]:
        """Texts and score."""
        score = candidate.item.score
        return {"text_a": candidate.text_a, "text_b": candidate.text_b, "score": score}

    def words(
        self,
        item: SentencePair,
        mentions: Mapping[str, tuple[Marked, ...]],
        side: Side = "random",
        field: Field | None = None,
    ) -> Iterable[Words]:
        """One text or both."""
        return two_texts(item.text_a, item.text_b, mentions, side)

    def mentions(self, item: SentencePair) -> dict[str, tuple[Marked, ...] | None]:
        """They have to be found in both texts."""
        return {item.text_a: None, item.text_b: None}

    def tasks(self, asked: VictimRequest) -> Tasks:
        """The similarity of a pair."""
        self.refuse_keys(asked, "answer_by", "shots_from", "wrap")
        if "compare" not in asked.backend.traits.calls:
            raise UsageError(
                f"victim {asked.label!r}: backend {asked.table.backend!r} cannot answer "
                f"{self.name}; use transformers, python or sentence_transformers"
            )
        return Tasks(default=SimilarityTask())

    def task_from_spec(
        self, spec: Mapping[str, Any], prompt: Mapping[str, Any] | None
    ) -> SimilarityTask:
        """There is one."""
        return SimilarityTask()

    def trained_victim(self, encoder: str, prompt: str) -> dict[str, Any]:
        """An encoder whose vectors are compared has a back end of its own."""
        is_vectors = encoder == "bi_encoder"
        return {"backend": "sentence_transformers" if is_vectors else "transformers"}


SIMILARITY = Similarity()
