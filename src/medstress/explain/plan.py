"""Choose the trials that are explained, and plan the work."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.errors import UsageError
from medstress.core.hashing import digest
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.experiment.plan.conversations import victim_of
from medstress.experiment.plan.plan import Prepared
from medstress.explain.explanation import Explanation, Settings
from medstress.metrics.counts import is_flipped, is_refused
from medstress.report.cases.building import Cases
from medstress.report.cases.finding import find_trial
from medstress.results.names import Names
from medstress.store.codec import decode_edits
from medstress.tasks.victim import Victim
from medstress.tasks.wrappers import ShuffledOptions, Wrapper

ATTACK = "attack"
"""The arm of trials that are no controls."""
_ENDED = (Verdict.FLIPPED, Verdict.HELD, Verdict.MEASURED)


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


def choose(
    rows: Sequence[TrialRow], selection: Selection, names: Names | None = None
) -> list[TrialRow]:
    """Return the selected trials, in the order of the run.

    Successes are drawn by a hash of seed and trial, so a larger limit adds to a smaller one. For
    every success of an arm, one attack of the arm that failed is drawn as a control, if it has
    as many.

    Args:
        rows: all rows of the run.
        selection: which of them.
        names: what people call the parts of the run, for messages.

    Raises:
        UsageError: a trial is unknown, several fit, or one has nothing to explain, or there is no
            success.
    """
    if selection.trials:
        cases = Cases(rows, names or Names())
        named = {_named(cases, given).trial_id for given in selection.trials}
        return [row for row in rows if row.trial_id in named]
    successes = [
        row for row in rows if row.arm == ATTACK and is_flipped(row) and not is_refused(row)
    ]
    if not successes:
        raise UsageError(
            "there is no success to explain: no attack of this run changed an answer (or experts "
            "find that the key no longer holds); failed attacks are explained with --trial ID"
        )
    drawn = _drawn(successes, selection.seed)[: selection.limit]
    wanted = Counter(map(_arm, drawn))
    for row in _drawn([row for row in rows if row.verdict is Verdict.HELD], selection.seed):
        if row.n_asked > row.n_probes and wanted[_arm(row)] > 0:
            wanted[_arm(row)] -= 1
            drawn.append(row)
    chosen = {row.trial_id for row in drawn}
    return [row for row in rows if row.trial_id in chosen]


def _named(cases: Cases, given: str) -> TrialRow:
    row = find_trial(cases, given, "--trial")
    if row.verdict not in _ENDED or row.n_asked <= row.n_probes:
        raise UsageError(
            f"--trial {given}: it ended as {row.verdict.value!r}, so there is no edited prompt to "
            "explain; name a trial that was flipped or held"
        )
    return row


def _drawn(rows: Iterable[TrialRow], seed: int) -> list[TrialRow]:
    return sorted(rows, key=lambda row: digest(["explain", seed, row.trial_id]))


def _arm(row: TrialRow) -> tuple[str, str, str, str]:
    return (row.dataset, row.group, row.victim, row.attack)


def explanations(
    chosen: Iterable[TrialRow],
    edits: Mapping[str, str],
    prepared: Prepared,
    settings: Settings,
) -> list[Explanation]:
    """Return the work for these trials; the same in every process.

    Raises:
        UsageError: a victim or attack is not in the experiment, or has no one prompt.
    """
    victims = {victim.label: victim for victim in prepared.victims}
    attacks = {part.label: part for part in prepared.attacks}
    items = {(part.label, item.id): item for part in prepared.datasets for item in part.questions}
    found = []
    for row in chosen:
        for name, known in ((row.victim, victims), (row.attack, attacks)):
            if name not in known:
                raise UsageError(
                    f"trial {row.trial_id} is of {name!r}, which the experiment does not name "
                    f"(it names: {', '.join(known)}); give --experiment the file of this run"
                )
        part, item = attacks[row.attack], items.get((row.dataset, row.item_id))
        if item is None:
            raise UsageError(
                f"trial {row.trial_id} is about item {row.item_id!r}, which the data of the "
                "experiment do not hold; give --experiment the file of this run"
            )
        victim = victims[row.victim].on(row.dataset)
        if part.traits.in_turns:
            victim = victim_of(victim, part.attack, row.dataset, item, row.seed, row.repeat)
        _check_prompt(victim)
        is_success = is_flipped(row)
        found.append(
            Explanation(
                dataset=row.dataset,
                group=row.group,
                victim=victim,
                attack_label=row.attack,
                attack_spec=json.loads(row.attack_spec),
                seed=row.seed,
                item=item.of_unit(row.unit),
                edits=decode_edits(edits[row.trial_id]),
                wrong=row.first_success_answer or row.answer_after if is_success else None,
                settings=settings,
                spec={
                    "trial": row.trial_id,
                    "verdict": row.verdict.value,
                    "edits": edits[row.trial_id],
                    **settings.as_json(),
                },
            )
        )
    return found


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


def most_calls(work: Sequence[Explanation]) -> int:
    """Return the most calls that explanations make."""
    return sum(2 * one.settings.evaluations * _calls_a_text(one) for one in work)


def _calls_a_text(work: Explanation) -> int:
    count = getattr(work.victim.task, "n_calls", None)
    return int(count(len(getattr(work.item, "options", ())) or 2)) if count else 1
