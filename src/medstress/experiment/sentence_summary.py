"""Scores of whole data sets of sentences, before and after, added to the rows of a summary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from medstress.attacks.noise.non_entity_noise import NonEntityNoise, is_control_of
from medstress.candidates import candidate_of
from medstress.clusters import clusters_by_dataset
from medstress.metrics.correlations import (
    COEFFICIENTS,
    Scored,
    change,
    correlation,
    permutation_p,
)
from medstress.metrics.entity_scores import (
    MATCHES,
    MEASURES,
    TESTED,
    Reading,
    difference,
    measures,
    randomisation_p,
    sums_of,
    types_in,
)
from medstress.metrics.estimates import unknown
from medstress.metrics.pairs import benjamini_hochberg
from medstress.outcomes import Verdict
from medstress.results.load import StoredRun
from medstress.sentences import SentencePair, TaggedText, entities_of
from medstress.tasks.entity_tagging import begun_entities, marked_entities
from medstress.text import edits_of

Place: TypeAlias = tuple[str, str, str, str]
"""(data set, group, victim, attack)."""
Json: TypeAlias = dict[str, Any]
Test: TypeAlias = tuple[str, float | None, float | None, str]
"""(family, before minus after, p, method)."""

CONTROL = NonEntityNoise.name
_SEARCHED = unknown("a search perturbs every entity apart, so there is no perturbed data set")
_HELD = unknown("a search for a change of the score says nothing of the pairs that held")
_WITHOUT_ALARMS = (
    "; of sentences with gold entities alone: a search asks no others, so their false alarms are "
    "missing"
)
_ADJUSTED = "two-sided; adjusted by Benjamini-Hochberg within the family"
_TAGGED_TEST = f"before minus after; approximate randomisation over clusters, {_ADJUSTED}"
_PAIR_TEST = (
    "before minus after; before and after swapped at random within pairs (those that share a "
    f"sentence together), {_ADJUSTED}"
)
FAMILY = "before_after"
"""Tests of strict F1 and of Pearson; those of another measure are a family of their own."""


@dataclass(slots=True)
class Arm:
    """What one attack left behind, by seed and item."""

    spec: Json
    """The attack's parameters."""
    before: dict[tuple[int | None, str], Any] = field(default_factory=dict)
    """Answers on clean items: a `Reading`, or a `Scored`."""
    after: dict[tuple[int | None, str], Any] = field(default_factory=dict)
    """Answers on perturbed ones."""
    unasked: set[tuple[int | None, str]] = field(default_factory=set)
    """Items whose clean answer nobody asked for."""

    def of(self, seeds: Sequence[int | None]) -> Arm:
        """The part of some seeds."""
        return Arm(
            self.spec,
            {key: value for key, value in self.before.items() if key[0] in seeds},
            {key: value for key, value in self.after.items() if key[0] in seeds},
            {key for key in self.unasked if key[0] in seeds},
        )


def add_scores(run: StoredRun, summary: Json) -> None:
    """Add to every row the scores of the whole data set, and to `tests` before against after.

    Tagged texts: `precision`, `recall` and `f1`, strict, relaxed (`_relaxed`) and by seqeval's
    strict mode (`_seqeval_strict`), of the clean data and (`_after`) of the perturbed copy,
    `f1_net_drop` (net of the control arm `non_entity_noise` with the same noise), and `by_type`.
    Pairs: `pearson` and `spearman` likewise. Each has its `_drop`, and a test of it in `tests`
    (those of `entity_scores.TESTED`).
    """
    arms, is_tagged = arms_of(run)
    if not arms:
        return
    describe: Callable[[Arm, Arm | None], Json] = (
        _entity_row if is_tagged else lambda arm, _: _pair_row(arm)
    )
    for row in [*summary["results"], *summary["pooled"]]:
        place = (row["dataset"], row["group"], row["victim"], row["attack"])
        seeds = row.get("seeds", [row["seed"]])
        control = control_of(arms, place)
        # Of an attack without random numbers every seed's control says as much.
        if control is not None and list(seeds) != [None]:
            control = control.of(seeds)
        row.update(describe(arms[place].of(seeds), control))
    summary["tests"] = [*summary["tests"], *_tests(arms, is_tagged)]
    if is_tagged:
        summary["warnings"] = [*summary["warnings"], *_nothing_marked(arms)]


def arms_of(run: StoredRun) -> tuple[dict[Place, Arm], bool]:
    """What was answered by place, and whether the items are tagged texts; nothing of questions."""
    return run.once(_arms_of)


