"""Read and check an experiment, and load everything but the models."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from medstress.attacks.noise import Noise
from medstress.core.errors import UsageError
from medstress.engine.progress import DRAIN_SECONDS, Progress
from medstress.experiment import criteria
from medstress.experiment.file.config import AttackTable, Experiment
from medstress.experiment.file.reading import (
    NEEDS,
    apply_overrides,
    check_experiment,
    read_experiment,
    require_tables,
)
from medstress.experiment.file.sources import Source, find_source
from medstress.experiment.follow_ups import prompt_encoder
from medstress.experiment.plan.attack_checks import check_budgets, check_scores
from medstress.experiment.plan.attacked import live_attacks, stored_attacks, without_stored
from medstress.experiment.plan.controls import (
    control_arms,
    fitting_arms,
    named_on_sentences,
    noise_controls,
)
from medstress.experiment.plan.dataset_parts import load_datasets
from medstress.experiment.plan.mentions import GIVEN, recognise_mentions, require_attackable
from medstress.experiment.plan.parts import load_groups, make_attacks, used_tables
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.roles import check_roles, with_roles
from medstress.experiment.plan.sentence_groups import (
    SentenceGroupPart,
    check_kind,
    free_group,
    kind_of_datasets,
    sentence_resources,
    with_names,
)
from medstress.experiment.plan.spending import check_prices
from medstress.experiment.significance.settings import check_items, check_tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Callbacks for progress; every default does nothing."""

    note: Callable[[str], None] = lambda _: None
    """Receives what is being prepared."""
    announce: Callable[[str], None] = lambda _: None
    """Receives what the user should read before it costs money."""
    vectors: Callable[[int, int], None] | None = None
    """Receives (done, all) while vectors are computed."""
    progress: Callable[[Progress], None] = lambda _: None
    """Receives counts while trials run."""
    drain_seconds: float = DRAIN_SECONDS
    """Time for calls in flight after the run is stopped."""


def prepare(
    experiment: str | Path | Mapping[str, Any] | Experiment | Source,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
    complete: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Prepared:
    """Read and check an experiment and load everything but the models.

    Args:
        experiment: a TOML file, its text as a `Source`, a dict of the same shape, or a checked
            `Experiment`.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.
        complete: fills in what the command decides, before the tables are checked.

    Raises:
        UsageError, DataError: one sentence.
    """
    watcher = watcher or Watcher()
    checked, given, base = resolve(experiment, overrides, complete=complete)
    given_attacks = make_attacks(checked.attack, base)
    attacks = live_attacks(given_attacks)
    wanted = checked.experiment.controls
    arms, controlled = control_arms(attacks, wanted)
    check_roles(checked.role, [*attacks, *arms], checked.test)
    check_tests(checked, attacks)
    check_scores(attacks, checked.victim)
    check_prices(checked)
    prompt_encoder(checked.analysis, base)  # fails now rather than after the last query
    watcher.note("data")
    loaded = load_datasets(checked.dataset, base, limit)
    check_items(checked, loaded)
    stored, beside = stored_attacks(given_attacks, loaded, checked.experiment.seeds, wanted)
    if stored:
        attacks = [*attacks, *stored]
        more, extended = control_arms(stored, without_stored(stored, beside, wanted))
        arms, controlled = [*arms, *more], controlled.joined(extended)
    kind = kind_of_datasets(loaded)
    classes = kind.classes(item for part in loaded for item in part.all_items)
    check_kind(checked, attacks, kind, classes)
    if not kind.draws_names:
        named_on_sentences(wanted, kind)
        if wanted:
            more, controlled = noise_controls(attacks, kind)
            attacks = [*attacks, *more]
        sentences = Prepared(
            experiment=checked,
            given={"experiment": given, "overrides": list(overrides)},
            base=base,
            datasets=loaded,
            groups=[SentenceGroupPart(resources=sentence_resources(attacks, loaded, base))],
            attacks=attacks,
            controls=controlled,
            recognisers=[GIVEN],
            kind=kind,
            classes=classes,
        )
        return criteria.checked(sentences)
    recognised = recognise_mentions(checked.entities, base, loaded, watcher.note)
    datasets = recognised.datasets
    require_attackable(checked.entities, datasets, attacks)
    groups = load_groups(checked.entities, base, datasets, watcher.note, watcher.vectors)
    is_noisy = any(isinstance(part.attack, Noise) for part in attacks)
    noise = sentence_resources(attacks, datasets, base) if is_noisy else None
    unnamed = free_group([*attacks, *arms], noise)
    groups = with_names([*groups, *unnamed], [*attacks, *arms])
    groups = with_roles(groups, checked.role)
    check_budgets(attacks, groups)
    arms, controlled = fitting_arms(arms, controlled, datasets, groups, wanted)
    prepared = Prepared(
        experiment=checked,
        given={"experiment": given, "overrides": list(overrides)},
        base=base,
        datasets=datasets,
        groups=groups,
        attacks=[*attacks, *beside, *arms],
        controls=controlled,
        kind=kind,
        recognisers=[*recognised.recognisers, *({} for _ in unnamed)],
    )
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
    base = Path.cwd()
    if isinstance(experiment, Experiment):
        given, whole = _given_keys(experiment), used_tables(experiment)
        tables = copy.deepcopy(whole)
        apply_overrides(tables, overrides)
        complete(tables)
        if tables != whole:
            return check_experiment(tables, needs=needs), given, base
        require_tables(whole, needs)
        return experiment, given, base
    if not isinstance(experiment, Mapping):
        raise UsageError(
            f"experiment: expected a TOML file, a dict or an Experiment, got {experiment!r}"
        )
    raw = copy.deepcopy(dict(experiment))
    apply_overrides(raw, overrides)
    complete(raw)
    return check_experiment(raw, needs=needs), experiment, base


def _given_keys(value: Any) -> Any:
    """Return a checked table with the keys that were given; defaults do not all go together."""
    if isinstance(value, BaseModel):
        keys = {name: getattr(value, name) for name in value.model_fields_set}
        keys |= value.parameters if isinstance(value, AttackTable) else {}
        return {name: _given_keys(each) for name, each in keys.items() if each is not None}
    if isinstance(value, Mapping):
        return {str(name): _given_keys(each) for name, each in value.items()}
    return [_given_keys(each) for each in value] if isinstance(value, list | tuple) else value
