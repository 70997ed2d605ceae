"""Training token classifiers, which label the words of a sentence."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.backends.local.encoders import PieceTokenizer
from medstress.core.sentences import OUTSIDE, TaggedText, entities_of
from medstress.training.batching import batches
from medstress.training.learner import (
    Start,
    Wanted,
    longest_of,
    open_model,
    padded,
    save_with_tokenizer,
)

_IGNORED = -100
"""Target of pieces without a label; cross-entropy ignores it."""
_READ_BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The part of a sentence in one input of the model."""

    item: int
    """Index of the sentence."""
    columns: dict[str, tuple[int, ...]]
    """The model's inputs."""
    places: tuple[tuple[int, int], ...]
    """(word, piece) of every word labelled in this window, the same as for a victim."""
    targets: tuple[int, ...]
    """Label number of each piece, or `_IGNORED`."""


class TaggingLearner:
    """A token classifier; the label of a word is learnt at its first piece.

    Loss: cross-entropy, mean over the words of a batch.

    Args:
        start: the pretrained model.
        types: entity types, sorted.
        seed: seed of the head's weights.
        max_length: most pieces per input; longer sentences are read in windows.
    """

    measure = "f1"

    def __init__(self, start: Start, types: Sequence[str], seed: int, max_length: int) -> None:
        names = [OUTSIDE, *(f"{place}-{type_}" for type_ in types for place in "BI")]
        self._numbers = {name: number for number, name in enumerate(names)}
        self._names = names
        self.model, self._tokenizer = open_model(
            start,
            "AutoModelForTokenClassification",
            seed,
            num_labels=len(names),
            id2label=dict(enumerate(names)),
            label2id=self._numbers,
            ignore_mismatched_sizes=True,  # replaces a head for other labels
        )
        longest = longest_of(self._tokenizer, self.model, max_length)
        self._pieces = PieceTokenizer(self._tokenizer, start.name, longest)

    def encode(self, items: Sequence[TaggedText]) -> list[Window]:
        """Return the windows of all sentences, in reading order."""
        found = []
        for number, (item, windows) in enumerate(
            zip(items, self._pieces.windows([item.tokens for item in items]), strict=True)
        ):
            for window in windows:
                targets = [_IGNORED] * len(window)
                for word, piece in window.places:
                    targets[piece] = self._numbers[item.labels[word]]
                found.append(
                    Window(
                        item=number,
                        columns=dict(zip(window.names, window.rows, strict=True)),
                        places=window.places,
                        targets=tuple(targets),
                    )
                )
        return found

    def length(self, example: Window) -> int:
        """Return the number of pieces of a window."""
        return len(example.targets)

    def loss(self, batch: Sequence[Window]) -> Any:
        """Mean cross-entropy of the words in a batch."""
        import torch

        logits = self._logits(batch)
        longest = logits.shape[1]
        targets = torch.tensor(
            [[*one.targets, *([_IGNORED] * (longest - len(one.targets)))] for one in batch],
            device=logits.device,
        )
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), targets.flatten(), ignore_index=_IGNORED
        )

    def score(self, items: Sequence[TaggedText]) -> float:
        """Strict F1 of the entities; 0 if there are none and none is found."""
        import torch

        labels = [[OUTSIDE] * len(item.tokens) for item in items]
        windows = self.encode(items)
        with torch.inference_mode():
            for batch in batches(windows, _READ_BATCH, random.Random(0), self.length):
                best = self._logits(batch).argmax(-1).tolist()
                for window, row in zip(batch, best, strict=True):
                    for word, piece in window.places:
                        labels[window.item][word] = self._names[row[piece]]
        right = total = 0
        for item, names in zip(items, labels, strict=True):
            marked = entities_of(names)
            right += len({*item.entities} & {*marked})
            total += len(item.entities) + len(marked)
        return 2 * right / total if total else 0.0

    def save(self, folder: Path) -> None:
        """Write the model as a token classifier."""
        save_with_tokenizer(self.model, self._tokenizer, folder)

    def _logits(self, batch: Sequence[Window]) -> Any:
        pad = self._tokenizer.pad_token_id or 0
        inputs = padded([one.columns for one in batch], pad, self.model.device)
        return self.model(**inputs).logits


def open_learner(wanted: Wanted) -> TaggingLearner:
    """Open the model to be trained."""
    return TaggingLearner(wanted.start, wanted.classes, wanted.seed, wanted.max_length)
