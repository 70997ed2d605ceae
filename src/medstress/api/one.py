"""Load one data set, and attack one question."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

from medstress.api.checked import checked
from medstress.attacks import protocol
from medstress.backends.python import wrap_function
from medstress.core import registry
from medstress.core.errors import UsageError
from medstress.core.frames import Frame
from medstress.core.functions import Answering, is_answering
from medstress.core.items import Question
from medstress.datasets.guess import guess_dataset
from medstress.datasets.source import Loaded
from medstress.engine.backend_queue import release
from medstress.engine.scheduler import Scheduler
from medstress.engine.trial import Trial
from medstress.entities.groups import typed_options, types_of
from medstress.experiment.arms import AttackPart, make_attacks
from medstress.experiment.config import Attack, Dataset, Entities, Victim
from medstress.experiment.data import DatasetPart, load_datasets, recognise_mentions
from medstress.experiment.first import GROUPS, group_table
from medstress.experiment.groups import GroupPart, free_group, load_groups
from medstress.experiment.models import open_victims
from medstress.tasks.victim import Victim as OpenVictim
from medstress.tasks.victim import task_of

Rows: TypeAlias = Sequence[Mapping[str, Any]]
"""Rows of data in memory."""


@checked
def load_dataset(
    name: str | Path | Rows | Frame,
    path: str | Path | None = None,
    *,
    annotations: str | Path | None = None,
    split: str | None = None,
    limit: int | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    answer_base: Literal[0, 1] | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    on_bad_row: Literal["error", "skip"] = "error",
) -> tuple[Question, ...]:
    """Load the questions of a file, of rows, or of a source (`medstress list datasets`).

    Args:
        name: the source; or a file or `owner/name` on the hub, whose source is found out; or rows,
            as a list of dicts or a data frame of polars or pandas.
        path: the source's file, if it needs one.
        annotations: a file of entity spans.
        split: the split, for sources that have several.
        limit: the number of questions of the sample.
        columns: field -> its name in the file, such as ``{"passage": "reference"}``.
        answer_base: the number of the first option where answers are numbers.
        encoding: of a text file that is not UTF-8, such as ``"cp1252"``.
        sheet: the name of the sheet, where an Excel file has several.
        on_bad_row: at a row that cannot be read: raise, or leave it out and warn.

    Raises:
        UsageError, DataError: one sentence.

    Warns:
        UserWarning: what was cut, dropped or is doubtful, a sentence for each kind or bad row.
    """
    keys: dict[str, Any] = {"path": name}
    if isinstance(name, str | Path):
        is_source = path is not None or str(name) in registry.installed("datasets")
        keys = {"name": str(name), "path": path} if is_source else guess_dataset(str(name))
    keys |= {"annotations": annotations, "split": split, "limit": limit}
    keys |= {"columns": columns, "answer_base": answer_base, "encoding": encoding}
    keys |= {"sheet": sheet, "on_bad_row": on_bad_row}
    (part,) = load_datasets([Dataset(**keys)], Path.cwd(), None)
    for sentence in (*part.loaded.notes, *part.loaded.skipped):
        warnings.warn(sentence, stacklevel=3)  # the caller of what `checked` wraps
    return part.questions


@checked
def attack_one(
    question: Question | Mapping[str, Any],
    model: Victim | Mapping[str, Any] | Callable[..., Any] | Answering | OpenVictim,
    attack: protocol.Attack | Attack | str,
    *,
    entities: str | Entities | Mapping[str, Any] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Attack one question and return the result.

    Args:
        question: a question, or a dict with the keys of a row (docs: data).
        model: a function from a list of prompts to a list of answers, an object with such a method
            `answer`, an `ms.Victim` or its keys, or an open victim.
        attack: for example ``ms.EntitySubstitution(sampler="nearest")``, an `ms.Attack`, or the
            name of one.
        entities: `drugs` or `diseases`, or an `ms.Entities` or its keys; default: of these two the
            first that a wrong option names. Names that the question does not mark are looked up.
        seed: seed of the attack's random stream.

    Returns:
        The trial's row as a dict, with the fields of an exported trial (docs: schema).

    Raises:
        UsageError, DataError, BackendError: one sentence.
    """
    if not isinstance(question, Question):
        (rows,) = load_datasets([Dataset.read([question])], Path.cwd(), None)
        (question,) = rows.questions
    assert isinstance(question, Question)
    part = _part(attack)
    loaded = Loaded(items=(question,), skipped=(), source_hash="")
    dataset = DatasetPart(label="one", questions=(question,), loaded=loaded)
    if "names" in part.attack.needs:
        group, item = _group(dataset, entities)
    else:
        (group,), item = free_group([part.attack]), question
    opened = _opened(model)
    trial = Trial(
        dataset="one",
        group=group.label,
        item=item,
        victim=opened,
        attack_label=part.label,
        attack=part.attack,
        resources=group.resources_on(dataset),
        seed=seed if part.attack.is_random else None,
    )
    try:
        return run_trials([trial])[0]
    finally:
        if opened is not model:
            release(opened.backend)


def _part(attack: protocol.Attack | Attack | str) -> AttackPart:
    if isinstance(attack, protocol.Attack):  # also one that is not installed
        if fault := protocol.attack_fault(attack):
            raise UsageError(f"attack {attack!r} {fault}")
        return AttackPart(label=str(attack.spec()["name"]), attack=attack.with_files(Path()))
    parts = make_attacks([Attack(name=attack) if isinstance(attack, str) else attack])
    if len(parts) != 1:
        raise UsageError(f"attack: expected one, got {len(parts)}: give one value of n")
    return parts[0]


def _group(
    dataset: DatasetPart, entities: str | Entities | Mapping[str, Any] | None
) -> tuple[GroupPart, Question]:
    """Return the group that names are drawn of, and the question with its mentions."""
    (question,) = dataset.questions
    usual = "given" if question.mentions else "gazetteer"
    for one in GROUPS if entities is None else [entities]:
        table = group_table(one, usual) if isinstance(one, str) else Entities.read(one)
        (part,), _ = recognise_mentions(
            [table], Path.cwd(), [dataset], lambda _: None, needs_all=False
        )
        (item,) = part.questions
        if entities is not None or typed_options(item, types_of(table.type)):
            break
    (group,) = load_groups([table], Path.cwd(), [part], lambda _: None)
    return group, item


def _opened(model: Any) -> OpenVictim:
    if isinstance(model, OpenVictim):
        return model
    if is_answering(model):  # also one that cannot be found again by its name
        owner: Any = model() if inspect.isclass(model) else model
        answer = owner.answer if isinstance(owner, Answering) else owner
        backend = wrap_function(answer, version="attack_one")
        task = task_of(Victim(backend="python"), Path.cwd(), backend.traits.calls, "function")
        return OpenVictim(label=backend.identity.name, task=task, backend=backend)
    table = Victim.read(model)
    if not isinstance(table.prompt, str):
        raise UsageError(
            "model: expected the name of one prompt or a file in `prompt`, because one question "
            f"belongs to no data set; got {table.prompt!r}"
        )
    (opened,) = open_victims([table], Path.cwd(), lambda _: None)
    return opened


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
