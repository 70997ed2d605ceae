"""Training models of text similarity: cross-encoders and bi-encoders.

Gold scores are rescaled to 0 to 1, which does not change correlations.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from medstress.core.sentences import SentencePair
from medstress.tasks.scores import pearson
from medstress.training.learner import (
    Columns,
    Start,
    Wanted,
    longest_of,
    open_model,
    padded,
    save_with_tokenizer,
)

_READ_BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The model's inputs for a pair of texts."""

    rows: tuple[Columns, ...]
    """One input for both texts together, or one for each."""
    target: float
    """The gold score, from 0 to 1."""


class _PairLearner:
    """Common part of both learners. Loss: squared error, mean over the pairs of a batch."""

    measure = "pearson"
    model: Any

    def __init__(self, max_length: int) -> None:
        self._longest = max_length
        self._tokenizer: Any = None

    def length(self, example: Pair) -> int:
        """Return the number of pieces of a pair."""
        return sum(len(row["input_ids"]) for row in example.rows)

    def loss(self, batch: Sequence[Pair]) -> Any:
        """Mean squared error of a batch."""
        import torch

        values = self._values(batch)
        targets = torch.tensor([one.target for one in batch], device=values.device)
        return torch.nn.functional.mse_loss(values.float(), targets)

    def encode(self, items: Sequence[SentencePair]) -> list[Pair]:
        """Turn pairs into examples, in order."""
        return [
            Pair(rows=rows, target=(item.score - item.low) / (item.high - item.low))
            for item, rows in zip(items, self._rows(items), strict=True)
        ]

    def score(self, items: Sequence[SentencePair]) -> float:
        """Pearson correlation with the gold scores; 0 if it is undefined."""
        import torch

        examples = self.encode(items)
        values: list[float] = []
        with torch.inference_mode():
            for start in range(0, len(examples), _READ_BATCH):
                values += self._values(examples[start : start + _READ_BATCH]).float().tolist()
        gold = np.array([one.target for one in examples])
        return pearson(gold, np.array(values)) or 0.0

    def _rows(self, items: Sequence[SentencePair]) -> list[tuple[Columns, ...]]:
        raise NotImplementedError

    def _values(self, batch: Sequence[Pair]) -> Any:
        raise NotImplementedError

    def _read(self, *texts: list[str]) -> list[Columns]:
        found = self._tokenizer(*texts, truncation=True, max_length=self._longest, verbose=False)
        return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]

    def _inputs(self, rows: Sequence[Columns]) -> dict[str, Any]:
        return padded(rows, self._tokenizer.pad_token_id or 0, self.model.device)


class CrossEncoderLearner(_PairLearner):
    """A model with one output, the score (BLUE's regression on the first token).

    Args:
        start: the pretrained model.
        seed: seed of the head's weights.
        max_length: most pieces of both texts together; longer pairs are truncated.
    """

    def __init__(self, start: Start, seed: int, max_length: int) -> None:
        super().__init__(max_length)
        self.model, self._tokenizer = open_model(
            start,
            "AutoModelForSequenceClassification",
            seed,
            num_labels=1,
            ignore_mismatched_sizes=True,
        )
        self._longest = longest_of(self._tokenizer, self.model, max_length)

    def save(self, folder: Path) -> None:
        """Write the model for the back end `transformers`, whose score is the model's output."""
        save_with_tokenizer(self.model, self._tokenizer, folder)

    def _rows(self, items: Sequence[SentencePair]) -> list[tuple[Columns, ...]]:
        found = self._read([item.text_a for item in items], [item.text_b for item in items])
        return [(row,) for row in found]

    def _values(self, batch: Sequence[Pair]) -> Any:
        return self.model(**self._inputs([one.rows[0] for one in batch])).logits[:, 0]


class BiEncoderLearner(_PairLearner):
    """The cosine of two sentence vectors, each the mean of its pieces' states.

    Args:
        start: the pretrained model.
        seed: seed of weights that the model lacks.
        max_length: most pieces of a text; longer ones are truncated.
    """

    def __init__(self, start: Start, seed: int, max_length: int) -> None:
        super().__init__(max_length)
        self.model, self._tokenizer = open_model(start, "AutoModel", seed)
        self._longest = longest_of(self._tokenizer, self.model, max_length)

    def save(self, folder: Path) -> None:
        """Write the model as a sentence-transformers folder with mean pooling."""
        save_with_tokenizer(self.model, self._tokenizer, folder)
        parts = {"Transformer": "", "Pooling": "1_Pooling"}
        listing = [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(parts.items())
        ]
        pooling = {
            "word_embedding_dimension": self.model.config.hidden_size,
            "pooling_mode_mean_tokens": True,
        }
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), "utf-8")
        (folder / "modules.json").write_text(json.dumps(listing), "utf-8")

    def _rows(self, items: Sequence[SentencePair]) -> list[tuple[Columns, ...]]:
        first = self._read([item.text_a for item in items])
        return list(zip(first, self._read([item.text_b for item in items]), strict=True))

    def _values(self, batch: Sequence[Pair]) -> Any:
        import torch

        first, second = (self._vectors([one.rows[side] for one in batch]) for side in (0, 1))
        return torch.nn.functional.cosine_similarity(first, second)

    def _vectors(self, rows: Sequence[Columns]) -> Any:
        inputs = self._inputs(rows)
        mask = inputs["attention_mask"][..., None]
        states = self.model(**inputs).last_hidden_state
        return (states * mask).sum(1) / mask.sum(1)


def open_learner(wanted: Wanted) -> CrossEncoderLearner | BiEncoderLearner:
    """Open the model to be trained, by the encoder that is wanted."""
    made = BiEncoderLearner if wanted.encoder == "bi_encoder" else CrossEncoderLearner
    return made(wanted.start, wanted.seed, wanted.max_length)
