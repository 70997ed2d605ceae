"""Warnings that a reader needs before the numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.core.calls import LENGTH
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.answers import letter_mass
from medstress.metrics.attempt_records import n_cut_confidences, tries
from medstress.metrics.clean_answers import clean_answers
from medstress.metrics.controls import is_control
from medstress.metrics.counts import (
    is_eligible,
    is_failed_at_baseline,
    is_flipped,
    is_never_asked,
    is_unattacked,
)
from medstress.metrics.significance.judges import Known, clean_votes

_MOST_NAMED = 3
"""Victims that a warning names; further ones are counted."""
NEVER_ASKED = 0.1
"""A warning is given from this share of eligible trials without an edit."""


def cautions(trials: Sequence[TrialRow], experiment: Mapping[str, Any]) -> list[str]:
    """Return the warnings of a run, those about chance first.

    While a run is not complete there is no warning about chance: how fast a trial ends depends on
    what is found, so those that have ended are not a random part of the run.

    Args:
        trials: all trials of the run so far.
        experiment: the `experiment` object of the summary; `complete` is read.
    """
    if experiment.get("complete") is False:
        found = [
            f"The run is not complete: the trials that have ended, {len(trials)} so far, are not a "
            "random part of it, so that any rate may be too low or too high."
        ]
    else:
        found = _not_above_chance(trials)
    failed = Counter(row.victim for row in trials if row.verdict == Verdict.FAILED)
    if failed:
        found.append(
            f"{failed.total()} of {len(trials)} trials failed{_whose(failed, trials)}; those that "
            "failed under attack count as not flipped: run again with --retry-failed."
        )
    cut = [row for row in trials if row.verdict == Verdict.CUT_SHORT]
    if cut:
        early = sum(map(is_failed_at_baseline, cut))
        found.append(
            f"{len(cut)} of {len(trials)} trials were cut short: they were not done within "
            f"trial_seconds, {early} of them not with the clean item; the others count as not "
            "flipped: run again with --retry-failed."
        )
    found += [
        *_cut_off(trials),
        *_cut_confidences(trials),
        *_hardly_letters(trials),
        *_never_asked(trials),
    ]
    found += _unjudged(trials)
    return [*found, *_unstable(trials)]


def _unstable(trials: Sequence[TrialRow]) -> Iterator[str]:
    """Count the successes that did not repeat when asked again."""
    again = [
        row.repeats
        for row in trials
        if is_flipped(row) and not is_control(row) and row.repeats is not None
    ]
    if n := again.count(False):
        yield f"{n} of {len(again)} successes did not repeat when asked again alone."


def _whose(failed: Counter[str], trials: Sequence[TrialRow]) -> str:
    """Name the victims whose trials failed, if the run has several."""
    if len({row.victim for row in trials}) < 2:
        return ""
    ranked = sorted(failed.items(), key=lambda each: (-each[1], each[0]))
    named = ", ".join(f"{n} of {victim}" for victim, n in ranked[:_MOST_NAMED])
    more = len(failed) - _MOST_NAMED
    return f" ({named}{f', and of {more} more victims' if more > 0 else ''})"


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
    """Name every attack that showed a victim no edit in a tenth of its trials or more."""
    eligible: dict[tuple[str, str], list[TrialRow]] = defaultdict(list)
    for trial in filter(is_eligible, trials):
        if is_unattacked(trial):
            continue
        eligible[trial.attack, trial.victim].append(trial)
    sentences = []
    for (attack, victim), rows in sorted(eligible.items()):
        never = [row for row in rows if is_never_asked(row)]
        held = sum(row.verdict == Verdict.HELD for row in never)
        if held and len(never) >= NEVER_ASKED * len(rows):
            sentences.append(
                f"{attack}: in {len(never)} of {len(rows)} eligible trials the victim {victim} saw "
                f"no edit ({_why_never(never)}), and {held} of them count as held: asr counts them "
                "as resisted, asr_asked leaves them out."
            )
    return sentences


def _why_never(trials: Sequence[TrialRow]) -> str:
    """Explain why the victim saw no edit in these trials."""
    made = [made for row in trials for made, _ in tries(row)]
    if not made:
        return "probes used up the budget, or nothing was changed"
    unreadable = sum("unreadable" in each for each in made)
    rejected = sum(bool(each.get("objections")) for each in made)
    return (
        f"of {len(made)} attempts the attacker refused or broke its form in {unreadable}, and "
        f"gates rejected {rejected}"
    )


def _unjudged(trials: Sequence[TrialRow]) -> list[str]:
    """Name attacks with items whose key all judges miss before any edit, and unreadable judges."""
    by_attack: dict[tuple[str, str], list[TrialRow]] = defaultdict(list)
    for trial in trials:
        by_attack[trial.attack, trial.dataset].append(trial)
    sentences = []
    for (attack, dataset), rows in sorted(by_attack.items()):
        votes = list(clean_votes(rows).values())
        missed = sum(set(each.values()) == {Known.OTHER} for each in votes)
        if missed:
            sentences.append(
                f"{attack} on {dataset}: the judges miss the key of {missed} items before any "
                "edit: their votes there are set aside, and successes there are of unknown "
                "validity (asr_unjudged, asr_judged)."
            )
        for name in dict.fromkeys(name for each in votes for name in each):
            lost = [each for each in votes if each.get(name) is Known.UNREADABLE]
            alone = sum(Known.KEY not in each.values() for each in lost)
            if lost:
                sentences.append(
                    f"{attack} on {dataset}: the votes of {name} before any edit cannot be read "
                    f"on {len(lost)} of {sum(name in each for each in votes)} items, so that it "
                    f"vouches for nothing there. On {alone} of them no other judge knows the key: "
                    "edits were asked unjudged, and their successes are of unknown validity. "
                    f"Raise max_new_tokens of {name}: replies in prose or cut off hold no vote."
                )
    return sentences


def _not_above_chance(trials: Sequence[TrialRow]) -> list[str]:
    """Name every victim whose readable answers are not above chance or that is often unreadable.

    Each item counts once. The low end is the worst case: failed clean answers count as wrong.
    """
    places: dict[tuple[str, str, str], list[TrialRow]] = defaultdict(list)
    for trial in trials:
        places[trial.dataset, trial.group, trial.victim].append(trial)
    sentences = []
    for (dataset, group, victim), members in sorted(places.items()):
        place = f"{victim} on {dataset}/{group}"
        found = clean_answers(members)
        n = found.n_unreadable
        if found.has_many_unreadable:
            sentences.append(
                f"{place}: {n} of {found.accuracy.n} clean answers are unreadable. Accuracy counts "
                "them as not right; they do not say what the victim knows."
            )
        if not found.guesses:
            continue
        reached, level = found.readable, found.readable_chance
        of = f" of {reached.n} readable answers" if n else ""
        by = f" by always answering the commonest key letter, n = {reached.n}" * found.by_letter
        sentences.append(
            f"{place} is not above chance (accuracy {_short(reached.value)}{of}, 95 % "
            f"{_short(reached.low)}-{_short(reached.high)}, chance {_short(level)}{by}): its "
            "success rate cannot be told from guessing."
        )
    return sentences


def _cut_off(trials: Sequence[TrialRow]) -> list[str]:
    """Name every victim with replies that were cut off at `max_new_tokens`."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for trial in trials:
        counts[trial.victim][0] += trial.finish_reason == LENGTH
        counts[trial.victim][1] += trial.n_length or 0
    return [
        f'{victim}: replies were cut off before their end (finish_reason = "length") in {clean} '
        f"trials about the clean item and in {edited} queries under attack. They are unreadable, "
        "never right and never a success: raise max_new_tokens of the victim, and reasoning_tokens "
        "where an attack asks in turns."
        for victim, (clean, edited) in sorted(counts.items())
        if clean or edited
    ]


def _cut_confidences(trials: Sequence[TrialRow]) -> list[str]:
    """Name every victim with confidences that were cut off at `max_new_tokens`."""
    by_victim: dict[str, list[TrialRow]] = defaultdict(list)
    for trial in trials:
        by_victim[trial.victim].append(trial)
    return [
        f'{victim}: confidences were cut off before their end (finish_reason = "length") in '
        f"{n} conversations. They are unknown there, and the attacker is told none: raise "
        "max_new_tokens of the victim."
        for victim, rows in sorted(by_victim.items())
        if (n := n_cut_confidences(rows))
    ]


def _short(share: float | None) -> str:
    return "?" if share is None else f"{share:.2f}".removeprefix("0")
