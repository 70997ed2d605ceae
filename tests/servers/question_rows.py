"""Questions as rows of a file in the format jsonl, and experiments that swap their names."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from medstress.core.items import Question


def write_rows(path: Path, rows: Iterable[Any]) -> Path:
    """Write questions, or rows of them, as lines of JSON."""
    lines = (json.dumps(as_row(row) if isinstance(row, Question) else row) for row in rows)
    path.write_text("\n".join([*lines, ""]), "utf-8")
    return path


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


def swap_tables(
    folder: Path,
    source: str,
    rows: Sequence[dict[str, Any]],
    names: Sequence[str],
    attacks: Sequence[dict[str, Any]],
    victims: Sequence[dict[str, Any]] = ({"name": "planted"},),
    **experiment: Any,
) -> dict[str, Any]:
    """Write victim, rows and names into a folder; return the experiment that swaps the names.

    Args:
        folder: an existing one.
        source: a module whose `answer` the victims are.
        rows: questions, as `as_row` writes them.
        names: what is drawn from.
        attacks: keys of each attack, those of `entity_substitution` but for its name.
        victims: further keys of each victim.
        **experiment: further keys of `[experiment]`.
    """
    (folder / "victim.py").write_text(source, "utf-8")
    write_rows(folder / "rows.jsonl", rows)
    (folder / "names.txt").write_text("\n".join(names), "utf-8")
    function = {"backend": "python", "target": f"{folder}/victim.py:answer"}
    vocabulary = str(folder / "names.txt")
    return {
        "experiment": {"name": "planted", "seeds": [0], "controls": False, **experiment},
        "dataset": [{"name": "table", "path": str(folder / "rows.jsonl")}],
        "entities": [{"type": "drugs", "vocabulary": vocabulary, "embedding": "ngram"}],
        "victim": [{**function, **victim} for victim in victims],
        "attack": [{"name": "entity_substitution", **attack} for attack in attacks],
    }
