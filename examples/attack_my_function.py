"""Attack a function of yours. This one picks the longest option: it knows no medicine."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import medstress as ms

OPTION = re.compile(r"^([A-J]): (.+)$", re.MULTILINE)


def answer(prompts: list[str]) -> list[dict[str, str]]:
    """Answer every prompt; each lists its options as lines such as ``A: aspirin``."""
    listed = [OPTION.findall(prompt) for prompt in prompts]
    return [{"answer": max(options, key=lambda option: len(option[1]))[0]} for options in listed]


EXPERIMENT: dict[str, Any] = {
    "experiment": {"name": "my-function", "seeds": [0]},
    "dataset": {"name": "sample", "limit": 60},
    "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
    "victim": {"name": "longest", "backend": "python", "target": f"{Path(__file__)}:answer"},
    "attack": [
        {"name": "entity_substitution", "label": "random", "sampler": "random"},
        {"name": "entity_substitution", "label": "near", "sampler": "pdws", "n": -20},
    ],
}


def main(out: str) -> None:
    """Run the experiment and print what it found."""
    run = ms.run(EXPERIMENT, out=out)
    summary = run.summary()
    for warning in summary["warnings"]:
        print(f"! {warning['sentence']}")
    for row in summary["results"]:
        asr = row["asr"]
        print(
            f"{row['attack']}: {row['n_flipped']} of {row['n_eligible']} flipped, "
            f"ASR {asr['value']:.3f} [{asr['low']:.3f}, {asr['high']:.3f}], "
            f"{row['queries']['asked']} queries asked, {row['queries']['paid']} paid"
        )
    page = Path(out) / "report.html"
    page.write_text(run.report(), encoding="utf-8")
    print(f"report: {page}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/my-function")
