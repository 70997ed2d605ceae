"""Write the perturbed data set of an experiment without asking a victim."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

from medstress.attacks.noise import Noise, NoiseResources
from medstress.core.clusters import document_of
from medstress.core.errors import UsageError
from medstress.core.items import OUTSIDE, Candidate, Edited, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask
from medstress.core.resources import Resources
from medstress.core.seeding import rng_for
from medstress.core.sentences import TOKENS
from medstress.core.text import WHOLE
from medstress.datasets.tagged import DOCUMENT
from medstress.experiment.file.config import Experiment
from medstress.experiment.plan.attack_checks import check_budgets
from medstress.experiment.plan.dataset_parts import DatasetPart, load_datasets, recognise_mentions
from medstress.experiment.plan.noise_resources import absence_remark
from medstress.experiment.plan.parts import (
    GROUP,
    AttackPart,
    GroupPart,
    check_field,
    free_group,
    kind_of_datasets,
    load_groups,
    make_attacks,
    sentence_resources,
)
from medstress.experiment.prepare import Watcher, resolve
from medstress.files.frames import refuse_inputs
from medstress.files.writing import write_text
from medstress.tasks.kinds import SIMILARITY, TAGGING, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedArm:
    """The perturbation of a row."""

    dataset: str
    """The data set's label."""
    attack: str
    """The attack's label."""
    seed: int | None
    """None if the attack uses no random numbers."""
    group: str | None = None
    """Substitutions: the entity group."""
    query: int | None = None
    """Substitutions: number of the draw, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One perturbed item."""

    id: str
    """Id of the original item."""
    values: dict[str, Any]
    """The fields that a reader of its kind needs, without the id."""
    edits: list[dict[str, Any]]
    """The edits, in offsets of the original."""
    arm: PerturbedArm
    """The perturbation."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Other fields of the item."""


def perturbed_row(candidate: Edited, arm: PerturbedArm) -> Row:
    """Return a perturbed item as a row; mentions are left out, because their places have moved."""
    rows = [asdict(edit) for edit in candidate.edits]
    for row in rows:
        if row["field"] == TOKENS:
            row["replacement"] = row["replacement"].split()
            del row["field"]
    return Row(
        id=candidate.item.id,
        values=candidate.item.changed(candidate.edits).row(),
        edits=rows,
        arm=arm,
        metadata=dict(candidate.item.metadata),
    )


def write(rows: Sequence[Row], to: Path, kind: Kind) -> None:
    """Write rows in the layout of the file's extension.

    Raises:
        UsageError: the extension does not suit these items, the layout holds one arm and there are
            several, a text has a tab or a line end, or the file cannot be written.
    """
    writers = {".jsonl": _jsonl, **WRITERS.get(kind.name, {})}
    writer = writers.get(to.suffix.lower())
    if writer is None:
        raise UsageError(f"--to {to}: the name must end in {' or '.join(writers)} for {kind.name}")
    lines = list(writer(rows, to))  # all checks come before anything is written
    try:
        write_text(to, "".join(line + "\n" for line in lines))
    except OSError as error:
        raise UsageError(f"cannot write {to}: {error.strerror}; give another --to") from error


def _jsonl(rows: Sequence[Row], _: Path) -> Iterator[str]:
    is_alone = len({row.arm for row in rows}) == 1
    for row in rows:
        arm = {key: value for key, value in asdict(row.arm).items() if value is not None}
        # Ids must be unique in a file, so several perturbations of an item get longer ids.
        identifier = row.id if is_alone else "/".join([row.id, *map(str, arm.values())])
        yield json.dumps(
            {
                **row.metadata,
                "id": identifier,
                **row.values,
                "original_id": row.id,
                **arm,
                "edits": row.edits,
            },
            ensure_ascii=False,
        )


def _iob(rows: Sequence[Row], to: Path) -> Iterator[str]:
    _check_alone(rows, to)
    of_rows = [document_of(row.metadata) for row in rows]
    # Rows without a document come first: every later row belongs to the mark before it.
    order = {name: place for place, name in enumerate(dict.fromkeys([None, *of_rows]))}
    document = None
    for row in sorted(rows, key=lambda row: order[document_of(row.metadata)]):
        values = row.values
        if document_of(row.metadata) != document:
            document = document_of(row.metadata)
            yield from (f"{DOCUMENT}\t{OUTSIDE}", "")
        yield from (f"{t}\t{label}" for t, label in zip(*values.values(), strict=True))
        yield ""