def _arms_of(run: StoredRun) -> tuple[dict[Place, Arm], bool]:
    stored = run.items()
    items = {row: item for row, (_, item) in stored.items()}
    clusters = clusters_by_dataset(stored.values())
    arms: dict[Place, Arm] = {}
    is_tagged = any(isinstance(item, TaggedText) for item in items.values())
    for trial in run.trials():
        item = items[trial.item]
        if not isinstance(item, TaggedText | SentencePair):
            return {}, False
        place = (trial.dataset, trial.group, trial.victim, trial.attack)
        arm = arms.setdefault(place, Arm(json.loads(trial.spec)))
        key, cluster = (trial.seed, item.id), clusters[trial.dataset][item.id]
        # The entities of a sentence share what was asked about it.
        if key not in arm.before and trial.result.get("before"):
            arm.before[key] = _answer(item, trial.result["before"], (), cluster)
        elif key not in arm.before:
            arm.unasked.add(key)
        if key not in arm.after and key in arm.before and _is_whole(arm.spec, item):
            # A pair in which nothing can be perturbed is what it was.
            after = trial.result.get("after") or (
                trial.result["before"] if trial.verdict == Verdict.MEASURED.value else None
            )
            if after:
                edits = edits_of(trial.result.get("edits", []))
                arm.after[key] = _answer(item, after, edits, cluster)
    _complete(arms)
    return arms, is_tagged


def _complete(arms: Mapping[Place, Arm]) -> None:
    """Give searches, which ask no sentence without entities, the clean answers of other arms."""
    known: dict[tuple[str, str, str], dict[str, Any]] = {}
    for place, arm in arms.items():
        answers = known.setdefault(place[:3], {})
        answers.update({item: answer for (_, item), answer in arm.before.items()})
    for place, arm in arms.items():
        if arm.spec.get("search", "none") != "none":
            for key in arm.unasked:
                if key[1] in known[place[:3]]:
                    arm.before.setdefault(key, known[place[:3]][key[1]])
        arm.unasked -= set(arm.before)


def _nothing_marked(arms: Mapping[Place, Arm]) -> list[str]:
    """Name victims that mark no entity of the data's types, as wrong names of types look like."""
    readings: dict[tuple[str, str], list[Reading]] = {}
    for (dataset, _, victim, _), arm in sorted(arms.items(), key=lambda pair: pair[0]):
        readings.setdefault((dataset, victim), []).extend(arm.before.values())
    return [
        f"{victim} marks no entity of the types {', '.join(types_in(before))} in {dataset}: if it "
        'calls them otherwise, translate with labels = {ITS_TYPE = "TYPE_OF_THE_DATA"} in '
        "[[victim]]."
        for (dataset, victim), before in readings.items()
        if types_in(before) and not any(reading.found for reading in before)
    ]


def _is_whole(spec: Json, item: Any) -> bool:
    """Whether what was asked last says what becomes of the whole item."""
    if spec.get("search") == "none":
        return True
    # Of a search only what is merely measured says what it found for every pair.
    return isinstance(item, SentencePair) and spec.get("max_change") is None


def _answer(item: Any, answer: list[Any], edits: tuple[Any, ...], cluster: str) -> Any:
    if isinstance(item, SentencePair):
        return Scored(item.score, float(answer[1][0]), cluster)
    candidate: Any = candidate_of(item, edits)
    labels = str(answer[3]).split()
    return Reading(
        cluster=cluster,
        gold=entities_of(candidate.labels),
        found=marked_entities(labels),
        begun=begun_entities(labels),
    )


def _entity_row(arm: Arm, control: Arm | None) -> Json:
    both = [key for key in arm.before if key in arm.after]
    keys = both or list(arm.before)
    before = [arm.before[key] for key in keys]
    after = [arm.after[key] for key in both]
    clusters = sorted({reading.cluster for reading in before})
    row = _measured(before, after, clusters)
    if arm.unasked and not both:
        for name, ending in product(("precision", "f1"), MATCHES.values()):
            row[f"{name}{ending}"]["method"] += _WITHOUT_ALARMS
    row["f1_net_drop"] = _net_drop(arm, control).as_json()
    row["by_type"] = {
        type_: _measured(before, after, clusters, type_) for type_ in types_in(before)
    }
    return row


def _measured(
    before: Sequence[Reading],
    after: Sequence[Reading],
    clusters: Sequence[str],
    type_: str | None = None,
) -> Json:
    """Precision, recall and F1 before, after, and how much they fall, by every way to match."""
    row: Json = {}
    for match, ending in MATCHES.items():
        first = sums_of(before, clusters, match, type_)
        second = sums_of(after, clusters, match, type_)
        perturbed = measures(second) if after else {}
        for name, estimate in measures(first).items():
            drop = difference(first, second, name) if after else _SEARCHED
            row[f"{name}{ending}"] = estimate.as_json()
            row[f"{name}{ending}_after"] = perturbed.get(name, _SEARCHED).as_json()
            row[f"{name}{ending}_drop"] = drop.as_json()
    return row


