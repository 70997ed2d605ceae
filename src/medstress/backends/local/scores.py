"""Answers `Score` calls: token sequences out of calls, and sums out of log probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from medstress.backends.local.batches import MAX_TOKENS, in_batches, padded
from medstress.backends.local.loading import LoadedModel
from medstress.backends.local.prefix import MAX_ENTRIES, PrefixScorer
from medstress.backends.local.tokens import (
    PromptTokenizer,
    Target,
    Tokens,
    out_of_memory,
    shared_length,
    targets_of,
    too_long,
)
from medstress.core.calls import Failure, Reply, Score, Scored
from medstress.core.errors import PermanentBackendError, UsageError
from medstress.entities.processor import in_compute_thread

MAX_WASTE = 0.03
"""Padding tokens per token."""
_DECODER_OVERHEAD = 32.0
_DECODER_SHARE = 8
"""How many times more a token of the decoder weighs, because its row carries a prompt's states."""
_STATES_BYTES = 256_000_000
_MEMO_ENTRIES = 200_000

Values: TypeAlias = list[float] | None
"""Natural log probabilities of the scored tokens, or a head's value of a pair; None if memory did
not suffice."""


class Keyed(Protocol):
    """Anything whose values can be looked up by a digest."""

    @property
    def key(self) -> bytes:
        """A digest; equal keys mean equal values."""


W = TypeVar("W", bound=Keyed)


