"""Cross-encoders through transformers: two texts read together, one score."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from medstress.backends.local.score_calls import out_of_memory, too_long
from medstress.backends.models.loaded_model import LoadedModel
from medstress.backends.models.out_of_memory import in_halves, release_memory
from medstress.backends.models.padded_forward import forward, longest_input, most_tokens
from medstress.backends.models.token_tree import plan_batches
from medstress.core.calls import Backend, BackendTraits, Call, Compare, Compared, Failure, Reply
from medstress.core.errors import UsageError
from medstress.machine.compute_thread import in_compute_thread

_BATCH_SIZE = 256
_OVERHEAD = 64.0
_MAX_WASTE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """The tokenised inputs of a pair of texts."""

    names: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.rows[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a model says of one pair."""

    values: tuple[float, ...]
    """One value a label."""
    n_tokens: int
    """Tokens that were read."""


class CrossEncoderBackend(Backend):
    """Answers `compare` calls with a model of one output.

    Args:
        loaded: a model of `AutoModelForSequenceClassification` with one label.
        read: turns the model's output into the score; by default they are the same.
        batch_size: the largest number of calls given to `answer` at once; None for the default.

    Raises:
        UsageError: the model does not have exactly one output.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        read: Callable[[float], float] = float,
        *,
        batch_size: int | None = None,
    ) -> None:
        n = int(loaded.model.config.num_labels)
        if n != 1:
            raise UsageError(
                f"model {loaded.identity.name!r} has {n} outputs; expected one, the similarity "
                "(num_labels = 1): it is a classifier of pairs, so fine-tune it as a regression"
            )
        self.identity = loaded.identity
        self.traits = BackendTraits(
            calls=frozenset({"compare"}),
            batch_size=batch_size or _BATCH_SIZE,
            ahead=8,
        )
        self._loaded = loaded
        self._score = read
        self._longest = longest_input(loaded)

    @in_compute_thread
    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; a pair that is too long fails alone and is never cut."""
        compares = [call for call in calls if isinstance(call, Compare)]
        replies = iter(self._compare(compares))
        return [
            next(replies)
            if isinstance(call, Compare)
            else Failure(error=f"a cross-encoder cannot answer {call.kind!r} calls")
            for call in calls
        ]

    def close(self) -> None:
        """Drop the model."""
        del self._loaded
        release_memory()

    def _compare(self, calls: Sequence[Compare]) -> list[Reply]:
        texts = [(call.text_a, call.text_b) for call in calls]
        found = read_pairs(self._loaded, texts, self._longest)
        return [one if isinstance(one, Failure) else self._reply(one) for one in found]

    def _reply(self, output: Output) -> Reply:
        (value,) = output.values
        if not math.isfinite(value):
            return Failure(error=f"the model's score is {value}; its weights may be damaged")
        return Compared(score=self._score(value), tokens_in=output.n_tokens)


def read_pairs(
    loaded: LoadedModel, texts: Sequence[tuple[str, str]], longest: int | None
) -> list[Output | Failure]:
    """What a model with a head for sequences says of pairs, in their order.

    Args:
        loaded: the model.
        texts: both texts of each pair.
        longest: tokens that it reads at once; a longer pair fails alone, and is never cut.
    """
    if not texts:
        return []
    made = loaded.tokenizer(
        [first for first, _ in texts],
        [second for _, second in texts],
        truncation=False,
        padding=False,
        verbose=False,
    )
    pairs = [
        _Pair(names=tuple(made), rows=tuple(map(tuple, row)))
        for row in zip(*made.values(), strict=True)
    ]
    replies: list[Output | Failure | None] = [too_long(len(pair), longest) for pair in pairs]
    ready = [i for i, reply in enumerate(replies) if reply is None]
    batches = plan_batches(
        [len(pairs[i]) for i in ready],
        overhead=_OVERHEAD,
        max_tokens=most_tokens(loaded),
        max_waste=_MAX_WASTE,
    )

    def outputs(batch: Sequence[_Pair]) -> list[list[float]]:
        found: list[list[float]] = forward(loaded, batch).float().tolist()
        return found

    for batch in batches:
        chosen = [ready[place] for place in batch]
        values = in_halves([pairs[i] for i in chosen], outputs)
        for i, value in zip(chosen, values, strict=True):
            n = len(pairs[i])
            lost = out_of_memory(n) if value is None else None
            replies[i] = lost or Output(values=tuple(value or ()), n_tokens=n)
    return [reply for reply in replies if reply is not None]
