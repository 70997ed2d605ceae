"""The arms of a run, and which arm of one run stands against which arm of the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from medstress.core.controls import arm_label
from medstress.core.errors import UsageError
from medstress.core.rows import TrialRow

DIMENSIONS = {"dataset": "data set", "group": "group", "victim": "victim", "attack": "attack"}
"""Field of an arm -> what messages call it."""
ATTACK = "attack"
"""`TrialRow.arm` of all rows that are not of a control."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Arm:
    """One victim under one attack on one data set and group."""

    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    victim: str
    """Label of the victim."""
    attack: str
    """Label of the attack."""

    def as_json(self) -> dict[str, str]:
        """Return the four labels."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two things that are compared."""

    name: str
    """`A` or `B`."""
    source: str
    """Its run folder, for people."""
    manifest: Mapping[str, Any]
    """The manifest of its run."""
    rows: Sequence[TrialRow]
    """The trials of its run, controls included."""
    about_root: Mapping[str, Any] = field(default_factory=dict)
    """The root of its run, why there is none, and what is in doubt."""

    def arms(self) -> dict[Arm, list[TrialRow]]:
        """Return the trials of each arm that is not a control."""
        found: dict[Arm, list[TrialRow]] = {}
        for row in self.rows:
            if row.arm == ATTACK:
                found.setdefault(arm_of(row), []).append(row)
        return found

    def controls(self, arm: Arm) -> dict[str, list[TrialRow]]:
        """Return the trials of each control of an arm, by the control's name."""
        found: dict[str, list[TrialRow]] = {}
        for row in self.rows:
            if row.arm != ATTACK and _is_control_of(row, arm):
                found.setdefault(row.arm, []).append(row)
        return found


def arm_of(row: TrialRow) -> Arm:
    """Return the arm of a trial."""
    return Arm(dataset=row.dataset, group=row.group, victim=row.victim, attack=row.attack)


def _is_control_of(row: TrialRow, arm: Arm) -> bool:
    place = (row.dataset, row.group, row.victim)
    return place == astuple(arm)[:3] and row.attack == arm_label(arm.attack, row.arm)


def match_arms(first: Iterable[Arm], second: Iterable[Arm]) -> list[tuple[Arm, Arm]]:
    """Pair the arms of two sides by their labels; a side's only label of a kind matches any.

    Raises:
        UsageError: a kind of label has nothing in common; the message names both sides' labels.
    """
    ours, theirs = sorted(set(first)), set(second)
    maps = [_labels(what, ours, theirs) for what in DIMENSIONS]
    pairs = []
    for arm in ours:
        labels = [known.get(label) for known, label in zip(maps, astuple(arm), strict=True)]
        if None not in labels:
            other = Arm(**dict(zip(DIMENSIONS, map(str, labels), strict=True)))
            if other in theirs:
                pairs.append((arm, other))
    return pairs


def _labels(what: str, ours: Iterable[Arm], theirs: Iterable[Arm]) -> dict[str, str]:
    """Return label of the first side -> label of the second."""
    first = dict.fromkeys(getattr(arm, what) for arm in ours)
    second = dict.fromkeys(getattr(arm, what) for arm in sorted(theirs))
    if shared := {label: label for label in first if label in second}:
        return shared
    if len(first) == len(second) == 1:
        return dict(zip(first, second, strict=True))
    raise UsageError(
        f"nothing can be compared: A and B have no {DIMENSIONS[what]} in common; A has "
        f"{_listed(first)}, B has {_listed(second)}. Give what is meant to be the same the same "
        "label in both"
    )


def _listed(labels: Iterable[str]) -> str:
    return ", ".join(map(repr, labels)) or "none"


def left_out(arms: Iterable[Arm], matched: Iterable[Arm], name: str) -> list[str]:
    """Return a sentence about the arms of a side that stand against nothing."""
    known = set(matched)
    lost = [arm for arm in sorted(arms) if arm not in known]
    if not lost:
        return []
    shown = "; ".join(f"{a.dataset}/{a.group}, {a.victim}, {a.attack}" for a in lost[:3])
    more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
    return [f"only {name} has {shown}{more}: not compared"]