def _pairs(rows: Sequence[Row], to: Path) -> Iterator[str]:
    _check_alone(rows, to)
    yield "id\ttext_a\ttext_b\tscore"
    for row in rows:
        fields = [row.id, *map(str, row.values.values())]
        if any(character in part for part in fields for character in "\t\n\r"):
            raise UsageError(
                f"--to {to}: the texts of item {row.id!r} have a tab or a line end, which a .tsv "
                "file cannot hold; write .jsonl"
            )
        yield "\t".join(fields)


def _check_alone(rows: Sequence[Row], to: Path) -> None:
    arms = list(dict.fromkeys((row.arm.dataset, row.arm.attack, row.arm.seed) for row in rows))
    if len(arms) > 1:
        listed = "; ".join(f"{d}, {a}, seed {s}" for d, a, s in arms[:3])
        raise UsageError(
            f"--to {to}: the file holds one perturbed copy, and there are {len(arms)} "
            f"({listed}{'; ...' if len(arms) > 3 else ''}); select one with "
            "--set experiment.seeds=[0] and --set attack.NAME.use=false, or write .jsonl"
        )


Writer: TypeAlias = Callable[[Sequence[Row], Path], Iterator[str]]
WRITERS: Mapping[str, Mapping[str, Writer]] = {
    TAGGING.name: {".tsv": _iob, ".iob": _iob, ".conll": _iob},
    SIMILARITY.name: {".tsv": _pairs},
}
"""Kind -> ending of a file -> what writes it, beside .jsonl."""


NEEDS = ("experiment", "dataset", "attack")
"""Tables that `perturb` needs; attacks that draw names also need entity groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Counts of what was written."""

    n_rows: int
    """Perturbed items."""
    n_changed: int
    """Items with an edit."""
    n_edits: int
    """Edits in all items."""
    notes: tuple[str, ...]
    """Repairs of the data, rows left out, and word lists that do not occur in the data."""


