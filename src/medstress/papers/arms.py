"""The arms of a run, grouped as the papers' tables and figures need them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.clean_answers import CleanAnswers, clean_answers
from medstress.metrics.counts import (
    flipped_within,
    is_answered,
    is_eligible,
    unit_of,
)
from medstress.metrics.old_stats.estimates import Estimate, read_share
from medstress.metrics.old_stats.shares import rate
from medstress.metrics.success import asr_at, at_budget

RULE_KEYS = (
    "choices",
    "variants",
    "victim_span",
    "goal",
    "continue_on_invalid",
    "unreadable_is_success",
    "max_edit_distance",
    "similarity_threshold",
    "word_ranking",
)
"""Parameters of an attack in which arms of one method can differ."""

METHODS = {
    "random": "RandS",
    "near": "PDWS n < 0",
    "far": "PDWS n > 0",
    "zero": "PDWS n = 0",
    "nearest": "B-nearest",
    "farthest": "B-farthest",
    "discrete_zoo": "DiscreteZOO",
}
"""Methods in the order in which they are shown, and their names."""

NO_ITEMS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimFacts:
    """A victim as the experiment file describes it."""

    label: str
    """Name of the victim in results."""
    name: str | None
    """Name of the victim in the file."""
    model: str | None
    """Path, hub id or name of an embedded model."""
    backend: str
    """Name of the back end."""
    parameters: float | None
    """Number of parameters."""
    group: str | None
    """`generalist` or `specialist`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an arm was run, and under which rules; arms of one place can be compared."""

    dataset: str
    """Label of the data set."""
    entity: str
    """Type of its entities: `drugs`, `diseases`, or the group's label."""
    embedding: str
    """Embedding that measures the distances."""
    victim: VictimFacts
    """The victim."""
    rule: str
    """Parameters in which arms of one method differ; empty if they differ in none."""
    prompt: str | None = None
    """Name of the prompt; None if the run does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One attack in one place, over all its seeds."""

    place: Place
    """Data set, victim, embedding and rules."""
    source: str
    """The data set's kind: `sample`, `medqa`, ..."""
    group: str
    """Label of the entity group."""
    attack: str
    """Label of the attack."""
    method: str
    """A key of `METHODS`, or the attack's name."""
    n: float | None
    """Exponent of PDWS."""
    candidates: int | None
    """M of DiscreteZOO."""
    budget: int
    """Perturbed queries per item."""
    spec: Mapping[str, Any]
    """Parameters of the attack."""
    row: Mapping[str, Any]
    """The arm's row of the summary's `pooled`."""
    trials: tuple[TrialRow, ...] = field(repr=False)
    """The arm's trials."""

    def asr(self, budget: int, without: Collection[str] = NO_ITEMS) -> Estimate | None:
        """Return success within a budget; None if the arm's budget was smaller.

        Args:
            budget: perturbed queries per item.
            without: hashes of items to leave out.
        """
        point = at_budget(self._asr_at(without), budget)
        return None if point is None else read_share(point)

    def curve(self, without: Collection[str] = NO_ITEMS) -> list[tuple[int, Estimate]]:
        """Return (budget, success) for 1, 2, ... queries; a long curve only where it changes."""
        return [(point["budget"], read_share(point)) for point in self._asr_at(without)]

    def _asr_at(self, without: Collection[str]) -> Sequence[Mapping[str, Any]]:
        if not without:
            points: Sequence[Mapping[str, Any]] = self.row["asr_at"]
            return points
        kept = [trial for trial in self.trials if trial.item_hash not in without]
        return asr_at(kept, self.budget)

    def accuracy_after(self, budget: int, without: Collection[str] = NO_ITEMS) -> Estimate:
        """Return the share of trials answered at baseline that are right after `budget` queries."""
        return rate(
            (unit_of(trial), is_eligible(trial) and not flipped_within(trial, budget))
            for trial in self.trials
            if is_answered(trial) and trial.item_hash not in without
        )


def baseline(arms: Iterable[Arm], without: Collection[str] = NO_ITEMS) -> CleanAnswers:
    """Return how the clean items of `arms` were answered."""
    return clean_answers(t for arm in arms for t in arm.trials if t.item_hash not in without)


def arms_of(
    summary: Mapping[str, Any], trials: Iterable[TrialRow], manifest: Mapping[str, Any]
) -> list[Arm]:
    """Return the arms of a run in the summary's order; control arms are left out.

    Args:
        summary: as `medstress summary --json`.
        trials: all trials of the run.
        manifest: manifest with `config`, `datasets`, `groups` and `victims`.
    """
    by_arm: dict[tuple[Any, ...], list[TrialRow]] = defaultdict(list)
    for trial in trials:
        if trial.arm == "attack":
            by_arm[
                trial.dataset, trial.group, trial.victim, trial.attack, trial.seed is None
            ].append(trial)
    rows = [row for row in summary["pooled"] if _key(row) in by_arm]
    rules = _rules(rows)
    facts = _Facts(manifest)
    return [
        facts.arm(row, tuple(by_arm[_key(row)]), rule)
        for row, rule in zip(rows, rules, strict=True)
    ]


def in_places(arms: Iterable[Arm]) -> dict[Place, list[Arm]]:
    """Group arms by place, places in the order of their first arm."""
    places: dict[Place, list[Arm]] = defaultdict(list)
    for arm in arms:
        places[arm.place].append(arm)
    return dict(places)


