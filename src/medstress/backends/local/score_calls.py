"""Turns `Score` calls into token sequences, and log probabilities into answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

from medstress.backends.local.causal_scoring import CausalScorer
from medstress.backends.local.seq2seq_scoring import Pair, Seq2SeqScorer
from medstress.backends.models.continued_tokens import Continued
from medstress.backends.models.loaded_model import LoadedModel
from medstress.backends.models.prompt_tokens import PromptTokenizer, targets_of
from medstress.backends.models.score_memo import MAX_ENTRIES, ScoreMemo, Values, Wanted
from medstress.backends.models.token_tree import Target
from medstress.backends.shared_prefix import store as kv_store
from medstress.core.calls import Failure, Reply, Score, Scored
from medstress.core.errors import PermanentBackendError
from medstress.machine.compute_thread import in_compute_thread


class ScoreCalls(Protocol):
    """Answers `Score` calls with one kind of model."""

    @property
    def path(self) -> str:
        """`tree` if shared prefixes are computed once, otherwise `plain`."""

    @property
    def keeps(self) -> bool:
        """Whether later batches reuse what earlier ones computed."""

    counters: dict[str, int]
    """`tokens_forwarded`: tokens read by the model, padding included. `tokens_naive`: the total
    length of all prompt + continuation sequences, or of the prompt if the first token is enough."""

    def answer(self, calls: Sequence[Score]) -> list[Reply]:
        """Answer every call, in order."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    targets: list[Target]
    tokens_in: int
    naive: int


