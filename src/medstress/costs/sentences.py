"""Bound and estimate the cost of an experiment on sentences without asking a model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from medstress.attacks.protocol import Attack, SearchOn
from medstress.core.items import Item
from medstress.core.outcomes import Measured
from medstress.costs.money import Spent, money_lines
from medstress.costs.query_sizes import CHARACTERS_PER_TOKEN, round_size
from medstress.costs.usual import expected_trial, usual_of
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.spending import prices_of
from medstress.store.spending import Price
from medstress.tasks.victim import Victim


def sentence_cost(prepared: Prepared, folder: Path | None = None) -> Iterator[str]:
    """Yield lines: the exact upper bounds of queries and calls, and estimates of tokens and money.

    A perturbed copy counts as a query for every entity of its sentence, but is computed once.

    Args:
        prepared: the experiment; its victims need to be open for an estimate of money.
        folder: folder of the run; lengths are read from it and its neighbours.
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
                units = item.units()
                asked = [u for u in units if _is_asked(part.attack, u, group.resources)]
                flippable = [u for u in asked if _may_flip(part.attack, u, group.resources)]
                n = seeds * part.traits.budget * len(asked)
                n_calls = seeds if part.traits.is_static else n
                per_success = _most_checks(part.attack) if settings.flip_check else 0
                n_checks = seeds * per_success * len(flippable)
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
    prices = prices_of(prepared.experiment.victim)
    priced = [victim for victim in prepared.victims if victim.label in prices]
    if not priced:
        yield "money and time: unknown (no price or measured speed of these victims)"
        return
    about, most, n_calls_about = 0.0, 0.0, 0.0
    for victim in priced:
        calls_about, usd_about, usd_most = _money(prepared, victim, prices[victim.label], folder)
        n_calls_about += calls_about
        about, most = about + usd_about, most + usd_most
    free = [victim.label for victim in prepared.victims if victim.label not in prices]
    bounded = all(part.traits.adds_bytes is not None for part in prepared.attacks)
    spent = Spent(about=about, most=most if bounded else None, n_queries=n_calls_about, free=free)
    yield from money_lines(spent, prepared, folder)


def _money(
    prepared: Prepared, victim: Victim, price: Price, folder: Path | None
) -> tuple[float, float, float]:
    """Return a victim's expected calls, their price, and the price of the most calls.

    Victims that are asked without a prompt, such as functions, cost nothing.
    """
    usual, model = usual_of(victim, prepared, folder), victim.backend.identity.name
    settings = prepared.experiment.experiment
    n, about, most = 0.0, 0.0, 0.0
    for dataset, group in product(prepared.datasets, prepared.groups):
        task = victim.on(dataset.label).task
        for item in prepared.items(dataset, group):
            size = round_size(task, item, model)
            if size is None:
                return 0.0, 0.0, 0.0
            calls, edits = 1.0, [(1, 0)]
            for part in prepared.attacks:
                traits = part.traits
                seeds = 1 if traits.deterministic else len(settings.seeds)
                units = item.units()
                asked = [u for u in units if _is_asked(part.attack, u, group.resources)]
                n_trials = seeds * (1 if traits.is_static else len(asked))
                trial = expected_trial(traits, 1 if traits.is_static else traits.budget, usual)
                checks = _most_checks(part.attack) if settings.flip_check else 0
                calls += n_trials * (trial.queries + checks * trial.successes)
                most_calls = n_trials * (1 if traits.is_static else traits.budget)
                most_calls += seeds * len(asked) * checks
                edits.append((most_calls, traits.adds_bytes or 0))
            n += calls
            about += calls * price.usd(
                size.about_in if usual.tokens_in is None else usual.tokens_in,
                size.about_out if usual.tokens_out is None else usual.tokens_out,
            )
            most += sum(
                times * price.usd(size.longer_by(growth), size.most_out) for times, growth in edits
            )
    return n, about, most


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
