"""Seconds of processor time to perturb the whole test set of BC5CDR, resources included.

    python benchmarks/perturbing.py FOLDER [--to results/perturbing.json]

FOLDER holds test.tsv of BC5CDR-chemical. Every attack is timed in a process of its own, so that
nothing is loaded before: the lexicon or the tables of names that it needs, then every sentence.
Reading the file and starting Python are told apart. `time.process_time` counts, which other
programs on the machine change little. `related` synonyms with the embedding `ngram`, as the time
of a model is the model's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench import machine, now

TARGET_SECONDS = 2.0
KINDS: dict[str, dict[str, Any]] = {
    "swap_noise, lexicon": {"name": "swap_noise"},
    "swap_noise, entities": {"name": "swap_noise", "scope": "entities"},
    "swap_noise, all": {"name": "swap_noise", "scope": "all"},
    "keyboard_noise": {"name": "keyboard_noise"},
    "case_noise": {"name": "case_noise"},
    "ocr_noise": {"name": "ocr_noise"},
    "hyphen_noise": {"name": "hyphen_noise"},
    "non_entity_noise": {"name": "non_entity_noise"},
    "control of synonym": {"name": "non_entity_noise", "of": {"name": "synonym"}},
    "synonym, strict": {"name": "synonym"},
    "synonym, related": {"name": "synonym", "mode": "related", "embedding": "ngram"},
    "abbreviation": {"name": "abbreviation"},
}


def main() -> None:
    """Measure every attack and print a line for each; --to writes them down."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="holds test.tsv")
    parser.add_argument("--to", type=Path, help="JSON file of the result")
    parser.add_argument("--one", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measured(args.folder, args.one)))
        return
    before = now()
    lines = [_apart(args.folder, label) for label in KINDS]
    result = {
        "format": 1,
        "command": "python benchmarks/perturbing.py FOLDER",
        **before,
        "machine": machine(),
        "target_seconds": TARGET_SECONDS,
        "met": all(line["seconds"] < TARGET_SECONDS for line in lines),
        "lines": lines,
    }
    if args.to:
        args.to.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def measured(folder: str, label: str) -> dict[str, Any]:
    """One attack in this process: seconds of resources and of perturbing, and what it changed."""
    from medstress.core import registry
    from medstress.core.seeding import rng_for
    from medstress.core.sentences import TaggedText
    from medstress.datasets import bc5cdr
    from medstress.datasets.source import DatasetOptions
    from medstress.experiment.plan.noise_resources import noise_resources

    start = time.process_time()
    loaded = bc5cdr.load(DatasetOptions(path=Path(folder), split="test"))
    items = [item for item in loaded.items if isinstance(item, TaggedText)]
    reading = time.process_time() - start
    given = dict(KINDS[label])
    kind = registry.load("attacks", given.pop("name"))(**given)
    start = time.process_time()
    resources = noise_resources(items, [kind], Path())
    ready = time.process_time()
    n_edits = sum(
        len(kind.perturb(item, rng_for(0, kind.stream, "bc5cdr", item.id), resources).edits)
        for item in items
    )
    end = time.process_time()
    return {
        "attack": label,
        "sentences": len(items),
        "edits": n_edits,
        "reading_seconds": round(reading, 2),
        "resources_seconds": round(ready - start, 2),
        "perturbing_seconds": round(end - ready, 2),
        "seconds": round(end - start, 2),
    }


def _apart(folder: str, label: str) -> dict[str, Any]:
    """Measure an attack in a fresh process."""
    command = [sys.executable, __file__, folder, "--one", label]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    line: dict[str, Any] = json.loads(done.stdout)
    print(
        f"{line['seconds']:6.2f} s  {label}: resources {line['resources_seconds']:.2f}, "
        f"perturbing {line['perturbing_seconds']:.2f}, {line['edits']:,} edits",
        flush=True,
    )
    return line


if __name__ == "__main__":
    main()
