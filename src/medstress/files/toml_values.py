"""Values as TOML, for files that we write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_value(value: Any) -> str:
    r"""Return a value as TOML, in one line.

    Args:
        value: a text, truth value, number, list or table of such.

    >>> print(toml_value({"question": "stem", "options": ["A", 'the "B"']}))
    {question = "stem", options = ["A", "the \"B\""]}
    >>> print(toml_value(True), toml_value(-20), toml_value(0.5), toml_value("é\n"))
    true -20 0.5 "é\n"
    """
    if isinstance(value, str):
        # JSON's escapes are TOML's; TOML also wants the character DEL escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        parts = (f"{toml_key(key)} = {toml_value(part)}" for key, part in value.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)


def toml_key(key: str) -> str:
    """Return a key as TOML.

    >>> print(toml_key("n_items"), toml_key("the key"))
    n_items "the key"
    """
    return key if _BARE.fullmatch(key) else toml_value(key)
