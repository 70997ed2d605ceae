"""Sentences that a reader needs before the numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from medstress.metrics.accuracies import accuracy
from medstress.metrics.answers import letter_mass
from medstress.metrics.bounds import accuracy_bounds
from medstress.metrics.chance import chance_of
from medstress.metrics.counts import (
    clean_items,
    first_of_each_item,
    is_answered,
    is_failed_at_baseline,
    is_flipped,
    is_never_asked,
)
from medstress.outcomes import Verdict
from medstress.rows import TrialRow


def cautions(trials: Sequence[TrialRow], experiment: Mapping[str, Any]) -> list[str]:
    """Return the warnings of a run, those about chance first.

    While a run is not complete nothing is said about chance: trials that end early, at the
    baseline, finish first, so that accuracy leans low until the end.

    Args:
        trials: all trials of the run so far.
        experiment: the `experiment` object of the summary; `complete` is read.
    """
    if experiment.get("complete") is False:
        found = [
            f"The run is not complete: these are the first {len(trials)} trials. Those that are "
            "wrong at baseline finish first, so accuracy leans low until the end."
        ]
    else:
        found = _not_above_chance(trials)
    failed = sum(row.verdict == Verdict.FAILED for row in trials)
    if failed:
        found.append(
            f"{failed} of {len(trials)} trials failed; those that failed under attack count as "
            "not flipped: run again with --retry-failed."
        )
    cut = [row for row in trials if row.verdict == Verdict.CUT_SHORT]
    if cut:
        early = sum(map(is_failed_at_baseline, cut))
        found.append(
            f"{len(cut)} of {len(trials)} trials were cut short: they were not done within "
            f"trial_seconds, {early} of them not with the clean item; the others count as not "
            "flipped: run again with --retry-failed."
        )
    found += [*_hardly_letters(trials), *_never_asked(trials)]
    unstable = sum(is_flipped(row) and row.repeats is False for row in trials)
    if unstable:
        checked = sum(is_flipped(row) and row.repeats is not None for row in trials)
        found.append(f"{unstable} of {checked} successes did not repeat when asked again alone.")
    return found


def _hardly_letters(trials: Sequence[TrialRow]) -> list[str]:
    """Name every victim that puts less than half of its probability on option letters."""
    places: dict[str, dict[str, list[TrialRow]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        places[trial.victim][f"{trial.dataset}/{trial.group}"].append(trial)
    sentences = []
    for victim, by_place in sorted(places.items()):
        means = [(place, letter_mass(rows).value) for place, rows in sorted(by_place.items())]
        low = [f"{_short(mean)} on {at}" for at, mean in means if mean is not None and mean < 0.5]
        if low:
            sentences.append(
                f"{victim} gives all option letters together only {', '.join(low)} of its "
                "probability (letter_mass): its answers are read from what it hardly considers "
                "saying. Another prompt (chat), or answer_by = text or generate, may ask it better."
            )
    return sentences


def _never_asked(trials: Sequence[TrialRow]) -> list[str]:
    """Name every attack under which victims saw no edit on items that count as held."""
    held: dict[str, list[bool]] = defaultdict(list)
    for trial in trials:
        if trial.verdict == Verdict.HELD:
            held[trial.attack].append(is_never_asked(trial))
    return [
        f"{attack}: in {sum(never)} of {len(never)} trials that count as held the victim saw no "
        "edit (probes used up the budget, or every edit was rejected before it was asked): asr "
        "counts them as resisted, asr_asked leaves them out."
        for attack, never in sorted(held.items())
        if any(never)
    ]


def _not_above_chance(trials: Sequence[TrialRow]) -> list[str]:
    """Name every victim whose accuracy's low end is not above chance, each item once.

    The low end is that at worst: items whose clean answer failed count as wrong.
    """
    places: dict[tuple[str, str, str], list[TrialRow]] = defaultdict(list)
    for trial in trials:
        places[trial.dataset, trial.group, trial.victim].append(trial)
    sentences = []
    for (dataset, group, victim), members in sorted(places.items()):
        (low, _) = accuracy_bounds(clean_items(members))
        items = first_of_each_item(filter(is_answered, members))
        reached, level = accuracy(items), chance_of(items)
        if low is None or level is None or low > level:
            continue
        sentences.append(
            f"{victim} on {dataset}/{group} is not above chance "
            f"(accuracy {_short(reached.value)}, 95 % {_short(reached.low)}-"
            f"{_short(reached.high)}, chance {_short(level)}): its success rate cannot be told "
            "from guessing."
        )
    return sentences


def _short(share: float | None) -> str:
    return "?" if share is None else f"{share:.2f}".removeprefix("0")
