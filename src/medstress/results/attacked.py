"""The table `attacked`: every attacked question of a run with its edits, held and flipped."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from medstress.attacks.protocol import Attack, rebuilt
from medstress.core.attacked import FIELD, FORMAT, HEAD, NAME
from medstress.core.controls import CONTROLS
from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.results.load import StoredRun, kind_of_run
from medstress.results.queries import Probes
from medstress.results.victims import entries_of
from medstress.store.codec import decode_edits
from medstress.store.reader import StoredTrial
from medstress.version import __version__

_ATTACKED = (Verdict.FLIPPED, Verdict.HELD, Verdict.FAILED, Verdict.CUT_SHORT)
_BY_ANSWERS = ("discrete_zoo", "medfuzz")
"""Attacks whose first edit follows from answers of the victim."""


def attacked_rows(run: StoredRun) -> list[dict[str, Any]]:
    """Return a row for each attacked question and victim of a run, with the edits it was asked.

    A question is attacked if the victim was right before and saw an edit. Queries that only rank
    words or spans, which are never a success, are left out. Every row describes the whole set of
    its victim, so that a set with rows missing is noticed.

    Raises:
        UsageError: no questions, or none that was attacked.
    """
    kind = kind_of_run(run)
    if not kind.draws_names:
        raise UsageError(
            f"the table {NAME!r} holds attacked questions, and {run.folder} holds {kind.name}; "
            "their perturbed copy is written by medstress perturb"
        )
    found: list[dict[str, Any]] = []
    for victim in dict.fromkeys(trial.victim for trial in run.trials()):
        rows = list(_rows(run, _attacked(run, victim)))
        head = json.dumps(_head(run, victim, rows), ensure_ascii=False)
        found += [row.as_json(victim, head) for row in rows]
    if not found:
        raise UsageError(
            f"{run.folder}: no item was right before an attack and saw an edit of it, so the table "
            f"{NAME!r} is empty"
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One trial that asked edits."""

    arm: str
    trial: StoredTrial
    queries: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        return {
            "arm": self.arm,
            "trial_id": self.trial.trial_id,
            "seed": self.trial.seed,
            "repeat": self.trial.repeat,
            "verdict": self.trial.verdict,
            "queries": self.queries,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One question, under an id that is unique in the file."""

    dataset: str
    original_id: str
    item: Question
    trials: list[_Asked]

    @property
    def id(self) -> str:
        return self.item.id

    def as_json(self, victim: str, head: str) -> dict[str, Any]:
        item = self.item
        metadata = {key: value for key, value in item.metadata.items() if key != FIELD}
        return {
            "id": item.id,
            "dataset": self.dataset,
            "original_id": self.original_id,
            "victim": victim,
            "item_hash": item.hash,
            "passage": item.passage,
            "context": item.context,
            "stem": item.stem,
            "options": list(item.options),
            "answer_idx": item.key,
            "mentions": [asdict(mention) for mention in item.mentions],
            "metadata": json.dumps(metadata, ensure_ascii=False),
            FIELD: [trial.as_json() for trial in self.trials],
            HEAD: head,
        }


def _attacked(run: StoredRun, victim: str) -> dict[int, list[StoredTrial]]:
    """Return row of an item -> its trials that attacked it, if an attack is among them."""
    found: dict[int, list[StoredTrial]] = defaultdict(list)
    for trial in run.trials():
        is_eligible = trial.verdict in _ATTACKED and trial.result.get("at") != "baseline"
        if trial.victim == victim and is_eligible and trial.result.get("n_asked"):
            found[trial.item].append(trial)
    return {
        item: trials
        for item, trials in found.items()
        if any(_control(trial) is None for trial in trials)
    }


def _rows(run: StoredRun, found: Mapping[int, list[StoredTrial]]) -> Iterator[_Row]:
    names = _names([trial for trials in found.values() for trial in trials])
    edits = _edits(run, {trial.trial for trials in found.values() for trial in trials})
    items = run.items()
    uses = Counter(items[row][1].id for row in found)
    for row in sorted(found):
        dataset, item = items[row]
        own = item.id if uses[item.id] == 1 else f"{dataset}/{item.id}"
        trials = [
            _Asked(arm=names[_place(trial)], trial=trial, queries=_queries(trial, asked))
            for trial in sorted(found[row], key=lambda trial: trial.trial)
            if (asked := edits.get(trial.trial))
        ]
        if any(_control(each.trial) is None for each in trials):
            yield _Row(
                dataset=dataset, original_id=item.id, item=_renamed(item, own), trials=trials
            )


def _renamed(item: Question, own: str) -> Question:
    if own == item.id:
        return item
    values = {each.name: getattr(item, each.name) for each in fields(item)}
    return Question(**{**values, "id": own})


def _place(trial: StoredTrial) -> tuple[str, str]:
    return trial.group, trial.attack


def _names(trials: Sequence[StoredTrial]) -> dict[tuple[str, str], str]:
    """Return (group, attack) -> name of the arm: the attack's, with the group if it has several."""
    places = dict.fromkeys(map(_place, trials))
    groups = Counter(attack for _, attack in places)
    controls = {_place(trial): _control(trial) for trial in trials}
    names = {}
    for group, attack in places:
        control = controls[group, attack]
        ending = f" / {control}" if control else ""
        of = attack.removesuffix(ending) if ending else attack
        names[group, attack] = f"{of} ({group}){ending}" if groups[attack] > 1 else attack
    return names


def _edits(run: StoredRun, trials: set[int]) -> dict[int, list[tuple[int, str]]]:
    """Return trial -> (query, edits) of what it asked, without probes."""
    probes = Probes(run)
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for trial, query, edits in run.attack_edits():
        if trial in trials and not probes.marks(trial, query, edits):
            found[trial].setdefault(query, edits)
    return {trial: sorted(asked.items()) for trial, asked in found.items()}


def _queries(trial: StoredTrial, asked: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    first = trial.result.get("first_success")
    return [
        {
            "query": number,
            "flipped": None if first is not None and number > first else number == first,
            "edits": [asdict(edit) for edit in decode_edits(edits)],
        }
        for number, edits in asked
    ]


def _control(trial: StoredTrial) -> str | None:
    spec = json.loads(trial.spec)
    return str(spec["name"]) if "control_of" in spec else None


def _head(run: StoredRun, victim: str, rows: Sequence[_Row]) -> dict[str, Any]:
    manifest = run.manifest
    entry = next(iter(entries_of(manifest, victim).values()))
    trials = [trial for row in rows for trial in row.trials]
    return {
        "format": FORMAT,
        "medstress": __version__,
        "source": {
            "experiment": manifest["config"]["experiment"]["name"],
            "fingerprint": manifest["fingerprint"],
            "started": manifest["started"],
            "victim": victim,
            "model": entry["model"],
            "model_hash": entry["model_hash"],
        },
        "n_items": len(rows),
        "n_trials": len(trials),
        "n_queries": sum(len(trial.queries) for trial in trials),
        "arms": [_arm(trial) for trial in _first_of_arms(trials)],
    }


def _first_of_arms(trials: Iterable[_Asked]) -> list[_Asked]:
    """Return a trial of each arm, attacks before their controls."""
    found: dict[str, _Asked] = {}
    for trial in trials:
        found.setdefault(trial.arm, trial)
    return sorted(found.values(), key=lambda one: _control(one.trial) is not None)


def _arm(one: _Asked) -> dict[str, Any]:
    spec, control = json.loads(one.trial.spec), _control(one.trial)
    attack = None if control else rebuilt(spec)
    return {
        "label": one.arm,
        "control": control,
        "spec": spec,
        "is_blind": _is_blind(spec, control, attack),
        "changes_evidence": attack is not None and attack.traits.changes_evidence,
        **_of_a_probe(attack),
    }


def _of_a_probe(attack: Attack | None) -> dict[str, Any]:
    """Return what the file says of a probe of questions: so much, and its control."""
    if attack is None or not attack.traits.keeps_answers:
        return {}
    return {"is_probe": True, "beside": attack.traits.control}


def _is_blind(spec: Mapping[str, Any], control: str | None, attack: Attack | None) -> bool:
    """Return whether no answer had a part in the first edit; False if that is unknown."""
    if control is not None:
        return control in CONTROLS
    if attack is None or spec["name"] in _BY_ANSWERS:
        return False
    traits = attack.traits
    asks_first = (
        spec.get("victim_span") == "saliency"
        or spec.get("search", "none") != "none"
        or bool(traits.needs_scores or traits.roles)
    )
    return not asks_first and not traits.in_turns
