"""Shortcuts from Python: load one data set, attack one question."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from medstress.api.checked import checked
from medstress.api.given import Answering, is_answering, plain, victim_keys
from medstress.attacks.protocol import Attack, attack_fault
from medstress.backends.python import wrap_function
from medstress.core import registry
from medstress.core.calls import Backend
from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.datasets.guess import guess_dataset
from medstress.datasets.source import DatasetOptions, Loaded, draw
from medstress.engine.backend_queue import release
from medstress.engine.scheduler import Scheduler
from medstress.engine.trial import Trial
from medstress.experiment.file.config import AttackTable, EntitiesTable, VictimTable
from medstress.experiment.file.reading import check_table
from medstress.experiment.first import group_table
from medstress.experiment.plan.dataset_parts import DatasetPart, recognise_mentions
from medstress.experiment.plan.parts import load_groups, open_victims
from medstress.tasks.victim import Victim, task_of


@checked
def load_dataset(
    name: Any,
    path: str | Path | None = None,
    *,
    annotations: str | Path | None = None,
    split: str | None = None,
    limit: int | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    answer_base: Literal[0, 1] | None = None,
) -> tuple[Question, ...]:
    """Load the questions of a file, of rows, or of a source (`medstress list datasets`).

    Args:
        name: the source; a file or `owner/name` on the hub, whose source is found out; or a list of
            dicts or a data frame of polars or pandas.
        path: the source's file, if it needs one.
        annotations: a file of entity spans.
        split: the split, for sources that have several.
        limit: the number of questions of the sample.
        columns: field -> its name in the file, such as ``{"passage": "reference"}``.
        answer_base: the number of the first option where answers are numbers.

    Raises:
        UsageError, DataError: one sentence.
    """
    rows = None if isinstance(name, str | Path) else name
    name = "table" if rows is not None else str(name)
    found: Mapping[str, Any] = {"name": name, "path": path}
    if path is None and name not in registry.installed("datasets"):
        found = guess_dataset(name)
    path = found.get("path")
    options = DatasetOptions(
        path=None if path is None else Path(path),
        hub=found.get("hub"),
        rows=rows,
        annotations=None if annotations is None else Path(annotations),
        split=split,
        columns=dict(columns or {}),
        answer_base=answer_base,
    )
    loaded: Loaded = registry.load("datasets", found["name"])(options)
    return draw(loaded.questions, limit)


@checked
def attack_one(
    question: Question,
    victim: VictimTable | Mapping[str, Any] | Callable[[list[str]], Any] | Answering | Victim,
    attack: Attack | AttackTable,
    *,
    entities: str | EntitiesTable | Mapping[str, Any],
    seed: int = 0,
) -> dict[str, Any]:
    """Attack one question and return the result.

    Args:
        question: a question with typed mentions, or ``"recogniser": "gazetteer"`` in `entities`.
        victim: an `ms.Victim` or its keys, a function from a list of prompts to a list of answers,
            an object with such a method `answer`, or an open victim.
        attack: for example ``medstress.attacks.EntitySubstitution(sampler="nearest")``, or an
            `ms.Attack`.
        entities: an `ms.Entities` or its keys, for example
            ``{"type": "drugs", "vocabulary": "drugs"}``; or `drugs` or `diseases`, whose names are
            then looked up in the question.
        seed: seed of the attack's random stream.

    Returns:
        The trial's row as a dict, with the fields of an exported trial (docs: schema).

    Raises:
        UsageError, DataError, BackendError: one sentence.
    """
    if isinstance(attack, AttackTable):
        if len(attack.attacks) != 1:
            raise UsageError(
                f"attack: expected one, got {len(attack.attacks)}: give one value of n"
            )
        (attack,) = attack.attacks
    if fault := attack_fault(attack):
        raise UsageError(f"attack {attack!r} {fault}")
    base = Path.cwd()
    loaded = Loaded(questions=(question,), skipped=(), source_hash="")
    dataset = DatasetPart(label="one", questions=(question,), loaded=loaded)
    keys = group_table(entities) if isinstance(entities, str) else plain(entities)
    table = check_table("entities", keys)
    (dataset,) = recognise_mentions([table], base, [dataset], lambda _: None)[0]
    (group,) = load_groups([table], base, [dataset], lambda _: None)
    opened = _victim(victim, base)
    trial = Trial(
        dataset="one",
        group=group.label,
        item=dataset.questions[0],
        victim=opened,
        attack_label=str(attack.spec()["name"]),
        attack=attack,
        resources=group.resources,
        seed=seed if attack.is_random else None,
    )
    try:
        return run_trials([trial])[0]
    finally:
        if opened is not victim:
            release(opened.backend)


def run_trials(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Run trials on one victim in a folder that is removed; return their exported rows."""
    from medstress.analyses.exported import trial_rows
    from medstress.analyses.run import Run
    from medstress.store.reader import read
    from medstress.store.run_store import RunStore

    victim = trials[0].victim
    manifest = {
        "config": {"experiment": {"controls": False, "name": "attack_one"}},
        "victims": {victim.label: {"task": victim.task.spec(), "prompt": victim.prompt}},
        "records": {},
    }
    with TemporaryDirectory(prefix="medstress-", ignore_cleanup_errors=True) as place:
        folder = Path(place) / "one"
        with RunStore(folder) as store:
            store.write_manifest(manifest)
            Scheduler(store).run(trials, len(trials))
        run = Run.open(folder)
        return read(folder, lambda reader: [dict(row) for row in trial_rows(run, reader)])


def _victim(victim: Any, base: Path) -> Victim:
    if isinstance(victim, Victim):
        return victim
    if not is_answering(victim):
        table = check_table("victim", victim_keys(victim))
        if not isinstance(table.prompt, str):
            raise UsageError(
                f"victim: expected the name of one prompt or a file in `prompt`, because one "
                f"question belongs to no data set; got {table.prompt!r}"
            )
        (opened,) = open_victims([table], base, lambda _: None)
        return opened
    backend: Backend = wrap_function(_function(victim), version="attack_one")
    table = VictimTable(backend="python")
    task = task_of(table, base, backend.traits.calls, "function")
    return Victim(label=backend.identity.name, task=task, backend=backend)


def _function(victim: Any) -> Any:
    """Return what a run asks: the function, or the method of an object or of a class's object."""
    owner = victim() if inspect.isclass(victim) else victim
    return owner.answer if isinstance(owner, Answering) else owner
