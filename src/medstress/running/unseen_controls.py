"""Leave out control arms that change nothing a victim sees."""

from __future__ import annotations

from itertools import product

from medstress.attacks.controls.arm import ControlArm
from medstress.core.errors import UsageError
from medstress.experiment.plan.plan import Prepared


def drop_unseen_controls(prepared: Prepared) -> None:
    """Leave out control arms whose edits no victim's prompt shows.

    Args:
        prepared: the experiment, with its victims open.

    Raises:
        UsageError: the file names such a control.
    """
    wanted = prepared.experiment.experiment.controls
    asked = list(product(prepared.victims, prepared.datasets))
    for part in list(prepared.attacks):
        if not isinstance(part.attack, ControlArm):
            continue
        edited = part.traits.edits_only
        if not asked or not all(victim.on(data.label).misses(edited) for victim, data in asked):
            continue
        reason = f"no victim's prompt shows {' or '.join(sorted(edited))}"
        name = part.attack.control.name
        if not isinstance(wanted, bool | None):
            raise UsageError(
                f"[experiment] controls: {name} changes nothing that is asked, because {reason}; "
                "leave it out of controls, or choose another prompt"
            )
        prepared.attacks.remove(part)
        attack = part.label.removesuffix(f" / {name}")
        prepared.controls = prepared.controls.without(attack, name, reason)
