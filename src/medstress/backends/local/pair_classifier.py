"""Classifiers of two texts through transformers: both read together, one value a label."""

from __future__ import annotations

import math
from collections.abc import Sequence

from medstress.backends.local.cross_encoder import Output, read_pairs
from medstress.backends.models.loaded_model import LoadedModel
from medstress.backends.models.out_of_memory import release_memory
from medstress.backends.models.padded_forward import longest_input
from medstress.core.calls import Backend, BackendTraits, Call, Classify, Failure, Reply, Scored
from medstress.core.errors import UsageError
from medstress.machine.compute_thread import in_compute_thread

_BATCH_SIZE = 256


class PairClassifierBackend(Backend):
    """Answers `classify` calls with a head for sequences.

    Args:
        loaded: a model of `AutoModelForSequenceClassification` with two labels or more.
        batch_size: the largest number of calls handed over at once; None for the default.

    Raises:
        UsageError: the model has one output.
    """

    def __init__(self, loaded: LoadedModel, *, batch_size: int | None = None) -> None:
        config = loaded.model.config
        n = int(config.num_labels)
        if n < 2:
            raise UsageError(
                f"model {loaded.identity.name!r} has one output, a score; expected one output "
                "per label: fine-tune it to sort pairs into labels"
            )
        self.identity = loaded.identity
        self.traits = BackendTraits(
            calls=frozenset({"classify"}),
            batch_size=batch_size or _BATCH_SIZE,
            ahead=8,
            labels=tuple(str(config.id2label[i]) for i in range(n)),
        )
        self._loaded = loaded
        self._longest = longest_input(loaded)

    @in_compute_thread
    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; a pair that is too long fails alone, and is never cut."""
        asked = [call for call in calls if isinstance(call, Classify)]
        texts = [(call.text_a, call.text_b) for call in asked]
        found = iter(read_pairs(self._loaded, texts, self._longest))
        return [
            self._reply(call, next(found))
            if isinstance(call, Classify)
            else Failure(error=f"a classifier of pairs cannot answer {call.kind!r} calls")
            for call in calls
        ]

    def close(self) -> None:
        """Drop the model."""
        del self._loaded
        release_memory()

    def _reply(self, call: Classify, output: Output | Failure) -> Reply:
        """Log probabilities of the labels asked for, among those that the model knows."""
        if isinstance(output, Failure):
            return output
        values = output.values
        if not all(map(math.isfinite, values)):
            return Failure(error="the model's values are not finite; its weights may be damaged")
        top = max(values)
        total = top + math.log(sum(math.exp(value - top) for value in values))
        known = dict(zip(self.traits.labels, values, strict=True))
        return Scored(
            log_probs=tuple(known[label] - total for label in call.labels),
            n_tokens=(output.n_tokens,) * len(call.labels),
            tokens_in=output.n_tokens,
        )