def digest_of(*numbers: int) -> bytes:
    """Return a digest, because hundreds of tokens take more memory than their scores."""
    return blake2b(np.array(numbers, dtype=np.int64).tobytes(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A target to score, given a source."""

    target: Target
    """The tokens; for an encoder-decoder model, the decoder's output."""
    source: Tokens = ()
    """The encoder's input; empty for decoder-only models."""

    @property
    def key(self) -> bytes:
        """A digest of all tokens."""
        target = self.target
        return digest_of(len(self.source), *self.source, target.start, *target.tokens)


class ScoreMemo(Generic[W]):
    """A cache of scores that evicts the least recently used.

    It pays for answers by text or by a head: three of a candidate's four options are those of the
    clean item, and so are their scores if the prompt does not list the options.

    Args:
        max_entries: the most scores to keep.
    """

    def __init__(self, max_entries: int = _MEMO_ENTRIES) -> None:
        self._max_entries = max_entries
        self._kept: OrderedDict[bytes, tuple[float, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: bytes) -> Values:
        """Return the values; None if they are not kept."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return list(self._kept[key])

    def put(self, key: bytes, values: Sequence[float]) -> None:
        """Keep log probabilities."""
        self._kept[key] = tuple(values)
        self._kept.move_to_end(key)
        if len(self._kept) > self._max_entries:
            self._kept.popitem(last=False)

    def complete(
        self,
        calls: Sequence[Sequence[W]],
        compute: Callable[[list[list[W]], bool], list[list[Values]]],
    ) -> list[list[Values]]:
        """Answer calls from the cache, and compute the rest.

        A call whose scores are all kept is computed again, because somebody repeats it on purpose
        (the flip check does).

        Args:
            calls: the keyed parts of each call.
            compute: returns the values of such parts; its second argument says whether to ignore
                everything kept from earlier batches.
        """
        values = [[self.get(wanted.key) for wanted in call] for call in calls]
        again = [None not in of_call for of_call in values]
        for afresh in (False, True):
            missing = {
                number: places
                for number, of_call in enumerate(values)
                if again[number] is afresh
                and (places := [i for i, one in enumerate(of_call) if afresh or one is None])
            }
            if not missing:
                continue
            computed = compute(
                [[calls[number][i] for i in places] for number, places in missing.items()], afresh
            )
            for (number, places), of_call in zip(missing.items(), computed, strict=True):
                for i, value in zip(places, of_call, strict=True):
                    values[number][i] = value
                    if value is not None:
                        self.put(calls[number][i].key, value)
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A call as tokens."""

    targets: list[Target]
    source: Tokens = ()
    tokens_in: int
    n_naive: int
    """Tokens of all sequences, or of the contexts alone where the first token is enough."""


class ScoreCalls(ABC):
    """Answers `Score` calls with one kind of model.

    Attributes:
        path: `tree` if shared prefixes are computed once, otherwise `plain`.
        keeps: whether later batches reuse keys and values of earlier ones.
        counters: `tokens_forwarded`: tokens read by the model, padding included. `tokens_naive`:
            the total length of all prompt + continuation sequences, or of the prompt if the first
            token is enough.
    """

    path: str
    keeps: bool

    def __init__(
        self, loaded: LoadedModel, tokenizer: PromptTokenizer, max_entries: int = _MEMO_ENTRIES
    ) -> None:
        self._memo: ScoreMemo[Wanted] = ScoreMemo(max_entries)
        self._tokenizer = tokenizer
        self._max_positions = loaded.max_positions
        self.counters = {"tokens_forwarded": 0, "tokens_naive": 0}

    def answer(self, calls: Sequence[Score]) -> list[Reply]:
        """Answer every call, in order; all calls are planned together."""
        prepared = self.prepare(calls)
        ready = [one for one in prepared if isinstance(one, Prepared)]
        values = iter(
            self._memo.complete(
                [
                    [Wanted(target, one.source) for target in one.targets if target.scored]
                    for one in ready
                ],
                self._compute,
            )
        )
        self.counters["tokens_naive"] += sum(one.n_naive for one in ready)
        self.counters["tokens_forwarded"] = self._tokens_forwarded
        return [one if isinstance(one, Failure) else _scored(one, next(values)) for one in prepared]

    def prepare(self, calls: Sequence[Score]) -> list[Prepared | Failure]:
        """Tokenise calls; a failure where a call cannot be answered."""
        prepared: list[Prepared | Failure | str] = []
        for call in calls:
            try:
                prepared.append(self._tokenizer.template.text(call.prompt))
            except PermanentBackendError as error:
                prepared.append(Failure(error=str(error)))
        ready = [
            (call, text)
            for call, text in zip(calls, prepared, strict=True)
            if isinstance(text, str)
        ]
        tokens = iter(self._tokenised(ready))
        return [next(tokens) if isinstance(one, str) else one for one in prepared]

    @property
    @abstractmethod
    def _tokens_forwarded(self) -> int: ...

    @abstractmethod
    def _tokenised(self, calls: Sequence[tuple[Score, str]]) -> list[Prepared | Failure]:
        """Tokenise calls with the texts of their prompts."""

    @abstractmethod
    def _compute(self, calls: list[list[Wanted]], afresh: bool) -> list[list[Values]]:
        """Compute values; each call has one source."""


def _prepared(
    call: Score, n_prompt: int, targets: list[Target], source: Tokens = (), n_before: int = 0
) -> Prepared:
    """Count the tokens of a call; each sequence has `n_before` tokens outside its target."""
    scored = [target for target in targets if target.scored]
    # Letters need only their context, which is the same for all letters of one token.
    read = {one.context for one in scored} if call.first_token else [one.tokens for one in scored]
    return Prepared(
        targets=targets,
        source=source,
        tokens_in=n_prompt + sum(len(target.scored) for target in targets),
        n_naive=sum(n_before + len(tokens) for tokens in read),
    )


def _scored(one: Prepared, values: list[Values]) -> Reply:
    """Sum each target's log probabilities; `values` are those of the targets that are scored."""
    if None in values:
        return out_of_memory(one.tokens_in)
    of_target = iter(values)
    # An empty continuation departs nowhere from the prompt: a sum over no tokens.
    sums = [sum(next(of_target) or ()) if target.scored else 0.0 for target in one.targets]
    n_tokens = tuple(len(target.scored) for target in one.targets)
    return Scored(log_probs=tuple(map(float, sums)), n_tokens=n_tokens, tokens_in=one.tokens_in)


class CausalScores(ScoreCalls):
    """Answers `Score` with a decoder-only model.

    Args:
        loaded: the model.
        tokenizer: with an open end.
        sharing: False computes shared prefixes again for every text.
        kv_bytes: byte budget of the keys and values kept between batches; None for the default.
        kv_entries: the most sequences to keep; at least the number of calls in a batch.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        tokenizer: PromptTokenizer,
        *,
        sharing: bool = True,
        kv_bytes: int | None = None,
        kv_entries: int = MAX_ENTRIES,
    ) -> None:
        super().__init__(loaded, tokenizer, _MEMO_ENTRIES if sharing else 0)
        self._loaded = loaded
        self._sharing = sharing
        self._kept = (kv_bytes, kv_entries)

    @cached_property
    @in_compute_thread
    def _scorer(self) -> PrefixScorer:
        """The scorer, made and checked when first needed, so that a dry run need not pay for it."""
        kv_bytes, kv_entries = self._kept
        return PrefixScorer(
            self._loaded, sharing=self._sharing, kv_bytes=kv_bytes, kv_entries=kv_entries
        )

    @property
    def path(self) -> str:  # type: ignore[override]
        """`tree` or `plain`."""
        return self._scorer.path

    @property
    def keeps(self) -> bool:  # type: ignore[override]
        """Whether keys and values are kept between batches; a guess until the self-check ran."""
        return self.path == "tree" if "_scorer" in vars(self) else self._sharing

    @property
    def _tokens_forwarded(self) -> int:
        return self._scorer.tokens_forwarded

    def _compute(self, calls: list[list[Wanted]], afresh: bool) -> list[list[Values]]:
        targets = [one.target for call in calls for one in call]
        values = iter(self._scorer.log_probs(targets, afresh=afresh))
        return [[next(values) for _ in call] for call in calls]

    def _tokenised(self, calls: Sequence[tuple[Score, str]]) -> list[Prepared | Failure]:
        tokens = self._tokenizer.continued(
            [(text, call.continuations, not isinstance(call.prompt, str)) for call, text in calls]
        )
        return [
            self._targets(call, *of_call) for (call, _), of_call in zip(calls, tokens, strict=True)
        ]

    def _targets(self, call: Score, prompt: Tokens, *sequences: Tokens) -> Prepared | Failure:
        targets = targets_of(prompt, sequences, first_token=call.first_token)
        if any(target.scored and target.start == 0 for target in targets):
            return Failure(
                error="the first token of the text cannot be scored, because nothing comes "
                "before it: the prompt is empty, or a continuation changes its only token"
            )
        longest = max((len(target.context) for target in targets), default=0)
        return too_long(longest, self._max_positions) or _prepared(call, len(prompt), targets)


@dataclass(frozen=True, slots=True)
class _Row:
    """One input of the decoder, and the outputs scored with it."""

    call: int
    source: Tokens
    tokens: Tokens
    """The longest output without its last token, whose prediction is not needed."""
    outputs: tuple[int, ...]
    """Places of the outputs in the call."""


class Seq2SeqScores(ScoreCalls):
    """Answers `Score` with an encoder-decoder model, teacher-forced.

    The prompt goes into the encoder. The decoder is scored on a continuation without leading white
    space and without an end token: `Answer:` + ` aspirin` becomes the output `aspirin`, which may
    continue. An encoder reads each prompt as a whole, so different prompts share nothing. If one
    output's input is the beginning of another's, the decoder reads only the longer one.

    Args:
        loaded: the model.
        tokenizer: adds the tokens that the encoder expects at the end.
        states_bytes: byte budget of the encoder states kept for later outputs of a prompt.
    """

    path = "plain"
    keeps = False

    def __init__(
        self, loaded: LoadedModel, tokenizer: PromptTokenizer, *, states_bytes: int | None = None
    ) -> None:
        super().__init__(loaded, tokenizer)
        self._model = loaded.model
        self._device = loaded.device
        settings = loaded.model.generation_config
        start, forced = settings.decoder_start_token_id, settings.forced_bos_token_id
        if start is None:
            raise UsageError(
                f"model {loaded.identity.name!r} names no decoder_start_token_id, so its outputs "
                "cannot be scored; set it in the model's generation_config.json"
            )
        # BART-like models begin every output with one more fixed token.
        self._prefix = [start] if forced is None else [start, forced]
        self._max_tokens = MAX_TOKENS["cuda" if loaded.device.type == "cuda" else "cpu"]
        self._max_bytes = _STATES_BYTES if states_bytes is None else states_bytes
        self._states: OrderedDict[Tokens, Any] = OrderedDict()
        self._n_read = 0

    @property
    def _tokens_forwarded(self) -> int:
        return self._n_read

    def _tokenised(self, calls: Sequence[tuple[Score, str]]) -> list[Prepared | Failure]:
        prepared: list[Prepared | Failure] = []
        for call, text in calls:
            (source,) = self._tokenizer.tokens([text], chat=not isinstance(call.prompt, str))
            # As in a chat, outputs get no special tokens.
            texts = [continuation.lstrip() for continuation in call.continuations]
            outputs = self._tokenizer.tokens(texts, chat=True) if texts else []
            # The decoder reads an output except its last token.
            read = [len(self._prefix) + len(tokens) - 1 for tokens in outputs]
            prepared.append(
                too_long(max([len(source), *read]), self._max_positions)
                or _prepared(
                    call,
                    len(source),
                    targets_of((), outputs, first_token=call.first_token),
                    source,
                    n_before=len(source) + 1,
                )
            )
        return prepared

    def _compute(self, calls: list[list[Wanted]], afresh: bool) -> list[list[Values]]:
        states = self._encoded([call[0].source for call in calls], afresh)
        rows = [
            row
            for number, call in enumerate(calls)
            if call[0].source in states
            for row in _rows(number, call)
        ]
        # So that rows of equal length are batched with prompts of similar length.
        rows.sort(key=lambda row: len(row.source))
        results: list[list[Values]] = [[None] * len(call) for call in calls]
        values = in_batches(
            rows,
            [len(self._prefix) + len(row.tokens) for row in rows],
            lambda batch: self._decode(batch, calls, states),
            overhead=_DECODER_OVERHEAD,
            max_tokens=self._max_tokens // _DECODER_SHARE,
            max_waste=MAX_WASTE,
            forget=self._forget,
        )
        for row, of_row in zip(rows, values, strict=True):
            for place, value in zip(row.outputs, of_row or (), strict=of_row is not None):
                results[row.call][place] = value
        # A call whose outputs were not all read is lost as a whole.
        return [[None] * len(one) if None in one else one for one in results]

    def _encoded(self, sources: Sequence[Tokens], afresh: bool) -> dict[Tokens, Any]:
        """Return encoder states by source, `(n_tokens, hidden)`, without those too large."""
        states: dict[Tokens, Any] = {}
        for source in dict.fromkeys(sources):
            if not afresh and source in self._states:
                self._states.move_to_end(source)
                states[source] = self._states[source]
        new = [source for source in dict.fromkeys(sources) if source not in states]
        encoded = in_batches(
            new,
            [len(source) for source in new],
            self._encode,
            max_tokens=self._max_tokens,
            max_waste=MAX_WASTE,
            forget=self._forget,
        )
        for source, one in zip(new, encoded, strict=True):
            if one is not None:
                states[source] = self._states[source] = one
        n_bytes = sum(one.nbytes for one in self._states.values())
        while n_bytes > self._max_bytes:
            n_bytes -= self._states.popitem(last=False)[1].nbytes
        return states

    def _forget(self) -> bool:
        filled = bool(self._states)
        self._states.clear()
        return filled

    def _encode(self, sources: Sequence[Tokens]) -> list[Any]:
        import torch

        with torch.inference_mode():
            tokens, mask = padded(sources, self._device)
            self._n_read += tokens.numel()
            encoded = self._model.get_encoder()(input_ids=tokens, attention_mask=mask)[0]
            # Copies, because a view would keep the whole batch with its padding alive.
            return [
                one[: len(source)].clone() for one, source in zip(encoded, sources, strict=True)
            ]

    def _decode(
        self, rows: Sequence[_Row], calls: Sequence[Sequence[Wanted]], states: dict[Tokens, Any]
    ) -> list[list[list[float]]]:
        """Return log probabilities by row, output and token."""
        import torch
        from torch.nn.utils.rnn import pad_sequence
        from transformers.modeling_outputs import BaseModelOutput

        first = len(self._prefix) - 1
        outputs = [[calls[row.call][place].target.scored for place in row.outputs] for row in rows]
        with torch.inference_mode():
            _, source_mask = padded([row.source for row in rows], self._device)
            ids, mask = padded([[*self._prefix, *row.tokens] for row in rows], self._device)
            self._n_read += ids.numel()
            source_states = pad_sequence([states[row.source] for row in rows], batch_first=True)
            logits = self._model(
                encoder_outputs=BaseModelOutput(last_hidden_state=source_states),
                attention_mask=source_mask,
                decoder_input_ids=ids,
                decoder_attention_mask=mask,
                use_cache=False,
            ).logits
            log_probs = torch.log_softmax(logits[:, first:].float(), dim=-1)
            wanted = [
                (number, place, token)
                for number, of_row in enumerate(outputs)
                for output in of_row
                for place, token in enumerate(output)
            ]
            at = torch.tensor(wanted, device=log_probs.device).T
            values = iter(log_probs[at[0], at[1], at[2]].tolist())
        return [[[next(values) for _ in output] for output in of_row] for of_row in outputs]


def _rows(number: int, call: Sequence[Wanted]) -> list[_Row]:
    """Merge outputs of a call whose input is the beginning of another's."""
    inputs = [wanted.target.scored[:-1] for wanted in call]
    rows: list[_Row] = []
    # In reverse lexicographic order a sequence follows those that begin with it.
    for place in sorted(range(len(call)), key=inputs.__getitem__, reverse=True):
        tokens = inputs[place]
        if rows and shared_length(rows[-1].tokens, tokens) == len(tokens):
            rows[-1] = _Row(number, call[0].source, rows[-1].tokens, (*rows[-1].outputs, place))
        else:
            rows.append(_Row(number, call[0].source, tokens, (place,)))
    return rows
