"""Encoders through transformers: heads for options, words and pairs of texts, sentence vectors.

Each input is read separately, so its value does not depend on the others of a batch. Inputs of
similar length share forward passes; none is ever cut, except that long sentences are labelled in
overlapping windows.
"""

from __future__ import annotations

import math
import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.backends.local.batches import (
    MAX_TOKENS,
    OVERHEAD,
    in_batches,
    padded,
    release_memory,
)
from medstress.backends.local.loading import LoadedModel, load_model
from medstress.backends.local.scores import MAX_WASTE, ScoreMemo, Values, digest_of
from medstress.backends.local.tokens import out_of_memory, too_long
from medstress.backends.options import BackendOptions
from medstress.core.calls import (
    Backend,
    BackendTraits,
    Call,
    Classify,
    Compare,
    Compared,
    Failure,
    ModelIdentity,
    Rank,
    Reply,
    Scored,
    Tag,
    Tagged,
)
from medstress.core.errors import UsageError
from medstress.core.reading import read_json
from medstress.core.sentences import in_iob2, scheme_of
from medstress.entities.embeddings import NGRAM, PromptEncoder
from medstress.entities.encoders import model_folder
from medstress.entities.processor import in_compute_thread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BATCH_SIZE = 256
"""Large, because a candidate usually has only one new input to fill a forward pass with."""
_LONGEST = 512
"""The most tokens of one input: the length that the encoders of this field were trained on."""
_MAX_VECTORS = 20_000
"""Size of the cache of vectors: an attack changes one text of a pair and repeats the other."""
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
OUTSIDE = "O"
_WHATS = {
    "rank": "a multiple-choice head",
    "compare": "a cross-encoder",
    "classify": "a classifier of pairs",
}
"""Kind of calls -> the head that answers them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The tokenised inputs of a text, of a pair, or of a window of a sentence."""

    names: tuple[str, ...]
    """Names of the model's inputs: `input_ids`, and what else its tokenizer makes."""
    rows: tuple[tuple[int, ...], ...]
    """The inputs, one row per name, `(n_names, n_pieces)`."""
    places: tuple[tuple[int, int], ...] = ()
    """(word, first piece) of every word whose label is read from this window."""

    def __len__(self) -> int:
        """Number of pieces, special ones included."""
        return len(self.rows[0])

    @property
    def key(self) -> bytes:
        """A digest of the inputs."""
        return digest_of(len(self.rows), *(number for row in self.rows for number in row))


