"""The follow-ups of a folder, planned again: transfer, reuse, tests, faithfulness, explanations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from typing import Any

import orjson

from medstress.analyses.families import SETTINGS
from medstress.analyses.run import Run
from medstress.analyses.significance import FIXED
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.core.exchanges import StoredCall
from medstress.core.hashing import digest
from medstress.core.text import edits_of
from medstress.engine.inquiry import Inquiry
from medstress.engine.replay import Differs, NotHereError, Recorded
from medstress.engine.work import VICTIM, Purpose, Work
from medstress.experiment.audit.recorded import Bench
from medstress.experiment.explain.explanation import Settings as ExplainSettings
from medstress.experiment.explain.plan import explanations
from medstress.experiment.explain.run import last_edits
from medstress.experiment.file.config import SignificanceTable
from medstress.experiment.plan.conversations import victim_of
from medstress.experiment.significance.mentions import mention_studies
from medstress.experiment.significance.plan import Tools, families
from medstress.experiment.transfer import plan
from medstress.store.reader import StoredWork
from medstress.tasks.victim import Victim


def follow_ups(bench: Bench, run: Run, stored: Sequence[StoredWork]) -> Iterator[Work]:
    """Yield what the run would ask after its trials, as far as its folder and what is here say.

    Args:
        bench: of the folder.
        run: its trials.
        stored: the follow-ups that the folder holds; they say with which settings they were asked.
    """
    told = [(one, one.result.get("told", {})) for one in stored]
    purposes = {one.result.get("purpose") for one in stored}
    if purposes & {Purpose.TRANSFER, Purpose.REUSE}:
        yield from _inquiries(bench, run)
    tools = _tools(bench)
    if Purpose.JUDGE in purposes:
        yield from mention_studies(run.trials, tools)
    masks: dict[bytes, tuple[ExplainSettings, list[tuple[StoredWork, str]]]] = {}
    for one, spec in told:
        if one.result.get("purpose") == Purpose.TEST:
            yield from _tests(run, tools, spec)
        if one.result.get("purpose") == Purpose.EXPLAIN:
            mask = ExplainSettings(**{key: spec[key] for key in ("mask", "evaluations", "batch")})
            masks.setdefault(digest(mask.as_json()), (mask, []))[1].append((one, spec["trial"]))
    for mask, of_trials in masks.values():
        yield from _explanations(bench, run, mask, of_trials)


def _inquiries(bench: Bench, run: Run) -> Iterator[Inquiry]:
    prepared, analysis = bench.prepared, bench.prepared.experiment.analysis
    for wanted in ({"reuse": ()}, {"transfer": False}):
        changed = analysis.model_copy(update=wanted)
        experiment = prepared.experiment.model_copy(update={"analysis": changed})
        with suppress(NotHereError):  # names of a vocabulary that is not here
            yield from plan(replace(prepared, experiment=experiment), run)


def _tools(bench: Bench) -> Tools:
    prepared = bench.prepared
    return Tools(
        victims={victim.label: victim for victim in prepared.victims},
        attacks={
            part.label: part.attack
            for part in prepared.attacks
            if isinstance(part.attack, MedFuzz) and part.label not in bench.muted
        },
        roles=bench.decodings,
        items={
            (part.label, item.id): item for part in prepared.datasets for item in part.questions
        },
    )


def _tests(run: Run, tools: Tools, spec: Mapping[str, Any]) -> Iterator[Work]:
    """Yield the family of a stored test; other successes than it names make another one."""
    items = tuple(run.manifest.get(FIXED, {}).get("items", ()))
    table = SignificanceTable(items=items, **{key: spec[key] for key in SETTINGS})
    for family in families(run.trials, tools, table):
        if {one.id for one in family.successes} & set(spec["trials"]):
            yield family.study()


def _explanations(
    bench: Bench, run: Run, settings: ExplainSettings, stored: Sequence[tuple[StoredWork, str]]
) -> Iterator[Work]:
    trials = {trial.id: trial for trial in run.trials}
    chosen = [trials[trial_id] for _, trial_id in stored if trial_id in trials]
    edits = run.folder.read(lambda reader: last_edits(reader, chosen))
    for one, trial_id in stored:
        trial = trials.get(trial_id)
        if trial is None or trial_id not in edits or trial.arm.attack.label in bench.muted:
            continue
        (work,) = explanations([trial], edits, bench.prepared, settings)
        victim = replace(work.victim, backend=_cut_as_stored(work.victim, one.result.get("found")))
        yield replace(work, victim=victim)


def _cut_as_stored(victim: Victim, findings: Mapping[str, Any] | None) -> Recorded:
    """Return a victim's back end that cuts texts into the stored tokens.

    Other tokens would be other masked texts, whose calls have other keys.
    """
    starts: dict[str, tuple[int, ...]] = {}
    for side in ("before", "after") if findings and findings["units"] == "tokens" else ():
        left = list(findings[side]["tokens"]) if findings else []
        for _, _, size in findings[side]["segments"] if findings else ():
            tokens, left = left[:size], left[size:]
            starts["".join(tokens)] = (0, *accumulate(map(len, tokens[:-1])))
    backend = victim.backend
    return Recorded(backend.identity, backend.traits, starts or None)


def unplanned(
    bench: Bench,
    stored: StoredWork,
    items: Mapping[int, tuple[str, Any]],
    calls: Sequence[StoredCall],
) -> Inquiry | None:
    """Return a follow-up that is not planned any more, from its rows alone.

    An extension changes what is planned: other names lead, other controls are shared. What only
    its plan knows is not judged then, but its calls.

    Raises:
        Differs: a call has another key than its request.
    """
    for at, one in enumerate(calls):
        victims = bench.folds.get(stored.victim)
        if one.request is None or not victims:
            continue
        parts = orjson.loads(one.request)
        models = [victim.backend for victim in victims]
        asked = models if one.role == VICTIM else [bench.roles[one.role]]
        keys = {digest([model.identity.hash, *parts]) for model in asked}
        if one.key not in keys:
            raise Differs(at, f"key {min(keys).hex()}", one.key.hex())
    purpose = stored.result.get("purpose")
    attacks = {part.label: part.attack for part in bench.prepared.attacks}
    attack, victims = attacks.get(stored.attack), bench.folds.get(stored.victim)
    if purpose not in (Purpose.TRANSFER, Purpose.REUSE) or attack is None or not victims:
        return None
    dataset, item = items[stored.item]
    edits: dict[int, Any] = {}
    for one in calls:
        edits.setdefault(one.query or 0, edits_of(orjson.loads(one.edits or "[]")))
    victim = victims[0].on(dataset)
    if "turns" in attack.needs:
        victim = victim_of(victim, attack, dataset, item, stored.seed, stored.repeat)
    return Inquiry(
        purpose=Purpose(purpose),
        dataset=dataset,
        group=stored.group,
        victim=victim,
        attack_label=stored.attack,
        attack_spec=orjson.loads(stored.spec),
        seed=stored.seed,
        goal=attack.goal_for(item),
        item=item,
        candidates=tuple(item.candidate(edits[query]) for query in sorted(edits)),
        spec=stored.result["told"],
    )
