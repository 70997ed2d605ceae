"""The stages that test the successes of MedFuzz and ask what its reasonings say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.analyses.families import settings_key
from medstress.analyses.run import Run
from medstress.analyses.significance import PURPOSE
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.core.errors import UsageError
from medstress.core.trials import Trial
from medstress.engine.inquiry import Study
from medstress.engine.work import Purpose
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.sentence_groups import free_group
from medstress.experiment.significance.bounds import bound_of
from medstress.experiment.significance.mentions import mention_studies
from medstress.experiment.significance.plan import Tools, outlook, studies
from medstress.experiment.significance.settings import (
    Settings,
    scope_of,
    settings_of,
    with_refusal,
    with_scope,
)
from medstress.experiment.stages import Stage
from medstress.store.reader import RunReader

_HASH = "blake2b-128:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which successes are tested; all by default."""

    items: tuple[str, ...] = ()
    """Item identifiers; empty selects no items."""
    trial: str | None = None
    """One trial, by its identifier or an unambiguous beginning of it."""


def _reasonings(bench: Prepared, run: Run) -> list[Study]:
    table = bench.experiment.test
    wanted = table is not None and table.faithfulness
    return mention_studies(_attacked(run), tools_of(bench)) if wanted else []


def _judged(bench: Prepared, run: Run) -> Iterator[str]:
    if n := len(_reasonings(bench, run)):
        yield f"faithfulness: the judge is asked about the reasonings of {n} trials"


FAITHFULNESS = Stage(
    name="faithfulness",
    works=_reasonings,
    words=_judged,
    purposes=frozenset({Purpose.JUDGE}),
    is_whole=True,
)
"""Judges are asked whether a reasoning names the insertion."""


def significance(selection: Selection | None = None) -> Stage:
    """Return the stage that tests successes.

    Args:
        selection: those that a user names, which must be there. None: those of the experiment's
            `[test]`; where its family cannot be tested, the stage says why, keeps that in the
            manifest and asks nothing.
    """

    def successes(bench: Prepared, run: Run) -> list[Trial]:
        try:
            return chosen(bench, run, selection or Selection())
        except UsageError:
            if selection is not None:
                raise
            return []

    def works(bench: Prepared, run: Run) -> list[Study]:
        return studies(successes(bench, run), _attacked(run), tools_of(bench), _settings(bench))

    def words(bench: Prepared, run: Run) -> Iterator[str]:
        if why := _refusal(bench, run, selection):
            yield why
            return
        ours = [trial for trial in _attacked(run) if tools_of(bench).tests(trial)]
        if refused := [trial.item.id for trial in ours if trial.is_refused]:
            named = ", ".join(refused)
            yield f"significance: left out because experts find them not valid: {named}"
        own = successes(bench, run)
        if not own:
            yield f"significance: {no_success(run, is_asked=selection is not None)}"
            return
        key = settings_key(_settings(bench).as_json())
        tested = (one for one in run.folder.inquiries if one.purpose == PURPOSE and one.findings)
        ended = set(run.folder.read(RunReader.trials_of_analyses))
        planned = zip(own, works(bench, run), strict=True)
        yield from outlook(
            _attacked(run),
            own,
            tools_of(bench),
            _settings(bench),
            scope_of(_settings(bench), run.manifest),
            {one.spec["trial"] for one in tested if settings_key(one.spec) == key},
            {trial.id for trial, study in planned if study.id in ended},
        )

    def entries(bench: Prepared, run: Run) -> Mapping[str, Any]:
        settings = _settings(bench)
        if why := _refusal(bench, run, selection):
            return with_refusal(run.manifest, settings, why)
        if not successes(bench, run):
            return {}
        return with_scope(run.manifest, settings, scope_of(settings, run.manifest))

    def most(bench: Prepared, study: Study) -> int:
        attack = tools_of(bench).attacks[study.attack_label]
        return bound_of(attack.attempts, _settings(bench)).n_conversations

    def choice(bench: Prepared, run: Run) -> Mapping[str, Any]:
        trials = [trial.id for trial in successes(bench, run)]
        return {"settings": _settings(bench).as_json(), "trials": trials} if trials else {}

    return Stage(
        name="significance",
        works=works,
        purposes=frozenset({Purpose.TEST}),
        most=most,
        words=words,
        entries=entries,
        choice=choice,
    )