class CausalScoreCalls:
    """Answers `Score` with a decoder-only model.

    Args:
        loaded: the model.
        sharing: False computes shared prefixes again for every text.
        kv_bytes: byte budget of the keys and values kept between batches; None for the default.
        kv_entries: the most sequences to keep; at least the number of calls in a batch.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        sharing: bool,
        kv_bytes: int | None = None,
        kv_entries: int = kv_store.MAX_ENTRIES,
    ) -> None:
        self._sharing = sharing
        self._make = partial(
            CausalScorer, loaded, sharing=sharing, kv_bytes=kv_bytes, kv_entries=kv_entries
        )
        self._memo: ScoreMemo[Wanted] = ScoreMemo(MAX_ENTRIES if sharing else 0)
        self._tokenizer = PromptTokenizer(loaded.tokenizer, loaded.identity.name, open_end=True)
        self._max_positions = loaded.max_positions
        self.counters = {"tokens_forwarded": 0, "tokens_naive": 0}

    @cached_property
    @in_compute_thread
    def _scorer(self) -> CausalScorer:
        """The scorer, made and checked when first needed, so that a dry run need not pay for it."""
        return self._make()

    @property
    def path(self) -> str:
        """`tree` or `plain`."""
        return self._scorer.path

    @property
    def keeps(self) -> bool:
        """Whether keys and values are kept between batches; a guess until the self-check ran."""
        return self._scorer.keeps if "_scorer" in vars(self) else self._sharing

    def answer(self, calls: Sequence[Score]) -> list[Reply]:
        """Answer every call; all calls are planned together."""
        prepared = self._prepare(calls)
        ready = [one for one in prepared if isinstance(one, _Prepared)]
        known = self._memo.complete(
            [[Wanted(target) for target in one.targets if target.scored] for one in ready],
            self._log_probs,
        )
        values = (value for of_call in known for value in of_call)
        self.counters["tokens_naive"] += sum(one.naive for one in ready)
        self.counters["tokens_forwarded"] = self._scorer.tokens_forwarded
        return [one if isinstance(one, Failure) else _scored(one, values) for one in prepared]

    def _log_probs(self, calls: list[list[Wanted]], afresh: bool) -> list[list[Values]]:
        targets = [one.target for call in calls for one in call]
        values = iter(self._scorer.log_probs(targets, afresh=afresh))
        return [[next(values) for _ in call] for call in calls]

    def _prepare(self, calls: Sequence[Score]) -> list[_Prepared | Failure]:
        texts = [self._text(call) for call in calls]
        tokens = iter(
            self._tokenizer.tokens_of_each([one for one in texts if isinstance(one, Continued)])
        )
        return [
            one if isinstance(one, Failure) else self._targets(call, *next(tokens))
            for call, one in zip(calls, texts, strict=True)
        ]

    def _text(self, call: Score) -> Continued | Failure:
        try:
            text = self._tokenizer.text(call.prompt)
        except PermanentBackendError as error:
            return Failure(error=str(error))
        return Continued(text, tuple(call.continuations), not isinstance(call.prompt, str))

    def _targets(
        self, call: Score, prompt: tuple[int, ...], *sequences: tuple[int, ...]
    ) -> _Prepared | Failure:
        targets = targets_of(prompt, sequences, first_token=call.first_token)
        if any(target.scored and target.start == 0 for target in targets):
            return Failure(
                error="the first token of the text cannot be scored, because nothing comes "
                "before it: the prompt is empty, or a continuation changes its only token"
            )
        longest = max((len(target.context) for target in targets), default=0)
        if failure := too_long(longest, self._max_positions):
            return failure
        return _prepared(call, len(prompt), targets, n_before=0)


class Seq2SeqScoreCalls:
    """Answers `Score` with an encoder-decoder model.

    The prompt goes into the encoder. The decoder is scored on a continuation without leading white
    space and without an end token: `Answer:` + ` aspirin` becomes the output `aspirin`, which may
    continue.

    Args:
        loaded: the model.
        kv_bytes: byte budget of the encoder states kept between batches; None for the default.
    """

    path = "plain"
    keeps = False

    def __init__(self, loaded: LoadedModel, *, kv_bytes: int | None = None) -> None:
        self._scorer = Seq2SeqScorer(loaded, states_bytes=kv_bytes)
        self._memo: ScoreMemo[Wanted] = ScoreMemo()
        self._tokenizer = PromptTokenizer(loaded.tokenizer, loaded.identity.name, open_end=False)
        self._max_positions = loaded.max_positions
        self.counters = {"tokens_forwarded": 0, "tokens_naive": 0}

    def answer(self, calls: Sequence[Score]) -> list[Reply]:
        """Answer every call; each distinct prompt is encoded once."""
        prepared = [self._prepare(call) for call in calls]
        ready = [one for one in prepared if not isinstance(one, Failure)]
        known = self._memo.complete(
            [
                [Wanted(target, source) for target in one.targets if target.scored]
                for source, one in ready
            ],
            self._log_probs,
        )
        values = (value for of_call in known for value in of_call)
        self.counters["tokens_naive"] += sum(one.naive for _, one in ready)
        self.counters["tokens_forwarded"] = self._scorer.tokens_forwarded
        return [one if isinstance(one, Failure) else _scored(one[1], values) for one in prepared]

    def _log_probs(self, calls: list[list[Wanted]], afresh: bool) -> list[list[Values]]:
        pairs = [Pair(call[0].source, tuple(one.target.scored for one in call)) for call in calls]
        return [
            [None] * len(pair.outputs) if values is None else list(values)
            for pair, values in zip(
                pairs, self._scorer.log_probs(pairs, afresh=afresh), strict=True
            )
        ]

    def _prepare(self, call: Score) -> tuple[tuple[int, ...], _Prepared] | Failure:
        chat = not isinstance(call.prompt, str)
        try:
            text = self._tokenizer.text(call.prompt)
        except PermanentBackendError as error:
            return Failure(error=str(error))
        (source,) = self._tokenizer.tokens([text], chat=chat)
        # chat=True, because outputs get no special tokens whatever the prompt is.
        outputs = [
            self._tokenizer.tokens([continuation.lstrip()], chat=True)[0]
            for continuation in call.continuations
        ]
        targets = targets_of((), outputs, first_token=call.first_token)
        # The decoder reads an output except its last token.
        read = [self._scorer.n_before + len(tokens) - 1 for tokens in outputs]
        longest = max([len(source), *read])
        if failure := too_long(longest, self._max_positions):
            return failure
        return source, _prepared(call, len(source), targets, n_before=len(source) + 1)


def _prepared(call: Score, n_prompt: int, targets: list[Target], *, n_before: int) -> _Prepared:
    """Count the tokens of a call; each sequence has `n_before` tokens outside its target."""
    scored = [target for target in targets if target.scored]
    # Letters need only their context, which is the same for all letters of one token.
    contexts = {target.context for target in scored}
    read = contexts if call.first_token else [target.tokens for target in scored]
    return _Prepared(
        targets,
        tokens_in=n_prompt + sum(len(target.scored) for target in targets),
        naive=sum(n_before + len(tokens) for tokens in read),
    )


def too_long(n_tokens: int, max_positions: int | None) -> Failure | None:
    """Return a failure if a call is longer than the model's positions, otherwise None."""
    if max_positions is None or n_tokens <= max_positions:
        return None
    return Failure(
        error=f"{n_tokens} tokens are more than the {max_positions} positions of the model; "
        "shorten the prompt or choose a model with a longer context"
    )


def out_of_memory(n_tokens: int) -> Failure:
    """Return the failure of a call that does not fit into memory, even alone."""
    return Failure(
        error=f"the machine ran out of memory on one call of {n_tokens} tokens; shorten the "
        "prompt or choose a smaller model or dtype"
    )


def _scored(one: _Prepared, values: Iterator[list[float] | None]) -> Reply:
    """Sum each target's log probabilities; takes the next of `values` for each scored target."""
    sums = []
    for target in one.targets:
        # An empty continuation departs nowhere from the prompt: a sum over no tokens.
        value = next(values) if target.scored else []
        sums.append(None if value is None else sum(value))
    known = tuple(value for value in sums if value is not None)
    if len(known) < len(sums):
        return out_of_memory(one.tokens_in)
    n_tokens = tuple(len(target.scored) for target in one.targets)
    return Scored(log_probs=known, n_tokens=n_tokens, tokens_in=one.tokens_in)
