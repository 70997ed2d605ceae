"""The sentences that belong below a table or figure: what was counted, and what it can't say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medstress.metrics.clean_answers import CleanAnswers
from medstress.report.paper import published
from medstress.report.paper.arms import Arm, Place, baseline, in_places
from medstress.report.paper.exponents import EXPONENT, LEARNING_RATE, SHARE
from medstress.report.paper.rates import Rates
from medstress.results.formats import decimal

INTERVALS = "Intervals: 95 %, Wilson's; where seeds repeat the items, at the effective sample size."
INTERVALS_OF_CELLS = "Intervals: 95 %, Wilson's at the effective sample size, as items repeat."
OPTIMISTIC = (
    "n is the maximum over the grid on the same items that are reported, as in the paper: "
    "optimistic."
)
TUNED = (
    f"n was chosen on {100 * SHARE:.0f} % of the items (drawn by a hash of the item), and the "
    "whole line is about the others."
)
GIVEN = "n was given, not chosen."
OF_RATE = {
    "tuned": f"DiscreteZOO's learning rate λ was chosen on the {100 * SHARE:.0f} % of the items on "
    "which n is, and the whole line is about the others.",
    "same items": "DiscreteZOO's learning rate λ is the best of its grid on the same items that "
    "are reported: optimistic.",
    "given": "DiscreteZOO's learning rate λ was given, not tuned.",
}
PUBLISHED = (
    "Lines and marks called published repeat {source}; no intervals, seeds or numbers of items are "
    "printed there, and items, prompts and decoding may differ from ours."
)


def of_rates(rates: Sequence[Rates], summary: Mapping[str, Any], source: str | None) -> list[str]:
    """Sentences below a table of rates.

    Args:
        rates: its lines.
        summary: of the run.
        source: the reference of published numbers, where some are shown.
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
        *state(summary),
    ]
    if source:
        sentences.append(PUBLISHED.format(source=source))
    return sentences


def published_prompts(rates: Iterable[Rates], source: str) -> list[str]:
    """Name the published lines whose victim was asked with another prompt than ours.

    Args:
        rates: what stands beside them.
        source: `xian2025` or `xian2024`.
    """
    named: dict[str, None] = {}
    for r in rates:
        said = other_prompt(r)
        if said and published.find(source, r.place.victim, r.source, r.place.entity):
            named[f"{r.place.victim.label} on {r.place.dataset} ({said})"] = None
    if not named:
        return []
    return [f"Published beside another prompt than ours: {', '.join(named)}."]


def other_prompt(rates: Rates) -> str:
    """Both prompts where the papers' is another than ours; else empty."""
    ours = rates.place.prompt
    theirs = published.other_prompt(rates.source, ours)
    return f"prompt {theirs}, ours {ours}" if theirs else ""


def of_arms(arms: Sequence[Arm], summary: Mapping[str, Any]) -> list[str]:
    """Sentences below a figure of arms."""
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
        *state(summary),
    ]


def of_cells(arms: Sequence[Arm], summary: Mapping[str, Any]) -> list[str]:
    """Sentences below a figure whose shares count an item more than once."""
    return [INTERVALS_OF_CELLS if note == INTERVALS else note for note in of_arms(arms, summary)]


def choice_notes(rates: Iterable[Rates]) -> list[str]:
    """How n was chosen, and DiscreteZOO's learning rate."""
    choices = [choice for r in rates for choice in r.choices.values()]
    rules = {choice.rule for choice in choices if choice.key == EXPONENT}
    told = {"tuned": TUNED, "same items": OPTIMISTIC, "given": GIVEN}
    if len(rules) > 1:
        rules.discard("given")
    of_rate = {choice.rule for choice in choices if choice.key == LEARNING_RATE}
    return [*(told[rule] for rule in sorted(rules)), *(OF_RATE[rule] for rule in sorted(of_rate))]


def chance_notes(places: Iterable[tuple[Place, CleanAnswers]], mark: str = "") -> list[str]:
    """Name the victims that guess, marked by `mark`, and those that cannot be read."""
    guessing: dict[str, None] = {}
    unread: dict[str, None] = {}
    for place, clean in places:
        where = f"{place.victim.label} on {place.dataset} {place.entity}"
        if clean.guesses:
            level = "" if clean.chance is None else f", chance {decimal(clean.chance)}"
            guessing[f"{where}{level}"] = None
        if clean.unread:
            unread[f"{where} is {clean.unread}."] = None
    said = "; ".join(guessing)
    notes = [f"{mark}Not above chance: {said}. There success cannot be told from guessing."]
    return [*(notes if guessing else ()), *unread]


def state(summary: Mapping[str, Any]) -> list[str]:
    """Say where the run is not complete."""
    if summary["experiment"].get("complete") is False:
        return ["The run is not complete: accuracy leans low until it is."]
    return []


def seeds_note(seeds: Iterable[int]) -> str:
    """Which seeds random draws are pooled over.

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
