"""Training a multiple-choice head, which scores each (question, option) pair."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from medstress.core.errors import UsageError
from medstress.core.items import Candidate, Question
from medstress.tasks.templates import Template, load_template
from medstress.training.batching import batches
from medstress.training.learner import Start, Wanted, open_model, save_with_tokenizer

_READ_BATCH = 64


def head_template(prompt: str, base: Path) -> Template:
    """Load the template of the question that a head reads beside each option.

    Raises:
        UsageError: it lists the options or is a chat, which a head cannot read.
    """
    template = load_template(prompt, base)
    if template.lists_options or template.chat:
        raise UsageError(f"prompt {prompt!r}: expected a plain template with lists_options = false")
    return template


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One item as token sequences."""

    options: tuple[dict[str, list[int]], ...]
    """The tokenizer's output for (question, option), one per option."""
    key: int
    """Index of the right option."""

    @property
    def longest(self) -> int:
        """Tokens of the longest pair."""
        return max(len(option["input_ids"]) for option in self.options)


def tokenised(items: Sequence[Question], texts: Sequence[str], tokenizer: Any) -> list[Example]:
    """Tokenise pairs as the head victim gets them, without truncation."""
    examples = []
    for item, text in zip(items, texts, strict=True):
        found = tokenizer(
            [text] * len(item.options), list(item.options), truncation=False, verbose=False
        )
        columns = [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]
        examples.append(Example(options=tuple(columns), key=item.letters.index(item.key)))
    return examples


def option_scores(model: Any, batch: Sequence[Example]) -> Any:
    """Return the head's score of each option, `(n_items, max_options)`, padded with -inf."""
    import torch

    pairs = list(chain.from_iterable(example.options for example in batch))
    longest = max(example.longest for example in batch)
    names = {"input_ids": model.config.pad_token_id or 0, "token_type_ids": 0, "attention_mask": 0}
    inputs = {
        name: torch.tensor(
            [[pair[name] + [fill] * (longest - len(pair[name]))] for pair in pairs],
            device=model.device,
        )
        for name, fill in names.items()
        if name in pairs[0]
    }
    values = model(**inputs).logits[:, 0].split([len(example.options) for example in batch])
    return torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=float("-inf"))


def key_loss(scores: Any, batch: Sequence[Example]) -> tuple[Any, int]:
    """Return the mean cross-entropy of the keys, and how many keys have the highest score."""
    import torch

    keys = torch.tensor([example.key for example in batch], device=scores.device)
    right = int((scores.argmax(dim=1) == keys).sum())
    return torch.nn.functional.cross_entropy(scores.float(), keys), right


def accuracy(model: Any, examples: Sequence[Example], size: int) -> float:
    """Return the share of items whose right option has the highest score."""
    import torch

    model.eval()
    right = 0
    with torch.inference_mode():
        for batch in batches(examples, size, random.Random(0), lambda one: one.longest):
            best = option_scores(model, batch).argmax(dim=1).tolist()
            right += sum(top == one.key for top, one in zip(best, batch, strict=True))
    return right / len(examples)


class ChoiceLearner:
    """A multiple-choice head. Loss: cross-entropy over the options, mean over a batch.

    Args:
        start: the pretrained model.
        seed: seed of the head's weights.
        max_length: most tokens of a pair; a longer one is refused, as by the victim.
        prompt: template of the first text of a pair.
        base: folder that a template's path starts from.
    """

    measure = "accuracy"

    def __init__(self, start: Start, seed: int, max_length: int, prompt: str, base: Path) -> None:
        self._template = head_template(prompt, base)
        self._longest = max_length
        self.model, self._tokenizer = open_model(start, "AutoModelForMultipleChoice", seed)

    def encode(self, items: Sequence[Question]) -> list[Example]:
        """Turn questions into examples, in order.

        Raises:
            UsageError: a pair is longer than `max_length`.
        """
        texts = [str(self._template.render(Candidate(item=item))) for item in items]
        examples = tokenised(items, texts, self._tokenizer)
        for item, example in zip(items, examples, strict=True):
            if example.longest > self._longest:
                raise UsageError(
                    f"[train] max_length = {self._longest}: question {item.id!r} with an option "
                    f"has {example.longest} tokens, and questions are not truncated; raise "
                    "max_length"
                )
        return examples

    def length(self, example: Example) -> int:
        """Tokens of the longest pair."""
        return example.longest

    def loss(self, batch: Sequence[Example]) -> Any:
        """Mean cross-entropy of a batch."""
        return key_loss(option_scores(self.model, batch), batch)[0]

    def score(self, items: Sequence[Question]) -> float:
        """Accuracy."""
        return accuracy(self.model, self.encode(items), _READ_BATCH)

    def save(self, folder: Path) -> None:
        """Write the model for the back end `transformers` with answer_by = "head"."""
        save_with_tokenizer(self.model, self._tokenizer, folder)


def open_learner(wanted: Wanted) -> ChoiceLearner:
    """Open the model to be trained."""
    w = wanted
    return ChoiceLearner(w.start, w.seed, w.max_length, w.prompt, w.base)
