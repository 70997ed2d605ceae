"""Token classification through transformers: a label for every word of a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.backends.local.score_calls import out_of_memory
from medstress.backends.models.loaded_model import LoadedModel
from medstress.backends.models.out_of_memory import in_halves, release_memory
from medstress.backends.models.padded_forward import forward, longest_input, most_tokens
from medstress.backends.models.piece_windows import PieceTokenizer, Window
from medstress.backends.models.token_tree import plan_batches
from medstress.core.calls import Backend, BackendTraits, Call, Failure, Reply, Tag, Tagged
from medstress.core.label_schemes import in_iob2, scheme_of
from medstress.machine.compute_thread import in_compute_thread

_BATCH_SIZE = 256
_OVERHEAD = 64.0
_MAX_WASTE = 0.05
"""Padding tokens per token."""
OUTSIDE = "O"


class TokenClassificationBackend(Backend):
    """Answers `tag` calls in IOB2; the label of a word is that of its first piece.

    A word without pieces is outside any entity. IOBES and IO labels are read leniently: a label
    that continues nothing begins an entity.

    Args:
        loaded: a model of `AutoModelForTokenClassification`.
        batch_size: the largest number of calls given to `answer` at once; None for the default.
    """

    def __init__(self, loaded: LoadedModel, *, batch_size: int | None = None) -> None:
        self.identity = loaded.identity
        self._loaded = loaded
        self._names: dict[int, str] = dict(loaded.model.config.id2label)
        self._scheme = scheme_of(self._names.values()) or "iob2"
        self._pieces = PieceTokenizer(loaded.tokenizer, loaded.identity.name, longest_input(loaded))
        self._tokens_naive = 0
        self._tokens_forwarded = 0
        self.traits = BackendTraits(
            calls=frozenset({"tag"}),
            batch_size=batch_size or _BATCH_SIZE,
            ahead=8,
            labels=self._labels(),
        )

    def _labels(self) -> tuple[str, ...]:
        """Return the labels the model can give, in IOB2 if their scheme is known."""
        if self._scheme == "iob2":
            return tuple(self._names.values())
        begun = (in_iob2([name], self._scheme)[0] for name in self._names.values())
        return tuple(dict.fromkeys(begun))

    @property
    def counters(self) -> dict[str, int]:
        """Tokens read by the model so far, with padding and without."""
        return {
            "tokens_forwarded": self._tokens_forwarded,
            "tokens_naive": self._tokens_naive,
        }

    @in_compute_thread
    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; windows of similar length share a forward pass."""
        tags = [call for call in calls if isinstance(call, Tag)]
        replies = iter(self._tag(tags))
        return [
            next(replies)
            if isinstance(call, Tag)
            else Failure(error=f"a token classifier cannot answer {call.kind!r} calls")
            for call in calls
        ]

    def close(self) -> None:
        """Drop the model."""
        del self._loaded
        release_memory()

    def _tag(self, calls: Sequence[Tag]) -> list[Reply]:
        by_call = self._pieces.windows([call.tokens for call in calls])
        flat = [window for windows in by_call for window in windows]
        labels = iter(self._label(flat))
        replies: list[Reply] = []
        for call, windows in zip(calls, by_call, strict=True):
            tokens = sum(map(len, windows))
            self._tokens_naive += tokens
            of_words = [OUTSIDE] * len(call.tokens)
            labelled = [(window, next(labels)) for window in windows]
            if any(names is None for _, names in labelled):
                replies.append(out_of_memory(max(map(len, windows))))
                continue
            for window, names in labelled:
                for (word, _), name in zip(window.places, names or (), strict=True):
                    of_words[word] = name
            replies.append(Tagged(labels=in_iob2(of_words, self._scheme), tokens_in=tokens))
        return replies

    def _label(self, windows: Sequence[Window]) -> list[list[str] | None]:
        """Return the labels of each window's places; None for windows that exceed memory."""
        labels: list[list[str] | None] = [None] * len(windows)
        batches = plan_batches(
            [len(window) for window in windows],
            overhead=_OVERHEAD,
            max_tokens=most_tokens(self._loaded),
            max_waste=_MAX_WASTE,
        )
        for batch in batches:
            names = in_halves([windows[index] for index in batch], self._forward)
            for index, of_window in zip(batch, names, strict=True):
                labels[index] = of_window
        return labels

    def _forward(self, windows: Sequence[Window]) -> list[list[str]]:
        logits = forward(self._loaded, windows)
        self._tokens_forwarded += logits.shape[0] * logits.shape[1]
        best = logits.argmax(-1).tolist()
        return [
            [self._names[row[piece]] for _, piece in window.places]
            for window, row in zip(windows, best, strict=True)
        ]
