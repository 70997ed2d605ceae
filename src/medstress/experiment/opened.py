"""Open the victims and roles of an experiment, and close them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product

from medstress.attacks.controls.arm import ControlArm
from medstress.core.calls import Backend
from medstress.core.errors import UsageError
from medstress.engine.backend_queue import release
from medstress.experiment.criteria import check_baselines
from medstress.experiment.plan.attack_checks import check_probes
from medstress.experiment.plan.conversations import check_conversations
from medstress.experiment.plan.dataset_parts import with_fitting_passages, with_long_items
from medstress.experiment.plan.parts import open_victims
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.roles import open_roles
from medstress.experiment.plan.targets import check_targets, named_backends


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
        arm = part.attack
        if not asked or not all(arm.is_unseen_by(one.on(data.label)) for one, data in asked):
            continue
        reason = f"no victim's prompt shows {' or '.join(sorted(arm.fields))}"
        name = arm.harmless.name
        if not isinstance(wanted, bool | None):
            raise UsageError(
                f"[experiment] controls: {name} changes nothing that is asked, because {reason}; "
                "leave it out of controls, or choose another prompt"
            )
        prepared.attacks.remove(part)
        attack = part.label.removesuffix(f" / {name}")
        prepared.controls = prepared.controls.without(attack, name, reason)


@contextmanager
def opened_victims(
    prepared: Prepared,
    note: Callable[[str], None],
    *,
    greets: bool = True,
    baselines: bool = True,
) -> Iterator[None]:
    """Open victims and roles, check what only back ends know, and close them at the end.

    Args:
        prepared: the experiment.
        note: receives what is being opened.
        greets: whether servers have to be there.
        baselines: whether the runs that criteria compare with are checked.

    Raises:
        UsageError: see `open_victims`, `check_conversations`, `check_probes`, `open_roles` and
            `check_targets`.
    """
    tables, base = prepared.experiment.victim, prepared.base
    seconds = prepared.experiment.experiment.timeout_seconds
    pairs = zip(prepared.datasets, prepared.experiment.dataset, strict=True)
    datasets = [(part.label, table.name) for part, table in pairs]
    prepared.victims = open_victims(
        tables, base, note, prepared.kind, prepared.classes, seconds, datasets, greets=greets
    )
    try:
        check_conversations(prepared.victims, prepared.attacks)
        check_probes(prepared.victims, prepared.attacks, [label for label, _ in datasets])
        opened = list(zip(tables, prepared.victims, strict=True))
        prepared.roles = open_roles(
            prepared.experiment.role, base, note, opened, seconds, greets=greets
        )
        check_targets(named_backends(prepared))
        drop_unseen_controls(prepared)
        prepared.datasets = [
            with_fitting_passages(part, prepared.victims) for part in prepared.datasets
        ]
        for place, victim in enumerate(prepared.victims):
            if type(victim.backend).too_long is not Backend.too_long:
                prepared.victims[place], prepared.datasets = with_long_items(
                    victim, prepared.datasets, note
                )
        if baselines:
            check_baselines(prepared)
        yield
    finally:
        own = [part.backend for part in prepared.roles if not part.is_shared]
        for backend in [*prepared.backends, *own]:
            release(backend)
