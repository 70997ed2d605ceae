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


Row: TypeAlias = tuple[int, Tokens]
"""A call, and the decoder's input in it: an output without its last token, whose prediction is not
needed. Outputs with one input share it, as do all letters of one token."""


class Seq2SeqScores(ScoreCalls):
    """Answers `Score` with an encoder-decoder model, teacher-forced.

    The prompt goes into the encoder. The decoder is scored on a continuation without leading white
    space and without an end token: `Answer:` + ` aspirin` becomes the output `aspirin`, which may
    continue. An encoder reads each prompt as a whole, so different prompts share nothing.

    Args:
        loaded: the model.
        tokenizer: adds the tokens that the encoder expects at the end.
    """

    path = "plain"
    keeps = False

    def __init__(self, loaded: LoadedModel, tokenizer: PromptTokenizer) -> None:
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
        sources = list(dict.fromkeys(call[0].source for call in calls))
        encoded = in_batches(
            sources,
            [len(source) for source in sources],
            self._encode,
            max_tokens=self._max_tokens,
            max_waste=MAX_WASTE,
        )
        states = dict(zip(sources, encoded, strict=True))
        outputs: dict[Row, list[int]] = {}
        for number, call in enumerate(calls):
            for place, wanted in enumerate(call):
                if states[wanted.source] is not None:
                    row = number, wanted.target.scored[:-1]
                    outputs.setdefault(row, []).append(place)
        # So that rows of equal length are batched with prompts of similar length.
        rows = sorted(outputs, key=lambda row: len(calls[row[0]][0].source))

        def run(batch: Sequence[Row]) -> list[list[list[float]]]:
            return self._decode(
                [(calls[row[0]][0].source, states[calls[row[0]][0].source]) for row in batch],
                [tokens for _, tokens in batch],
                [[calls[row[0]][i].target.scored for i in outputs[row]] for row in batch],
            )

        values = in_batches(
            rows,
            [len(self._prefix) + len(tokens) for _, tokens in rows],
            run,
            overhead=_DECODER_OVERHEAD,
            max_tokens=self._max_tokens // _DECODER_SHARE,
            max_waste=MAX_WASTE,
        )
        results: list[list[Values]] = [[None] * len(call) for call in calls]
        for row, of_row in zip(rows, values, strict=True):
            for place, value in zip(outputs[row], of_row or (), strict=of_row is not None):
                results[row[0]][place] = value
        # A call whose outputs were not all read is lost as a whole.
        return [[None] * len(one) if None in one else one for one in results]

    def _encode(self, sources: Sequence[Tokens]) -> list[Any]:
        """Return the encoder's states of each source, `(n_tokens, hidden)`."""
        import torch

        with torch.inference_mode():
            tokens, mask = padded(sources, self._device)
            self._n_read += tokens.numel()
            encoded = self._model.get_encoder()(input_ids=tokens, attention_mask=mask)[0]
            return [one[: len(source)] for one, source in zip(encoded, sources, strict=True)]

    def _decode(
        self,
        sources: Sequence[tuple[Tokens, Any]],
        inputs: Sequence[Tokens],
        outputs: Sequence[Sequence[Tokens]],
    ) -> list[list[list[float]]]:
        """Return log probabilities by row, output and token.

        Args:
            sources: of each row, with the encoder's states.
            inputs: of each row, after the tokens that begin all outputs.
            outputs: the outputs that are scored with each row.
        """
        import torch
        from torch.nn.utils.rnn import pad_sequence
        from transformers.modeling_outputs import BaseModelOutput

        first = len(self._prefix) - 1
        with torch.inference_mode():
            _, source_mask = padded([tokens for tokens, _ in sources], self._device)
            ids, mask = padded([[*self._prefix, *tokens] for tokens in inputs], self._device)
            self._n_read += ids.numel()
            states = pad_sequence([one for _, one in sources], batch_first=True)
            logits = self._model(
                encoder_outputs=BaseModelOutput(last_hidden_state=states),
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
