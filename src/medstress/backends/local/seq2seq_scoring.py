"""Teacher-forced log probabilities from an encoder-decoder model.

An encoder reads each prompt as a whole, so different prompts share nothing. Prompts and decoder
inputs are batched by length across items. If one output's input is the beginning of another's, for
the same prompt, the decoder reads only the longer one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medstress.backends.models.loaded_model import LoadedModel
from medstress.backends.models.out_of_memory import in_halves
from medstress.backends.models.token_tree import plan_batches, shared_length
from medstress.core.errors import UsageError

_OVERHEAD = 64.0
_DECODER_OVERHEAD = 32.0
_MAX_WASTE = 0.03
"""Padding tokens per token."""
_MAX_TOKENS = {"cpu": 2048, "cuda": 32768}
_DECODER_SHARE = 8
"""How many times more a token of the decoder weighs, because its row carries a prompt's states."""
_STATES_BYTES = 256_000_000


@dataclass(frozen=True, slots=True)
class Pair:
    """A prompt for the encoder, and the outputs to score given that prompt."""

    source: tuple[int, ...]
    """The prompt's tokens, with the special tokens that the tokenizer adds."""
    outputs: tuple[tuple[int, ...], ...]
    """Sequences of at least one token each."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One input of the decoder, and the outputs scored with it."""

    pair: int
    """Index of the pair."""
    tokens: tuple[int, ...]
    """The longest output without its last token, whose prediction is not needed."""
    outputs: tuple[int, ...]
    """Indices of the outputs in the pair."""


