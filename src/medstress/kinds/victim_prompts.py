"""The key `prompt` of a victim: one prompt, or a table of prompts by data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from medstress.core.errors import did_you_mean

SHIPPED = "qstab"
"""The default prompt."""
DEFAULT = "default"
"""The entry of a table for all data sets that it does not name."""


def wrong_prompt(value: Any) -> str | None:
    """Return why a value is not a valid `prompt`; None if it is valid.

    >>> wrong_prompt("qstab"), wrong_prompt({"medmcqa": "medmcqa"})
    (None, None)
    >>> wrong_prompt({"medmcqa": 3})
    "expected a prompt for 'medmcqa': a shipped prompt or a file, got 3"
    """
    if isinstance(value, Mapping) and value:
        wrong = [(name, each) for name, each in value.items() if not _is_name(each)]
        return (
            f"expected a prompt for {wrong[0][0]!r}: a shipped prompt or a file, got "
            f"{wrong[0][1]!r}"
            if wrong
            else None
        )
    if _is_name(value):
        return None
    return (
        "expected a shipped prompt, a file, or a table by data set such as "
        f'{{medmcqa = "medmcqa", default = "qstab"}}, got {value!r}'
    )


def unknown_dataset(prompt: Any, datasets: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the error if a table of prompts names an unknown data set, or None.

    Args:
        prompt: the key `prompt`, as given.
        datasets: all `[[dataset]]` tables, including those switched off.
    """
    if not isinstance(prompt, Mapping):
        return None
    tables = [(table.get("label"), table.get("name")) for table in datasets]
    known = list(dict.fromkeys(str(name) for names in tables for name in names if name))
    for key in prompt:
        if key != DEFAULT and key not in known:
            hint = did_you_mean(key, [*known, DEFAULT])
            return (
                f"prompt: no [[dataset]] is called {key!r}{hint} (there are: {', '.join(known)}; "
                f"{DEFAULT} stands for all others)"
            )
    return None


def prompt_for(prompt: str | Mapping[str, str], label: str = "", name: str = "") -> str:
    """Return the prompt for a data set: by its label, else by its name, else the default.

    Args:
        prompt: the victim's key `prompt`.
        label: label of the data set.
        name: name of its source.

    >>> [prompt_for({"medmcqa": "medmcqa"}, label) for label in ("medmcqa", "sample")]
    ['medmcqa', 'qstab']
    """
    if isinstance(prompt, str):
        return prompt
    return prompt.get(label) or prompt.get(name) or prompt.get(DEFAULT, SHIPPED)


def shown_prompt(prompt: str | Mapping[str, str]) -> str:
    """Return the key `prompt` as labels show it.

    >>> shown_prompt({"medmcqa": "medmcqa", "default": "qstab"})
    'medmcqa: medmcqa, default: qstab'
    """
    if isinstance(prompt, str):
        return prompt
    return ", ".join(f"{name}: {each}" for name, each in prompt.items())


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
