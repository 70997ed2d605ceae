"""The main numbers of the earlier edition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from araujo_judged import LABELS, ORIGINAL, data_of, named
from pages import table

FILE = Path(__file__).resolve().parent / "araujo" / "earlier.json"
"""Sizes and main numbers of the earlier edition; its files are in the history."""
TESTS = ("synonym", "keyboard_noise", "swap_noise", "non_entity_noise")


def numbers() -> str:
    """Scores of the original models, and what training on each attack recovered of the loss."""
    facts: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    rows = []
    for name, then in facts.items():
        title = f"Table {name[5]}, {LABELS[data_of(name, folds=True)]}"
        if int(name[5]) < 4:
            rows.append([title, then["clean"][ORIGINAL], *map(then["after"].get, TESTS)])
        else:
            rows.append([f"{title}, recovered", None, *map(then["recovered"].get, TESTS)])
    return table(["", "clean", *map(named, TESTS)], rows)