class Seq2SeqScorer:
    """Computes log probabilities of outputs given a prompt; each prompt is encoded once.

    Args:
        loaded: an encoder-decoder model.
        states_bytes: byte budget of the encoder states kept for later outputs of a prompt.

    Attributes:
        path: always `plain`.
        tokens_forwarded: tokens read by encoder and decoder so far, padding included.
    """

    path = "plain"

    def __init__(self, loaded: LoadedModel, *, states_bytes: int | None = None) -> None:
        self._model = loaded.model
        self._device = loaded.device
        settings = loaded.model.generation_config
        start = settings.decoder_start_token_id
        if start is None:
            raise UsageError(
                f"model {loaded.identity.name!r} names no decoder_start_token_id, so its outputs "
                "cannot be scored; set it in the model's generation_config.json"
            )
        forced = settings.forced_bos_token_id
        # BART-like models begin every output with one more fixed token.
        self._prefix = [start] if forced is None else [start, forced]
        self._max_tokens = _MAX_TOKENS["cuda" if loaded.device.type == "cuda" else "cpu"]
        self._states = _States(_STATES_BYTES if states_bytes is None else states_bytes)
        self.tokens_forwarded = 0

    @property
    def n_before(self) -> int:
        """Tokens that the decoder reads before an output."""
        return len(self._prefix)

    def log_probs(
        self, pairs: Sequence[Pair], *, afresh: bool = False
    ) -> list[list[list[float]] | None]:
        """Return the natural log probability of each token of each output of each pair.

        The result is None for a pair that does not fit into memory. `afresh` encodes every prompt
        again.
        """
        states = self._encode([pair.source for pair in pairs], afresh)
        results: list[list[list[float]] | None] = [
            None if pair.source not in states else [[] for _ in pair.outputs] for pair in pairs
        ]
        rows = [row for row in _rows(pairs) if results[row.pair] is not None]
        # So that rows of equal length are batched with prompts of similar length.
        rows.sort(key=lambda row: len(pairs[row.pair].source))

        def decode(rows: Sequence[_Row]) -> list[list[list[float]]]:
            return self._decode(rows, pairs, [states[pairs[row.pair].source] for row in rows])

        batches = plan_batches(
            [len(self._prefix) + len(row.tokens) for row in rows],
            overhead=_DECODER_OVERHEAD,
            max_tokens=self._max_tokens // _DECODER_SHARE,
            max_waste=_MAX_WASTE,
        )
        for batch in batches:
            scores = in_halves([rows[index] for index in batch], decode, self._states.clear)
            for index, values in zip(batch, scores, strict=True):
                row, result = rows[index], results[rows[index].pair]
                if values is None or result is None:
                    results[row.pair] = None
                    continue
                for place, value in zip(row.outputs, values, strict=True):
                    result[place] = value
        return results

    def _encode(self, sources: Sequence[tuple[int, ...]], afresh: bool) -> dict[Any, Any]:
        """Return encoder states by source, `(n_tokens, hidden)`, without those too large."""
        states: dict[tuple[int, ...], Any] = {}
        missing: dict[tuple[int, ...], None] = {}
        for source in sources:
            kept = None if afresh else self._states.get(source)
            if kept is None:
                missing[source] = None
            else:
                states[source] = kept
        new = list(missing)
        batches = plan_batches(
            [len(source) for source in new],
            overhead=_OVERHEAD,
            max_tokens=self._max_tokens,
            max_waste=_MAX_WASTE,
        )
        for batch in batches:
            chosen = [new[index] for index in batch]
            encoded = in_halves(chosen, self._encoder_states, self._states.clear)
            for source, one in zip(chosen, encoded, strict=True):
                if one is not None:
                    states[source] = one
                    self._states.put(source, one)
        return states

    def _encoder_states(self, sources: Sequence[tuple[int, ...]]) -> list[Any]:
        import torch

        with torch.inference_mode():
            tokens, mask = self._padded(sources)
            self.tokens_forwarded += tokens.numel()
            encoded = self._model.get_encoder()(input_ids=tokens, attention_mask=mask)[0]
            # Copies, because a view would keep the whole batch with its padding alive.
            return [
                one[: len(source)].clone() for one, source in zip(encoded, sources, strict=True)
            ]

    def _decode(
        self, rows: Sequence[_Row], pairs: Sequence[Pair], states: Sequence[Any]
    ) -> list[list[list[float]]]:
        """Return log probabilities by row, output and token."""
        import torch
        from torch.nn.utils.rnn import pad_sequence
        from transformers.modeling_outputs import BaseModelOutput

        first = len(self._prefix) - 1
        with torch.inference_mode():
            _, source_mask = self._padded([pairs[row.pair].source for row in rows])
            decoder_ids, decoder_mask = self._padded([[*self._prefix, *row.tokens] for row in rows])
            self.tokens_forwarded += decoder_ids.numel()
            logits = self._model(
                encoder_outputs=BaseModelOutput(
                    last_hidden_state=pad_sequence(list(states), batch_first=True)
                ),
                attention_mask=source_mask,
                decoder_input_ids=decoder_ids,
                decoder_attention_mask=decoder_mask,
                use_cache=False,
            ).logits
            log_probs = torch.log_softmax(logits[:, first:].float(), dim=-1)
            wanted = [
                (number, place, token)
                for number, row in enumerate(rows)
                for output in row.outputs
                for place, token in enumerate(pairs[row.pair].outputs[output])
            ]
            at = torch.tensor(wanted, device=log_probs.device).T
            values = iter(log_probs[at[0], at[1], at[2]].tolist())
        return [
            [[next(values) for _ in pairs[row.pair].outputs[output]] for output in row.outputs]
            for row in rows
        ]

    def _padded(self, sequences: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Pad on the right; return tokens and mask, both `(n_sequences, longest)`."""
        import torch

        longest = max(len(sequence) for sequence in sequences)
        device = self._device
        tokens = [[*sequence, *([0] * (longest - len(sequence)))] for sequence in sequences]
        mask = [[1] * len(one) + [0] * (longest - len(one)) for one in sequences]
        return torch.tensor(tokens, device=device), torch.tensor(mask, device=device)


class _States:
    """A cache of encoder states by prompt that evicts the least recently used."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._kept: OrderedDict[tuple[int, ...], Any] = OrderedDict()

    def get(self, source: tuple[int, ...]) -> Any:
        """Return the states of a prompt, or None."""
        if source in self._kept:
            self._kept.move_to_end(source)
        return self._kept.get(source)

    def put(self, source: tuple[int, ...], states: Any) -> None:
        """Keep the states of a prompt."""
        self._n_bytes += states.nbytes - getattr(self._kept.pop(source, None), "nbytes", 0)
        self._kept[source] = states
        while self._n_bytes > self._max_bytes:
            self._n_bytes -= self._kept.popitem(last=False)[1].nbytes

    def clear(self) -> bool:
        """Drop everything; return whether there was anything."""
        filled = bool(self._kept)
        self._kept.clear()
        self._n_bytes = 0
        return filled


def _rows(pairs: Sequence[Pair]) -> list[_Row]:
    """Merge outputs whose input is the beginning of another's."""
    rows = []
    for number, pair in enumerate(pairs):
        # In reverse lexicographic order a sequence follows those that begin with it.
        order = sorted(range(len(pair.outputs)), key=lambda place: pair.outputs[place][:-1])
        merged: list[tuple[tuple[int, ...], list[int]]] = []
        for place in reversed(order):
            tokens = pair.outputs[place][:-1]
            if merged and shared_length(merged[-1][0], tokens) == len(tokens):
                merged[-1][1].append(place)
            else:
                merged.append((tokens, [place]))
        rows += [_Row(number, tokens, tuple(places)) for tokens, places in merged]
    return rows