class PieceTokenizer:
    """Splits words into pieces, and long sentences into overlapping windows.

    Args:
        tokenizer: a fast tokenizer of transformers.
        name: the model's name, for messages.
        longest: the most pieces of a window, special ones included.
    """

    def __init__(self, tokenizer: Any, name: str, longest: int) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise UsageError(
                f"model {name!r}: its tokenizer does not give the characters of a piece; "
                "save it with a fast tokenizer (tokenizer.json)"
            )
        self._tokenizer = tokenizer
        self._longest = longest
        # Windows overlap by a quarter, so that every word has context on both sides in one of them.
        self._overlap = max((longest - tokenizer.num_special_tokens_to_add()) // 4, 0)

    def windows(self, sentences: Sequence[Sequence[str]]) -> list[list[Pieces]]:
        """Return the windows of each sentence, in order.

        Every word with a piece is in the `places` of exactly one window: the one in which it is
        farthest from the edges.
        """
        if not sentences:
            return []
        encoded = self._tokenizer(
            [" ".join(words) for words in sentences],
            truncation=True,
            max_length=self._longest,
            stride=self._overlap,
            padding=False,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        owners = encoded.pop("overflow_to_sample_mapping")
        offsets = encoded.pop("offset_mapping")
        rows = list(zip(*encoded.values(), strict=True))
        parts: list[list[int]] = [[] for _ in sentences]
        for row, owner in enumerate(owners):
            parts[owner].append(row)
        names = tuple(encoded)
        return [
            [
                Pieces(names=names, rows=tuple(map(tuple, rows[row])), places=tuple(places))
                for row, places in zip(
                    part, _places(words, [offsets[r] for r in part]), strict=True
                )
            ]
            for words, part in zip(sentences, parts, strict=True)
        ]


def _places(
    words: Sequence[str], windows: Sequence[Sequence[tuple[int, int]]]
) -> list[list[tuple[int, int]]]:
    """Assign every word to the window in which its first piece is farthest from the edges."""
    best: dict[int, tuple[int, int, int]] = {}
    for number, offsets in enumerate(windows):
        for word, piece in _first_pieces(words, offsets):
            margin = min(piece, len(offsets) - 1 - piece)
            if word not in best or margin > best[word][0]:
                best[word] = (margin, number, piece)
    places: list[list[tuple[int, int]]] = [[] for _ in windows]
    for word, (_, number, piece) in sorted(best.items()):
        places[number].append((word, piece))
    return places


def _first_pieces(
    words: Sequence[str], offsets: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield (word, piece) for the first piece of each word in a window.

    At the left edge of a later window this may be an inner piece of a word. Its first piece is then
    in the window before, and farther from the edges there unless words are longer than the overlap.
    """
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))[:-1]
    word = 0
    for piece, (start, end) in enumerate(offsets):
        if start == end:
            continue  # a special piece, or one without characters
        # A byte-level piece may begin with the space before its word.
        while word < len(words) and starts[word] + len(words[word]) <= start:
            word += 1
        while word < len(words) and starts[word] < end:
            yield word, piece
            word += 1


class _Encoder(Backend):
    """What all heads share: the calls of one kind, and their inputs in padded batches.

    Args:
        loaded: a model with a head.
        kind: of the calls, as `Call.kind`.
        what: the head, for messages.
        batch_size: the largest number of calls given to `answer` at once; None for the default.
        labels: those that answers may contain.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        kind: str,
        what: str,
        *,
        batch_size: int | None,
        labels: tuple[str, ...] = (),
    ) -> None:
        self.identity = loaded.identity
        self.traits = BackendTraits(
            calls=frozenset({kind}),
            batch_size=batch_size or _BATCH_SIZE,
            ahead=8,
            labels=labels,
            parameters=loaded.parameters,
        )
        self._loaded = loaded
        self._what = what
        # Some models count positions from 2 (RoBERTa), and only the tokenizer's limit covers that.
        limits = (loaded.max_positions, loaded.tokenizer.model_max_length, _LONGEST)
        self._longest = int(min(limit for limit in limits if limit is not None))
        self._counters = {"tokens_forwarded": 0, "tokens_naive": 0}

    @property
    def counters(self) -> dict[str, int]:
        """Tokens read by the model so far, padding included, and those of all inputs."""
        return dict(self._counters)

    @in_compute_thread
    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; an input that is too long fails its call alone."""
        mine = [call for call in calls if call.kind in self.traits.calls]
        replies = iter(self._answered(mine) if mine else ())
        return [
            next(replies)
            if call.kind in self.traits.calls
            else Failure(error=f"{self._what} cannot answer {call.kind!r} calls")
            for call in calls
        ]

    @abstractmethod
    def _answered(self, calls: Sequence[Any]) -> list[Reply]:
        """Answer calls of this back end's kind."""

    def too_long(self, calls: Sequence[Call]) -> list[str | None]:
        """As the tokenizer counts; a text to tag is read in windows."""
        pairs = [_texts_of(call) for call in calls]
        pieces = iter(self._pairs([pair for of_call in pairs for pair in of_call]))
        lengths = [max((len(next(pieces)) for _ in of_call), default=0) for of_call in pairs]
        failures = [too_long(length, self._longest) for length in lengths]
        return [None if failure is None else failure.error for failure in failures]

    def close(self) -> None:
        """Drop the model."""
        del self._loaded
        release_memory()

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> list[Pieces]:
        """Tokenise pairs of texts, without the tokenizer's truncation."""
        if not pairs:
            return []
        encoded = self._loaded.tokenizer(
            [first for first, _ in pairs],
            [second for _, second in pairs],
            truncation=False,
            padding=False,
            verbose=False,
        )
        return [
            Pieces(names=tuple(encoded), rows=tuple(map(tuple, rows)))
            for rows in zip(*encoded.values(), strict=True)
        ]

    def _read(
        self, inputs: Sequence[Pieces], take: Callable[[Sequence[Pieces], Any], list[Any]]
    ) -> list[Any]:
        """Run inputs in batches.

        Args:
            inputs: none too long.
            take: what is kept of a batch's logits, one value an input.

        Returns:
            One value an input; None where memory did not suffice.
        """
        tokenizer = self._loaded.tokenizer
        # Padding without a mask would change the values, and so would padding on the right in
        # models that are trained with padding on the left.
        can_pad = tokenizer.padding_side == "right" and all(
            "attention_mask" in one.names for one in inputs
        )
        return in_batches(
            inputs,
            [len(one) for one in inputs],
            lambda batch: take(batch, self._logits(batch)),
            overhead=OVERHEAD if can_pad else 0.0,
            max_tokens=MAX_TOKENS["cuda" if self._loaded.device.type == "cuda" else "cpu"],
            max_waste=MAX_WASTE if can_pad else 0.0,
        )

    def _logits(self, inputs: Sequence[Pieces]) -> Any:
        import torch

        fills = {"input_ids": self._loaded.tokenizer.pad_token_id or 0}
        arrays = {
            name: padded([one.rows[i] for one in inputs], self._loaded.device, fills.get(name, 0))[
                0
            ]
            for i, name in enumerate(inputs[0].names)
        }
        self._counters["tokens_forwarded"] += arrays["input_ids"].numel()
        with torch.inference_mode():
            return self._model_logits(arrays).float()

    def _model_logits(self, arrays: dict[str, Any]) -> Any:
        return self._loaded.model(**arrays).logits


def _lists(_: Sequence[Pieces], logits: Any) -> list[list[float]]:
    values: list[list[float]] = logits.tolist()
    return values


def _log_softmax(values: Sequence[float]) -> list[float]:
    """Return log probabilities; values that are not finite are handed on."""
    if not values or not all(map(math.isfinite, values)):
        return list(values)
    top = max(values)
    total = top + math.log(sum(math.exp(value - top) for value in values))
    return [value - total for value in values]


def _texts_of(call: Call) -> list[tuple[str, str]]:
    """Return the pairs of texts that a head reads for a call."""
    match call:
        case Rank():
            return [(call.prompt, option) for option in call.options]
        case Compare() | Classify():
            return [(call.text_a, call.text_b)]
    return []


class PairBackend(_Encoder):
    """Answers calls with a head that reads two texts together; a pair of several calls once.

    - `rank`: a multiple-choice head scores (question, option) pairs. The log probabilities of a
      call are the log softmax of its values over the options, as in the model's training.
    - `compare`: a cross-encoder, whose only output is the score.
    - `classify`: a head for sequences, whose log softmax over its labels is returned.

    Args:
        loaded: a model with such a head.
        kind: of the calls: `rank`, `compare` or `classify`.
        read: turns the output of a cross-encoder into the score; by default they are the same.
        batch_size: the largest number of calls given to `answer` at once; None for the default.

    Raises:
        UsageError: the model has too many outputs for a score, or too few for labels.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        kind: str,
        read: Callable[[float], float] = float,
        *,
        batch_size: int | None = None,
    ) -> None:
        config, name = loaded.model.config, loaded.identity.name
        n, labels = int(config.num_labels), tuple[str, ...]()
        if kind == "compare" and n != 1:
            raise UsageError(
                f"model {name!r} has {n} outputs; expected one, the similarity (num_labels = 1): "
                "it is a classifier of pairs, so fine-tune it as a regression"
            )
        if kind == "classify":
            if n < 2:
                raise UsageError(
                    f"model {name!r} has one output, a score; expected one output per label: "
                    "fine-tune it to sort pairs into labels"
                )
            labels = tuple(str(config.id2label[i]) for i in range(n))
        super().__init__(loaded, kind, _WHATS[kind], batch_size=batch_size, labels=labels)
        if kind == "rank":
            limits = (loaded.max_positions, loaded.tokenizer.model_max_length)
            self._longest = min(limit for limit in limits if limit is not None)
        self._ranks, self._score = kind == "rank", read
        self._memo: ScoreMemo[Pieces] = ScoreMemo()

    def _model_logits(self, arrays: dict[str, Any]) -> Any:
        if not self._ranks:
            return super()._model_logits(arrays)
        # The second of three dimensions counts options; here every pair has one option.
        logits = self._loaded.model(**{name: one[:, None] for name, one in arrays.items()}).logits
        return logits[:, :1]

    def _answered(self, calls: Sequence[Any]) -> list[Reply]:
        texts = [_texts_of(call) for call in calls]
        pairs = iter(self._pairs([pair for of_call in texts for pair in of_call]))
        of_calls = [[next(pairs) for _ in of_call] for of_call in texts]
        failures = [
            too_long(max(map(len, of_call), default=0), self._longest) for of_call in of_calls
        ]
        ready = [
            of_call for of_call, failure in zip(of_calls, failures, strict=True) if failure is None
        ]
        self._counters["tokens_naive"] += sum(len(pair) for of_call in ready for pair in of_call)
        values = iter(self._memo.complete(ready, self._compute))
        return [
            failure or self._reply(call, tuple(map(len, of_call)), next(values))
            for call, of_call, failure in zip(calls, of_calls, failures, strict=True)
        ]

    def _compute(self, calls: list[list[Pieces]], afresh: bool) -> list[list[Values]]:
        """Compute the head's values; `afresh` changes nothing, as nothing is kept here."""
        distinct = list(dict.fromkeys(pair for call in calls for pair in call))
        values = dict(zip(distinct, self._read(distinct, _lists), strict=True))
        return [[values[pair] for pair in call] for call in calls]

    def _reply(self, call: Any, n_tokens: tuple[int, ...], values: list[Values]) -> Reply:
        if None in values:
            return out_of_memory(max(n_tokens))
        if isinstance(call, Rank):
            log_probs = _log_softmax([value[0] for value in values if value])
            return Scored(log_probs=tuple(log_probs), n_tokens=n_tokens, tokens_in=sum(n_tokens))
        outputs = values[0] or []
        if not all(map(math.isfinite, outputs)):
            return Failure(error=f"the model's output is {outputs}; its weights may be damaged")
        if isinstance(call, Compare):
            return Compared(score=self._score(outputs[0]), tokens_in=n_tokens[0])
        by_label = dict(zip(self.traits.labels, _log_softmax(outputs), strict=True))
        return Scored(
            log_probs=tuple(by_label[label] for label in call.labels),
            n_tokens=n_tokens * len(call.labels),
            tokens_in=n_tokens[0],
        )


class TokenClassificationBackend(_Encoder):
    """Answers `tag` calls in IOB2; the label of a word is that of its first piece.

    A word without pieces is outside any entity. IOBES and IO labels are read leniently: a label
    that continues nothing begins an entity.

    Args:
        loaded: a model of `AutoModelForTokenClassification`.
        batch_size: the largest number of calls given to `answer` at once; None for the default.
    """

    def __init__(self, loaded: LoadedModel, *, batch_size: int | None = None) -> None:
        self._names: dict[int, str] = dict(loaded.model.config.id2label)
        self._scheme = scheme_of(self._names.values()) or "iob2"
        labels = tuple(self._names.values())
        if self._scheme != "iob2":
            labels = tuple(dict.fromkeys(in_iob2([name], self._scheme)[0] for name in labels))
        what = "a token classifier"
        super().__init__(loaded, "tag", what, batch_size=batch_size, labels=labels)
        self._tokenizer = PieceTokenizer(loaded.tokenizer, loaded.identity.name, self._longest)

    def _answered(self, calls: Sequence[Tag]) -> list[Reply]:
        by_call = self._tokenizer.windows([call.tokens for call in calls])
        labels = iter(self._read([one for windows in by_call for one in windows], self._labels))
        replies: list[Reply] = []
        for call, windows in zip(calls, by_call, strict=True):
            n_tokens = sum(map(len, windows))
            self._counters["tokens_naive"] += n_tokens
            of_windows = [next(labels) for _ in windows]
            if None in of_windows:
                replies.append(out_of_memory(max(map(len, windows))))
                continue
            of_words = [OUTSIDE] * len(call.tokens)
            for window, names in zip(windows, of_windows, strict=True):
                for (word, _), name in zip(window.places, names, strict=True):
                    of_words[word] = name
            replies.append(Tagged(labels=in_iob2(of_words, self._scheme), tokens_in=n_tokens))
        return replies

    def _labels(self, windows: Sequence[Pieces], logits: Any) -> list[list[str]]:
        return [
            [self._names[row[piece]] for _, piece in window.places]
            for window, row in zip(windows, logits.argmax(-1).tolist(), strict=True)
        ]


class BiEncoderBackend(Backend):
    """Answers `compare` calls with the cosine of two unit vectors, in [-1, 1].

    Args:
        encode: maps texts to unit vectors, `(n_texts, n_dimensions)`.
        identity: covers everything that determines a vector.
        batch_size: the largest number of calls given to `answer` at once; None for the default.
    """

    def __init__(
        self,
        encode: Callable[[Sequence[str]], NDArray[np.float64]],
        identity: ModelIdentity,
        *,
        batch_size: int | None = None,
    ) -> None:
        self.identity = identity
        self.traits = BackendTraits(
            calls=frozenset({"compare"}), batch_size=batch_size or _BATCH_SIZE, ahead=8
        )
        self._encode = encode
        self._vectors: dict[str, NDArray[np.float64]] = {}

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; a text of an earlier call is not encoded again."""
        pairs = [call for call in calls if isinstance(call, Compare)]
        texts = dict.fromkeys(text for call in pairs for text in (call.text_a, call.text_b))
        if len(self._vectors) + len(texts) > _MAX_VECTORS:
            self._vectors.clear()
        fresh = [text for text in texts if text not in self._vectors]
        if fresh:
            self._vectors.update(zip(fresh, self._encode(fresh), strict=True))
        return [
            self._compared(call)
            if isinstance(call, Compare)
            else Failure(error=f"a bi-encoder cannot answer {call.kind!r} calls")
            for call in calls
        ]

    def close(self) -> None:
        """Drop the vectors."""
        self._vectors.clear()

    def _compared(self, call: Compare) -> Reply:
        value = float(self._vectors[call.text_a] @ self._vectors[call.text_b])
        if not math.isfinite(value):
            return Failure(error=f"the cosine is {value}; the model's weights may be damaged")
        return Compared(score=min(1.0, max(-1.0, value)))  # rounding may exceed the bounds


def open_sentence_backend(options: BackendOptions) -> Backend:
    """Load the model that options name: `minilm`, a folder or a hub id.

    A model with a head for sequence classification is a cross-encoder. Its output passes through
    the activation that its configuration names, by default a sigmoid, as in the
    sentence-transformers library. Any other model is an encoder of sentences, pooled as its folder
    says, and the score is the cosine of two vectors. Longer texts than the model takes are read in
    windows.

    Raises:
        UsageError: the task is not similarity, or the model is missing or unsuitable.
    """
    if options.task != "similarity":
        raise UsageError(
            "backend 'sentence_transformers' compares two sentences; give it a data set of "
            "sentence pairs"
        )
    if options.model in (None, "", NGRAM):
        raise UsageError(
            "backend 'sentence_transformers' needs model = 'minilm', a folder or a hub id"
        )
    folder = options.base / Path(options.model).expanduser()
    if _HUB_ID.fullmatch(options.model) and not folder.exists():
        folder = model_folder(options.model, options.base)
    # Names of shipped models have no file.
    path = folder / "config.json"
    config = read_json(path) if os.path.lexists(path) else {}
    if not isinstance(config, dict):
        raise UsageError(f"{path}: expected a JSON object, got {type(config).__name__}")
    if any(
        str(name).endswith("SequenceClassification") for name in config.get("architectures") or ()
    ):
        return PairBackend(
            in_compute_thread(load_model)(options),
            "compare",
            _activation(options.model, config),
            batch_size=options.batch_size,
        )
    encoder = PromptEncoder(options.model, base=options.base)
    identity = ModelIdentity(name=options.model, hash=encoder.identity)
    return BiEncoderBackend(encoder.encode, identity, batch_size=options.batch_size)


def _activation(model: str, config: dict[str, Any]) -> Any:
    """Return the activation of a cross-encoder, as the library's configuration names it."""
    settings = config.get("sentence_transformers") or {}
    name = settings.get("activation_fn") or config.get("sbert_ce_default_activation_function")
    kind = str(name or "torch.nn.Sigmoid").rpartition(".")[2]
    if kind == "Identity":
        return float
    if kind == "Sigmoid":
        return _sigmoid
    raise UsageError(
        f"model {model!r} has the activation {name!r}; expected Identity or Sigmoid. To read its "
        "plain output, set backend = 'transformers'"
    )


def _sigmoid(value: float) -> float:
    """Return 1 / (1 + exp(-value)), without overflow."""
    small = math.exp(-abs(value))
    return (1 if value >= 0 else small) / (1 + small)
