"""Text generation in batches, greedy or sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from medstress.backends.loaded_model import LoadedModel
from medstress.backends.out_of_memory import in_halves
from medstress.backends.token_tree import plan_batches
from medstress.calls import Decoding, Generate
from medstress.hashing import digest
from medstress.option_letters import is_decided

_OVERHEAD = 64.0
_MAX_TOKENS = {"cpu": 4096, "cuda": 65536}
"""The most tokens of one batch, new ones included; bounds the key-value cache."""


class Written(NamedTuple):
    """What one call brought."""

    tokens: tuple[int, ...]
    """The new tokens, an end token included where one came, and none after the answer that the
    call looks for."""
    is_cut: bool
    """Whether they ended because there were as many as there may be."""


class Generator:
    """Continues token sequences.

    Args:
        loaded: a decoder-only or encoder-decoder model.
        decoded: the text of tokens.
    """

    def __init__(self, loaded: LoadedModel, decoded: Callable[[Sequence[int]], str]) -> None:
        self._loaded = loaded
        self._decoded = decoded
        self._model = loaded.model
        self._ends = loaded.model.generation_config.eos_token_id or []
        self._max_tokens = _MAX_TOKENS["cuda" if loaded.device.type == "cuda" else "cpu"]

    def continue_all(
        self, calls: Sequence[Generate], prompts: Sequence[tuple[int, ...]]
    ) -> list[Written | None]:
        """Generate.

        Args:
            calls: whose decoding is used, and whose content seeds the sampling.
            prompts: the tokens of each call's prompt.

        Returns:
            What each call brought; None for a call that does not fit into memory.
        """
        results: list[Written | None] = [None] * len(calls)
        seeds = [self._seed(call) for call in calls]
        groups: dict[Decoding, list[int]] = {}
        for index, call in enumerate(calls):
            groups.setdefault(call.decoding, []).append(index)
        for decoding, members in groups.items():
            lengths = [len(prompts[index]) + decoding.max_new_tokens for index in members]
            for batch in plan_batches(lengths, overhead=_OVERHEAD, max_tokens=self._max_tokens):
                indexes = [members[place] for place in batch]
                work = [(prompts[i], seeds[i], calls[i].options) for i in indexes]
                found = in_halves(work, partial(self._generate, decoding=decoding))
                for index, written in zip(indexes, found, strict=True):
                    results[index] = written
        return results

    @staticmethod
    def _seed(call: Generate) -> int:
        """A seed from the call's content and its sample's number, the same in every process."""
        key = digest([call.canonical(), call.sample])
        return int.from_bytes(key[:8], "big", signed=True)

    def _generate(
        self, work: Sequence[tuple[tuple[int, ...], int, tuple[str, ...]]], decoding: Decoding
    ) -> list[Written]:
        import torch
        from transformers import LogitsProcessorList, StoppingCriteriaList

        device = self._loaded.device
        ids, mask = self._padded([prompt for prompt, _, _ in work])
        # An encoder-decoder's rows begin with the start token, a decoder's with the prompt.
        skip = 1 if self._loaded.encoder_decoder else len(ids[0])
        noise = []
        if decoding.temperature > 0:
            noise.append(_GumbelNoise(decoding.temperature, [seed for _, seed, _ in work]))
        watch = _UntilDecided([options for _, _, options in work], self._decoded, skip)
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
        """Pad to equal length; returns tokens and mask.

        A decoder continues at the right end of a row, so it is padded on the left; an encoder may
        count its positions from there.
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

    def _until_end(self, tokens: list[int], decided: int | None) -> Written:
        stops = [place for place, token in enumerate(tokens[:decided]) if token in self._ends]
        kept = tokens[: stops[0] + 1] if stops else tokens[:decided]
        return Written(tokens=tuple(kept), is_cut=not stops and decided is None)


class _UntilDecided:
    """Ends a row of a batch once its text names an option for good.

    Args:
        options: texts of each row's options; none for a row that is wanted whole.
        decoded: the text of tokens.
        skip: places of a row before its new tokens.

    Attributes:
        lengths: new tokens of each row until then; None where it has not come to that.
    """

    def __init__(
        self,
        options: Sequence[tuple[str, ...]],
        decoded: Callable[[Sequence[int]], str],
        skip: int,
    ) -> None:
        self.lengths: list[int | None] = [None] * len(options)
        self._options = options
        self._decoded = decoded
        self._skip = skip

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        import torch

        if any(self._options):
            new = input_ids[:, self._skip :].tolist()
            for row, (tokens, options) in enumerate(zip(new, self._options, strict=True)):
                waits = bool(options) and self.lengths[row] is None
                if waits and is_decided(self._decoded(tokens), options):
                    self.lengths[row] = len(tokens)
        done = [length is not None for length in self.lengths]
        return torch.tensor(done, device=input_ids.device)


class _GumbelNoise:
    """Makes the arg max of the logits a sample from softmax(logits / temperature).

    The arg max of logits / temperature + Gumbel noise is such a sample. Unlike torch's multinomial
    it lets each row have its own random stream, so that a sample does not depend on which other
    calls happen to share the batch.
    """

    def __init__(self, temperature: float, seeds: Sequence[int]) -> None:
        import torch

        self._temperature = temperature
        # On the CPU whatever the device, so that a seed means the same everywhere.
        self._streams = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        waits = torch.empty(scores.shape, dtype=torch.float32)
        for row, stream in zip(waits, self._streams, strict=True):
            row.exponential_(generator=stream)
        return scores.float() / self._temperature - waits.log().to(scores.device)
