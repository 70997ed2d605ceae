"""The sentences below a table or figure: what was counted, and what it cannot show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medstress.metrics.clean_answers import CleanAnswers
from medstress.papers import published
from medstress.papers.arms import Arm, Place, baseline, in_places
from medstress.papers.exponents import EXPONENT, LEARNING_RATE, SHARE
from medstress.papers.rates import Rates
from medstress.results.formats import decimal
from medstress.results.root import root_sentences

INTERVALS = "Intervals: 95 %, Wilson; at the effective sample size if seeds repeat the items."
INTERVALS_OF_CELLS = "Intervals: 95 %, Wilson, at the effective sample size because items repeat."
OPTIMISTIC = (
    "n is the maximum over the grid on the same items that are reported, as in the paper: "
    "optimistic."
)
TUNED = (
    f"n was chosen on {100 * SHARE:.0f} % of the items (drawn by a hash of the item), and the "
    "whole line is measured on the others."
)
GIVEN = "n was given, not chosen."
OF_RATE = {
    "tuned": f"DiscreteZOO's learning rate λ was chosen on the {100 * SHARE:.0f} % of the items on "
    "which n is, and the whole line is measured on the others.",
    "same items": "DiscreteZOO's learning rate λ is the best of its grid on the same items that "
    "are reported: optimistic.",
    "given": "DiscreteZOO's learning rate λ was given, not tuned.",
}
PUBLISHED = (
    "Lines and marks labelled published are from {source}, which prints no intervals, seeds or "
    "numbers of items; its items, prompts and decoding may differ from ours."
)


def rate_notes(rates: Sequence[Rates], summary: Mapping[str, Any], source: str | None) -> list[str]:
    """Return the sentences below a table of rates.

    Args:
        rates: lines of the table.
        summary: summary of the run.
        source: reference of the published numbers; None if none are shown.
    """
    marked = {(r.place.dataset, r.place.entity): r for r in rates}
    counted = ", ".join(
        f"{dataset} {entity} {_range([r.n_items for r in rates if _is(r.place, dataset, entity)])}"
        for dataset, entity in marked
    )
    sentences = [
        f"Items: {counted}.",
        seeds_note({seed for r in rates for seed in r.seeds}),
        INTERVALS,
        *choice_notes(rates),
        *chance_notes(((r.place, r.baseline) for r in rates), mark="† "),
        *state_notes(summary),
    ]
    if source:
        sentences.append(PUBLISHED.format(source=source))
    return sentences


def published_prompts(rates: Iterable[Rates], source: str) -> list[str]:
    """Name the published lines whose victim was asked with another prompt than ours.

    Args:
        rates: our lines beside the published ones.
        source: `xian2025` or `xian2024`.
    """
    named: dict[str, None] = {}
    for r in rates:
        prompts = other_prompt(r)
        if prompts and published.find(source, r.place.victim, r.source, r.place.entity):
            named[f"{r.place.victim.label} on {r.place.dataset} ({prompts})"] = None
    if not named:
        return []
    return [f"Published beside another prompt than ours: {', '.join(named)}."]


def other_prompt(rates: Rates) -> str:
    """Return both prompts if the papers' differs from ours, else an empty string."""
    ours = rates.place.prompt
    theirs = published.other_prompt(rates.source, ours)
    return f"prompt {theirs}, ours {ours}" if theirs else ""


def arm_notes(arms: Sequence[Arm], summary: Mapping[str, Any]) -> list[str]:
    """Return the sentences below a figure of arms."""
    places = in_places(arms)
    clean = {place: baseline(members) for place, members in places.items()}
    counts = [b.accuracy.n for b in clean.values()]
    right = [round((b.accuracy.value or 0) * b.accuracy.n) for b in clean.values()]
    seeds = {seed for arm in arms for seed in arm.row["seeds"] if seed is not None}
    return [
        f"Items: {_range(counts)} answered, {_range(right)} right at baseline and so attacked.",
        seeds_note(seeds),
        INTERVALS,
        *chance_notes(clean.items()),
        *state_notes(summary),
    ]


def cell_notes(arms: Sequence[Arm], summary: Mapping[str, Any]) -> list[str]:
    """Return the sentences below a figure whose shares count an item more than once."""
    return [INTERVALS_OF_CELLS if note == INTERVALS else note for note in arm_notes(arms, summary)]


def choice_notes(rates: Iterable[Rates]) -> list[str]:
    """Say how n and DiscreteZOO's learning rate were chosen."""
    choices = [choice for r in rates for choice in r.choices.values()]
    rules = {choice.rule for choice in choices if choice.key == EXPONENT}
    of_exponent = {"tuned": TUNED, "same items": OPTIMISTIC, "given": GIVEN}
    if len(rules) > 1:
        rules.discard("given")
    rate_rules = {choice.rule for choice in choices if choice.key == LEARNING_RATE}
    return [
        *(of_exponent[rule] for rule in sorted(rules)),
        *(OF_RATE[rule] for rule in sorted(rate_rules)),
    ]


def chance_notes(places: Iterable[tuple[Place, CleanAnswers]], mark: str = "") -> list[str]:
    """Name the victims that guess, marked by `mark`, and those whose answers cannot be read."""
    guessing: dict[str, None] = {}
    unread: dict[str, None] = {}
    for place, clean in places:
        where = f"{place.victim.label} on {place.dataset} {place.entity}"
        if clean.guesses:
            level = "" if clean.chance is None else f", chance {decimal(clean.chance)}"
            guessing[f"{where}{level}"] = None
        if clean.unreadable_note:
            unread[f"{where} is {clean.unreadable_note}."] = None
    names = "; ".join(guessing)
    notes = [f"{mark}Not above chance: {names}. There success cannot be told from guessing."]
    return [*(notes if guessing else ()), *unread]


def state_notes(summary: Mapping[str, Any]) -> list[str]:
    """Return a warning if the run is not complete, and its root if it is."""
    roots = root_sentences(summary)
    if summary["experiment"].get("complete") is False:
        return ["The run is not complete: accuracy is biased low until it is.", *roots]
    return roots


def seeds_note(seeds: Iterable[int]) -> str:
    """Name the seeds that random draws are pooled over.

    >>> seeds_note([0, 1]), seeds_note([])
    ('Random draws are pooled over seeds 0, 1.', 'Nothing was drawn at random.')
    """
    known = sorted(seeds)
    if not known:
        return "Nothing was drawn at random."
    if len(known) == 1:
        return f"Random draws with seed {known[0]} alone."
    return f"Random draws are pooled over seeds {', '.join(map(str, known))}."


def _is(place: Place, dataset: str, entity: str) -> bool:
    return (place.dataset, place.entity) == (dataset, entity)


def _range(numbers: Iterable[int]) -> str:
    known = sorted(numbers)
    if not known:
        return "0"
    return f"{known[0]:,}" if known[0] == known[-1] else f"{known[0]:,} to {known[-1]:,}"
