"""Bound the cost of an experiment on sentences without asking a model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from medstress.attacks.protocol import Attack, SearchOn
from medstress.core.items import Item
from medstress.core.outcomes import Measured
from medstress.costs.query_sizes import CHARACTERS_PER_TOKEN
from medstress.experiment.plan.plan import Prepared


def sentence_cost(prepared: Prepared) -> Iterator[str]:
    """Yield lines: the exact upper bounds of queries and calls, and an estimate of tokens.

    A perturbed copy counts as a query for every entity of its sentence, but is computed once.
    """
    settings = prepared.experiment.experiment
    n_victims = len(prepared.experiment.victim)
    baseline = perturbed = checks = calls = characters = 0
    for dataset, group in product(prepared.datasets, prepared.groups):
        items = prepared.items(dataset, group)
        baseline += len(items)
        calls += len(items)
        sizes = {item.id: prepared.kind.characters(item) for item in items}
        characters += sum(sizes.values())
        for part in prepared.attacks:
            seeds = 1 if part.traits.deterministic else len(settings.seeds)
            for item in items:
                units = prepared.kind.units(item)
                asked = [u for u in units if _is_asked(part.attack, u, group.resources)]
                flippable = [u for u in asked if _may_flip(part.attack, u, group.resources)]
                n = seeds * part.traits.budget * len(asked)
                n_calls = seeds if part.traits.is_static else n
                n_checks = seeds * _most_checks(part.attack) * len(flippable) * settings.flip_check
                perturbed += n
                checks += n_checks
                calls += n_calls + n_checks
                characters += (n_calls + n_checks) * sizes[item.id]
    total = n_victims * (baseline + perturbed + checks)
    yield f"queries: at most {total:,} (exact bound)"
    yield (
        f"  baseline {n_victims * baseline:,}, perturbed {n_victims * perturbed:,}, "
        f"flip checks {n_victims * checks:,}"
    )
    yield f"calls: at most {n_victims * calls:,} (the entities of a sentence share its copy)"
    yield (
        f"tokens: about {n_victims * characters // CHARACTERS_PER_TOKEN:,} "
        f"(estimate: {CHARACTERS_PER_TOKEN} characters a token)"
    )
    yield "money and time: unknown (no price or measured speed of these victims)"


def _is_asked(attack: Attack, unit: Item, resources: object) -> bool:
    return attack.traits.is_static or attack.obstacle(unit, resources) is None


def _may_flip(attack: Attack, unit: Item, resources: object) -> bool:
    if attack.obstacle(unit, resources) is not None:
        return False
    return not isinstance(attack.goal_for(unit), Measured)


def _most_checks(attack: Attack) -> int:
    """Return the most flip checks of one trial.

    The first success is checked and, if the search goes on to a smaller one, that one too. A
    smaller success needs a budget of 2 or more: two edits succeed first, then fewer.
    """
    traits = attack.traits
    return 2 if traits.search_on is SearchOn.SMALLER and traits.budget > 1 else 1
