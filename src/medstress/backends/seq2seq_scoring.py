"""Log probabilities from an encoder-decoder model, teacher-forced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medstress.backends.loaded_model import LoadedModel
from medstress.backends.out_of_memory import in_halves
from medstress.backends.token_tree import plan_batches
from medstress.errors import UsageError

_OVERHEAD = 64.0
_MAX_TOKENS = {"cpu": 2048, "cuda": 32768}


@dataclass(frozen=True, slots=True)
class Pair:
    """What goes into the encoder, and the outputs to score for it."""

    source: tuple[int, ...]
    """The prompt's tokens, with the special tokens that the tokenizer adds."""
    outputs: tuple[tuple[int, ...], ...]
    """Each a sequence of at least one token."""


class Seq2SeqScorer:
    """Computes log probabilities of outputs given a prompt; each prompt is encoded once.

    Args:
        loaded: an encoder-decoder model.

    Attributes:
        path: always `plain`.
        tokens_forwarded: tokens that encoder and decoder have read, padding included.
    """

    path = "plain"

    def __init__(self, loaded: LoadedModel) -> None:
        self._model = loaded.model
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
        self.tokens_forwarded = 0

    def log_probs(self, pairs: Sequence[Pair]) -> list[list[list[float]] | None]:
        """Score pairs; the natural log probability of each token of each output of each pair.

        None for a pair that does not fit into memory.
        """
        results: list[list[list[float]] | None] = [None] * len(pairs)
        lengths = [len(pair.source) for pair in pairs]
        for batch in plan_batches(lengths, overhead=_OVERHEAD, max_tokens=self._max_tokens):
            found = in_halves([pairs[index] for index in batch], self._forward)
            for index, values in zip(batch, found, strict=True):
                results[index] = values
        return results

    def _forward(self, pairs: Sequence[Pair]) -> list[list[list[float]]]:
        import torch
        from transformers.modeling_outputs import BaseModelOutput

        owners = [number for number, pair in enumerate(pairs) for _ in pair.outputs]
        outputs = [output for pair in pairs for output in pair.outputs]
        # The last token of an output predicts nothing that is wanted.
        inputs = [[*self._prefix, *output[:-1]] for output in outputs]
        with torch.inference_mode():
            source, source_mask = self._padded([pair.source for pair in pairs])
            encoded = self._model.get_encoder()(input_ids=source, attention_mask=source_mask)
            decoder_ids, decoder_mask = self._padded(inputs)
            self.tokens_forwarded += source.numel() + decoder_ids.numel()
            logits = self._model(
                # Each prompt's states repeated for every output of that prompt.
                encoder_outputs=BaseModelOutput(last_hidden_state=encoded[0][owners]),
                attention_mask=source_mask[owners],
                decoder_input_ids=decoder_ids,
                decoder_attention_mask=decoder_mask,
                use_cache=False,
            ).logits
            first = len(self._prefix) - 1
            found = torch.log_softmax(logits[:, first:].float(), dim=-1)
            wanted, _ = self._padded(outputs)
            picked = found.gather(2, wanted[:, :, None])[:, :, 0].tolist()
        values = iter(picked)
        return [[next(values)[: len(output)] for output in pair.outputs] for pair in pairs]

    def _padded(self, sequences: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Pad on the right; tokens and mask, both `(n_sequences, longest)`."""
        import torch

        longest = max(len(sequence) for sequence in sequences)
        device = self._model.device
        tokens = [[*sequence, *([0] * (longest - len(sequence)))] for sequence in sequences]
        mask = [[1] * len(one) + [0] * (longest - len(one)) for one in sequences]
        return torch.tensor(tokens, device=device), torch.tensor(mask, device=device)
