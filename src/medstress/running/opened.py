"""Open the victims and roles of an experiment, and close them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from medstress.engine.backend_queue import release
from medstress.experiment.plan.conversations import check_conversations
from medstress.experiment.plan.parts import open_victims
from medstress.experiment.plan.passage_windows import with_fitting_passages
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.probe_checks import check_probes
from medstress.experiment.plan.roles import open_roles
from medstress.experiment.plan.targets import check_targets, named_backends
from medstress.running.criteria import check_baselines
from medstress.running.unseen_controls import drop_unseen_controls


@contextmanager
def opened_victims(prepared: Prepared, note: Callable[[str], None]) -> Iterator[None]:
    """Open victims and roles, check what only back ends know, and close them at the end.

    Raises:
        UsageError: see `open_victims`, `check_conversations`, `check_probes`, `open_roles` and
            `check_targets`.
    """
    tables, base = prepared.experiment.victim, prepared.base
    seconds = prepared.experiment.experiment.timeout_seconds
    pairs = zip(prepared.datasets, prepared.experiment.dataset, strict=True)
    datasets = [(part.label, table.name) for part, table in pairs]
    prepared.victims = open_victims(
        tables, base, note, prepared.kind, prepared.classes, seconds, datasets
    )
    try:
        check_conversations(prepared.victims, prepared.attacks)
        check_probes(prepared.victims, prepared.attacks, [label for label, _ in datasets])
        opened = list(zip(tables, prepared.victims, strict=True))
        prepared.roles = open_roles(prepared.experiment.role, base, note, opened, seconds)
        check_targets(named_backends(prepared))
        drop_unseen_controls(prepared)
        prepared.datasets = [
            with_fitting_passages(part, prepared.victims) for part in prepared.datasets
        ]
        check_baselines(prepared)
        yield
    finally:
        own = [part.backend for part in prepared.roles if not part.is_shared]
        for backend in [*prepared.backends, *own]:
            release(backend)
