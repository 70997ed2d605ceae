"""Attacked sets: the edits that a run asked, kept to be asked again of other victims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

NAME = "attacked"
"""The table that writes such a set, the data set that reads it, the attack that asks its edits."""
FIELD = "attacked"
"""The field of a row, and of an item's metadata, with the stored trials of the item."""
HEAD = "attack_set"
"""The field of every row that describes the whole set."""
FORMAT = 1
"""Version of the rows."""
COUNTS = ("n_items", "n_trials", "n_queries")
"""What the description counts."""


class Selection(StrEnum):
    """Which of the trials that a run wrote a file still holds."""

    ALL = "all"
    """Every trial, held and flipped."""
    FLIPPED = "flipped"
    """Successes alone."""
    FILTERED = "filtered"
    """Fewer than its description counts, and no one knows which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArm:
    """One attack whose edits are stored."""

    label: str
    """Name in the file and in results."""
    spec: Mapping[str, Any]
    """The parameters of the attack that asked the edits."""
    is_blind: bool
    """Whether no answer to an edit had a part in the first edit of an item."""
    changes_evidence: bool
    """Whether a lost answer is no error, because the text no longer supports the key."""
    fields: tuple[str, ...]
    """The fields that its edits change, sorted."""
    seeds: tuple[int | None, ...]
    """The seeds of its trials; (None,) if it draws nothing."""
    n_repeats: int
    """Trials per item and seed."""
    most: int
    """The most edits of one trial."""
    beside: str | None = None
    """Its control by default; None: as for every attack."""
    is_probe: bool = False
    """Whether the attack that was stored asks all its variants of all items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackSet:
    """What an attacked set says of itself."""

    hash: str
    """Content hash, the same in every format of the file."""
    source: Mapping[str, Any]
    """The run that asked the edits: `experiment`, `fingerprint`, `started`, `victim`, `model`,
    `model_hash`."""
    selection: Selection
    """Which of its trials the file still holds."""
    arms: tuple[StoredArm, ...]
    """The attacks, in the order of the run; its controls are made again."""
