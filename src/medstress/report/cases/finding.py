"""Find one case of a run by what a reader has of its id."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from medstress.core.errors import UsageError
from medstress.core.rows import TrialRow
from medstress.report.cases.building import Cases
from medstress.report.cases.choosing import is_success
from medstress.report.cases.words import verdict_words
from medstress.results.formats import shorten

_SHOWN = 5


def find_trial(
    cases: Cases, asked: str, what: str = "case", folder: str | Path = "DIR"
) -> TrialRow:
    """Return the trial with this trial id, short id, unique beginning of one, or item id.

    An item's id means its attack where it has one, whatever controls stand beside.

    Args:
        cases: the cases of the run.
        asked: what a reader has of the id.
        what: names it in messages.
        folder: of the run, for the command in messages.

    Raises:
        UsageError: none or several fit; the message lists up to five candidates.
    """
    more = f"{shlex.join(['medstress', 'export', str(folder)])} --to trials.csv lists all trials "
    more += "with their ids"
    if not asked:
        raise UsageError(
            f"{what} '': expected a trial id, its beginning, or an item id; got an empty text. "
            f"{more}"
        )
    ids = cases.ids
    for trial in cases.trials:
        if asked in (trial.trial_id, ids[trial.trial_id]):
            return trial
    fitting = [trial for trial in cases.trials if trial.item_id == asked]
    attacks = [trial for trial in fitting if trial.arm == "attack"]
    if len(attacks) == 1:
        return attacks[0]
    how = "is the item of"
    if not fitting:
        how = "begins the ids of"
        fitting = [
            trial
            for trial in cases.trials
            if trial.trial_id.startswith(asked) or _bare(trial.trial_id).startswith(asked)
        ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UsageError(
            f"{what} {shorten(asked, 60)!r} {how} {len(fitting):,} trials of this run; give one of "
            f"{_told(cases, sorted(fitting, key=_first))}. {more}"
        )
    raise UsageError(_unknown(cases, asked, what))


def others_of_item(cases: Cases, found: TrialRow, asked: str) -> str:
    """Return the item's other trials in words, where its id was asked for; else an empty text."""
    others = [trial for trial in cases.trials if trial.item_id == asked and trial is not found]
    return f"Also of this item: {_told(cases, others)}." if others else ""


def _bare(trial_id: str) -> str:
    return trial_id.rpartition(":")[2]


def _first(trial: TrialRow) -> tuple[bool, str]:
    return (not is_success(trial), trial.trial_id)


def _unknown(cases: Cases, asked: str, what: str) -> str:
    head = f"{what} {shorten(asked, 60)!r}: this run has no such trial or item"
    if not cases.trials:
        return f"{head}, for no trial has ended yet"
    by_word = {cases.ids[trial.trial_id]: trial for trial in cases.trials}
    near = get_close_matches(asked, by_word, _SHOWN)
    items = {trial.item_id: trial for trial in sorted(cases.trials, key=_first, reverse=True)}
    close = [by_word[each] for each in near]
    close += [items[each] for each in get_close_matches(asked, items, _SHOWN)]
    if close:
        return f"{head}; near it are {_told(cases, close[:_SHOWN])}"
    return f"{head}; it has, for example, {_told(cases, sorted(cases.trials, key=_first))}"


def _told(cases: Cases, trials: Sequence[TrialRow]) -> str:
    shown = [f"{cases.ids[trial.trial_id]} ({_place(cases, trial)})" for trial in trials[:_SHOWN]]
    more = len(trials) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _place(cases: Cases, trial: TrialRow) -> str:
    """Say what tells a trial from others of its item: attack, group, seed, victim, outcome."""
    attack, group, victim = (
        shorten(cases.names.of(factor, getattr(trial, factor)), 40)
        for factor in ("attack", "group", "victim")
    )
    seed = "" if trial.seed is None else f", seed {trial.seed}"
    return (
        f"{attack} on {group} of {victim}{seed}, item {shorten(trial.item_id, 40)}, "
        f"{verdict_words(trial.verdict.value)}"
    )
