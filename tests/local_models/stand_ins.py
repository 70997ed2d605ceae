"""A stand-in for our `Engine` of llama.cpp, on top of a tiny transformers model."""

from collections.abc import Sequence
from typing import Any

from medstress.backends.llama_cpp import shared_blocks
from medstress.core.calls import Decoding


class _Tiny:
    """Greedy texts and log probabilities of a saved model."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)

    def log_probs(self, tokens: list[int]) -> Any:
        """Of the next token after each place, `(n_tokens, n_vocabulary)`."""
        import torch

        with torch.inference_mode():
            logits = self.model(torch.tensor([tokens])).logits[0]
        return torch.log_softmax(logits, dim=-1)

    def text_after(self, tokens: list[int], n: int) -> list[int]:
        made: list[int] = []
        for _ in range(n):
            made.append(int(self.log_probs([*tokens, *made])[-1].argmax()))
            if made[-1] == self.tokenizer.eos_token_id:
                break
        return made


def _finish_reason(made: list[int], most: int) -> str:
    """`length` where there are as many tokens as there may be and none of them is an end."""
    return "length" if len(made) == most and 1 not in made else "stop"


class LlamaEngine:
    """As medstress.backends.llama_cpp.Engine, with the numbers of a saved model."""

    library = "stand-in"

    def __init__(self, folder: str) -> None:
        self._tiny = _Tiny(folder)
        self._blocks: tuple[int, ...] = ()
        self.n_evaluated = 0

    def tokens(self, text: str, *, chat: bool) -> tuple[int, ...]:
        return tuple(self._tiny.tokenizer(text, add_special_tokens=not chat)["input_ids"])

    def next_tokens(self, context: Sequence[int], n: int, *, reuse: bool) -> dict[int, float]:
        """Of all tokens: no fewer than were asked for."""
        shared = shared_blocks(self._blocks, context) if reuse else 0
        self._blocks = tuple(context[: len(context) // 16 * 16])
        self.n_evaluated += len(context) - shared
        return dict(enumerate(self._tiny.log_probs(list(context))[-1].tolist()))

    def continuation(
        self, context: Sequence[int], decoding: Decoding, seed: int, options: tuple[str, ...] = ()
    ) -> tuple[str, int, bool]:
        self._blocks = ()
        self.n_evaluated += len(context)
        made = self._tiny.text_after(list(context), decoding.max_new_tokens)
        text = self._tiny.tokenizer.decode(made, skip_special_tokens=True)
        return text, len(made), _finish_reason(made, decoding.max_new_tokens) == "length"

    def close(self) -> None:
        """Nothing to drop."""
