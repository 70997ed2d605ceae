"""Precision, recall and F1 of tagged texts, clean and perturbed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from medstress.attacks.noise.non_entity_noise import NonEntityNoise
from medstress.core.sentences import entities_of
from medstress.core.text import Edit
from medstress.metrics.old_stats.estimates import unknown
from medstress.metrics.sentences.entity_scores import (
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
from medstress.summary.dataset_scores import (
    ADJUSTED,
    FAMILY,
    WHEN,
    DatasetScores,
    Json,
    Place,
    ScoredArm,
    Test,
)
from medstress.tasks.entity_tagging import begun_entities, marked_entities

CONTROL = NonEntityNoise.name
_SEARCHED = unknown("a search perturbs every entity apart, so there is no perturbed data set")
_WITHOUT_ALARMS = (
    "; of sentences with gold entities alone: a search asks no others, so their false alarms are "
    "missing"
)
_TESTED_BY = f"before minus after; approximate randomisation over clusters, {ADJUSTED}"
_STRICT = ("f1_seqeval_strict", "f1_seqeval_strict_after")
"""Shown where they differ from F1: where a victim's labels are not well-formed."""
_SHOWN = (
    *(f"{name}{ending}" for name in MEASURES for ending in ("", "_after")),
    *("f1_drop", "f1_net_drop", "f1_relaxed", "f1_relaxed_after"),
)
_LABELS = (
    ("precision", "Precision", "entities found that are gold"),
    ("recall", "Recall", "gold entities that are found"),
    ("f1", "F1", "harmonic mean of precision and recall"),
)
_HOW = (
    ("", "", "same tokens and same type"),
    ("_relaxed", "Relaxed ", "same type and a token in common"),
    ("_seqeval_strict", "Seqeval strict ", "without what begins with no B-"),
)


class EntityScores(DatasetScores):
    """`precision`, `recall` and `f1`, strict, relaxed (`_relaxed`) and by seqeval's strict mode
    (`_seqeval_strict`), of the clean data and (`_after`) of the perturbed copy, `f1_net_drop` (net
    of the control arm `non_entity_noise` with the same noise), and `by_type`."""

    defined = (
        *(
            (
                f"{name}{match}{when}",
                f"{kind}{label.lower() if kind and label != 'F1' else label}{ending}",
                f"{what}, {how}; {of}",
            )
            for match, kind, how in _HOW
            for name, label, what in _LABELS
            for when, ending, of in WHEN
        ),
        (
            "f1_net_drop",
            "F1 drop, net of control",
            "F1 after as much noise outside entities minus F1 after the attack",
        ),
    )

    note = (
        "Strict: same tokens and same type; relaxed: same type and a token in common, as "
        "nervaluate counts it; seqeval strict, shown where it differs: without what begins "
        "with no B-. Drops are before minus after, paired; net of control: F1 after as much "
        "noise outside entities minus F1 after the attack. Intervals draw whole documents "
        "where they are known, else sentences."
    )
    printed = (
        "Strict: same tokens and same type. Relaxed: same type and a token in common. After: of "
        "the perturbed copy. Drop: before minus after, paired; net of control: F1 after as much "
        "noise outside entities minus F1 after the attack. A dash: the run does not hold it."
    )
    lost = (
        "Success: share of the gold entities found on the clean data that are found no longer, in "
        "per cent."
    )

    def answer(
        self, item: Any, prediction: Sequence[Any], edits: tuple[Edit, ...], cluster: str
    ) -> Reading:
        """Gold entities, and those that the victim marks."""
        labels = str(prediction[3]).split()
        return Reading(
            cluster=cluster,
            gold=entities_of(item.candidate(edits).labels),
            found=marked_entities(labels),
            begun=begun_entities(labels),
        )

    def is_whole(self, spec: Mapping[str, Any]) -> bool:
        """A search perturbs every entity apart."""
        return spec.get("search") == "none"

    def row(self, arm: ScoredArm, control: ScoredArm | None) -> Json:
        """See the class."""
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

    def tests(self, arm: ScoredArm) -> Iterator[Test]:
        """Every measure, strict and relaxed, of all entities, and by type where there are some."""
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
                    what = f"{match} {measure}".replace("f1", "F1") + (
                        f" of {type_}" if type_ else ""
                    )
                    is_main = (type_, match, measure) == (None, "strict", "f1")
                    family = FAMILY if is_main else f"{FAMILY} {what}"
                    p = randomisation_p(first, second, measure)
                    yield family, drop, p, f"{what} {_TESTED_BY}"

    def warnings(self, arms: Mapping[Place, ScoredArm]) -> list[str]:
        """Name victims that mark no entity of the data's types, as wrong names of types do."""
        readings: dict[tuple[str, str], list[Reading]] = {}
        for (dataset, _, victim, _), arm in sorted(arms.items(), key=lambda pair: pair[0]):
            readings.setdefault((dataset, victim), []).extend(arm.before.values())
        return [
            f"{victim} marks no entity of the types {', '.join(types_in(before))} in {dataset}: if "
            'it calls them otherwise, translate with labels = {ITS_TYPE = "TYPE_OF_THE_DATA"} in '
            "[[victim]]."
            for (dataset, victim), before in readings.items()
            if types_in(before) and not any(reading.found for reading in before)
        ]

    def shown(self, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """Strict and relaxed scores, and seqeval's where they differ."""
        if not any("f1" in row for row in rows):
            return ()
        return (*_SHOWN, *(_STRICT if any(map(_is_told_apart, rows)) else ()))


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


def _net_drop(arm: ScoredArm, control: ScoredArm | None) -> Any:
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


def _is_told_apart(row: Mapping[str, Any]) -> bool:
    return any(
        row[field]["value"] != row[field.replace("_seqeval_strict", "")]["value"]
        for field in _STRICT
        if field in row
    )
