"""Text generation in batches, greedy or sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from medstress.backends.models.loaded_model import LoadedModel
from medstress.backends.models.out_of_memory import in_halves
from medstress.backends.models.token_tree import plan_batches
from medstress.core.calls import Decoding, Generate
from medstress.core.hashing import digest

IsOver: TypeAlias = Callable[[str], bool] | None
_OVERHEAD = 64.0
_MAX_TOKENS = {"cpu": 4096, "cuda": 65536}
"""The most tokens of one batch, new ones included; limits the key-value cache."""


class Continuation(NamedTuple):
    """The tokens generated for one call."""

    tokens: tuple[int, ...]
    """The new tokens, up to and including an end token, or until no more of the text is read."""
    is_cut: bool
    """Whether generation stopped at `max_new_tokens`."""


class Generator:
    """Continues token sequences.

    Args:
        loaded: a decoder-only or encoder-decoder model.
        decode: turns tokens into text.
    """

    def __init__(self, loaded: LoadedModel, decode: Callable[[Sequence[int]], str]) -> None:
        self._loaded = loaded
        self._decode = decode
        self._model = loaded.model
        self._ends = loaded.model.generation_config.eos_token_id or []
        self._max_tokens = _MAX_TOKENS["cuda" if loaded.device.type == "cuda" else "cpu"]

    def continue_all(
        self, calls: Sequence[Generate], prompts: Sequence[tuple[int, ...]]
    ) -> list[Continuation | None]:
        """Generate a continuation of every prompt.

        Args:
            calls: give the decoding, and their content seeds the sampling.
            prompts: the tokens of each call's prompt.

        Returns:
            One continuation per call; None for a call that does not fit into memory.
        """
        results: list[Continuation | None] = [None] * len(calls)
        seeds = [self._seed(call) for call in calls]
        groups: dict[Decoding, list[int]] = {}
        for index, call in enumerate(calls):
            groups.setdefault(call.decoding, []).append(index)
        for decoding, members in groups.items():
            lengths = [len(prompts[index]) + decoding.max_new_tokens for index in members]
            for batch in plan_batches(lengths, overhead=_OVERHEAD, max_tokens=self._max_tokens):
                indexes = [members[place] for place in batch]
                work = [(prompts[i], seeds[i], calls[i].is_over) for i in indexes]
                continuations = in_halves(work, partial(self._generate, decoding=decoding))
                for index, continuation in zip(indexes, continuations, strict=True):
                    results[index] = continuation
        return results

    @staticmethod
    def _seed(call: Generate) -> int:
        """Return a seed from the call's content and sample index, the same in every process."""
        key = digest([call.canonical(), call.sample])
        return int.from_bytes(key[:8], "big", signed=True)

    def _generate(
        self, work: Sequence[tuple[tuple[int, ...], int, IsOver]], decoding: Decoding
    ) -> list[Continuation]:
        import torch
        from transformers import LogitsProcessorList, StoppingCriteriaList

        device = self._loaded.device
        ids, mask = self._padded([prompt for prompt, _, _ in work])
        # Rows begin with the start token (encoder-decoder) or with the prompt (decoder).
        skip = 1 if self._loaded.encoder_decoder else len(ids[0])
        noise = []
        if decoding.temperature > 0:
            noise.append(_GumbelNoise(decoding.temperature, [seed for _, seed, _ in work]))
        watch = _UntilOver([is_over for _, _, is_over in work], self._decode, skip)
        with torch.inference_mode():
            rows = self._model.generate(
                input_ids=torch.tensor(ids, device=device),
                attention_mask=torch.tensor(mask, device=device),
                do_sample=False,
                max_new_tokens=decoding.max_new_tokens,
                logits_processor=LogitsProcessorList(noise),
                stopping_criteria=StoppingCriteriaList([watch]),
            ).tolist()
        return [
            self._until_end(row[skip:], length)
            for row, length in zip(rows, watch.lengths, strict=True)
        ]

    def _padded(
        self, prompts: Sequence[tuple[int, ...]]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Pad to equal length; return tokens and mask.

        Rows of a decoder are padded on the left, because it continues at the right end; those of
        an encoder on the right, because it may count positions from the left.
        """
        longest = max(map(len, prompts))
        fills = [[0] * (longest - len(prompt)) for prompt in prompts]
        if self._loaded.encoder_decoder:
            ids = [[*prompt, *fill] for prompt, fill in zip(prompts, fills, strict=True)]
            mask = [[1] * len(prompt) + fill for prompt, fill in zip(prompts, fills, strict=True)]
        else:
            ids = [[*fill, *prompt] for prompt, fill in zip(prompts, fills, strict=True)]
            mask = [fill + [1] * len(prompt) for prompt, fill in zip(prompts, fills, strict=True)]
        return ids, mask

    def _until_end(self, tokens: list[int], over: int | None) -> Continuation:
        stops = [place for place, token in enumerate(tokens[:over]) if token in self._ends]
        kept = tokens[: stops[0] + 1] if stops else tokens[:over]
        return Continuation(tokens=tuple(kept), is_cut=not stops and over is None)


class _UntilOver:
    """Stopping criterion: ends a row once no more of its text is read.

    Args:
        is_over: says so of each row's text so far; None for a row that is wanted whole.
        decode: turns tokens into text.
        skip: number of places in a row before its new tokens.

    Attributes:
        lengths: new tokens of each row when it was over; None before.
    """

    def __init__(
        self,
        is_over: Sequence[IsOver],
        decode: Callable[[Sequence[int]], str],
        skip: int,
    ) -> None:
        self.lengths: list[int | None] = [None] * len(is_over)
        self._is_over = is_over
        self._decode = decode
        self._skip = skip

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        import torch

        if any(self._is_over):
            new = input_ids[:, self._skip :].tolist()
            for row, (tokens, is_over) in enumerate(zip(new, self._is_over, strict=True)):
                if is_over and self.lengths[row] is None and is_over(self._decode(tokens)):
                    self.lengths[row] = len(tokens)
        done = [length is not None for length in self.lengths]
        return torch.tensor(done, device=input_ids.device)


class _GumbelNoise:
    """Logits processor that turns the arg max into a sample from softmax(logits / temperature).

    The arg max of logits / temperature + Gumbel noise is such a sample. Unlike torch's multinomial,
    this gives each row its own random stream, so that a sample does not depend on the other calls
    of the batch.
    """

    def __init__(self, temperature: float, seeds: Sequence[int]) -> None:
        import torch

        self._temperature = temperature
        # On the CPU for every device, so that a seed gives the same sample everywhere.
        self._streams = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        exponential = torch.empty(scores.shape, dtype=torch.float32)
        for row, stream in zip(exponential, self._streams, strict=True):
            row.exponential_(generator=stream)
        return scores.float() / self._temperature - exponential.log().to(scores.device)
