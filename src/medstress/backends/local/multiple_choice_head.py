"""Multiple-choice heads through transformers: encoders that score (question, option) pairs.

A head reads each pair separately, so its value does not depend on the other options. Pairs that
several candidates of an item share are therefore computed once, without approximation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from medstress.backends.local.score_calls import out_of_memory, too_long
from medstress.backends.models.loaded_model import LoadedModel
from medstress.backends.models.out_of_memory import in_halves, release_memory
from medstress.backends.models.score_memo import ScoreMemo, Values
from medstress.backends.models.token_tree import plan_batches
from medstress.core.calls import Backend, BackendTraits, Call, Failure, Rank, Reply, Scored
from medstress.machine.compute_thread import in_compute_thread

_BATCH_SIZE = 256
"""Large, because a candidate usually has only one new pair to fill a forward pass with."""
_OVERHEAD = 64.0
_MAX_WASTE = 0.03
"""Padding tokens per token."""
_MAX_TOKENS = {"cpu": 2048, "cuda": 32768}
_MASK = "attention_mask"


@dataclass(frozen=True, slots=True)
class TextPair:
    """The tokenised inputs of a question and one option."""

    names: tuple[str, ...]
    """Names of the model's inputs: `input_ids`, and what else its tokenizer makes."""
    rows: tuple[tuple[int, ...], ...]
    """The inputs, one row per name, `(n_names, n_tokens)`."""

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.rows[0])

    @property
    def key(self) -> bytes:
        """A digest of the inputs."""
        numbers = np.array((len(self.rows), *(n for row in self.rows for n in row)), dtype=np.int64)
        return blake2b(numbers.tobytes(), digest_size=16).digest()


class HeadBackend(Backend):
    """Answers `rank` calls with a model that has a multiple-choice head.

    The log probabilities of a call are the log softmax of the head's values over its options, as in
    the model's training.

    Args:
        loaded: a model of `AutoModelForMultipleChoice`.
        batch_size: the largest number of calls given to `answer` at once; None for the default.
    """

    def __init__(self, loaded: LoadedModel, *, batch_size: int | None = None) -> None:
        self.identity = loaded.identity
        self.traits = BackendTraits(
            calls=frozenset({"rank"}),
            batch_size=batch_size or _BATCH_SIZE,
            ahead=8,
            parameters=loaded.parameters,
        )
        self._model = loaded.model
        self._device = loaded.device
        self._tokenizer = loaded.tokenizer
        # Some models count positions from 2 (RoBERTa), and only the tokenizer's limit covers that.
        limits = (loaded.max_positions, loaded.tokenizer.model_max_length)
        self._longest = min(limit for limit in limits if limit is not None)
        self._max_tokens = _MAX_TOKENS["cuda" if loaded.device.type == "cuda" else "cpu"]
        self._memo: ScoreMemo[TextPair] = ScoreMemo()
        self._tokens_naive = 0
        self._tokens_forwarded = 0

    @property
    def counters(self) -> dict[str, int]:
        """Tokens read by the model so far, padding included, and the total length of all pairs."""
        return {
            "tokens_forwarded": self._tokens_forwarded,
            "tokens_naive": self._tokens_naive,
        }

    @in_compute_thread
    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; unknown pairs share forward passes."""
        prepared = self._prepare(calls)
        ready = [one for one in prepared if not isinstance(one, Failure)]
        self._tokens_naive += sum(len(pair) for pairs in ready for pair in pairs)
        values = iter(self._memo.complete(ready, self._compute))
        return [one if isinstance(one, Failure) else _ranked(one, next(values)) for one in prepared]

    def close(self) -> None:
        """Drop the model."""
        del self._model
        release_memory()

    def _prepare(self, calls: Sequence[Call]) -> list[list[TextPair] | Failure]:
        """Tokenise all pairs at once, without the tokenizer's truncation."""
        ranks = [call for call in calls if isinstance(call, Rank)]
        pairs: Iterator[TextPair] = iter(())
        if any(call.options for call in ranks):
            encoded = self._tokenizer(
                [call.prompt for call in ranks for _ in call.options],
                [option for call in ranks for option in call.options],
                truncation=False,
                padding=False,
                verbose=False,
            )
            rows = zip(*encoded.values(), strict=True)
            pairs = (TextPair(tuple(encoded), tuple(map(tuple, row))) for row in rows)
        prepared: list[list[TextPair] | Failure] = []
        for call in calls:
            if not isinstance(call, Rank):
                prepared.append(
                    Failure(error=f"a multiple-choice head cannot answer {call.kind!r} calls")
                )
                continue
            of_call = [next(pairs) for _ in call.options]
            longest = max((len(pair) for pair in of_call), default=0)
            prepared.append(too_long(longest, self._longest) or of_call)
        return prepared

    def _compute(self, calls: list[list[TextPair]], afresh: bool) -> list[list[Values]]:
        """Compute the head's values; `afresh` changes nothing, as nothing is kept here."""
        distinct = list(dict.fromkeys(pair for call in calls for pair in call))
        values: dict[TextPair, Values] = {}
        # Padding without a mask would change the values, and so would padding on the left in
        # models that count positions.
        padded = self._tokenizer.padding_side == "right" and all(
            _MASK in pair.names for pair in distinct
        )
        batches = plan_batches(
            [len(pair) for pair in distinct],
            overhead=_OVERHEAD if padded else 0.0,
            max_tokens=self._max_tokens,
            max_waste=_MAX_WASTE if padded else 0.0,
        )
        for batch in batches:
            chosen = [distinct[index] for index in batch]
            values.update(zip(chosen, in_halves(chosen, self._forward), strict=True))
        return [[values[pair] for pair in call] for call in calls]

    def _forward(self, pairs: Sequence[TextPair]) -> list[Values]:
        """Run one forward pass; return one value per pair, each in its own list."""
        import torch

        longest = max(len(pair) for pair in pairs)
        self._tokens_forwarded += longest * len(pairs)
        inputs = {
            name: torch.tensor(
                [self._filled(name, pair.rows[place], longest) for pair in pairs],
                device=self._device,
            )
            for place, name in enumerate(pairs[0].names)
        }
        with torch.inference_mode():
            # The second of three dimensions counts options; here every pair has one option.
            logits = self._model(**{name: one[:, None] for name, one in inputs.items()}).logits
        return [[value] for value in logits[:, 0].float().tolist()]

    def _filled(self, name: str, row: tuple[int, ...], length: int) -> list[int]:
        fill = self._tokenizer.pad_token_id or 0 if name == "input_ids" else 0
        return [*row, *([fill] * (length - len(row)))]


def _ranked(pairs: list[TextPair], values: list[Values]) -> Reply:
    n_tokens = tuple(len(pair) for pair in pairs)
    known = [value[0] for value in values if value is not None]
    if len(known) < len(values):
        return out_of_memory(max(n_tokens))
    if known and all(map(math.isfinite, known)):
        top = max(known)
        total = top + math.log(sum(math.exp(value - top) for value in known))
        known = [value - total for value in known]
    return Scored(log_probs=tuple(known), n_tokens=n_tokens, tokens_in=sum(n_tokens))
