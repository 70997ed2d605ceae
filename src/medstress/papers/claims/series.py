"""Group arms that can be compared: the same place under the same rules."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.papers.arms import METHODS, RULE_KEYS, Arm

_METHOD_KEYS = ("n", "sampler", "budget")
"""Parameters that belong to the method, not to the rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Attacks of one place that differ only in method, exponent and budget."""

    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    victim: str
    """Label of the victim."""
    label: str
    """`default`, `marked`, or a list of the rules."""
    arms: tuple[Arm, ...]
    """The arms, by method; PDWS by ascending n, one arm per exponent."""

    def of(self, method: str) -> list[Arm]:
        """Return the arms of a method."""
        return [arm for arm in self.arms if arm.method == method]

    def missing(self, *methods: str) -> str:
        """Return a sentence on the methods that the run lacks under these rules, else ""."""
        lacking = [METHODS[m] for m in dict.fromkeys(methods) if not self.of(m)]
        if not lacking:
            return ""
        rules = "" if self.label == "default" else f" under the rules {self.label}"
        return f"no {' and no '.join(lacking)} in this run{rules}"

    @property
    def middle(self) -> str:
        """The method that is PDWS at n = 0: random sampling, or `zero` if only that was run."""
        return "random" if self.of("random") or not self.of("zero") else "zero"


def series_of(arms: Sequence[Arm]) -> list[Series]:
    """Group arms into series: places in the order of their first arm, default rules first.

    Attacks that mark variants of the key are never compared with attacks that leave them out.
    DiscreteZOO has other parameters; it joins every series with the same values of the rules that
    both have. If an attack was run with several budgets, the series has the largest.
    """
    places: dict[tuple[str, str, str], list[Arm]] = defaultdict(list)
    for arm in arms:
        if arm.method in METHODS:
            places[arm.place.dataset, arm.group, arm.place.victim.label].append(arm)
    all_series = []
    for place, members in places.items():
        rules: dict[str, list[Arm]] = defaultdict(list)
        for arm in members:
            if arm.method != "discrete_zoo":
                rules[_rule(arm.spec)].append(arm)
        for arm in members:
            if arm.method == "discrete_zoo":
                beside = [chosen for chosen in rules.values() if _agree(arm, chosen[0])]
                for chosen in beside or [rules[_rule(arm.spec)]]:
                    chosen.append(arm)
        labels = _labels([chosen[0].spec for chosen in rules.values()])
        series = [
            Series(
                dataset=place[0],
                group=place[1],
                victim=place[2],
                label=label,
                arms=_largest_budgets(chosen),
            )
            for label, chosen in zip(labels, rules.values(), strict=True)
        ]
        all_series += sorted(series, key=lambda each: (each.label != "default", each.label))
    return all_series


def _rule(spec: Mapping[str, Any]) -> str:
    return json.dumps({k: v for k, v in spec.items() if k not in _METHOD_KEYS}, sort_keys=True)


def _agree(zoo: Arm, other: Arm) -> bool:
    """Return True if two attacks have equal values of the rules that both have."""
    shared = [key for key in RULE_KEYS if key in zoo.spec and key in other.spec]
    return all(zoo.spec[key] == other.spec[key] for key in shared)


def _labels(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the rules of one place.

    >>> _labels([{"variants": "exclude"}, {"variants": "mark"}])
    ['default', 'marked']
    """
    names = ["marked" if spec.get("variants") == "mark" else "default" for spec in specs]
    keys = [key for key in RULE_KEYS if len({json.dumps(spec.get(key)) for spec in specs}) > 1]
    labels = []
    for name, spec in zip(names, specs, strict=True):
        extra = [f"{key} = {spec[key]}" for key in keys if key in spec and key != "variants"]
        several = names.count(name) > 1
        labels.append(", ".join([name, *extra]) if several else name)
    return labels


def _largest_budgets(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Keep the arm with the largest budget of each method and exponent, and all of DiscreteZOO."""
    best: dict[tuple[Any, ...], Arm] = {}
    for arm in arms:
        key = (arm.method, arm.n, arm.attack if arm.method == "discrete_zoo" else "")
        if key not in best or arm.budget > best[key].budget:
            best[key] = arm
    order = list(METHODS)
    return tuple(sorted(best.values(), key=lambda a: (order.index(a.method), a.n or 0.0, a.attack)))
