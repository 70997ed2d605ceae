"""Shortcuts from Python: load one data set, attack one question."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import orjson

from medstress.api.checked import checked
from medstress.api.given import Answering, is_answering, plain, victim_keys
from medstress.attacks.protocol import Attack, attack_fault
from medstress.backends.python import wrap_function
from medstress.core import registry
from medstress.core.calls import Answer, Backend
from medstress.core.clusters import clusters_of
from medstress.core.errors import UsageError
from medstress.core.exchanges import BegunTrial, Exchange, PlannedTrial
from medstress.core.items import Question
from medstress.datasets.guess import guess_dataset
from medstress.datasets.source import DatasetOptions, Loaded, draw
from medstress.engine.backend_queue import release
from medstress.engine.scheduler import Scheduler
from medstress.engine.trial import Trial
from medstress.engine.work import VICTIM, Purpose
from medstress.experiment.file.config import AttackTable, EntitiesTable, VictimTable
from medstress.experiment.file.reading import check_table
from medstress.experiment.first.attack import group_table
from medstress.experiment.plan.dataset_parts import DatasetPart, recognise_mentions
from medstress.experiment.plan.parts import load_groups, open_victims
from medstress.store.reader import StoredTrial
from medstress.tasks.victim import Victim, task_of


@checked
def load_dataset(
    name: str | Path,
    path: str | Path | None = None,
    *,
    annotations: str | Path | None = None,
    split: str | None = None,
    limit: int | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    answer_base: Literal[0, 1] | None = None,
) -> tuple[Question, ...]:
    """Load the questions of a file, or of a source (`medstress list datasets`).

    Args:
        name: the source; or a file or `owner/name` on the hub, whose source is found out.
        path: the source's file, if it needs one.
        annotations: a file of entity spans.
        split: the split, for sources that have several.
        limit: the number of questions of the sample.
        columns: field -> its name in the file, such as ``{"passage": "reference"}``.
        answer_base: the number of the first option where answers are numbers.

    Raises:
        UsageError, DataError: one sentence.
    """
    name = str(name)
    found: Mapping[str, Any] = {"name": name, "path": path}
    if path is None and name not in registry.installed("datasets"):
        found = guess_dataset(name)
    path = found.get("path")
    options = DatasetOptions(
        path=None if path is None else Path(path),
        hub=found.get("hub"),
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
        return _run_one(trial)
    finally:
        if opened is not victim:
            release(opened.backend)


def _run_one(trial: Trial) -> dict[str, Any]:
    from medstress.analyses.exported import trial_row
    from medstress.store.prompts import Prompts, shown_of
    from medstress.store.trials import arm_of, trial_of

    ledger, victim, item = _Ledger(), trial.victim, cast(Question, trial.item)
    Scheduler(ledger).run([trial], 1)
    (cluster,) = clusters_of([item]).values()
    place = (trial.dataset, trial.group, victim.label, trial.attack_label, trial.seed)
    arm = arm_of(place, trial.attack_spec, {"whole_copy": trial.attack.is_copy})
    stored = ledger.stored(trial.id)
    done = trial_of(stored, arm, item, cluster)
    shown = None
    if done.pick is not None:
        spec = {"task": victim.task.spec(), "prompt": victim.prompt}
        prompts = Prompts({"victims": {victim.label: spec}})
        shown = shown_of(done, stored.result.get("listings"), prompts, ledger.requests)
    return dict(trial_row(done, shown))


class _Ledger:
    """Keeps in memory what one trial asks, for as long as it runs."""

    def __init__(self) -> None:
        self._answers: dict[bytes, Answer] = {}
        self._calls: list[Exchange] = []
        self._ended: tuple[str, dict[str, Any]]

    def arm_id(self, *_: object) -> int:
        """Return the row of the only arm."""
        return 0

    def begin_trials(self, planned: Sequence[PlannedTrial]) -> Sequence[BegunTrial]:
        """Register the trial."""
        return [BegunTrial(0, False, {}) for _ in planned]

    def finish_trial(self, trial: int, verdict: str, result: dict[str, Any]) -> None:
        """Keep how it ended, as a file would give it back."""
        self._ended = verdict, orjson.loads(orjson.dumps(result))

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Return the kept answers to these keys."""
        return {key: self._answers[key] for key in keys if key in self._answers}

    def dispatching(self, calls: Iterable[tuple[bytes, int]]) -> None:
        """Do nothing: no other process needs a journal."""

    def answered(self, answers: Iterable[tuple[bytes, int, Answer | None, float]]) -> None:
        """Keep answers: the first one to each call, and no failures."""
        for key, _, answer, _ in answers:
            if answer is not None:
                self._answers.setdefault(key, answer)

    def consumed(self, rows: Iterable[Exchange]) -> None:
        """Keep exchanges."""
        self._calls += rows

    def commit(self) -> None:
        """Do nothing: memory does not survive the process."""

    def requests(self, trial: int, purpose: str, query: int) -> list[str]:
        """Return the fully kept calls of one query of the victim, as JSON, in order."""
        rows = (row for row in self._calls if row[2:5] == (VICTIM, purpose, query))
        return [row[9] for row in rows if row[9] is not None]

    def stored(self, trial_id: str) -> StoredTrial:
        """Return the trial, with the counts of its queries; the first that asks a call pays."""
        asked: dict[int | None, list[tuple[bool, bool]]] = defaultdict(list)
        paid: set[bytes] = set()
        for _, _, role, purpose, query, _, key, *_, error in self._calls:
            pays = role == VICTIM and error is None and key not in paid
            if pays:
                paid.add(key)
            if role == VICTIM and purpose == Purpose.ATTACK:
                asked[query].append((error is not None, pays))
        lost = [any(is_lost for is_lost, _ in calls) for calls in asked.values()]
        pay = [any(pays for _, pays in calls) for calls in asked.values()]
        n_paid = sum(pays and not failed for pays, failed in zip(pay, lost, strict=True))
        return StoredTrial(
            trial=0,
            trial_id=trial_id,
            arm=0,
            item=0,
            repeat=0,
            verdict=self._ended[0],
            result=self._ended[1],
            n_paid=n_paid,
            n_cached=len(asked) - n_paid - sum(lost),
            n_failed=sum(lost),
        )


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