def perturb(
    experiment: str | Path | Mapping[str, Any] | Experiment,
    to: str | Path,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> Written:
    """Write every item as every attack and seed perturbs it, as `run` would ask it.

    Noise gives one row for each item. A substitution gives a row for each name that its sampler
    draws, as if none succeeded.

    Args:
        experiment: a TOML file, a dict of the same shape, or a checked `Experiment`; victims may
            be missing.
        to: FILE.jsonl; for a single data set, attack and seed also FILE.tsv, FILE.iob, FILE.conll
            (tagged texts) or FILE.tsv (pairs).
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.

    Raises:
        UsageError, DataError: one sentence.
    """
    watcher = watcher or Watcher()
    to = Path(to)
    checked, _, base = resolve(experiment, overrides, NEEDS)
    inputs = [base / Path(table.path).expanduser() for table in checked.dataset if table.path]
    refuse_inputs(to, inputs)
    attacks = make_attacks(checked.attack)
    watcher.note("data")
    datasets = load_datasets(checked.dataset, base, limit)
    kind = kind_of_datasets(datasets)
    check_perturbed_alone(attacks, kind)
    noises = [part for part in attacks if isinstance(part.attack, Noise)]
    substitutions = [part for part in attacks if part not in noises]
    if not checked.entities and any("names" in part.attack.needs for part in substitutions):
        raise UsageError("experiment: the table [[entities]] is missing")
    if kind.draws_names:
        datasets = recognise_mentions(checked.entities, base, datasets, watcher.note)[0]
    resources = sentence_resources(noises, datasets, base) if noises else NoiseResources()
    written = list(_noise_rows(checked, noises, datasets, kind, resources))
    if substitutions:
        written += _substitution_rows(checked, substitutions, datasets, base, watcher)
    if not written:
        raise UsageError(f"--to {to}: these attacks can perturb no item, so nothing is written")
    write(written, to, kind)
    counts = [len(row.edits) for row in written]
    return Written(
        n_rows=len(counts),
        n_changed=sum(n > 0 for n in counts),
        n_edits=sum(counts),
        notes=(
            *(note for part in datasets for note in (*part.loaded.notes, *part.loaded.skipped)),
            *filter(None, [absence_remark(resources)]),
        ),
    )


def check_perturbed_alone(attacks: Sequence[AttackPart], kind: Kind) -> None:
    """Check that no attack needs a victim's answers to perturb an item.

    Raises:
        UsageError: an attack needs them; the message names it.
    """
    for part in attacks:
        attack = part.attack
        if isinstance(attack, Noise):
            check_field(part, kind)
            if attack.search != "none":
                raise UsageError(
                    f"attack {part.label!r}: a search asks a victim which edits matter; set "
                    'search = "none" to get the whole perturbed copy'
                )
        elif not kind.draws_names:
            raise UsageError(
                f"attack {part.label!r} is for questions, but the data are {kind.name}"
            )
        elif "scores" in attack.needs:
            raise UsageError(
                f"attack {part.label!r} needs a victim's scores, but perturb asks no victim"
            )
        elif "attacker" in attack.needs:
            raise UsageError(
                f"attack {part.label!r} asks a model to write its edits (role 'attacker'), but "
                "perturb asks no model; leave it out"
            )
        elif "follow_up" in attack.needs:
            raise UsageError(
                f"attack {part.label!r} edits no question, it goes on speaking after an answer, "
                "but perturb asks no victim; leave it out"
            )


def _noise_rows(
    checked: Experiment,
    attacks: Sequence[AttackPart],
    datasets: Sequence[DatasetPart],
    kind: Kind,
    resources: NoiseResources,
) -> Iterator[Row]:
    """Yield a row for each item; questions without the field that is perturbed have none."""
    for dataset, part in product(datasets, attacks):
        attack = part.attack
        assert isinstance(attack, Noise)
        for seed, item in product(_seeds(checked, part), dataset.questions):
            arm = PerturbedArm(dataset=dataset.label, attack=part.label, seed=seed)
            # The random stream of a run's trials, so that a run asks exactly these items.
            rng = rng_for(seed or 0, f"{attack.stream}/{GROUP}", dataset.label, item.id)
            unit = item.of_unit(WHOLE)
            if attack.asks_copy_of(unit) or attack.obstacle(unit, resources) is None:
                yield perturbed_row(unit.candidate(attack.edits(unit, rng, resources)), arm)


def _substitution_rows(
    checked: Experiment,
    attacks: Sequence[AttackPart],
    datasets: Sequence[DatasetPart],
    base: Path,
    watcher: Watcher,
) -> Iterator[Row]:
    free = [part for part in attacks if "names" not in part.attack.needs]
    for dataset, group, part in product(datasets, free_group(free), free):
        yield from _draws(checked, dataset, group, part)
    named = [part for part in attacks if part not in free]
    if not named:
        return
    groups = load_groups(checked.entities, base, datasets, watcher.note, watcher.vectors)
    check_budgets(named, groups)
    for dataset, group, part in product(datasets, groups, named):
        yield from _draws(checked, dataset, group, part)


def _draws(
    checked: Experiment, dataset: DatasetPart, group: GroupPart, part: AttackPart
) -> Iterator[Row]:
    resources = group.resources_on(dataset)
    for item, seed in product(group.items(dataset), _seeds(checked, part)):
        candidates = drawn_candidates(item, seed, dataset.label, part, resources)
        for number, candidate in enumerate(candidates, start=1):
            arm = PerturbedArm(
                dataset=dataset.label,
                attack=part.label,
                seed=seed,
                group=group.label,
                query=number,
            )
            yield perturbed_row(candidate, arm)


def drawn_candidates(
    item: Question, seed: int | None, dataset: str, part: AttackPart, resources: Resources
) -> Generator[Candidate, None, None]:
    """Yield what the attack asks about an item if nothing succeeds; nothing if it cannot attack."""
    attack = part.attack
    if attack.obstacle(item, resources):
        return
    rng = rng_for(seed or 0, f"{attack.stream}/{resources.group}", dataset, item.id)
    steps = attack.run(item, rng, resources)
    right = Prediction(outcome=Outcome.RIGHT, answer=item.key)
    try:
        step = next(steps)
        while True:
            if not isinstance(step, Ask):
                raise UsageError(
                    f"attack {part.label!r} asks other models for its edits, but perturb asks no "
                    "model"
                )
            yield from (query.candidate for query in step.queries)
            step = steps.send(tuple(right for _ in step.queries))
    except StopIteration:
        return
    finally:
        steps.close()


def _seeds(checked: Experiment, part: AttackPart) -> Sequence[int | None]:
    return (None,) if not part.attack.is_random else checked.experiment.seeds