def chosen(bench: Prepared, run: Run, selection: Selection) -> list[Trial]:
    """Return the selected successes; by default those of the family, in the order of the run.

    Raises:
        UsageError: the selection cannot be tested.
    """
    tools = tools_of(bench)
    successes = [one for one in _attacked(run) if tools.tests(one) and not one.is_refused]
    if selection == Selection():
        scope = scope_of(_settings(bench), run.manifest)
        return [trial for trial in successes if scope.holds(trial)]
    if selection.trial is not None:
        return [_named(selection.trial, successes, run.trials)]
    tested = {trial.item.id for trial in successes}
    for name in selection.items:
        if name not in tested:
            others = f" (items with one: {', '.join(sorted(tested)[:8])})" if tested else ""
            refused = any(trial.item.id == name and trial.is_refused for trial in run.trials)
            kind = "success that experts find valid" if refused else "success of medfuzz"
            raise UsageError(f"--item {name}: no {kind} on this item{others}")
    return [trial for trial in successes if trial.item.id in selection.items]


def no_success(run: Run, *, is_asked: bool = True) -> str:
    """Say why there is nothing to test.

    Args:
        run: the run.
        is_asked: whether a user asks; the end of a run comes before it is called complete.
    """
    if run.is_complete or not is_asked:
        return "there is no success to test"
    return (
        "there is no success to test yet, and the run is not complete: repeat the command that "
        "began it, with a higher limit if a limit stopped it"
    )


def tools_of(bench: Prepared) -> Tools:
    """Return the parts of an experiment that tests need."""
    free = free_group(bench.attacks)
    attacks = {part.label: part.attack for part in bench.attacks}
    return Tools(
        victims={victim.label: victim for victim in bench.victims},
        attacks={label: one for label, one in attacks.items() if isinstance(one, MedFuzz)},
        roles={part.name: part.decoding for part in bench.roles},
        items={(part.label, item.id): item for part in bench.datasets for item in part.questions},
        names_in=free[0].resources.names_in if free else None,
    )


def _settings(bench: Prepared) -> Settings:
    assert bench.experiment.test is not None
    return settings_of(bench.experiment.test)


def _attacked(run: Run) -> Sequence[Trial]:
    return [trial for trial in run.trials if not trial.arm.is_control]


def _refusal(bench: Prepared, run: Run, selection: Selection | None) -> str | None:
    """Return why the experiment's family cannot be tested, if so."""
    if selection is None:
        try:
            chosen(bench, run, Selection())
        except UsageError as error:
            return str(error)
    return None


def _named(name: str, successes: Sequence[Trial], trials: Sequence[Trial]) -> Trial:
    """Return the success with this id, or the beginning of one."""
    start = name.removeprefix(_HASH)
    matching = [trial for trial in trials if trial.id.removeprefix(_HASH).startswith(start)]
    if len(matching) != 1:
        n = f"{len(matching)} trials have an" if matching else "no trial has this"
        problem = f"{n} id that begins so" if matching else f"{n} id"
        raise UsageError(
            f"--trial {name}: {problem}; list the ids (column trial_id) with: "
            "medstress export DIR --table trials --to trials.csv"
        )
    if matching[0].is_refused:
        raise UsageError(
            f"--trial {name}: experts find that the key no longer holds after this success "
            "(medstress review); only valid successes are tested"
        )
    if matching[0] not in successes:
        raise UsageError(
            f"--trial {name}: it ended as {matching[0].verdict.value!r}; only successes of medfuzz "
            "are tested"
        )
    return matching[0]
