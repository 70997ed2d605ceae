"""The group of attacks that draw no names, and the names that texts hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medstress.attacks.noise import NoiseResources
from medstress.core.drug_names import DrugNames
from medstress.core.resources import Resources
from medstress.entities.no_names import LABEL, NoNames
from medstress.experiment.plan.parts import AttackPart, GroupPart


def free_group(
    attacks: Sequence[AttackPart], noise: NoiseResources | None = None
) -> list[GroupPart]:
    """Return the group of the attacks that draw no names; empty if there are none.

    Args:
        attacks: all attacks.
        noise: what noise may read, if some of them are noise.
    """
    free = [traits for part in attacks if not (traits := part.traits).needs_entities]
    if not free:
        return []
    needs_names = any(traits.needs_names for traits in free)
    needs_drugs = any(traits.needs_drugs for traits in free)
    names = NoNames()
    resources = Resources(
        group=LABEL,
        types=frozenset(),
        perturbations=names,
        names_in=_names_in if needs_names else None,
        noise=noise,
        drugs=_shipped_drugs() if needs_drugs else DrugNames(),
    )
    return [
        GroupPart(
            label=LABEL,
            table=None,
            resources=resources,
            perturbations=names,
            needs_passages=any(traits.needs_passages for traits in free),
        )
    ]


def with_names(groups: Sequence[GroupPart], attacks: Sequence[AttackPart]) -> list[GroupPart]:
    """Let the attacks of every group find names in texts, if one asks for them."""
    if not any(part.traits.needs_names for part in attacks):
        return list(groups)
    return [
        replace(group, resources=replace(group.resources, names_in=_names_in)) for group in groups
    ]


def _shipped_drugs() -> DrugNames:
    from medstress.entities.brand_pairs import shipped_drug_names

    return shipped_drug_names()


def _names_in(text: str) -> list[str]:
    """Return the drugs and diseases in a text, found by the shipped gazetteer."""
    from medstress.entities.recognisers.gazetteer import shipped_gazetteer

    (mentions,) = shipped_gazetteer().find([text])
    return [text[mention.start : mention.end] for mention in mentions]
