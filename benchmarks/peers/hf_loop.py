"""Ask a model every prompt of a set in padded batches, with transformers alone.

python hf_loop.py MODEL_FOLDER items.jsonl > letters.json
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def load(folder):
    """The model and its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(), tokenizer


def answer(loaded, items, batch_size=16):
    """The letter of each prompt."""
    model, tokenizer = loaded
    asked = [(prompt, item["letters"]) for item in items for prompt in item["prompts"]]
    found = {}
    for start in range(0, len(asked), batch_size):
        batch = asked[start : start + batch_size]
        inputs = tokenizer([prompt for prompt, _ in batch], padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = model(**inputs, use_cache=False, logits_to_keep=1).logits[:, -1]
        for (prompt, letters), row in zip(batch, logits, strict=True):
            ids = [tokenizer(f" {each}", add_special_tokens=False).input_ids[0] for each in letters]
            found[prompt] = letters[int(row[ids].argmax())]
    return found


if __name__ == "__main__":
    rows = [json.loads(line) for line in Path(sys.argv[2]).read_text("utf-8").splitlines()]
    print(json.dumps(answer(load(sys.argv[1]), rows)))