def method_of(spec: Mapping[str, Any]) -> str:
    """Return the method that an attack's parameters describe.

    >>> method_of({"name": "entity_substitution", "sampler": "pdws", "n": -20.0})
    'near'
    >>> method_of({"name": "discrete_zoo", "candidates": 3})
    'discrete_zoo'
    """
    sampler, n = spec.get("sampler"), spec.get("n")
    if spec.get("name") != "entity_substitution":
        return str(spec.get("name"))
    if sampler == "pdws" and n is not None:
        return "near" if n < 0 else "far" if n > 0 else "zero"
    return str(sampler)


class _Facts:
    """Looks up the facts that the manifest has about labels."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        config = manifest["config"]
        self.sources = {
            label: str(table.get("name"))
            for label, table in zip(manifest["datasets"], config["dataset"], strict=False)
        }
        self.types = {
            label: table.get("type")
            for label, table in zip(manifest["groups"], config["entities"], strict=False)
        }
        tables = dict(zip(manifest["groups"], config["entities"], strict=False))
        self.embeddings = _embeddings(tables)
        self.prompts = {label: _prompts(known) for label, known in manifest["victims"].items()}
        self.victims = {
            label: _victim(label, {**table, **_counted(known)})
            for (label, known), table in zip(
                manifest["victims"].items(), config["victim"], strict=False
            )
        }

    def arm(self, row: Mapping[str, Any], trials: tuple[TrialRow, ...], rule: str) -> Arm:
        spec = json.loads(row["attack_spec"])
        group, victim = row["group"], row["victim"]
        kind = self.types.get(group)
        place = Place(
            dataset=row["dataset"],
            entity=kind if isinstance(kind, str) else group,
            embedding=self.embeddings.get(group, ""),
            victim=self.victims.get(victim) or _victim(victim, {}),
            rule=rule,
            prompt=_prompt(self.prompts.get(victim, {}), row["dataset"]),
        )
        return Arm(
            place=place,
            source=self.sources.get(row["dataset"], ""),
            group=group,
            attack=row["attack"],
            method=method_of(spec),
            n=spec.get("n"),
            candidates=spec.get("candidates"),
            budget=row["asr_at"][-1]["budget"],
            spec=spec,
            row=row,
            trials=trials,
        )


EMBEDDING_NAMES = {"GanjinZero/UMLSBert_ENG": "CODER", "thenlper/gte-base": "GTE-base"}
"""The paper's names of embeddings."""


def _embeddings(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the embedding's name by group; groups of one type never share a name.

    >>> _embeddings({"a": {"type": "drugs", "embedding": "thenlper/gte-base"}})
    {'a': 'GTE-base'}
    """
    names = {}
    for label, table in tables.items():
        embedding = str(table.get("embedding"))
        distance = table.get("distance", "cosine")
        name = EMBEDDING_NAMES.get(embedding, embedding)
        names[label] = name if distance == "cosine" else f"{name}, {distance}"
    kinds = [(json.dumps(tables[label].get("type")), name) for label, name in names.items()]
    return {
        label: name if kinds.count(kind) == 1 else f"{name} ({label})"
        for (label, name), kind in zip(names.items(), kinds, strict=True)
    }


def _victim(label: str, table: Mapping[str, Any]) -> VictimFacts:
    return VictimFacts(
        label=label,
        name=table.get("name"),
        model=table.get("model"),
        backend=str(table.get("backend", "")),
        parameters=table.get("parameters"),
        group=table.get("group"),
    )


def _prompts(known: Any) -> dict[str | None, str]:
    """Return the names of a victim's prompts by data set; None stands for all others."""
    if not isinstance(known, Mapping):
        return {}
    tasks = {None: known, **known.get("by_dataset", {})}
    return {name: each["prompt"]["name"] for name, each in tasks.items() if each.get("prompt")}


def _prompt(prompts: Mapping[str | None, str], dataset: str) -> str | None:
    return prompts.get(dataset, prompts.get(None))


def _counted(known: Any) -> dict[str, Any]:
    """Return a victim's size from the manifest, given by the user or counted."""
    parameters = known.get("parameters") if isinstance(known, Mapping) else None
    return {} if parameters is None else {"parameters": float(parameters)}


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    deterministic = row["seeds"] == [None]
    return (row["dataset"], row["group"], row["victim"], row["attack"], deterministic)


def _rules(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return for each row the parameters, beside method, n and budget, that tell rows apart."""
    specs = [json.loads(row["attack_spec"]) for row in rows]
    rules: list[dict[str, Any]] = [{} for _ in specs]
    for key in RULE_KEYS:
        if len({json.dumps(spec[key]) for spec in specs if key in spec}) < 2:
            continue
        # A parameter that follows from those already named adds nothing.
        values: dict[str, set[str]] = defaultdict(set)
        for spec, known in zip(specs, rules, strict=True):
            if key in spec:
                values[json.dumps(known)].add(json.dumps(spec[key]))
        if any(len(different) > 1 for different in values.values()):
            for spec, known in zip(specs, rules, strict=True):
                if key in spec:
                    known[key] = spec[key]
    return [", ".join(f"{key} = {value}" for key, value in known.items()) for known in rules]
