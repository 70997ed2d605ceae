"""A question as a row of a file in the format jsonl."""

from typing import Any

from medstress.core.items import Question


def as_row(item: Question) -> dict[str, Any]:
    """Return a question with its annotated names, for a line of JSON."""
    return {
        "id": item.id,
        "context": item.context,
        "stem": item.stem,
        "options": list(item.options),
        "answer_idx": item.key,
        "mentions": [
            {"field": m.field, "start": m.start, "end": m.end, "type": m.type}
            for m in item.mentions
        ],
    }
