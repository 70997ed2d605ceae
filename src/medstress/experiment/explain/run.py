"""Choose the trials of a run that are explained, and explain them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.analyses.run import Run
from medstress.core.arms import Place
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import digest
from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.core.words import plural
from medstress.engine.work import Purpose
from medstress.experiment.explain.explanation import Explanation, Settings
from medstress.experiment.follow_ups import Stage
from medstress.experiment.plan.attack_checks import victim_of
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.prepare import Watcher
from medstress.experiment.run import ask
from medstress.store.codec import decode_edits, edits_text
from medstress.store.reader import RunReader
from medstress.tasks.victim import Victim
from medstress.tasks.wrappers import ShuffledOptions, Wrapper

# -- which trials ----------------------------------------------------------------------------------


_ENDED = (Verdict.FLIPPED, Verdict.HELD, Verdict.MEASURED)
_LISTED = 5
"""Trials that a message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which trials are explained."""

    trials: tuple[str, ...] = ()
    """By their identifiers, unambiguous beginnings of them, or the item of one trial; empty for all
    successes, and as many failed attacks of the same arms."""
    limit: int | None = None
    """Most successes, and most failed attacks."""
    seed: int = 0
    """Of the draws."""


def choose(trials: Sequence[Trial], selection: Selection) -> list[Trial]:
    """Return the selected trials, in the order of the run.

    Successes are drawn by a hash of seed and trial, so a larger limit adds to a smaller one. For
    every success of an arm, one attack of the arm that failed is drawn as a control, if it has
    as many.

    Args:
        trials: all trials of the run.
        selection: which of them.

    Raises:
        UsageError: a trial is unknown, several fit, or one has nothing to explain, or there is no
            success.
    """
    if selection.trials:
        named = {_named(trials, text).id for text in selection.trials}
        return [trial for trial in trials if trial.id in named]
    successes = [
        trial
        for trial in trials
        if trial.first is not None and not trial.arm.is_control and not trial.is_refused
    ]
    if not successes:
        raise UsageError(
            "there is no success to explain: no attack of this run changed an answer (or experts "
            "find that the key no longer holds); failed attacks are explained with --trial ID"
        )
    drawn = _drawn(successes, selection.seed)[: selection.limit]
    wanted = Counter(map(_arm, drawn))
    held = [trial for trial in trials if trial.verdict is Verdict.HELD and _shows_edit(trial)]
    for trial in _drawn(held, selection.seed):
        if wanted[_arm(trial)] > 0:
            wanted[_arm(trial)] -= 1
            drawn.append(trial)
    chosen = {trial.id for trial in drawn}
    return [trial for trial in trials if trial.id in chosen]


def _named(trials: Sequence[Trial], text: str) -> Trial:
    trial = _trial_of(trials, text)
    if trial.verdict not in _ENDED or not _shows_edit(trial):
        raise UsageError(
            f"--trial {text}: it ended as {trial.verdict.value!r}, so there is no edited prompt to "
            "explain; name a trial that was flipped or held"
        )
    return trial


def _trial_of(trials: Sequence[Trial], text: str) -> Trial:
    """Return the trial with this id, beginning of one, or item; an attack before its controls.

    Raises:
        UsageError: none or several fit.
    """
    fitting = [trial for trial in trials if trial.id == text]
    fitting = fitting or [trial for trial in trials if text and trial.item.id == text]
    if len(attacks := [trial for trial in fitting if not trial.arm.is_control]) == 1:
        fitting = attacks
    if not fitting and text:
        fitting = [
            trial
            for trial in trials
            if trial.id.startswith(text) or _bare(trial.id).startswith(text)
        ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        some = ", ".join(_words(trial) for trial in fitting[:_LISTED])
        raise UsageError(
            f"--trial {text!r}: {len(fitting):,} trials of this run fit; give one of {some}"
        )
    known = [*(_bare(trial.id) for trial in trials), *(trial.item.id for trial in trials)]
    raise UsageError(
        f"--trial {text!r}: this run has no such trial or item"
        f"{did_you_mean(text, known) if text else ''}; medstress case DIR lists them"
    )


def _bare(trial_id: str) -> str:
    """Return an id without the mark of its hash."""
    return trial_id.rpartition(":")[2]


def _words(trial: Trial) -> str:
    arm = trial.arm
    seed = "" if arm.seed is None else f", seed {arm.seed}"
    return (
        f"{_bare(trial.id)} ({arm.attack.label} on {arm.place.group} of {arm.place.victim}{seed}, "
        f"{trial.verdict.value})"
    )


def _shows_edit(trial: Trial) -> bool:
    """Return whether the victim was asked about an edit, and not only probed."""
    return trial.queries.asked > trial.queries.probes


def _drawn(trials: Iterable[Trial], seed: int) -> list[Trial]:
    return sorted(trials, key=lambda trial: digest(["explain", seed, trial.id]))


def _arm(trial: Trial) -> tuple[Place, str]:
    return trial.arm.place, trial.arm.attack.label


def explanations(
    chosen: Iterable[Trial],
    edits: Mapping[str, str],
    prepared: Prepared,
    settings: Settings,
) -> list[Explanation]:
    """Return the work for these trials; the same in every process.

    Args:
        chosen: the trials.
        edits: by trial, as JSON.
        prepared: the experiment.
        settings: how they are explained.

    Raises:
        UsageError: a victim or attack is not in the experiment, or has no one prompt.
    """
    victims = {victim.label: victim for victim in prepared.victims}
    attacks = {part.label: part for part in prepared.attacks}
    items = {(part.label, item.id): item for part in prepared.datasets for item in part.questions}
    work = []
    for trial in chosen:
        arm, (dataset, group, model) = trial.arm, trial.arm.place
        label = arm.attack.label
        for name, names in ((model, victims), (label, attacks)):
            if name not in names:
                raise UsageError(
                    f"trial {trial.id} is of {name!r}, which the experiment does not name "
                    f"(it names: {', '.join(names)}); give --experiment the file of this run"
                )
        part, item = attacks[label], items.get((dataset, trial.item.id))
        if item is not None and item.kind != Question.kind:
            raise UsageError(f"explain is for questions; trial {trial.id} is of another kind")
        if item is None:
            raise UsageError(
                f"trial {trial.id} is about item {trial.item.id!r}, which the data of the "
                "experiment do not hold; give --experiment the file of this run"
            )
        victim = victims[model].on(dataset)
        if "turns" in part.attack.needs:
            victim = victim_of(victim, part.attack, dataset, item, arm.seed, trial.repeat)
        _check_prompt(victim)
        work.append(
            Explanation(
                dataset=dataset,
                group=group,
                victim=victim,
                attack_label=label,
                attack_spec=dict(arm.attack.params),
                seed=arm.seed,
                item=item.of_unit(trial.unit),
                edits=decode_edits(edits[trial.id]),
                settings=settings,
                spec={
                    "trial": trial.id,
                    "verdict": trial.verdict.value,
                    "edits": edits[trial.id],
                    **settings.as_json(),
                },
            )
        )
    return work


def _check_prompt(victim: Victim) -> None:
    task: Any = victim.task
    while not isinstance(task, ShuffledOptions):
        if not isinstance(task, Wrapper):
            return
        task = task.inner
    raise UsageError(
        f"victim {victim.label!r} is asked under several orders of the options (shuffled_options), "
        "so it has no one prompt to explain: name trials of another victim with --trial"
    )


# -- the stage -------------------------------------------------------------------------------------


def run_explanations(
    folder: Path,
    experiment: str | Path | Mapping[str, Any] | None,
    selection: Selection,
    settings: Settings,
    watcher: Watcher,
    overrides: Sequence[str] = (),
    *,
    confirm: Callable[[Sequence[str]], None] = lambda _: None,
    dry_run: bool = False,
) -> str | None:
    """Explain trials of a run; stored answers are used again.

    Args:
        folder: the run.
        experiment: the file, recipe or dict that the folder is a run of; see `ask`.
        selection: which trials to explain.
        settings: how.
        watcher: receives notes on what is being done, and progress.
        overrides: as the command line's --set.
        confirm: as for `ask`.
        dry_run: announce what would be asked, and ask nothing.

    Returns:
        Sentence on why not everything was explained; None if it was.

    Raises:
        UsageError: the selection cannot be explained.
        StoreError: the folder is a run of another experiment.
    """
    chosen = choose(Run.open(folder).trials, selection)  # before any model is loaded
    n = 2 * settings.evaluations * len(chosen)
    return ask(
        folder,
        [explaining(selection, settings)],
        experiment,
        overrides=overrides,
        confirm=confirm,
        most=lambda _: f"at most {n:,} masked texts",
        dry_run=dry_run,
        watcher=watcher,
    )


def explaining(selection: Selection, settings: Settings) -> Stage:
    """Return the stage that explains trials.

    Args:
        selection: which trials.
        settings: how.
    """

    def works(bench: Prepared, run: Run) -> list[Explanation]:
        trials = choose(run.trials, selection)
        edits = run.folder.read(lambda reader: last_edits(reader, trials))
        return explanations(trials, edits, bench, settings)

    def words(bench: Prepared, run: Run) -> Iterator[str]:
        own, ended = works(bench, run), run.folder.read(RunReader.answered_follow_ups)
        left = [one for one in own if one.id not in ended]
        n_successes = sum(trial.first is not None for trial in choose(run.trials, selection))
        parts = [plural(n_successes, "success", "successes")] if n_successes else []
        n_failed = len(own) - n_successes
        parts += [plural(n_failed, "failed attack")] if n_failed else []
        before = (
            f", {len(own) - len(left)} of them explained before" if len(left) < len(own) else ""
        )
        n = 0
        for one in left:
            count = getattr(one.victim.task, "n_calls", lambda _: 1)
            n += 2 * settings.evaluations * count(len(getattr(one.item, "options", ())) or 2)
        calls = f"at most {n:,} calls" if left else "nothing to ask"
        yield f"explain: {' and '.join(parts)}{before}, {calls}"

    def choice(bench: Prepared, run: Run) -> Mapping[str, Any]:
        own = [str(one.spec["trial"]) for one in works(bench, run)]
        return {"settings": settings.as_json(), "trials": own} if own else {}

    return Stage(
        name="explain",
        works=works,
        purposes=frozenset({Purpose.EXPLAIN}),
        most=lambda _, work: 2 * work.settings.evaluations,
        words=words,
        choice=choice,
    )


def last_edits(reader: RunReader, trials: Iterable[Trial]) -> dict[str, str]:
    """Return trial id -> edits, as JSON: of the first success, else of the last query asked."""
    edits_of: dict[str, str] = {}
    others: dict[int, str] = {}
    for trial in trials:
        if trial.first is not None:
            edits_of[trial.id] = edits_text(trial.first.edits)
        else:
            others[trial.number] = trial.id
    if others:
        probes = reader.probes()
        for number, query, edits in reader.attack_edits():
            if number in others and (number, query) not in probes:
                edits_of[others[number]] = edits
    return edits_of
