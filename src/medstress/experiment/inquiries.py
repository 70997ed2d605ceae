"""What `[analysis]` asks after the trials: planned from what the run folder holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.attacks.constraints import parse_edit_limit
from medstress.attacks.protocol import Attack
from medstress.experiment.arm_rules import goal_told, names_allowed, names_told
from medstress.experiment.asked import AskedTrial
from medstress.experiment.conversations import victim_of
from medstress.experiment.prepared import Prepared
from medstress.items import Candidate, Question
from medstress.metrics.arms import arrange
from medstress.metrics.counts import is_flipped, seed_order, success_edits
from medstress.metrics.reuse import cross_fitted
from medstress.metrics.transfer import right_on
from medstress.resources import Resources
from medstress.rows import TrialRow
from medstress.scheduler.inquiry import Inquiry
from medstress.scheduler.need import Purpose
from medstress.store.codec import decode_edits
from medstress.text import Edit, copy_case, copy_case_as_released


def plan(
    prepared: Prepared, rows: Sequence[TrialRow], asked: Sequence[AskedTrial]
) -> list[Inquiry]:
    """All inquiries that the settings ask for; the same ones in every process.

    Args:
        prepared: the experiment, victims opened.
        rows: all its trials.
        asked: what they asked.
    """
    settings = prepared.experiment.analysis
    attacks = {part.label: part.attack for part in prepared.attacks}
    found: list[Inquiry] = []
    if settings.transfer:
        found += _transfers(prepared, rows, attacks)
    if settings.universality:
        # Edits that are no names cannot be put into another item.
        named = [row for row in rows if attacks[row.attack].traits.needs_entities]
        found += _universals(prepared, named, asked, attacks, max(settings.universality))
    return found


def _transfers(
    prepared: Prepared, rows: Sequence[TrialRow], attacks: Mapping[str, Attack]
) -> Iterator[Inquiry]:
    """Every success, of every other victim that is right on the clean item (METHODS 3.9).

    The diagonal is not asked: it is the flip check. Each is asked as the attack asked: what
    succeeded in a conversation, in a conversation with the same worked questions; and it succeeds
    by the attack's own goal.
    """
    right, items = right_on(rows), _questions(prepared)
    for row in filter(is_flipped, rows):
        for victim in prepared.victims:
            known = right.get((row.dataset, victim.label), frozenset())
            if victim.label == row.victim or row.item_id not in known:
                continue
            item = items[row.dataset, row.item_id]
            attack, spec, edits = (
                attacks[row.attack],
                json.loads(row.attack_spec),
                success_edits(row),
            )
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
                spec={
                    "source": row.victim,
                    "trial": row.trial_id,
                    "edits": edits,
                    **goal_told(spec),
                },
            )


def _universals(
    prepared: Prepared,
    rows: Sequence[TrialRow],
    asked: Sequence[AskedTrial],
    attacks: Mapping[str, Attack],
    m: int,
) -> Iterator[Inquiry]:
    """The top m names of the other folds, put into the span that the attack chose.

    Every item is asked once, in the span of its trial with the least seed. Names that the attack
    itself may not put in are left out and not replaced by others.
    """
    items = _questions(prepared)
    resources = {group.label: group.resources for group in prepared.question_groups}
    places = {
        label: {name.casefold(): i for i, name in enumerate(found.perturbations.names)}
        for label, found in resources.items()
    }
    victims = {victim.label: victim for victim in prepared.victims}
    spans: dict[tuple[str, str, str, str, str], AskedTrial] = {}
    for one in sorted(asked, key=lambda one: (seed_order(one.row.seed), one.row.repeat)):
        row = one.row
        spans.setdefault((row.dataset, row.group, row.victim, row.attack, row.item_id), one)
    for (dataset, group, victim), by_attack in arrange(rows).items():
        for attack, trials in by_attack.items():
            for item_id, top in sorted(cross_fitted(trials, m).items()):
                span = spans.get((dataset, group, victim, attack, item_id))
                if span is None or not top:
                    continue
                item = items[dataset, item_id]
                spec = json.loads(span.row.attack_spec)
                names = replacements(item, span.last, top, resources[group], places[group], spec)
                yield Inquiry(
                    purpose=Purpose.UNIVERSALITY,
                    dataset=dataset,
                    group=group,
                    victim=victims[victim].on(dataset),
                    attack_label=attack,
                    attack_spec=spec,
                    seed=span.row.seed,
                    goal=attacks[attack].goal_for(item),
                    item=item,
                    candidates=tuple(candidate for _, candidate in names),
                    spec={
                        "top": list(top),
                        "asked": [name for name, _ in names],
                        **goal_told(spec),
                        **names_told(spec),
                    },
                )


def replacements(
    item: Question,
    edits: Sequence[Edit],
    top: Sequence[str],
    resources: Resources,
    places: Mapping[str, int],
    spec: Mapping[str, Any],
) -> list[tuple[str, Candidate]]:
    """Put each name that is allowed on the item where an attack put its last one.

    Args:
        item: the item.
        edits: the attack's edits; the first one's span is used.
        top: names, case folded.
        resources: the group's, whose vocabulary gives the spelling.
        places: index in the vocabulary by folded name.
        spec: the attack's parameters; its exclusions, edit limit and way of copying case hold
            here too.

    Returns:
        (folded name, candidate) in the order of `top`.
    """
    place = edits[0]
    original = item.text_of(place.field)[place.start : place.end]
    vocabulary = resources.perturbations.names
    allowed = set(names_allowed(item, place, resources, spec).tolist())
    limit = parse_edit_limit(spec.get("max_edit_distance", 0), str(spec.get("name")))
    recase = copy_case_as_released if spec.get("choices") == "as_released" else copy_case
    taken = {option.strip().casefold() for option in item.options}
    found = []
    for name in top:
        i = places.get(name)
        # A name from elsewhere than the vocabulary has no rule but that it repeats no option.
        fits = i in allowed if i is not None else name not in taken
        spelled = vocabulary[i] if i is not None else name
        cased = recase(spelled, original)
        fits = fits and (limit is None or limit.allows(original, cased))
        if fits and spelled.casefold() != original.casefold():
            edit = Edit(
                field=place.field,
                start=place.start,
                end=place.end,
                replacement=cased,
            )
            found.append((name, Candidate(item=item, edits=(edit,))))
    return found


def _questions(prepared: Prepared) -> Mapping[tuple[str, str], Question]:
    return {(part.label, item.id): item for part in prepared.datasets for item in part.questions}
