"""How much padding an encoder-decoder model reads.

Real runs on MedQA and MedMCQA with a tiny T5 of random weights and the embedded model's
tokenizer: lengths and batches are real, answers are not. What encoder and decoder have read is
compared with the tokens of the calls that were answered:

    python benchmarks/padding.py --items 200
"""

from __future__ import annotations

import json
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import transformers
from common import plainly
from consumed import arguments, run_dataset
from equality import overheard

from medstress.backends.models.model_files import find_model
from medstress.backends.options import BackendOptions
from medstress.core.calls import Score


def save_tiny_t5(tokenizer: Any, folder: Path) -> None:
    """A model that reads what a real one would."""
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=len(tokenizer),
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=0,
    )
    transformers.utils.logging.disable_progress_bar()
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def n_needed(calls: Iterable[Score], tokenizer: Any) -> int:
    """Tokens of encoder and decoder that calls need, in the order they were answered.

    A prompt that was encoded, and a text scored for it, are known; but a call that comes a second
    time (flip checks) is computed anew on purpose.
    """
    needed, seen = 0, set()
    known: dict[str, set[str]] = {}
    for call in calls:
        again = call in seen
        seen.add(call)
        prompt = str(call.prompt)
        if again or prompt not in known:
            needed += len(tokenizer(prompt)["input_ids"])
        scored = known.setdefault(prompt, set())
        wanted = [text for text in call.continuations if again or text not in scored]
        scored.update(wanted)
        if call.first_token:
            needed += 1
            continue
        # The start token, and all but the last, which predicts nothing that is wanted.
        texts = [text.lstrip() for text in wanted]
        needed += sum(len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts)
    return needed


def measure(name: str, given: Namespace, tokenizer: Any) -> dict[str, Any]:
    """Run one data set and count."""
    heard: list[Score] = []
    with tempfile.TemporaryDirectory() as folder, overheard(heard):
        _, counted = run_dataset(name, given, Path(folder))
    assert all(isinstance(call.prompt, str) for call in heard)
    needed = n_needed(heard, tokenizer)
    return {
        "dataset": name,
        "answer_by": given.answer_by,
        "items": given.items,
        "calls": len(heard),
        "tokens_forwarded": counted["tokens_forwarded"],
        "tokens_needed": needed,
        "forwarded_per_needed": round(counted["tokens_forwarded"] / needed, 4),
    }


def main() -> None:
    """Print one JSON line a data set and way of answering."""
    given = arguments(__doc__, n_items=200).parse_args()
    files = find_model(BackendOptions(model=given.model, dtype=given.dtype))
    tokenizer = transformers.AutoTokenizer.from_pretrained(files.location, **files.load_options())
    with tempfile.TemporaryDirectory() as folder:
        save_tiny_t5(tokenizer, Path(folder))
        for way in ("letter", "text"):
            for name in given.datasets:
                changed = Namespace(**{**vars(given), "model": folder, "answer_by": way})
                print(json.dumps(measure(name, changed, tokenizer)), flush=True)


if __name__ == "__main__":
    sys.exit(plainly(main))
