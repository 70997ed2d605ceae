"""Read and check an experiment, load everything but the models, and open these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from medstress.attacks.noise import Noise
from medstress.core.arms import NOISE_CONTROL
from medstress.core.calls import Backend
from medstress.core.errors import UsageError
from medstress.engine.backend_queue import release
from medstress.engine.progress import Watcher
from medstress.experiment import arms, criteria, data, models
from medstress.experiment.config import Experiment
from medstress.experiment.follow_ups import prompt_encoder
from medstress.experiment.groups import (
    GroupPart,
    free_group,
    kind_of_datasets,
    load_groups,
    noise_resources,
)
from medstress.experiment.plan import Prepared, check_targets, named_backends
from medstress.experiment.reading import NEEDS, Source, resolve


def prepare(
    experiment: str | Path | Mapping[str, Any] | Experiment | Source,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
    complete: Callable[[dict[str, Any]], None] = lambda _: None,
    needs: Sequence[str] = NEEDS,
) -> Prepared:
    """Read and check an experiment and load everything but the models.

    Args:
        experiment: a TOML file, its text as a `Source`, a dict of the same shape, or a checked
            `Experiment`.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.
        complete: fills in what the command decides, before the tables are checked.
        needs: the tables that the command needs.

    Raises:
        UsageError, DataError: one sentence.
    """
    watcher = watcher or Watcher()
    checked, source, base = resolve(experiment, overrides, needs, complete)
    attacks = arms.make_attacks(checked.attack, base)
    wanted, roles = checked.experiment.controls, models.tables_of(checked.role)
    criteria.check_tests(checked, attacks)
    models.check_scores(attacks, checked.victim)
    models.check_prices(checked)
    prompt_encoder(checked.analysis, base)  # fails now rather than after the last query
    watcher.note("data")
    datasets = data.load_datasets(checked.dataset, base, limit)
    criteria.check_items(checked, datasets)
    attacks = arms.with_stored(attacks, datasets, checked.experiment.seeds)
    kind = kind_of_datasets(datasets)
    controls, left_out = arms.control_arms(attacks, wanted) if kind.draws_names else ([], {})
    models.check_roles(roles, [*attacks, *controls], checked.test)
    classes = kind.classes(item for part in datasets for item in part.all_items)
    arms.check_kind(checked, attacks, kind, classes)
    groups: list[GroupPart] = []
    if kind.draws_names:
        datasets, specs = data.recognise_mentions(checked.entities, base, datasets, watcher.note)
        data.require_attackable(checked.entities, datasets, [part.attack for part in attacks])
        groups = load_groups(checked.entities, base, datasets, watcher.note, watcher.vectors)
        groups = [replace(one, recogniser=spec) for one, spec in zip(groups, specs, strict=True)]
    else:
        if wanted not in (None, True, False, (NOISE_CONTROL,)):
            raise UsageError(f"[experiment] controls: for {kind.name} write true or false")
        if wanted:
            controls, left_out = arms.noise_controls(attacks, kind)
    every = [part.attack for part in (*attacks, *controls)]
    noise = None
    if not kind.draws_names or any(isinstance(attack, Noise) for attack in every):
        items = [item for part in datasets for item in part.known_items]
        noise = noise_resources(items, every, base)
    free = free_group(every, noise)
    groups += free if kind.draws_names else [replace(one, recogniser=data.GIVEN) for one in free]
    if kind.draws_names:
        asked = {name: models.decoding_of(table) for name, table in roles.items()}
        groups = [replace(one, resources=replace(one.resources, roles=asked)) for one in groups]
        arms.check_budgets(attacks, groups)
        controls = arms.fitting_arms(controls, left_out, datasets, groups, wanted)
    return criteria.checked(
        Prepared(
            experiment=checked,
            given={"experiment": source, "overrides": list(overrides)},
            base=base,
            datasets=datasets,
            groups=groups,
            attacks=[*attacks, *controls],
            left_out=left_out,
            kind=kind,
            classes=classes,
        )
    )


def drop_unseen_controls(prepared: Prepared) -> None:
    """Leave out control arms whose edits no model's prompt shows.

    Args:
        prepared: the experiment, with its victims open.

    Raises:
        UsageError: the file names such a control.
    """
    wanted = prepared.experiment.experiment.controls
    asked = [one.on(part.label) for one in prepared.victims for part in prepared.datasets]
    for part in list(prepared.attacks):
        if part.as_control is None or not asked or not all(map(part.attack.is_unseen_by, asked)):
            continue
        reason = f"no model's prompt shows {' or '.join(sorted(part.attack.fields))}"
        arms.leave_out(part, reason, wanted, prepared.left_out)
        prepared.attacks.remove(part)


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
        UsageError: see `open_victims`, `check_asking`, `open_roles` and `check_targets`.
    """
    tables, base = prepared.experiment.victim, prepared.base
    settings = prepared.experiment.experiment
    pairs = zip(prepared.datasets, prepared.experiment.dataset, strict=True)
    datasets = [(part.label, table.name) for part, table in pairs]
    server: dict[str, Any] = {"timeout_seconds": settings.timeout_seconds, "greets": greets}
    prepared.victims = models.open_victims(
        tables, base, note, prepared.kind, prepared.classes, datasets, **server
    )
    try:
        models.check_asking(prepared.victims, prepared.attacks, [label for label, _ in datasets])
        opened = list(zip(tables, prepared.victims, strict=True))
        roles = models.tables_of(prepared.experiment.role)
        prepared.roles = models.open_roles(roles, base, note, opened, **server)
        check_targets(named_backends(prepared))
        drop_unseen_controls(prepared)
        prepared.datasets = [
            models.with_fitting_passages(part, prepared.victims) for part in prepared.datasets
        ]
        for place, victim in enumerate(prepared.victims):
            if type(victim.backend).too_long is not Backend.too_long:
                prepared.victims[place], prepared.datasets = models.with_long_items(
                    victim, prepared.datasets, note, prepared.attacks, settings.seeds[0]
                )
        if baselines:
            criteria.check_baselines(prepared)
        yield
    finally:
        own = [part.backend for part in prepared.roles if not part.is_shared]
        for backend in [*prepared.backends, *own]:
            release(backend)
