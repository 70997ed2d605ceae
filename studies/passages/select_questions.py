"""Write the MedMCQA questions that have an explanation of at least 20 words, with their mentions.

    python studies/passages/select_questions.py --data FOLDER --to runs/medmcqa-open.jsonl

Words that name an option by its letter are left out of the explanations, as in any passage.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import medstress as ms

LEAST = 20
QUESTIONS = "medmcqa_train_leaner_typed.parquet"
SPANS = "medmcqa_train_leaner_choices_annotation.json"


def main() -> None:
    """Write the file and say how many questions it holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help=f"the folder of {QUESTIONS}")
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    items = ms.load_dataset(
        "medmcqa",
        given.data / QUESTIONS,
        annotations=given.data / SPANS,
        columns={"passage": "reference"},
    )
    kept = [item for item in items if len(item.passage.split()) >= LEAST]
    given.to.parent.mkdir(parents=True, exist_ok=True)
    with given.to.open("w", encoding="utf-8") as stream:
        for item in kept:
            row = {
                "id": item.id,
                "passage": item.passage,
                "context": item.context,
                "stem": item.stem,
                "options": item.options,
                "answer_idx": item.key,
                "mentions": [
                    {"field": m.field, "start": m.start, "end": m.end, "type": m.type}
                    for m in item.mentions
                ],
                "subject_name": item.metadata.get("subject_name"),
            }
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"{len(kept)} of {len(items)} questions have {LEAST} words or more to read")


if __name__ == "__main__":
    main()
