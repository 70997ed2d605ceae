"""What `[test]` must say before anything is asked, and the family that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.analyses.significance import FIXED
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.experiment.file.config import Experiment, SignificanceTable
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.parts import AttackPart


def fixed_family(
    table: SignificanceTable | None, stored: Mapping[str, Any], *, has_answers: bool
) -> dict[str, Any]:
    """Return the manifest entry of a family that `[test]` names; empty if it names no items.

    Args:
        table: `[test]`.
        stored: the folder's manifest; empty if it is new.
        has_answers: whether the folder holds answers: then the family is fixed.

    Raises:
        UsageError: the run began with another family.
    """
    if table is None:
        return {}
    items, before = sorted(table.items), stored.get(FIXED, {}).get("items", [])
    if has_answers and items != before:
        named = ", ".join(before[:8]) or "none"
        raise UsageError(
            f"[test] items: they are named before the first query, and this run began with {named}:"
            " give the same, or begin another run with --out"
        )
    return {FIXED: {"items": items, "hash": content_hash(items)}} if items else {}


def check_tests(experiment: Experiment, attacks: Sequence[AttackPart]) -> None:
    """Raise a UsageError if the `[test]` table cannot be followed.

    Args:
        experiment: experiment with the table.
        attacks: attacks of the experiment.

    Raises:
        UsageError: no attack can be tested, all controls would be equal, or the null needs items.
    """
    table = experiment.test
    if table is None:
        return
    from medstress.attacks.medfuzz.attack import MedFuzz

    if not any(isinstance(part.attack, MedFuzz) for part in attacks):
        raise UsageError(
            "[test]: expected a medfuzz attack, whose successes are tested, but there is none"
        )
    if table.null == "neutral" and not table.items:
        raise UsageError(
            "[test]: null = 'neutral' tests successes on items that are named before the first "
            "query: add items = [...], or use null = 'matched', which tests every attacked item"
        )
    if table.null == "matched" and "controls" in table.model_fields_set:
        raise UsageError(
            "[test]: controls is the number of insertions of null = 'neutral'; the loops of null = "
            "'matched' grow until max_calls is spent: leave controls out"
        )
    attacker = experiment.role.attacker if experiment.role is not None else None
    if table.generator == "attacker" and attacker is not None and attacker.temperature == 0:
        raise UsageError(
            "[test]: controls that the attacker writes must differ, but [role.attacker] has "
            "temperature = 0: set a temperature above 0"
        )


def check_items(experiment: Experiment, datasets: Sequence[DatasetPart]) -> None:
    """Check that the items of `[test] items` exist.

    Raises:
        UsageError: an item is unknown; the message names the first.
    """
    known = {item.id for part in datasets for item in part.questions}
    table = experiment.test
    for name in table.items if table is not None else ():
        if name not in known:
            raise UsageError(
                f"[test] items: no data set of the experiment has an item {name!r}; give item ids"
            )
