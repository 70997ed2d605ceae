"""vLLM on the prompts of gpu.py, in the interpreter that has it; prints one JSON line.

Weights are random ones of the shape in the folder's config.json; the prefix cache is on, and is
emptied of nothing: the prompts that warm up are of other items.

    python benchmarks/gpu_vllm.py FOLDER
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main(folder: Path) -> None:
    """One token for each prompt, with the log probabilities that letters need."""
    import vllm

    given = json.loads((folder / "prompts.json").read_text("utf-8"))
    llm = vllm.LLM(
        model=str(folder),
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="bfloat16",
        enable_prefix_caching=True,
        max_model_len=2048,
    )
    sampling = vllm.SamplingParams(max_tokens=1, temperature=0.0, logprobs=20, detokenize=False)

    def ask(prompts: list[list[int]]) -> None:
        llm.generate([{"prompt_token_ids": tokens} for tokens in prompts], sampling)

    ask(given["warm"])
    started = time.perf_counter()
    ask(given["prompts"])
    seconds = time.perf_counter() - started
    print(json.dumps({"vllm_seconds": round(seconds, 3), "vllm_version": vllm.__version__}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
