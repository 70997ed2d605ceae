"""What each arm of a run took, as the first sentences of a summary speak of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from medstress.attacks.unasked import NAME as UNASKED
from medstress.core.controls import CONTROLS, arm_label, is_control_spec
from medstress.results.formats import plural

Row: TypeAlias = Mapping[str, Any]
Place: TypeAlias = tuple[str, str, str]
"""(Data set, group, victim)."""

Rank: TypeAlias = tuple[float, float, int, bool]
"""What puts arms in order: low end, value, n, and among equals whether there is a control."""

REPEAT = "repeat"
SCORES = ("f1", "pearson", "macro_f1")
"""Main scores of whole data sets, of which a row has one at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One attack on one data set and group of one victim, and what it took."""

    row: Row
    """Its pooled row."""
    spec: Mapping[str, Any]
    """Its parameters."""
    score: str | None
    """The score of the whole data set that fell; None where answers are counted."""

    @property
    def place(self) -> Place:
        """Where it was tried."""
        return place_of(self.row)

    @property
    def taken(self) -> Mapping[str, Any]:
        """The estimate of what it takes: a share of right answers, or a drop of the score."""
        found: Mapping[str, Any] = self.row[f"{self.score}_drop" if self.score else "asr"]
        return found

    @property
    def rank(self) -> tuple[float, float, int, bool]:
        """How much it takes; of arms that take as much, the surest goes first, then one beside a
        control.
        """
        return (self.surely[1], self.surely[0], self.taken["n"], self.has_control)

    @property
    def surely(self) -> tuple[float, float]:
        """How much it takes at least; of victims of very unlike size one of one is not the most.

        Where nothing was attacked, less than nothing.
        """
        value, low = self.taken["value"], self.taken["low"]
        if value is None:
            return (-1.0, -1.0)
        return (value if low is None else low, value)

    @property
    def has_control(self) -> bool:
        """Whether what a harmless change takes is known beside it."""
        net = self.row.get("f1_net_drop") or {}
        return control_in(self.row) is not None or net.get("value") is not None


def place_of(row: Row) -> Place:
    """Return data set, group and victim of a row."""
    return row["dataset"], row["group"], row["victim"]


def arms_in(pooled: Sequence[Row]) -> list[Arm]:
    """Return the arms that took something or could have, controls left out.

    Where nothing else was tried, controls named as attacks and changed evidence count too.

    Args:
        pooled: pooled rows of the summary.
    """
    found = [arm for row in pooled if "control_of" not in row and (arm := _arm(row)) is not None]
    attacked = [arm for arm in found if arm.spec["name"] != UNASKED] or found
    plain = [
        arm for arm in attacked if not is_control_spec(arm.spec) and not arm.row.get("evidence")
    ]
    return plain or attacked


def counted(row: Row) -> str:
    """Say of how many seeds and runs the trials of a row are; empty where each item has one.

    >>> counted({"seeds": [0, 1], "attack_spec": '{"name": "medfuzz", "runs": 3}'})
    '2 seeds, 3 runs each'
    """
    n_runs = json.loads(row["attack_spec"]).get("runs") or 1
    seeds = [plural(len(row["seeds"]), "seed")] if len(row["seeds"]) > 1 else []
    return ", ".join([*seeds, *([f"{n_runs:,} runs each"] if n_runs > 1 else [])])


def comparable(arms: Sequence[Arm]) -> list[Arm]:
    """Return the arms that have at least half as many answers as the largest of them.

    One of one is the highest share there is, and says least: it is not called the worst.
    """
    most = max((arm.taken["n"] for arm in arms), default=0)
    return [arm for arm in arms if 2 * arm.taken["n"] >= most]


def _arm(row: Row) -> Arm | None:
    """Return the arm of a row; None if it measured nothing."""
    spec = json.loads(row["attack_spec"])
    # Of questions and labels the answers are counted, though labels have a score as well.
    scores = () if row.get("chance") is not None else SCORES
    score = next((s for s in scores if (row.get(f"{s}_drop") or {}).get("value") is not None), None)
    is_known = spec["name"] == UNASKED or row["asr"]["value"] is not None
    if score is None and not (row["n_eligible"] and is_known):
        return None
    return Arm(row=row, spec=spec, score=score)


def control_in(row: Row) -> str | None:
    """Return the control that a first sentence names: the first that tells edits from noise."""
    tables = row.get("control_table") or {}
    known = (name for name in CONTROLS if name != REPEAT and sum(tables.get(name) or ()))
    return next(known, None)


def is_awaited(row: Row, manifest: Mapping[str, Any]) -> bool:
    """Return whether a run that is not complete has a control arm that may still be asked."""
    arms = (arm_label(row["attack"], name) for name in CONTROLS)
    return not manifest.get("complete") and any(arm in manifest["attacks"] for arm in arms)
