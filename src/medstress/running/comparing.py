"""Check `[compare]` before anything is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medstress.attacks.controls.arm import ControlArm
from medstress.comparison.runs import check_compared, compared_arms
from medstress.core.errors import UsageError
from medstress.experiment.file.labels import victim_labels
from medstress.experiment.plan import manifest as manifests
from medstress.experiment.plan.plan import Prepared


def check_arms(prepared: Prepared) -> None:
    """Check that `[compare]` names two victims or two attacks of the experiment.

    Raises:
        UsageError: it does not; the message names the arms that there are.
    """
    if (table := prepared.experiment.compare) is not None:
        victims = victim_labels(prepared.experiment.victim)
        compared_arms(table.model_dump(), victims, [part.label for part in prepared.attacks])


def check_primary(prepared: Prepared) -> None:
    """Check that the primary endpoint is net of a control that some attack has.

    Raises:
        UsageError: none has it.
    """
    table = prepared.experiment.experiment.primary
    if table is None or table.control is None:
        return
    arms = [part.attack for part in prepared.attacks if isinstance(part.attack, ControlArm)]
    known = dict.fromkeys(arm.control.name for arm in arms)
    if table.control not in known:
        raise UsageError(
            f"[experiment] primary: {table.metric} is net of {table.control!r}, but no attack has "
            f"this control (they have: {', '.join(known) or 'none'}); add it to [experiment] "
            "controls"
        )


def check_factor(prepared: Prepared, described: Mapping[str, Any] | None = None) -> None:
    """Check with open victims that exactly one thing differs between these arms.

    A run that holds a part of an experiment (tuning, training) may not have both of them yet.

    Args:
        prepared: the experiment.
        described: its manifest, if it is known.

    Raises:
        UsageError: nothing differs, or more than one thing.
    """
    if prepared.experiment.compare is None or prepared.portion.notes:
        return
    if described is None:
        described = manifests.describe(prepared, manifests.fingerprint_parts(prepared))
    check_compared(described)
