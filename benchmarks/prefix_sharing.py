"""How many tokens are forwarded for each token that has to be.

Runs the real scheduler and compares what the model has read, padding and early work included, with
the nodes of a trie over the distinct prompts each item consumed. Below 1 it is because items share
the instruction, which the tries count once an item. Keys are what the model answers, so that every
item is attacked: until an answer changes, with all queries of the budget, and until an answer
changes where many do, on the questions whose two best options are closest, of four times as many:

    python benchmarks/prefix_sharing.py --items 100
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from common import plainly
from consumed import (
    answered_questions,
    arguments,
    consumed_calls,
    contexts,
    n_trie_nodes,
    run_dataset,
)
from transformers import AutoTokenizer

from medstress.backends.local.files import find_model
from medstress.backends.local.tokens import PromptTokenizer
from medstress.backends.options import BackendOptions

AMONG = 4
"""Times as many questions are asked, to find some whose answers change."""
WAYS = (
    {"early_stop": True, "least_sure": False, "flip_check": True},
    {"early_stop": False, "least_sure": False, "flip_check": True},
    {"early_stop": True, "least_sure": True, "flip_check": True},
)
"""When attacks end, which questions are asked, and which successes are asked again."""


def measure(name: str, given: Any) -> dict[str, Any]:
    """Run one data set and count."""
    files = find_model(BackendOptions(model=given.model, dtype=given.dtype))
    tokenizer = PromptTokenizer(
        AutoTokenizer.from_pretrained(files.location), given.model, open_end=True
    )
    with tempfile.TemporaryDirectory() as folder:
        run_folder = Path(folder) / "run"
        if given.least_sure:
            more = Namespace(**{**vars(given), "items": AMONG * given.items})
            questions = answered_questions(name, more, Path(folder), least_sure=given.items)
        else:
            questions = answered_questions(name, given, Path(folder))
        started = time.perf_counter()
        done, counted = run_dataset(name, given, run_folder, questions)
        seconds = time.perf_counter() - started
        calls = consumed_calls(run_folder)
        checks = consumed_calls(run_folder, "flip_check")
        rows = list(done.trials().iter_rows(named=True))
        flipped = sum(row["verdict"] == "flipped" for row in rows)
        checked = sum(row["repeats"] is not None for row in rows)
    read = [contexts(of_item, tokenizer) for of_item in calls.values()]
    again = sum(len(one) for made in checks.values() for one in contexts(made, tokenizer))
    unique = sum(map(n_trie_nodes, read))
    all_tokens = sum(len(sequence) for sequences in read for sequence in sequences)
    return {
        "dataset": name,
        "ends": "at a success" if given.early_stop else "with the budget",
        "questions": "least sure" if given.least_sure else "all",
        "items": len(calls),
        "queries": sum(map(len, calls.values())),
        "flipped": flipped,
        "checked": checked,
        "tokens_forwarded": counted["tokens_forwarded"],
        "tokens_unique": unique,
        "tokens_of_flip_checks": again,
        "tokens_of_all_prompts": all_tokens,
        "forwarded_per_unique": round(counted["tokens_forwarded"] / unique, 4),
        "without_flip_checks_per_unique": round((counted["tokens_forwarded"] - again) / unique, 4),
        "all_per_unique": round(all_tokens / unique, 2),
        "wall_seconds": round(counted["wall_seconds"], 1),
        "seconds_with_preparation": round(seconds, 1),
    }


def main() -> None:
    """Print one JSON line a data set."""
    parser = arguments(__doc__, n_items=100)
    given = parser.parse_args()
    for name in given.datasets:
        for way in WAYS:
            print(json.dumps(measure(name, Namespace(**{**vars(given), **way}))), flush=True)


if __name__ == "__main__":
    sys.exit(plainly(main))
