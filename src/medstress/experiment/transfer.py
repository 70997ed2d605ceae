"""Plan the queries of `[analysis]` from the trials in the run folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.analyses.run import Run
from medstress.analyses.transfer import cross_fitted, right_on
from medstress.attacks.names import edit_limit, exclusions, is_within
from medstress.attacks.protocol import Attack
from medstress.core.items import Candidate, Question
from medstress.core.resources import Resources
from medstress.core.text import Edit, copy_case, copy_case_as_released
from medstress.core.trials import Trial
from medstress.engine.inquiry import Inquiry
from medstress.engine.work import Purpose
from medstress.experiment.models import victim_of
from medstress.experiment.plan import Prepared
from medstress.store.codec import edits_text
from medstress.store.trials import Span, Substitutions


def plan(prepared: Prepared, run: Run) -> list[Inquiry]:
    """List all inquiries that the settings ask for, the same in every process.

    Args:
        prepared: the experiment, with its victims open.
        run: its finished trials.
    """
    settings = prepared.experiment.analysis
    attacks = {part.label: part.attack for part in prepared.attacks}
    planned: list[Inquiry] = []
    if settings.transfer:
        planned += _transfers(prepared, run, attacks)
    if settings.reuse:
        planned += _reuses(prepared, run, attacks, max(settings.reuse))
    return planned


def _transfers(prepared: Prepared, run: Run, attacks: Mapping[str, Attack]) -> Iterator[Inquiry]:
    """Ask every success of every other victim that is right on the clean item (METHODS 3.9).

    The diagonal is left out, because it is the flip check. The query has the attack's own form
    and goal: a success in a conversation is asked in one with the same worked questions.
    """
    right, items = right_on(run), _questions(prepared)
    for trial in run.trials:
        if trial.first is None or trial.arm.is_control:
            continue
        arm, (dataset, group, source) = trial.arm, trial.arm.place
        for victim in prepared.victims:
            has_right = right.get((dataset, victim.label), frozenset())
            if victim.label == source or (trial.item.id, trial.unit) not in has_right:
                continue
            item, attack = items[dataset, trial.item.id], attacks[arm.attack.label]
            asked = victim.on(dataset)
            if attack.is_unseen_by(asked):
                continue  # its prompt would be the clean one
            edits = trial.first.edits
            yield Inquiry(
                purpose=Purpose.TRANSFER,
                dataset=dataset,
                group=group,
                victim=victim_of(asked, attack, dataset, item, arm.seed, trial.repeat),
                attack_label=arm.attack.label,
                attack_spec=dict(arm.attack.params),
                seed=arm.seed,
                goal=attack.goal_for(item),
                item=item,
                candidates=(Candidate(item=item, edits=edits),),
                spec={"source": source, "trial": trial.id, "edits": edits_text(edits)},
            )


def _reuses(
    prepared: Prepared, run: Run, attacks: Mapping[str, Attack], m: int
) -> Iterator[Inquiry]:
    """Put the top m names of the other folds into the span that the attack chose.

    Every item is asked once, in the span of its trial with the smallest seed. Names that the
    attack itself may not put in are left out, without replacement.
    """
    items, spans = _questions(prepared), last_spans(run.folder.substitutions)
    resources = {group.label: group.resources for group in prepared.groups}
    indices = {
        label: {name.casefold(): i for i, name in enumerate(of_group.perturbations.names)}
        for label, of_group in resources.items()
    }
    victims = {victim.label: victim for victim in prepared.victims}
    for cell in run.attacks:
        attack = attacks[cell.attack.label]
        if "names" not in attack.needs:
            continue  # only names can be put into another item
        eligible = [trial for trial in cell.trials if trial.is_eligible]
        first: dict[str, Trial] = {}
        for trial in sorted((t for t in eligible if t.number in spans), key=_seed_first):
            first.setdefault(trial.item.id, trial)
        dataset, group, victim = cell.place
        for item_id, top in sorted(cross_fitted(eligible, m).items()):
            if item_id not in first or not top:
                continue
            trial, item = first[item_id], items[dataset, item_id]
            spec = dict(trial.arm.attack.params)
            span = spans[trial.number]
            names = replacements(item, span, top, resources[group], indices[group], spec)
            yield Inquiry(
                purpose=Purpose.REUSE,
                dataset=dataset,
                group=group,
                victim=victims[victim].on(dataset),
                attack_label=cell.attack.label,
                attack_spec=spec,
                seed=trial.arm.seed,
                goal=attack.goal_for(item),
                item=item,
                candidates=tuple(candidate for _, candidate in names),
                spec={
                    "top": list(top),
                    "asked": [name for name, _ in names],
                    "edits": [edits_text(candidate.edits) for _, candidate in names],
                },
            )


def _seed_first(trial: Trial) -> tuple[bool, int, int]:
    """Return a sort key by seed, that of attacks without random numbers first, then by repeat."""
    seed = trial.arm.seed
    return seed is not None, seed or 0, trial.repeat


def last_spans(lines: Substitutions) -> dict[int, Span]:
    """Return number of a trial -> the first span that its last substitution replaced."""
    spans: dict[int, Span] = {}
    query_of: dict[int, int] = {}
    for trial, query, span in zip(
        lines.trial.tolist(), lines.query.tolist(), lines.span.tolist(), strict=True
    ):
        if query_of.get(trial) != query:
            query_of[trial], spans[trial] = query, lines.spans[span]
    return spans


def replacements(
    item: Question,
    span: Span,
    top: Sequence[str],
    resources: Resources,
    indices: Mapping[str, int],
    spec: Mapping[str, Any],
) -> list[tuple[str, Candidate]]:
    """Put each allowed name into a span that an attack chose.

    Args:
        item: the item.
        span: field, start and end of the text that the names replace.
        top: names, case-folded.
        resources: the group's resources; their vocabulary gives the spelling.
        indices: index in the vocabulary by case-folded name.
        spec: the attack's parameters; its exclusions, its limit on edit distance and
            its rule for case apply.

    Returns:
        (case-folded name, candidate) in the order of `top`.
    """
    field, start, end = span
    original = item.text_of(field)[start:end]
    names = resources.perturbations
    excluded = exclusions(spec.get("choices") or "default", spec.get("variants"))
    numbers, threshold = names.allowed(item, excluded), spec.get("similarity_threshold", "off")
    if not isinstance(threshold, str | None):
        near = names.cosines(names.vector(original)) >= float(threshold)
        numbers = numbers[near[numbers]]
    allowed = set(numbers.tolist())
    limit = edit_limit(spec.get("max_edit_distance", 0))
    recase = copy_case_as_released if spec.get("choices") == "as_released" else copy_case
    options = {option.strip().casefold() for option in item.options}
    fitting = []
    for name in top:
        i = indices.get(name)
        # A name that is not in the vocabulary only has to differ from every option.
        fits = i in allowed if i is not None else name not in options
        spelled = names.names[i] if i is not None else name
        cased = recase(spelled, original)
        fits = fits and (not limit[1] or is_within(limit, original, cased))
        if fits and spelled.casefold() != original.casefold():
            edit = Edit(field=field, start=start, end=end, replacement=cased)
            fitting.append((name, Candidate(item=item, edits=(edit,))))
    return fitting


def _questions(prepared: Prepared) -> Mapping[tuple[str, str], Question]:
    return {(part.label, item.id): item for part in prepared.datasets for item in part.questions}
