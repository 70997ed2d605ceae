"""What an experiment would cost at most, without asking a model anything."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from medstress.experiment.parts import select_items, undefined_names
from medstress.experiment.prepared import Prepared
from medstress.items import Candidate
from medstress.tasks.multiple_choice import listing
from medstress.tasks.templates import load_template

CHARACTERS_PER_TOKEN = 4


def estimate(prepared: Prepared) -> Iterator[str]:
    """Lines: the exact upper bound of queries, and an estimate of tokens.

    The bound holds whatever the victim answers: every attackable item right at baseline, every
    attack using its whole budget, and every last query a success that is checked again.
    """
    settings = prepared.experiment.experiment
    n_victims = len(prepared.experiment.victim)
    seeds = {
        part.label: 1 if part.attack.deterministic else len(settings.seeds)
        for part in prepared.attacks
    }
    template = load_template(prepared.experiment.victim[0].prompt, prepared.base)
    baseline, perturbed, trials, characters = 0, 0, 0, 0
    for dataset in prepared.datasets:
        asked: set[str] = set()
        for group, part in product(prepared.groups, prepared.attacks):
            for item in select_items(dataset, group):
                if part.attack.obstacle(item, group.resources) is not None:
                    continue
                size = len(listing(template, Candidate(item=item)))
                if item.id not in asked:
                    asked.add(item.id)
                    baseline += 1
                    characters += size
                n = min(part.attack.budget, group.perturbations.allowed(item).size)
                trials += seeds[part.label]
                perturbed += seeds[part.label] * n
                characters += seeds[part.label] * n * size
    checks = trials if settings.flip_check else 0
    total = n_victims * (baseline + perturbed + checks)
    tokens = n_victims * characters // CHARACTERS_PER_TOKEN
    yield f"queries: at most {total:,} (exact bound)"
    yield (
        f"  baseline {n_victims * baseline:,}, perturbed {n_victims * perturbed:,}, "
        f"flip checks {n_victims * checks:,}"
    )
    yield (
        f"tokens: about {tokens:,} (estimate: {CHARACTERS_PER_TOKEN} characters a token, "
        "options listed, nothing shared)"
    )
    for group in prepared.groups:
        if told := undefined_names(group.label, group.perturbations):
            yield told
    yield "money and time: unknown (no price or measured speed of these victims)"
