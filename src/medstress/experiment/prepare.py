"""Read and check an experiment, load everything but the models, and open these."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from medstress.attacks.attacked import Attacked
from medstress.attacks.controls.arm import ControlArm
from medstress.attacks.noise import Noise
from medstress.attacks.protocol import Attack
from medstress.core.calls import Backend
from medstress.core.errors import UsageError
from medstress.engine.backend_queue import release
from medstress.engine.progress import Watcher
from medstress.experiment import criteria
from medstress.experiment.criteria import check_baselines, check_items, check_tests
from medstress.experiment.file.config import Experiment
from medstress.experiment.file.reading import (
    NEEDS,
    Source,
    apply_overrides,
    check_experiment,
    find_source,
    plain_tables,
    read_experiment,
    require_tables,
    toml_text,
)
from medstress.experiment.follow_ups import prompt_encoder
from medstress.experiment.plan.attack_checks import (
    check_asking,
    check_budgets,
    check_scores,
    control_arms,
    fitting_arms,
    noise_controls,
    stored_attacks,
    victim_of,
)
from medstress.experiment.plan.dataset_parts import (
    GIVEN,
    load_datasets,
    recognise_mentions,
    require_attackable,
    with_fitting_passages,
    with_long_items,
)
from medstress.experiment.plan.parts import (
    check_kind,
    free_group,
    kind_of_datasets,
    load_groups,
    make_attacks,
    open_victims,
    sentence_resources,
    with_names,
)
from medstress.experiment.plan.plan import (
    Prepared,
    check_prices,
    check_roles,
    check_targets,
    named_backends,
    open_roles,
    with_roles,
)
from medstress.tasks.victim import Victim


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
    checked, given, base = resolve(experiment, overrides, needs, complete)
    given_attacks = make_attacks(checked.attack, base)
    attacks = [part for part in given_attacks if not isinstance(part.attack, Attacked)]
    wanted = checked.experiment.controls
    arms, left_out = control_arms(attacks, wanted)
    check_roles(checked.role, [*attacks, *arms], checked.test)
    check_tests(checked, attacks)
    check_scores(attacks, checked.victim)
    check_prices(checked)
    prompt_encoder(checked.analysis, base)  # fails now rather than after the last query
    watcher.note("data")
    loaded = load_datasets(checked.dataset, base, limit)
    check_items(checked, loaded)
    stored = stored_attacks(given_attacks, loaded, checked.experiment.seeds)
    if stored:
        attacks = [*attacks, *stored]
        more, of_stored = control_arms(stored, wanted)
        arms, left_out = [*arms, *more], left_out | of_stored
    kind = kind_of_datasets(loaded)
    classes = kind.classes(item for part in loaded for item in part.all_items)
    check_kind(checked, attacks, kind, classes)
    prepared = Prepared(
        experiment=checked,
        given={"experiment": given, "overrides": list(overrides)},
        base=base,
        datasets=loaded,
        groups=[],
        attacks=attacks,
        left_out=left_out,
        kind=kind,
        classes=classes,
    )
    if not kind.draws_names:
        if not isinstance(wanted, bool | None):
            raise UsageError(f"[experiment] controls: for {kind.name} write true or false")
        if wanted:
            more, prepared.left_out = noise_controls(attacks, kind)
            prepared.attacks = [*attacks, *more]
        noise = sentence_resources(prepared.attacks, loaded, base)
        prepared.groups = free_group(prepared.attacks, noise)
        prepared.recognisers = [GIVEN]
        return criteria.checked(prepared)
    datasets, recognisers = recognise_mentions(checked.entities, base, loaded, watcher.note)
    require_attackable(checked.entities, datasets, [part.attack for part in attacks])
    groups = load_groups(checked.entities, base, datasets, watcher.note, watcher.vectors)
    is_noisy = any(isinstance(part.attack, Noise) for part in attacks)
    own_noise = sentence_resources(attacks, datasets, base) if is_noisy else None
    unnamed = free_group([*attacks, *arms], own_noise)
    groups = with_names([*groups, *unnamed], [*attacks, *arms])
    groups = with_roles(groups, checked.role)
    check_budgets(attacks, groups)
    arms = fitting_arms(arms, left_out, datasets, groups, wanted)
    prepared.datasets, prepared.groups = datasets, groups
    prepared.attacks = [*attacks, *arms]
    prepared.recognisers = [*recognisers, *({} for _ in unnamed)]
    return criteria.checked(prepared)


def resolve(
    experiment: str | Path | Mapping[str, Any] | Experiment | Source,
    overrides: Sequence[str] = (),
    needs: Sequence[str] = NEEDS,
    complete: Callable[[dict[str, Any]], None] = lambda _: None,
) -> tuple[Experiment, Any, Path]:
    """Read and check an experiment in any of its forms.

    Args:
        experiment: a TOML file, its text as a `Source`, a dict of the same shape, or a checked
            `Experiment`.
        overrides: as the command line's --set.
        needs: the tables that the command needs.
        complete: as in `prepare`.

    Returns:
        The checked experiment; what the user gave, for the manifest; the folder that relative
        paths start from.

    Raises:
        UsageError: one sentence.
    """
    if isinstance(experiment, str | Path | Source):
        source = find_source(experiment)
        # A file by its path, which messages show; the base of both is the same.
        file = experiment if isinstance(experiment, Source) else Path(experiment)
        checked = read_experiment(file, overrides, needs, complete)
        return checked, source.text, source.base
    if not isinstance(experiment, Mapping | Experiment):
        raise UsageError(
            f"experiment: expected a TOML file, a dict or an Experiment, got {experiment!r}"
        )
    before = plain_tables(experiment)
    raw = copy.deepcopy(before)
    apply_overrides(raw, overrides)
    complete(raw)
    if isinstance(experiment, Experiment) and raw == before:
        require_tables(raw, needs)
        return experiment, toml_text(before), Path.cwd()
    return check_experiment(raw, needs=needs), toml_text(before), Path.cwd()


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
            raise UsageError(f"[experiment] controls: leave {name} out, because {reason}")
        prepared.attacks.remove(part)
        attack = part.label.removesuffix(f" / {name}")
        prepared.left_out.setdefault(attack, {})[name] = reason


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
    seconds = prepared.experiment.experiment.timeout_seconds
    pairs = zip(prepared.datasets, prepared.experiment.dataset, strict=True)
    datasets = [(part.label, table.name) for part, table in pairs]
    prepared.victims = open_victims(
        tables, base, note, prepared.kind, prepared.classes, seconds, datasets, greets=greets
    )
    try:
        check_asking(prepared.victims, prepared.attacks, [label for label, _ in datasets])
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
                    victim, prepared.datasets, note, _ways_of_asking(prepared)
                )
        if baselines:
            check_baselines(prepared)
        yield
    finally:
        own = [part.backend for part in prepared.roles if not part.is_shared]
        for backend in [*prepared.backends, *own]:
            release(backend)


def _ways_of_asking(prepared: Prepared) -> dict[str, Callable[[Victim, str, Any], Victim]]:
    """Return how a victim is asked: in the turns of the first attack that has turns, or once."""

    def asked(attack: Attack, victim: Victim, dataset: str, item: Any) -> Victim:
        return victim_of(victim.on(dataset), attack, dataset, item, seeds[0], 0)

    seeds = prepared.experiment.experiment.seeds
    first = {"turns" in part.attack.needs: part for part in reversed(prepared.attacks)}
    return {
        part.label if is_in else "": partial(asked, part.attack) for is_in, part in first.items()
    }
