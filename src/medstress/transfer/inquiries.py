"""Plan the queries of `[analysis]` from the trials in the run folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.attacks.constraints import parse_edit_limit
from medstress.attacks.protocol import Attack
from medstress.core.items import Candidate, Question
from medstress.core.resources import Resources
from medstress.core.rows import TrialRow
from medstress.core.text import Edit, copy_case, copy_case_as_released
from medstress.engine.inquiry import Inquiry
from medstress.engine.requests import Purpose
from medstress.experiment.plan.conversations import victim_of
from medstress.experiment.plan.plan import Prepared
from medstress.metrics.arms import arrange
from medstress.metrics.counts import is_flipped, seed_order, success_edits
from medstress.results.queries import TrialSubstitutions
from medstress.store.codec import decode_edits
from medstress.transfer.arm_rules import names_allowed
from medstress.transfer.effects import right_on
from medstress.transfer.reusable_names import cross_fitted


def plan(
    prepared: Prepared, rows: Sequence[TrialRow], substituted: Sequence[TrialSubstitutions]
) -> list[Inquiry]:
    """List all inquiries that the settings ask for, the same in every process.

    Args:
        prepared: the experiment, with its victims open.
        rows: all its trials.
        substituted: the substitutions of these trials.
    """
    settings = prepared.experiment.analysis
    attacks = {part.label: part.attack for part in prepared.attacks}
    found: list[Inquiry] = []
    if settings.transfer:
        found += _transfers(prepared, rows, attacks)
    if settings.universality:
        # Only names can be put into another item.
        named = [row for row in rows if attacks[row.attack].traits.needs_entities]
        found += _universals(prepared, named, substituted, attacks, max(settings.universality))
    return found


def _transfers(
    prepared: Prepared, rows: Sequence[TrialRow], attacks: Mapping[str, Attack]
) -> Iterator[Inquiry]:
    """Ask every success of every other victim that is right on the clean item (METHODS 3.9).

    The diagonal is left out, because it is the flip check. The query has the attack's own form
    and goal: a success in a conversation is asked in one with the same worked questions.
    """
    right, items = right_on(rows), _questions(prepared)
    for row in filter(is_flipped, rows):
        for victim in prepared.victims:
            right_items = right.get((row.dataset, victim.label), frozenset())
            if victim.label == row.victim or row.item_id not in right_items:
                continue
            item, attack = items[row.dataset, row.item_id], attacks[row.attack]
            if victim.on(row.dataset).misses(attack.traits.edits_only):
                continue  # its prompt would be the clean one
            spec, edits = json.loads(row.attack_spec), success_edits(row)
            yield Inquiry(
                purpose=Purpose.TRANSFER,
                dataset=row.dataset,
                group=row.group,
                victim=victim_of(
                    victim.on(row.dataset), attack, row.dataset, item, row.seed, row.repeat
                ),
                attack_label=row.attack,
                attack_spec=spec,
                seed=row.seed,
                goal=attack.goal_for(item),
                item=item,
                candidates=(Candidate(item=item, edits=decode_edits(edits)),),
                spec={"source": row.victim, "trial": row.trial_id, "edits": edits},
            )


def _universals(
    prepared: Prepared,
    rows: Sequence[TrialRow],
    substituted: Sequence[TrialSubstitutions],
    attacks: Mapping[str, Attack],
    m: int,
) -> Iterator[Inquiry]:
    """Put the top m names of the other folds into the span that the attack chose.

    Every item is asked once, in the span of its trial with the smallest seed. Names that the
    attack itself may not put in are left out, without replacement.
    """
    items = _questions(prepared)
    resources = {group.label: group.resources for group in prepared.question_groups}
    indices = {
        label: {name.casefold(): i for i, name in enumerate(of_group.perturbations.names)}
        for label, of_group in resources.items()
    }
    victims = {victim.label: victim for victim in prepared.victims}
    first: dict[tuple[str, str, str, str, str], TrialSubstitutions] = {}
    for trial in sorted(substituted, key=lambda t: (seed_order(t.row.seed), t.row.repeat)):
        row = trial.row
        first.setdefault((row.dataset, row.group, row.victim, row.attack, row.item_id), trial)
    for (dataset, group, victim), by_attack in arrange(rows).items():
        for attack, trials in by_attack.items():
            for item_id, top in sorted(cross_fitted(trials, m).items()):
                known = first.get((dataset, group, victim, attack, item_id))
                if known is None or not top:
                    continue
                item = items[dataset, item_id]
                spec = json.loads(known.row.attack_spec)
                names = replacements(item, known.last, top, resources[group], indices[group], spec)
                yield Inquiry(
                    purpose=Purpose.UNIVERSALITY,
                    dataset=dataset,
                    group=group,
                    victim=victims[victim].on(dataset),
                    attack_label=attack,
                    attack_spec=spec,
                    seed=known.row.seed,
                    goal=attacks[attack].goal_for(item),
                    item=item,
                    candidates=tuple(candidate for _, candidate in names),
                    spec={"top": list(top), "asked": [name for name, _ in names]},
                )


def replacements(
    item: Question,
    edits: Sequence[Edit],
    top: Sequence[str],
    resources: Resources,
    indices: Mapping[str, int],
    spec: Mapping[str, Any],
) -> list[tuple[str, Candidate]]:
    """Put each allowed name into the span of an attack's last query.

    Args:
        item: the item.
        edits: the edits of that query; the span of the first one is used.
        top: names, case-folded.
        resources: the group's resources; their vocabulary gives the spelling.
        indices: index in the vocabulary by case-folded name.
        spec: the attack's parameters; its exclusions, its limit on edit distance and
            its rule for case apply.

    Returns:
        (case-folded name, candidate) in the order of `top`.
    """
    place = edits[0]
    original = item.text_of(place.field)[place.start : place.end]
    vocabulary = resources.perturbations.names
    allowed = set(names_allowed(item, place, resources, spec).tolist())
    limit = parse_edit_limit(spec.get("max_edit_distance", 0), str(spec.get("name")))
    recase = copy_case_as_released if spec.get("choices") == "as_released" else copy_case
    options = {option.strip().casefold() for option in item.options}
    found = []
    for name in top:
        i = indices.get(name)
        # A name that is not in the vocabulary only has to differ from every option.
        fits = i in allowed if i is not None else name not in options
        spelled = vocabulary[i] if i is not None else name
        cased = recase(spelled, original)
        fits = fits and (limit is None or limit.allows(original, cased))
        if fits and spelled.casefold() != original.casefold():
            edit = Edit(field=place.field, start=place.start, end=place.end, replacement=cased)
            found.append((name, Candidate(item=item, edits=(edit,))))
    return found


def _questions(prepared: Prepared) -> Mapping[tuple[str, str], Question]:
    return {(part.label, item.id): item for part in prepared.datasets for item in part.questions}
