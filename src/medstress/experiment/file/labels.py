"""Unique labels: the name, plus the keys that tell entries of one name apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.errors import UsageError
from medstress.experiment.file.config import EntitiesTable
from medstress.experiment.file.model_tables import VictimTable


def unique_labels(
    table: str, entries: Sequence[tuple[str | None, str, Mapping[str, Any]]]
) -> list[str]:
    """Give every entry of one array of tables a label.

    Args:
        table: the table's name, for messages.
        entries: (the user's label, name, parameters) of each entry.

    Raises:
        UsageError: two entries end with the same label.

    >>> unique_labels("attack", [(None, "swap", {"n": 1}), (None, "swap", {"n": 2})])
    ['swap n=1', 'swap n=2']
    """
    by_name: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for _, name, parameters in entries:
        by_name[name].append(parameters)
    differing = {name: _differing(rows) for name, rows in by_name.items()}
    labels = []
    for label, name, parameters in entries:
        keys = differing[name] if label is None else []
        parts = [f"{key}={_shown(parameters.get(key))}" for key in keys]
        shown = [
            part for part, key in zip(parts, keys, strict=True) if parameters.get(key) is not None
        ]
        labels.append(label or " ".join([name, *shown]))
    for label, n in Counter(labels).items():
        if n > 1:
            raise UsageError(
                f"two [[{table}]] entries are both called {label!r}: remove one, or give them "
                f"different {'names' if table in ('victim', 'entities') else 'labels'}"
            )
    return labels


def victim_labels(tables: Sequence[VictimTable]) -> list[str]:
    """Return the name of each victim in results.

    Raises:
        UsageError: two victims have the same name.
    """
    return unique_labels("victim", [(t.name, victim_name(t), _victim_keys(t)) for t in tables])


def victim_name(table: VictimTable) -> str:
    """Return the default name of a victim."""
    return table.model or table.target or table.backend


def _victim_keys(table: VictimTable) -> dict[str, Any]:
    """Return the keys that tell victims of one name apart, as labels show them."""
    wraps = "+".join(entry["name"] for entry in table.wrap)
    own = {"wrap": wraps or None, "prompt": shown_prompt(table.prompt)}
    return {**table.model_dump(exclude={"use", "wrap"}), **own}


def _differing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    keys = {key: None for row in rows for key in row}
    return [key for key in keys if len({repr(row.get(key)) for row in rows}) > 1]


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def group_labels(tables: Sequence[EntitiesTable]) -> list[str]:
    """Return the name of each entity group in results."""
    return unique_labels(
        "entities", [(t.name, type_label(t), t.model_dump(exclude={"use"})) for t in tables]
    )


def type_label(table: EntitiesTable) -> str:
    """Return the types of an entity group as one word."""
    return table.type if isinstance(table.type, str) else "+".join(table.type)


def shown_prompt(prompt: str | Mapping[str, str]) -> str:
    """Return the key `prompt` as labels show it.

    >>> shown_prompt({"medmcqa": "medmcqa", "default": "qstab"})
    'medmcqa: medmcqa, default: qstab'
    """
    if isinstance(prompt, str):
        return prompt
    return ", ".join(f"{name}: {each}" for name, each in prompt.items())
