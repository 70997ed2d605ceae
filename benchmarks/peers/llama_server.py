"""Ask llama.cpp's server every prompt of a set; it keeps the beginning that the last one shared.

llama-server -m MODEL.gguf -c 4096 -np 1 --port 8080
python llama_server.py http://127.0.0.1:8080 items.jsonl > letters.json
"""

import json
import sys
from pathlib import Path
from urllib.request import Request, urlopen


def complete(url, prompt):
    """One token, with the likeliest ones and their log probabilities."""
    body = {"prompt": prompt, "n_predict": 1, "n_probs": 200, "temperature": 0}
    body["cache_prompt"] = True
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{url}/completion", json.dumps(body).encode(), headers)) as reply:
        return json.load(reply)


def answer(url, items):
    """The letter of each prompt; None where none is among the likeliest."""
    found = {}
    for item in items:
        for prompt in item["prompts"]:
            reply = complete(url, prompt)
            likely = reply["completion_probabilities"][0]["top_logprobs"]
            scores = {each["token"]: each["logprob"] for each in likely}
            letters = [letter for letter in item["letters"] if f" {letter}" in scores]
            best = max(letters, key=lambda letter: scores[f" {letter}"], default=None)
            found[prompt] = best
    return found


if __name__ == "__main__":
    rows = [json.loads(line) for line in Path(sys.argv[2]).read_text("utf-8").splitlines()]
    print(json.dumps(answer(sys.argv[1], rows)))