def _net_drop(arm: Arm, control: Arm | None) -> Any:
    """F1 drop minus that of the control: F1 after the control minus F1 after the attack."""
    if control is None:
        return unknown(f"there is no {CONTROL} with this noise in the run")
    shared = [
        (own, key) for key in control.after for own in (key, (None, key[1])) if own in arm.after
    ]
    if not shared:
        return unknown("the control has no sentence and seed in common")
    ours = [arm.after[own] for own, _ in shared]
    theirs = [control.after[key] for _, key in shared]
    clusters = sorted({reading.cluster for reading in ours})
    return difference(sums_of(theirs, clusters), sums_of(ours, clusters))


def control_of(arms: Mapping[Place, Arm], place: Place) -> Arm | None:
    """The control arm of a static attack in the same place."""
    for other, arm in sorted(arms.items(), key=lambda pair: pair[0]):
        if other[:3] == place[:3] and is_control_of(arm.spec, arms[place].spec):
            return arm
    return None


def _scores(arm: Arm) -> tuple[Any, Any, Any, list[str]]:
    """Gold (m,), before and after (n_seeds, m), of the pairs that all seeds have answered.

    Then the cluster of each.

    `after` has no rows where a search says nothing of pairs that held.
    """
    seeds = sorted({seed for seed, _ in arm.before}, key=lambda seed: (seed is not None, seed))
    ids = Counter(item for seed, item in arm.before if (seed, item) in arm.after or not arm.after)
    names = sorted(item for item, n in ids.items() if n == len(seeds))
    if not names:
        return np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)), []
    first = [arm.before[seeds[0], name] for name in names]
    gold, clusters = np.array([each.gold for each in first]), [each.cluster for each in first]
    before = np.array([[arm.before[seed, name].score for name in names] for seed in seeds])
    if not arm.after:
        return gold, before, np.zeros((0, len(names))), clusters
    after = np.array([[arm.after[seed, name].score for name in names] for seed in seeds])
    return gold, before, after, clusters


def _pair_row(arm: Arm) -> Json:
    gold, before, after, groups = _scores(arm)
    row: Json = {}
    for name in COEFFICIENTS:
        row[name] = correlation(gold, before, name, groups).as_json()
        for ending, found in (
            ("after", correlation(gold, after, name, groups) if arm.after else _HELD),
            ("drop", change(gold, before, after, name, groups) if arm.after else _HELD),
        ):
            row[f"{name}_{ending}"] = found.as_json()
    return row


def _tests(arms: Mapping[Place, Arm], is_tagged: bool) -> list[Json]:
    rows: list[Json] = []
    for (dataset, group, victim, attack), arm in sorted(arms.items(), key=lambda pair: pair[0]):
        if not arm.after:
            continue
        for family, statistic, p, method in _tagged_tests(arm) if is_tagged else _pair_tests(arm):
            rows.append(
                {
                    "family": family,
                    "dataset": dataset,
                    "group": group,
                    "victim": victim,
                    "comparison": attack,
                    "against": "clean",
                    "statistic": statistic,
                    "p": p,
                    "p_adjusted": None,
                    "method": method,
                }
            )
    for family in {row["family"] for row in rows}:
        known = [row for row in rows if row["family"] == family and row["p"] is not None]
        for row, p in zip(known, benjamini_hochberg([row["p"] for row in known]), strict=True):
            row["p_adjusted"] = p
    return rows


def _tagged_tests(arm: Arm) -> Iterator[Test]:
    """Every measure, strict and relaxed, of all entities and, where there are several, by type."""
    both = [key for key in arm.before if key in arm.after]
    before, after = [arm.before[key] for key in both], [arm.after[key] for key in both]
    clusters = sorted({reading.cluster for reading in before})
    types = types_in(before)
    for type_ in (None, *(types if len(types) > 1 else ())):
        for match in TESTED:
            first = sums_of(before, clusters, match, type_)
            second = sums_of(after, clusters, match, type_)
            for measure in MEASURES:
                drop = difference(first, second, measure).value
                what = f"{match} {measure}".replace("f1", "F1") + (f" of {type_}" if type_ else "")
                is_main = (type_, match, measure) == (None, "strict", "f1")
                family = FAMILY if is_main else f"{FAMILY} {what}"
                p = randomisation_p(first, second, measure)
                yield family, drop, p, f"{what} {_TAGGED_TEST}"


def _pair_tests(arm: Arm) -> Iterator[Test]:
    gold, before, after, groups = _scores(arm)
    for name in COEFFICIENTS:
        family = FAMILY if name == "pearson" else f"{FAMILY} {name}"
        drop = change(gold, before, after, name, groups).value
        p = permutation_p(gold, before, after, name, groups)
        yield family, drop, p, f"{name.capitalize()} {_PAIR_TEST}"
