"""Write questions as rows that medstress reads."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from medstress.core.items import Question


def row_from_question(item: Question) -> dict[str, Any]:
    """Return the row that `rows.question_from_row` reads as this question, without metadata."""
    return {
        "id": item.id,
        **({"passage": item.passage} if item.passage else {}),
        "context": item.context,
        "stem": item.stem,
        "options": dict(zip(item.letters, item.options, strict=True)),
        "answer_idx": item.key,
        "mentions": [asdict(mention) for mention in item.mentions],
    }
